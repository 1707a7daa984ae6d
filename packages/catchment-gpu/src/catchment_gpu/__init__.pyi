# For the other packages and the tests; may change without notice.
from catchment_gpu.convolutions import (
    competitions as competitions,
    counts_above as counts_above,
    packed_features as packed_features,
)
from catchment_gpu.cuda import (
    Repeated as Repeated,
    cuda_text as cuda_text,
    lanes_of_a_block as lanes_of_a_block,
    source as source,
)
from catchment_gpu.maps import normed as normed
from catchment_gpu.rows import (
    HostForm as HostForm,
    form_of as form_of,
    quotient as quotient,
    root as root,
    rows_on as rows_on,
)
from catchment_gpu.window_statistics import log2_of as log2_of

__all__ = []
