"""Intrinsic plasticity: every unit adapts a gain and a shift so that its output follows a target.

A tanh unit puts out y = tanh(g p + s) for its drive p. To bring y near a Gaussian N(m, v), gradient
descent of the Kullback-Leibler divergence gives (Schrauwen et al., Neurocomputing 71, 2008)

    ds = -eta ( -m/v + (y/v) (2 v + 1 - y^2 + m y) ),    dg = eta/g + ds p

Eq. 2 of De Caro et al. (ESANN 2022) prints y/v + 1 - y^2 + m y instead of the last product; that
is not the gradient. A sigmoid unit follows an exponential of mean m (Triesch, ICANN 2005):

    ds = eta ( 1 - (2 + 1/m) y + y^2/m )

y is the value before the leaky average. Units of other activations are left alone.

On a reservoir with a grid the same rule is followed in arithmetic that is exact, or rounded where
it is written down (`catchment.features.echo_state.plastic_kernels`): gains and shifts are whole
numbers of 2^-32, and have the same bits on every processor. Sequences are not cut while units
adapt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catchment.arrays import Array, Integers
from catchment.features.echo_state.advance import Program, Rows, Step, advance, programs_on_grid
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.weights import ACTIVATIONS, LayerWeights
from catchment.features.echo_state.whole_weights import rounded

ADAPTIVE = tuple(ACTIVATIONS.index(name) for name in ("tanh", "sigmoid"))
PLASTIC_DIGITS, DRIVE_DIGITS, SQUARE_DIGITS = 32, 20, 36  # after the point, on a grid
LEAST_GAIN, LARGEST_GAIN, LARGEST_SHIFT = 2.0**-20, 512.0, 4096.0


@dataclass(frozen=True, eq=False)
class Drives:
    """Additive moments of every unit's drive: rows, sums (N,) and sums of squares (N,).

    On a grid the drive has 20 binary digits after the point and its square 36, sums over sequences
    are exact, and what stands here is rounded once.
    """

    n: float
    total: Array
    squares: Array

    def __add__(self, other: Drives) -> Drives:
        return Drives(self.n + other.n, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> Array:
        return self.total / self.n

    @property
    def std(self) -> Array:
        return np.sqrt(np.maximum(self.squares / self.n - self.mean**2, 0.0))


@dataclass(frozen=True, kw_only=True)
class IntrinsicPlasticity:
    """Local training of gains and shifts.

    Parameters
    ----------
    target_mean, target_std
        Of the Gaussian that tanh units follow.
    exponential_mean
        Of the exponential that sigmoid units follow.
    learning_rate
        Step size eta.
    epochs
        Passes over the sequences.
    batch
        Sequences whose mean gradient is followed, step by step: 1 to 32.
    washout
        Steps at the start of each sequence that do not adapt.

    >>> from catchment import Recipe
    >>> reservoir = Reservoir.from_recipe(Recipe(units=40, inputs=1, input_scaling=1.0, seed=1))
    >>> u = np.random.default_rng(0).uniform(-1, 1, (2000, 1))
    >>> adapted = IntrinsicPlasticity(target_std=0.2, learning_rate=1e-3).adapt(reservoir, [u])
    >>> gain = np.concatenate([layer.gain for layer in adapted.layers])
    >>> bool((gain > 0).all() and (gain != 1).all())
    True
    """

    target_mean: float = 0.0
    target_std: float = 0.2
    exponential_mean: float = 0.2
    learning_rate: float = 1e-3
    epochs: int = 1
    batch: int = 32
    washout: int = 0

    def __post_init__(self) -> None:
        for name in ("target_std", "exponential_mean"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; pass a number above 0")
        if not (np.isfinite(self.learning_rate) and self.learning_rate >= 0):
            raise ValueError(f"learning_rate is {self.learning_rate}; pass 0 or more")
        if not np.isfinite(self.target_mean):
            raise ValueError(f"target_mean is {self.target_mean}; pass a finite number")
        if self.epochs < 1 or not 1 <= self.batch <= 32 or self.washout < 0:
            raise ValueError(
                f"epochs {self.epochs}, batch {self.batch} and washout {self.washout} must be at "
                "least 1, from 1 to 32, and at least 0"
            )

    def adapt(self, reservoir: Reservoir, inputs: Iterable[ArrayLike]) -> Reservoir:
        """Return the reservoir with gains and shifts adapted to the sequences (T, I)."""
        us = reservoir.checked_all(list(inputs))
        gain, shift = plasticity_of(reservoir)
        run: Callable[..., object] = _run
        if reservoir.grid is not None:
            gain, shift = plasticity_on_grid(gain, shift)
            run = _run_on_grid
        for _ in range(self.epochs):
            for batch in _batches(us, self.batch):
                run(self, reservoir, batch, gain, shift)
        sound = np.isfinite(gain).all() and np.isfinite(shift).all() and (gain > 0).all()
        if not sound or (reservoir.grid is not None and not within_reach(gain, shift)):
            raise ArithmeticError(
                f"plasticity diverged at learning rate {self.learning_rate}; lower it"
            )
        return reservoir.with_plasticity(gain, shift)

    def drives(self, reservoir: Reservoir, inputs: Iterable[ArrayLike]) -> Drives:
        """Return the moments of the units' drives, nothing adapted."""
        us = reservoir.checked_all(list(inputs))
        gain, shift = plasticity_of(reservoir)
        still = replace(self, learning_rate=0.0)
        N = reservoir.n_units
        total = Drives(0.0, np.zeros(N), np.zeros(N))
        if reservoir.grid is None:
            for batch in _batches(us, 32):
                total = total + _run(still, reservoir, batch, gain, shift)
            return total
        gain, shift = plasticity_on_grid(gain, shift)
        whole = np.full((3, N), 0, dtype=object)
        for batch in _batches(us, 32):
            whole = whole + _run_on_grid(still, reservoir, batch, gain, shift)
        n = sum(max(len(u) - self.washout, 0) for u in us)
        squares = whole[1] + (whole[2] << 32)
        return Drives(
            float(n),
            np.array([k / 2**DRIVE_DIGITS for k in whole[0]]),
            np.array([k / 2**SQUARE_DIGITS for k in squares]),
        )


