"""Steps of a diagonal reservoir for many lanes side by side, as torch operations.

A lane is a segment of a recording with a state of its own. What is computed is the definition in
`kernels`, operation by operation: products and sums are exact, and each rounding is an addition of
a large number, so no order matters and the numbers are those of the compiled loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from catchment import Integers
from catchment.features import diagonal as kernels
from catchment.features.diagonal import Wiring


@dataclass(frozen=True, eq=False)
class Units:
    """What is drawn of a reservoir, on a device; indices count the states, then the inputs."""

    W: Tensor  # (I, k)
    eigenvalues: Tensor  # (2, k)
    factors: Tensor  # (2, P) int32, of products
    mixed: Tensor  # (3, Q) int32, states that are mixed
    M: Tensor  # (4, Q) weights and biases
    leak: Tensor  # (P + Q,)

    @classmethod
    def of(cls, drawn: Wiring, device: torch.device) -> Units:
        """Return the numbers of a wiring, on a device."""
        I, k = drawn.W.shape
        N, Q = 2 * k, drawn.M.shape[1]
        P = len(drawn.leak) - Q
        j = np.arange(P)
        shift = drawn.shifts[j // N] if P else j
        other = np.where(shift < 0, N + j % N % I, (j + shift) % N)
        q = np.arange(Q)
        mixed = (drawn.turns[q // N].T + q) % N if Q else np.zeros((3, 0))
        numbers = (drawn.W, drawn.eigenvalues, np.stack([j % N, other]), mixed, drawn.M, drawn.leak)
        kinds = (np.float64, np.float64, np.int32, np.int32, np.float64, np.float64)
        return cls(
            *(
                torch.from_numpy(np.ascontiguousarray(one, dtype=kind)).to(device)
                for one, kind in zip(numbers, kinds, strict=True)
            )
        )

    @property
    def n_inputs(self) -> int:
        return self.W.shape[0]

    @property
    def n_modes(self) -> int:
        return self.W.shape[1]

    @property
    def n_state(self) -> int:
        """Numbers of a state: real parts, imaginary parts, and the units that follow them."""
        return 2 * self.n_modes + len(self.leak)

    @property
    def n_base(self) -> int:
        """Features of a step: its inputs and a state."""
        return self.n_inputs + self.n_state


@dataclass(frozen=True, eq=False)
class Lanes:
    """Where lanes run: their first steps (B,) among all steps, and how many (B,) they take."""

    begin: Integers
    length: Integers

    def __getitem__(self, some: Integers) -> Lanes:
        return Lanes(self.begin[some], self.length[some])


def run(units: Units, u: Tensor, lanes: Lanes, state: Tensor, out: Tensor | None = None) -> None:
    """Advance states (H, B) over their lanes' inputs, in place.

    Parameters
    ----------
    u
        (T, I) rounded inputs of all recordings, one after the other.
    out
        (n_base, n) takes the rows of all steps, those of a lane together and in the lanes' order.
    """
    columns = torch.from_numpy(np.cumsum(lanes.length) - lanes.length).to(u.device)

    def keep(t: int, order: Tensor, z: Tensor) -> None:
        assert out is not None
        out[:, columns[order] + t] = z

    _each_step(units, u, lanes, state, None if out is None else keep)


def run_moments(units: Units, u: Tensor, lanes: Lanes, state: Tensor) -> Tensor:
    """Advance states (H, B); return each lane's moments (3, n_base, B), as `add_moments` does."""
    found = u.new_zeros((3, units.n_base, state.shape[1]))

    def keep(t: int, order: Tensor, z: Tensor) -> None:
        if t == 0:
            found[0][:, order] = z
        d = z - found[0][:, order]
        found[1][:, order] += d
        found[2][:, order] += d * d

    _each_step(units, u, lanes, state, keep)
    return found


def walk(
    units: Units,
    u: Tensor,
    lanes: Lanes,
    between: tuple[Integers, Integers],
    state: Tensor,
    after: Tensor,
) -> None:
    """Run lanes from the first ones given on, until states meet those that were known.

    A lane's last state goes into `after` (H, B) and, where it differs from the next lane's first
    one in `state` (H, B), in its place: then that lane is run, too, unless it is the stop.

    Parameters
    ----------
    between
        First lanes (n,), and where to stop (n,) at the latest.
    """
    at, stop = between
    while len(at):
        place = torch.from_numpy(at).to(u.device)
        mine = state[:, place].contiguous()
        run(units, u, lanes[at], mine)
        after[:, place] = mine
        goes_on = at + 1 < stop
        place, mine = place[goes_on] + 1, mine[:, goes_on]
        differs = (state[:, place] != mine).any(0).cpu().numpy()
        state[:, place] = mine
        at, stop = at[goes_on][differs] + 1, stop[goes_on][differs]


def _each_step(units: Units, u: Tensor, lanes: Lanes, state: Tensor, keep: object) -> None:
    # Longest first, so that the lanes which still run are the first ones.
    by_length = np.argsort(-lanes.length, kind="stable")
    order = torch.from_numpy(by_length).to(u.device)
    begin = torch.from_numpy(lanes.begin).to(u.device)[order]
    length, mine = lanes.length[by_length], state[:, order]
    for t in range(int(length.max(initial=0))):
        n = int(np.searchsorted(-length, -t, side="left"))
        now = u[begin[:n] + t].T
        x = _step(units, now, mine[:, :n])
        mine[:, :n] = x
        if callable(keep):
            keep(t, order[:n], torch.cat([now, x]))
    state[:, order] = mine


def _rounded(x: Tensor, rounder: float) -> Tensor:
    return x.add_(rounder).sub_(rounder)


def _step(units: Units, u: Tensor, state: Tensor) -> Tensor:
    """Return the states (H, B) after one step with inputs u (I, B)."""
    k = units.n_modes
    limit = kernels.LIMIT
    a, b = units.eigenvalues[0, :, None], units.eigenvalues[1, :, None]
    x, y, q = state[:k], state[k : 2 * k], state[2 * k :]
    drive = (units.W[:, :, None] * u[:, None]).sum(0).clamp_(-limit, limit)
    re = _rounded(a * x - b * y + drive, kernels.R_STATE).clamp_(-limit, limit)
    im = _rounded(b * x + a * y, kernels.R_STATE).clamp_(-limit, limit)
    ring = _rounded(torch.cat([re, im]), kernels.R_FACTOR)
    p = torch.cat([_products(units, ring, u), _mixtures(units, ring)])
    leak = units.leak[:, None]
    q = _rounded((1.0 - leak) * q + leak * p, kernels.R_STATE)
    return torch.cat([re, im, q])


def _products(units: Units, ring: Tensor, u: Tensor) -> Tensor:
    both = torch.cat([ring, u])
    first, second = units.factors
    return _rounded(both[first] * both[second], kernels.R_STATE)


def _mixtures(units: Units, ring: Tensor) -> Tensor:
    M = units.M[:, :, None]
    x = M[3].expand(-1, ring.shape[1])
    for weight, place in zip(M[:3], units.mixed, strict=True):
        x = x + weight * ring[place]
    x = _rounded(x.clamp(-3.0, 3.0), kernels.R_BEND)
    y = _rounded(x * x, kernels.R_SQUARE)
    bent = _rounded(x * (27.0 + y) / (27.0 + 9.0 * y), kernels.R_BENT)
    return bent.clamp_(-kernels.TOP, kernels.TOP)
