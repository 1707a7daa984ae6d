# For the other packages and the tests; may change without notice.
from catchment_gpu.echo_state.cuda import (
    Repeated as Repeated,
    cuda_text as cuda_text,
    lanes_of_a_block as lanes_of_a_block,
    source as source,
)
from catchment_gpu.echo_state.form import EchoStateForm as EchoStateForm, form_on as form_on
from catchment_gpu.echo_state.layers import TorchLayer as TorchLayer, activate as activate
from catchment_gpu.echo_state.sequences import (
    Lanes as Lanes,
    cut_into_segments as cut_into_segments,
)

__all__ = []