def plasticity_of(reservoir: Reservoir) -> tuple[Array, Array]:
    """Return copies of the gains (N,) and shifts (N,) of all layers."""
    return (
        np.concatenate([layer.gain for layer in reservoir.layers]),
        np.concatenate([layer.shift for layer in reservoir.layers]),
    )


def plasticity_on_grid(gain: Array, shift: Array) -> tuple[Array, Array]:
    """Return gains (N,) and shifts (N,) rounded to 32 binary digits after the point.

    >>> plasticity_on_grid(np.array([1.0]), np.array([0.1]))[1] * 2**32
    array([4.2949673e+08])
    """
    gains, shifts = rounded(gain, PLASTIC_DIGITS), rounded(shift, PLASTIC_DIGITS)
    if not within_reach(gains, shifts):
        raise ValueError(
            f"gains from {gain.min():g} to {gain.max():g} and shifts from {shift.min():g} to "
            f"{shift.max():g} came; on a grid gains lie between 2^-20 and {LARGEST_GAIN:g} and "
            f"shifts within {LARGEST_SHIFT:g}, so scale the inputs or use no grid"
        )
    return gains, shifts


def within_reach(gain: Array, shift: Array) -> bool:
    """Return whether gains and shifts lie between the ends that a grid has for them."""
    inside = (gain > LEAST_GAIN) & (gain < LARGEST_GAIN) & (np.abs(shift) < LARGEST_SHIFT)
    return bool(inside.all())


def _batches(us: list[Array], size: int) -> list[list[Array]]:
    """Return the sequences in their order, in groups of this size."""
    return [us[k : k + size] for k in range(0, len(us), size)]


