"""Intrinsic plasticity: every unit adapts a gain and a shift so that its output follows a target.

A tanh unit puts out y = tanh(g p + s) for its drive p. To bring y near a Gaussian N(m, v), gradient
descent of the Kullback-Leibler divergence gives (Schrauwen et al., Neurocomputing 71, 2008)

    ds = -eta ( -m/v + (y/v) (2 v + 1 - y^2 + m y) ),    dg = eta/g + ds p

Eq. 2 of De Caro et al. (ESANN 2022) prints y/v + 1 - y^2 + m y instead of the last product; that
is not the gradient. A sigmoid unit follows an exponential of mean m (Triesch, ICANN 2005):

    ds = eta ( 1 - (2 + 1/m) y + y^2/m )

y is the value before the leaky average. Units of other activations are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from catchment.arrays import Array
from catchment.features.echo_state.advance import Program, Rows, advance
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.weights import ACTIVATIONS

ADAPTIVE = tuple(ACTIVATIONS.index(name) for name in ("tanh", "sigmoid"))


@dataclass(frozen=True, eq=False)
class Drives:
    """Additive moments of every unit's drive: rows, sums (N,) and sums of squares (N,)."""

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
        if self.epochs < 1 or not 1 <= self.batch <= 32 or self.washout < 0:
            raise ValueError(
                f"epochs {self.epochs}, batch {self.batch} and washout {self.washout} must be at "
                "least 1, from 1 to 32, and at least 0"
            )

    def adapt(self, reservoir: Reservoir, inputs: Iterable[ArrayLike]) -> Reservoir:
        """Return the reservoir with gains and shifts adapted to the sequences (T, I)."""
        us = [reservoir.checked(u, f"sequence {k}") for k, u in enumerate(inputs)]
        gain, shift = plasticity_of(reservoir)
        for _ in range(self.epochs):
            for batch in _batches(us, self.batch):
                _run(self, reservoir, batch, gain, shift)
        if not (np.isfinite(gain).all() and np.isfinite(shift).all() and (gain > 0).all()):
            raise ArithmeticError(
                f"plasticity diverged at learning rate {self.learning_rate}; lower it"
            )
        return reservoir.with_plasticity(gain, shift)

    def drives(self, reservoir: Reservoir, inputs: Iterable[ArrayLike]) -> Drives:
        """Return the moments of the units' drives, nothing adapted."""
        us = [reservoir.checked(u, f"sequence {k}") for k, u in enumerate(inputs)]
        gain, shift = plasticity_of(reservoir)
        still = replace(self, learning_rate=0.0)
        N = reservoir.n_units
        total = Drives(0.0, np.zeros(N), np.zeros(N))
        for batch in _batches(us, 32):
            total = total + _run(still, reservoir, batch, gain, shift)
        return total


def plasticity_of(reservoir: Reservoir) -> tuple[Array, Array]:
    """Return copies of the gains (N,) and shifts (N,) of all layers."""
    return (
        np.concatenate([layer.gain for layer in reservoir.layers]),
        np.concatenate([layer.shift for layer in reservoir.layers]),
    )


def _batches(us: list[Array], size: int) -> list[list[Array]]:
    """Return the sequences in their order, in groups of this size."""
    return [us[k : k + size] for k in range(0, len(us), size)]


def _run(
    rule: IntrinsicPlasticity, reservoir: Reservoir, us: list[Array], gain: Array, shift: Array
) -> Drives:
    """Drive a batch through the reservoir, changing gain and shift (N,) in place."""
    from catchment.features.echo_state import kernels

    programs = [
        Program.of(replace(layer, gain=np.ones(layer.n_units), shift=np.zeros(layer.n_units)))
        for layer in reservoir.layers
    ]
    edges = np.cumsum([0, *(layer.n_units for layer in reservoir.layers)])
    target = (
        rule.target_mean,
        rule.target_std**2,
        1.0 / rule.exponential_mean,
        rule.learning_rate,
    )
    moments = np.zeros((2, reservoir.n_units))
    lengths = np.array([len(u) for u in us])

    def step(k: int, start: int, X: Rows, U: Rows, S: Rows) -> None:
        program, units = programs[k], slice(edges[k], edges[k + 1])
        times = np.arange(start, start + U.shape[1])[:, None]
        mask = np.zeros((U.shape[1], X.shape[1]))
        mask[:, : len(us)] = (times >= rule.washout) & (times < lengths)
        part = np.zeros((2, program.n_units))
        kernels.lockstep_plastic(
            program.starts,
            program.columns,
            program.values,
            program.leak,
            program.activation,
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

    for _ in advance(programs, us, step=step):
        pass
    n = float(np.maximum(lengths - rule.washout, 0).sum())
    return Drives(n, moments[0], moments[1])
