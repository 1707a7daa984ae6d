"""Feature rows of a diagonal reservoir computed by torch on a device, those of the CPU to the bit.

A long recording is cut into lanes that run side by side. The state that a lane begins with is found
by running some steps before it from rest: modes and units forget, and because every step rounds,
two trajectories do not only come near to each other but meet. Then each lane is run, and the state
at its end is compared with the one that the next lane began with. Where they differ, the next lane
is run again from the right one, until none differs: so the rows are always those of one loop
through the whole recording. Only if the inputs stand still for long, as in silence, may
trajectories stay apart, and lanes have to wait for each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from catchment import Array, Integers
from catchment.features import DiagonalReservoir, form
from catchment.features.diagonal import LIMIT, R_INPUT, STATE_DIGITS
from catchment_gpu import cuda
from catchment_gpu.diagonal import cuda_steps
from catchment_gpu.diagonal import steps as torch_steps
from catchment_gpu.diagonal.steps import Lanes, Units
from catchment_gpu.rows import DeviceForm, DeviceRows, block_numbers, limited

LEAST_LANE = {"cpu": 64, "cuda": 512}  # steps
EVEN = 16  # lanes have a multiple of so many steps: their rows begin where lines of memory do
FORGOTTEN = math.log(2.0**STATE_DIGITS * LIMIT)  # memories after which a start is no longer seen
MEETING = 4.0  # memories more until the last digits are the same, nearly always


@dataclass(frozen=True, eq=False)
class Cut:
    """Lanes (B,) of several recordings, in order: steps `first` to `end` of the flat inputs.

    `warm` is where a lane begins, from rest, to find its state.
    """

    recording: Integers
    first: Integers
    end: Integers
    warm: Integers


def cut_into_lanes(lengths: Sequence[int], washout: int, n_steps: int, warm_up: int) -> Cut:
    """Return lanes of at most so many steps after the washout.

    >>> cut = cut_into_lanes([10, 5], washout=1, n_steps=4, warm_up=6)
    >>> cut.first, cut.end, cut.warm
    (array([ 1,  5,  9, 11]), array([ 5,  9, 10, 15]), array([ 0,  0,  3, 10]))
    """
    T = np.asarray(lengths)
    counts = -(-(T - washout) // n_steps)
    recording = np.repeat(np.arange(len(T)), counts)
    number = np.arange(len(recording)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = (np.cumsum(T) - T)[recording]
    first = begin + washout + number * n_steps
    end = np.minimum(first + n_steps, begin + T[recording])
    warm = np.maximum(first - warm_up, begin)
    warm[number == 0] = begin[number == 0]
    return Cut(recording, first, end, warm)


def memory_of(inner: DiagonalReservoir) -> float:
    """Return about how many steps the modes and the units that follow them remember together.

    >>> round(memory_of(DiagonalReservoir(40, memory=(1, 10), n_inputs=1, pool=None)))
    18
    """
    drawn = inner.wiring
    moduli = np.sqrt((drawn.eigenvalues**2).sum(axis=0))
    longest = 1.0 / max(1.0 - float(moduli.max()), 2.0**-19)
    return longest + 1.0 / float(drawn.leak.min(initial=1.0))


@form("torch", DiagonalReservoir)
class DiagonalForm(DeviceForm):
    """A diagonal reservoir on one device.

    Parameters
    ----------
    fused
        Whether the compiled kernel advances the states; where it can if not given. The numbers are
        the same.
    n_steps
        Steps of a lane, and how many are run before one (`warm_up`); chosen by the reservoir's
        memory if not given.
    """

    features: DiagonalReservoir
    by_length = False

    def __init__(
        self,
        features: DiagonalReservoir,
        device: torch.device,
        *,
        fused: bool | None = None,
        n_steps: int | None = None,
        warm_up: int | None = None,
    ) -> None:
        super().__init__(features, device)
        self.units = Units.of(features.wiring, device)
        if fused is None:
            fused = cuda.available(device) and cuda_steps.fits(self.units)
        self.steps: ModuleType = cuda_steps if fused else torch_steps
        memory = memory_of(features)
        self.warm_up = math.ceil((FORGOTTEN + MEETING) * memory) if warm_up is None else warm_up
        self.most = max(1, block_numbers(device) // self.units.n_base)  # steps of a block
        wanted = max(LEAST_LANE[device.type], self.warm_up)
        usual = min(-(-wanted // EVEN) * EVEN, self.most)
        self.n_steps = usual if n_steps is None else n_steps

    def compute_blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        washout, lengths = self.features.washout, [len(one) for one in inputs]
        u = limited(self.features, inputs, LIMIT, self.device).add_(R_INPUT).sub_(R_INPUT)
        if self.features.pool is None:
            cut = cut_into_lanes(lengths, washout, self.n_steps, self.warm_up)
            yield from self._step_rows(u, cut)
        else:
            yield self._pooled_rows(u, cut_into_lanes(lengths, washout, max(lengths), 0))

    def _at_rest(self, n_lanes: int) -> Tensor:
        shape = (self.units.n_state, n_lanes)
        return torch.zeros(shape, dtype=torch.float64, device=self.device)

    def starts(self, u: Tensor, cut: Cut) -> Tensor:
        """Return the states (H, B) before the lanes' first steps.

        Parameters
        ----------
        u
            (T, I) rounded inputs, all recordings one after the other.
        """
        state = self._at_rest(len(cut.first))
        self.steps.run(self.units, u, Lanes(cut.warm, cut.first - cut.warm), state)
        follows = np.flatnonzero(np.diff(cut.recording) == 0) + 1  # lanes that go on with another
        if not len(follows):
            return state
        lanes, after = Lanes(cut.first, cut.end - cut.first), state.clone()
        self.steps.run(self.units, u, lanes, after)
        end = np.searchsorted(cut.recording, cut.recording, side="right")
        wrong = self._mended(state, after, follows)
        while len(wrong):
            stop = np.minimum(np.append(wrong[1:], len(end)), end[wrong])
            self.steps.walk(self.units, u, lanes, (wrong, stop), state, after)
            wrong = self._mended(state, after, wrong)
        return state

    def _mended(self, state: Tensor, after: Tensor, some: Integers) -> Integers:
        """Let some lanes begin where those before them ended; return which did not before."""
        place = torch.from_numpy(some).to(self.device)
        wrong = (after[:, place - 1] != state[:, place]).any(0)
        state[:, place] = after[:, place - 1]
        found: Integers = some[wrong.cpu().numpy()]
        return found

    def _step_rows(self, u: Tensor, cut: Cut) -> Iterator[DeviceRows]:
        state = self.starts(u, cut)
        sizes = cut.end - cut.first
        begin = (np.cumsum(sizes) - sizes)[np.searchsorted(cut.recording, cut.recording)]
        at = np.cumsum(sizes) - sizes - begin  # each lane's first row within its recording
        lane = 0
        while lane < len(sizes):
            room = np.searchsorted(np.cumsum(sizes[lane:]), self.most, side="right")
            some = slice(lane, lane + max(1, int(room)))
            z = torch.empty(
                (self.units.n_base, int(sizes[some].sum())), dtype=u.dtype, device=self.device
            )
            mine = state[:, some].contiguous()
            self.steps.run(self.units, u, Lanes(cut.first[some], sizes[some]), mine, z)
            told = np.stack([cut.recording[some], at[some] + sizes[some] - np.cumsum(sizes[some])])
            n = torch.from_numpy(sizes[some]).to(self.device)
            recording, first = torch.from_numpy(told).to(self.device).repeat_interleave(n, dim=1)
            row = first + torch.arange(len(first), device=self.device)
            yield DeviceRows(z, recording, row)
            lane = some.stop

    def _pooled_rows(self, u: Tensor, cut: Cut) -> DeviceRows:
        state, n = self._at_rest(len(cut.first)), cut.end - cut.first
        self.steps.run(self.units, u, Lanes(cut.warm, cut.first - cut.warm), state)
        moments = self.steps.run_moments(self.units, u, Lanes(cut.first, n), state)
        n_rows = torch.from_numpy(n.astype(np.float64)).to(self.device)
        reference, shift, square = moments[0], moments[1] / n_rows, moments[2] / n_rows
        spread = (square - shift * shift).clamp_(min=0.0).sqrt_()
        return DeviceRows.in_order(torch.cat([reference + shift, spread]), np.ones_like(n))
