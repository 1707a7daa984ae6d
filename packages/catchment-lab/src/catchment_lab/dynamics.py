"""What a reservoir can do: forget its start, remember its input, tell inputs apart.

`effective_spectral_radius` looks at the linear part of a step, (1 - a) I + a g W. A value below 1
is a rule of design, not a proof that the reservoir forgets; `echo_state_check` tries it. Memory
capacity follows Jaeger (2001, "Short term memory in echo state networks") and kernel rank
Legenstein and Maass (2007, "Edge of chaos and prediction of computational performance").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge
from numpy.typing import ArrayLike

from catchment import Array, PositiveFloat, PositiveInt, check_type, single_blas_thread
from catchment.features import Reservoir
from catchment.features.echo_state import (
    CLOSE,
    LayerWeights,
    Purpose,
    SparseRows,
    Words,
    spectral_radius,
    uniform,
)

STREAMS_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class EchoStateReport:
    """How two states that started far apart came together under the same input.

    Attributes
    ----------
    distance
        (T,) largest difference of any unit after each step.
    converged
        Whether the distance fell to the tolerance and stayed there.
    steps
        Number of steps after which it did; None if it did not.
    tolerance
        The distance that counts as none.
    """

    distance: Array
    converged: bool
    steps: int | None
    tolerance: float


@dataclass(frozen=True, eq=False)
class MemoryCapacity:
    """How well the input of some steps ago can be read from the state.

    Attributes
    ----------
    per_delay
        (max_delay,) squared correlation of readout and input, for delays 1, 2, ... steps. Delay 0,
        the input that just arrived, is no memory and is left out.
    total
        Their sum; at most the number of units, up to the noise of the estimate.
    """

    per_delay: Array
    total: float


def effective_spectral_radius(reservoir: Reservoir) -> tuple[float, ...]:
    """Return, for each layer, the spectral radius of (1 - a) I + a g W.

    >>> ring = Reservoir.from_matrices([[0.0, 0.5], [0.5, 0.0]], [[1.0], [1.0]], leak_rate=0.5)
    >>> effective_spectral_radius(ring)
    (0.75,)
    """
    return tuple(spectral_radius(_linear_step(layer)) for layer in reservoir.layers)


def echo_state_check(
    reservoir: Reservoir,
    u: ArrayLike | None = None,
    *,
    steps: int = 2000,
    tolerance: float = 1e-12,
    seed: int = 0,
) -> EchoStateReport:
    """Return whether two opposite starts, all units at 1 and at -1, are forgotten.

    Parameters
    ----------
    u
        (T, I) inputs to try; if not given, `steps` inputs uniform in (-1, 1).
    steps
        Number of inputs to draw.
    tolerance
        Largest difference of any unit that counts as none; in fixed point, where two states may
        stay apart by a few steps, at least eight of its steps.
    seed
        Names the drawn inputs.

    >>> from catchment.features import Reservoir
    >>> echo_state_check(Reservoir(units=50, spectral_radius=0.9)).converged
    True
    >>> echo_state_check(Reservoir(units=50, spectral_radius=5.0)).converged
    False
    """
    check_type(tolerance, PositiveFloat, "tolerance")
    check_type(steps, PositiveInt, "steps")
    if reservoir.bits is not None:
        tolerance = max(tolerance, CLOSE * 0.5**reservoir.bits)
    inputs = _noise(reservoir, steps, seed) if u is None else u
    N = reservoir.n_units
    with np.errstate(invalid="ignore", over="ignore"):
        one, other = reservoir.states(inputs, np.ones(N)), reservoir.states(inputs, -np.ones(N))
        distance = np.abs(one - other).max(axis=1)
    distance[np.isnan(distance)] = np.inf
    above = np.flatnonzero(distance > tolerance)
    needed = int(above[-1]) + 2 if len(above) else 1
    converged = needed <= len(distance)
    return EchoStateReport(distance, converged, needed if converged else None, tolerance)


def memory_capacity(
    reservoir: Reservoir,
    max_delay: int | None = None,
    *,
    steps: int | None = None,
    seed: int = 0,
) -> MemoryCapacity:
    """Return how much of a random input can be read back, delay by delay.

    The same signal, uniform in (-1, 1), drives every input. Linear readouts of the state are
    fitted on the first half of the steps and scored on the second.

    Parameters
    ----------
    max_delay
        Largest delay to read; twice the number of units if not given.
    steps
        Steps to fit and score on, after a warm-up; 20 per unit, at least 2000, if not given.
    seed
        Names the signal.

    >>> line = Reservoir.from_matrices(np.eye(5, k=-1), np.eye(5, 1), activation="identity")
    >>> memory_capacity(line, 8).per_delay.round(2)
    array([1., 1., 1., 1., 0., 0., 0., 0.])
    """
    N = reservoir.n_units
    check_type(max_delay, PositiveInt | None, "max_delay")
    check_type(steps, Annotated[int, Ge(2)] | None, "steps")
    K, T = max_delay or 2 * N, steps or max(2000, 20 * N)
    if reservoir.n_inputs == 0:
        raise ValueError("the reservoir has no inputs, so there is nothing to remember")
    if T // 2 <= N + 1:
        raise ValueError(f"steps is {T}; give more than twice the {N} units to fit and score on")
    start = K + 100
    rng = Words(seed=seed, layer=0, purpose=Purpose.PROBE)
    signal = uniform(rng, start + T, -1.0, 1.0)
    x = reservoir.states(np.repeat(signal[:, None], reservoir.n_inputs, axis=1))[start:]
    _refuse_unbounded(x)
    delayed = np.stack([signal[start - k : start - k + T] for k in range(1, K + 1)], axis=1)
    z = np.hstack([x, np.ones((T, 1))])
    half = T // 2
    with single_blas_thread():
        weights = np.linalg.lstsq(z[:half], delayed[:half], rcond=None)[0]
        y = z[half:] @ weights
    per_delay = _squared_correlation(y, delayed[half:])
    return MemoryCapacity(per_delay, float(per_delay.sum()))


def kernel_rank(
    reservoir: Reservoir,
    streams: int | None = None,
    *,
    steps: int = 100,
    tolerance: float = 1e-3,
    seed: int = 0,
) -> int:
    """Return how many directions the last states of different random inputs span.

    The number of singular values above `tolerance` times the largest, of the matrix with one last
    state per stream. It cannot exceed the number of units or of streams.

    Parameters
    ----------
    streams
        Number of input sequences; as many as units if not given.
    steps
        Length of each.
    tolerance
        Smallest singular value that counts, relative to the largest.
    seed
        Names the inputs.

    >>> line = Reservoir.from_matrices(np.eye(5, k=-1), np.eye(5, 1), activation="identity")
    >>> kernel_rank(line)
    5
    """
    check_type(streams, PositiveInt | None, "streams")
    check_type(steps, PositiveInt, "steps")
    check_type(tolerance, PositiveFloat, "tolerance")
    n, T = streams or reservoir.n_units, steps
    if reservoir.bits is not None:
        tolerance = max(tolerance, CLOSE * 0.5**reservoir.bits)
    inputs = _noise(reservoir, n * T, seed).reshape(n, T, reservoir.n_inputs)
    last = np.empty((n, reservoir.n_units))
    # Only the last state of each stream is kept, so memory does not grow with streams times steps.
    for first in range(0, n, STREAMS_AT_ONCE):
        group = list(inputs[first : first + STREAMS_AT_ONCE])
        last[first : first + len(group)] = [x[-1] for x in reservoir.run(group)]
    _refuse_unbounded(last)
    with single_blas_thread():
        sizes = np.linalg.svd(last, compute_uv=False)
    return int(np.count_nonzero(sizes > tolerance * sizes[0]))


def _linear_step(layer: LayerWeights) -> SparseRows:
    """Return (1 - a) I + a g W."""
    N, W = layer.n_units, layer.W
    rows, units = W.rows(), np.arange(N)
    place = np.concatenate([rows * N + W.columns, units * N + units])
    values = np.concatenate([(layer.leak * layer.gain)[rows] * W.values, 1.0 - layer.leak])
    distinct, position = np.unique(place, return_inverse=True)
    total: Array = np.bincount(position, weights=values).astype(np.float64)
    return SparseRows.from_coordinates(distinct // N, distinct % N, total, N, N)


def _noise(reservoir: Reservoir, steps: int, seed: int) -> Array:
    """Return inputs (steps, I) uniform in (-1, 1)."""
    I = reservoir.n_inputs
    rng = Words(seed=seed, layer=0, purpose=Purpose.PROBE)
    return uniform(rng, steps * I, -1.0, 1.0).reshape(steps, I)


def _refuse_unbounded(x: Array) -> None:
    if not np.isfinite(x).all():
        raise ValueError(
            "the states grow without bound; lower the spectral radius or use a bounded activation"
        )


def _squared_correlation(y: Array, target: Array) -> Array:
    """Return the squared correlation (K,) of each column; 0 where a column is constant."""
    y, target = y - y.mean(axis=0), target - target.mean(axis=0)
    shared = (y * target).sum(axis=0) ** 2
    power = (y**2).sum(axis=0) * (target**2).sum(axis=0)
    share: Array = np.divide(shared, power, out=np.zeros_like(power), where=power > 0)
    return share
