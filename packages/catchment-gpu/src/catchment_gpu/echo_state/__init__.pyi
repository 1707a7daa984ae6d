# For the other packages and the tests; may change without notice.
from catchment_gpu.echo_state.activations import activate as activate
from catchment_gpu.echo_state.cuda_graphs import Repeated as Repeated
from catchment_gpu.echo_state.cuda_kernels import lanes_of_a_block as lanes_of_a_block
from catchment_gpu.echo_state.cuda_source import source as source
from catchment_gpu.echo_state.form import TorchForm as TorchForm, form_on as form_on
from catchment_gpu.echo_state.layers import TorchLayer as TorchLayer
from catchment_gpu.echo_state.sequences import (
    Uploaded as Uploaded,
    cut_into_pieces as cut_into_pieces,
)

__all__ = []
