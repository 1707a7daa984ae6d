# For the other packages and the tests; may change without notice.
from catchment_gpu.encoder import EncoderForm as EncoderForm, encoder_form as encoder_form
from catchment_gpu.exact import quotient as quotient, root as root
from catchment_gpu.rows import (
    CheckedForm as CheckedForm,
    form_of as form_of,
    rows_on as rows_on,
    spans_between as spans_between,
    spans_of_columns as spans_of_columns,
)
from catchment_gpu.window_statistics import log2_of as log2_of
from catchment_gpu.with_norm import normed as normed

__all__ = []