def _run(
    rule: IntrinsicPlasticity, reservoir: Reservoir, us: list[Array], gain: Array, shift: Array
) -> Drives:
    """Drive a batch through the reservoir, changing gain and shift (N,) in place."""
    from catchment.features.echo_state import kernels

    programs = [Program.of(layer) for layer in _bare(reservoir)]
    target = (
        rule.target_mean,
        rule.target_std**2,
        1.0 / rule.exponential_mean,
        rule.learning_rate,
    )
    moments = np.zeros((2, reservoir.n_units))

    def layer_step(program: Program, units: slice, mask: Array, X: Rows, U: Rows, S: Rows) -> None:
        part = np.zeros((2, program.n_units))
        kernels.lockstep_plastic(
            *_rows_and_units(program),
            U,
            X,
            np.empty((program.n_units, X.shape[1])),
            S,
            (0,) * (X.shape[1] // 4),
            mask,
            gain[units],
            shift[units],
            target,
            part,
        )
        moments[:, units] += part

    for _ in advance(programs, us, step=_by_layers(rule, programs, us, layer_step)):
        pass
    n = float(sum(max(len(u) - rule.washout, 0) for u in us))
    return Drives(n, moments[0], moments[1])


def _run_on_grid(
    rule: IntrinsicPlasticity, reservoir: Reservoir, us: list[Array], gain: Array, shift: Array
) -> Integers:
    """As `_run` on a grid; return the sums (3, N) of drives and, in halves, of squared drives."""
    from catchment.features.echo_state import plastic_kernels

    assert reservoir.grid is not None
    programs = programs_on_grid(_bare(reservoir), reservoir.grid, reservoir.input_range)
    if not abs(rule.target_mean) <= 1:
        raise ValueError(
            f"target_mean is {rule.target_mean}; on a grid pass a number from -1 to 1, as outputs "
            "of tanh are"
        )
    eta = rule.learning_rate
    target = (
        float(rounded(np.array(rule.target_mean), reservoir.grid)),
        rule.target_std**2,
        rule.exponential_mean,
        1.0 / eta if eta > 0 else 0.0,
    )
    moments = np.zeros((3, reservoir.n_units), dtype=np.int64)

    def layer_step(program: Program, units: slice, mask: Array, X: Rows, U: Rows, S: Rows) -> None:
        part = np.zeros((3, program.n_units), dtype=np.int64)
        plastic_kernels.lockstep_plastic_on_grid(
            *_rows_and_units(program),
            U,
            X,
            np.empty((program.n_units, X.shape[1])),
            S,
            (0,) * (X.shape[1] // 4),
            mask,
            gain[units],
            shift[units],
            target,
            program.grid,
            part,
        )
        moments[:, units] += part

    for _ in advance(programs, us, step=_by_layers(rule, programs, us, layer_step)):
        pass
    return moments


LayerStep = Callable[[Program, slice, Array, Rows, Rows, Rows], None]


def _by_layers(
    rule: IntrinsicPlasticity, programs: Sequence[Program], us: list[Array], run: LayerStep
) -> Step:
    """Return the step of `advance` that hands each layer its units and the lanes that count."""
    edges = np.cumsum([0, *(program.n_units for program in programs)])
    lengths = np.array([len(u) for u in us])

    def step(k: int, start: int, X: Rows, U: Rows, S: Rows) -> None:
        times = np.arange(start, start + U.shape[1])[:, None]
        mask = np.zeros((U.shape[1], X.shape[1]))
        mask[:, : len(us)] = (times >= rule.washout) & (times < lengths)
        run(programs[k], slice(edges[k], edges[k + 1]), mask, X, U, S)

    return step


def _bare(reservoir: Reservoir) -> list[LayerWeights]:
    """Return the layers without gains and shifts."""
    return [
        replace(layer, gain=np.ones(layer.n_units), shift=np.zeros(layer.n_units))
        for layer in reservoir.layers
    ]


def _rows_and_units(
    program: Program,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    return program.starts, program.columns, program.values, program.leak, program.activation
