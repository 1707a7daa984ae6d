"""Intrinsic plasticity: every unit adapts a gain and a shift so that its output follows a target.

A tanh unit puts out y = tanh(g p + s) for its drive p. To bring y near a Gaussian N(m, v), gradient
descent of the Kullback-Leibler divergence gives (Schrauwen et al., Neurocomputing 71, 2008)

    ds = -eta ( -m/v + (y/v) (2 v + 1 - y^2 + m y) ),    dg = eta/g + ds p

Eq. 2 of De Caro et al. (ESANN 2022) prints y/v + 1 - y^2 + m y instead of the last product; that
is not the gradient, and is followed only where `equation="printed"` asks for it. A sigmoid unit
follows an exponential of mean m (Triesch, ICANN 2005):

    ds = eta ( 1 - (2 + 1/m) y + y^2/m )

y is the value before the leaky average. Units of other activations are left alone.

The rule can be read in two ways. With `updates="step"` every time step is followed by an update,
with the mean over the sequences that run side by side; with `updates="batch"` gains and shifts
stand still while a batch of sequences runs, and one update follows, with the mean over all its
steps. The first is intrinsic plasticity as it was proposed; the second is how the batch size of a
gradient method is usually understood.

On a reservoir in fixed point the same rule is followed in arithmetic that is exact, or rounded
where it is written down (`catchment_research.plasticity.kernels`): gains and shifts are
integers times 2^-32, and have the same bits on every processor. Sequences are not cut while units
adapt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import ArrayLike, NDArray

from catchment.arrays import (
    LARGEST,
    Array,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    check_fields,
)
from catchment.features import Reservoir
from catchment.features.echo_state import (
    ACTIVATIONS,
    LayerWeights,
    Program,
    Rows,
    Step,
    advance,
    programs_in_fixed_point,
    rounded,
)

ADAPTIVE = tuple(ACTIVATIONS.index(name) for name in ("tanh", "sigmoid"))
PLASTIC_DIGITS, DRIVE_DIGITS, SQUARE_DIGITS = 32, 20, 36  # after the point, in fixed point
LEAST_GAIN, LARGEST_GAIN, LARGEST_SHIFT = 2.0**-20, 512.0, 4096.0
MOST_LANES = 32
MOST_STEPS = 1 << 24  # of a batch in fixed point: more could leave the 64 bits of its sums

Updates = Literal["step", "batch"]
Equation = Literal["corrected", "printed"]
Gains = Literal["positive", "any"]


@dataclass(frozen=True, eq=False)
class Drives:
    """Additive moments of every unit's drive: rows, sums (N,) and sums of squares (N,).

    In fixed point the drive has 20 binary digits after the point and its square 36, sums over
    sequences are exact, and what stands here is rounded once.
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
        Sequences whose mean gradient is followed: 1 to 32, or any number with updates="batch".
    washout
        Steps at the start of each sequence that do not adapt.
    updates
        "step" updates at every time step, "batch" once after all steps of a batch's sequences.
    equation
        "corrected" is the gradient; "printed" is eq. 2 of De Caro et al. (2022) letter by letter,
        which is not: use it only to compare with figures that were made with it. Sigmoid units
        have but one equation.
    gains
        "positive" refuses a rate at which a gain reaches 0, where the divergence is infinite: a
        step has jumped over a wall. "any" lets gains change their sign, as a program does that does
        not look; in float64 only.

    >>> from catchment import Reservoir
    >>> reservoir = Reservoir(units=40, inputs=1, input_scaling=1.0, seed=1)
    >>> u = np.random.default_rng(0).uniform(-1, 1, (2000, 1))
    >>> adapted = IntrinsicPlasticity(target_std=0.2, learning_rate=1e-3).adapt(reservoir, [u])
    >>> gain = np.concatenate([layer.gain for layer in adapted.layers])
    >>> bool((gain > 0).all() and (gain != 1).all())
    True
    """

    target_mean: Annotated[float, Ge(-LARGEST), Le(LARGEST)] = 0.0
    target_std: PositiveFloat = 0.2
    exponential_mean: PositiveFloat = 0.2
    learning_rate: NonNegativeFloat = 1e-3
    epochs: PositiveInt = 1
    batch: PositiveInt = 32
    washout: NonNegativeInt = 0
    updates: Updates = field(default="step", metadata={"later": True})
    equation: Equation = field(default="corrected", metadata={"later": True})
    gains: Gains = field(default="positive", metadata={"later": True})

    def __post_init__(self) -> None:
        check_fields(self)
        if self.updates == "step" and self.batch > MOST_LANES:
            raise ValueError(
                f"batch is {self.batch}; pass 1 to {MOST_LANES} recordings, or updates='batch'"
            )

    def adapt(self, reservoir: Reservoir, inputs: Iterable[ArrayLike]) -> Reservoir:
        """Return the reservoir with gains and shifts adapted to the sequences (T, I)."""
        us = reservoir.checked_all(list(inputs))
        gain, shift = plasticity_of(reservoir)
        if reservoir.bits is not None:
            gain, shift = plasticity_in_fixed_point(gain, shift)
        run = _Run.of(self, reservoir)
        for _ in range(self.epochs):
            for batch in _batches(us, self.batch):
                run.adapt(batch, gain, shift)
            self._refuse_divergence(gain, shift, in_fixed_point=reservoir.bits is not None)
        return reservoir.with_plasticity(gain, shift)

    def _refuse_divergence(self, gain: Array, shift: Array, *, in_fixed_point: bool) -> None:
        sound = bool(np.isfinite(gain).all() and np.isfinite(shift).all())
        if self.gains == "positive":
            sound = sound and bool((gain > 0).all())
        if not sound or (in_fixed_point and not within_reach(gain, shift)):
            raise ArithmeticError(
                f"plasticity diverged at learning rate {self.learning_rate}; lower it"
            )

    def drives(self, reservoir: Reservoir, inputs: Iterable[ArrayLike]) -> Drives:
        """Return the moments of the units' drives, nothing adapted."""
        us = reservoir.checked_all(list(inputs))
        gain, shift = plasticity_of(reservoir)
        if reservoir.bits is not None:
            gain, shift = plasticity_in_fixed_point(gain, shift)
        run, N = _Run.of(self, reservoir), reservoir.n_units
        n = float(self.n_counted(us))
        if reservoir.bits is None:
            total = np.zeros((2, N))
            for batch in _batches(us, MOST_LANES):
                total += run.measured(batch, gain, shift)
            return Drives(n, total[0], total[1])
        whole = np.full((4, N), 0, dtype=object)
        for batch in _batches(us, MOST_LANES):
            whole = whole + run.measured(batch, gain, shift)
        squares = whole[1] + (whole[2] << 32)
        return Drives(
            n,
            np.array([k / 2**DRIVE_DIGITS for k in whole[0]]),
            np.array([k / 2**SQUARE_DIGITS for k in squares]),
        )

    def n_counted(self, us: Iterable[Array]) -> int:
        """Return how many steps of the sequences (T, I) the rule counts: those after the washout.

        >>> IntrinsicPlasticity(washout=2).n_counted([np.zeros((5, 1)), np.zeros((1, 1))])
        3
        """
        return sum(max(len(u) - self.washout, 0) for u in us)


def plasticity_of(reservoir: Reservoir) -> tuple[Array, Array]:
    """Return copies of the gains (N,) and shifts (N,) of all layers."""
    return (
        np.concatenate([layer.gain for layer in reservoir.layers]),
        np.concatenate([layer.shift for layer in reservoir.layers]),
    )


def plasticity_in_fixed_point(gain: Array, shift: Array) -> tuple[Array, Array]:
    """Return gains (N,) and shifts (N,) rounded to 32 binary digits after the point.

    >>> plasticity_in_fixed_point(np.array([1.0]), np.array([0.1]))[1] * 2**32
    array([4.2949673e+08])
    """
    gains, shifts = rounded(gain, PLASTIC_DIGITS), rounded(shift, PLASTIC_DIGITS)
    if not within_reach(gains, shifts):
        raise ValueError(
            f"gains from {gain.min():g} to {gain.max():g} and shifts from {shift.min():g} to "
            f"{shift.max():g} came; in fixed point gains lie between 2^-20 and {LARGEST_GAIN:g} "
            f"and shifts within {LARGEST_SHIFT:g}, so scale the inputs or use bits=None"
        )
    return gains, shifts


def within_reach(gain: Array, shift: Array) -> bool:
    """Return whether gains and shifts lie between the ends that fixed point has for them."""
    inside = (gain > LEAST_GAIN) & (gain < LARGEST_GAIN) & (np.abs(shift) < LARGEST_SHIFT)
    return bool(inside.all())


def _batches(us: list[Array], size: int) -> list[list[Array]]:
    """Return the sequences in their order, in groups of this size."""
    return [us[k : k + size] for k in range(0, len(us), size)]


@dataclass(frozen=True, eq=False)
class _Run:
    """A rule at work on a reservoir: its layers without gains and shifts, and the rule's target."""

    rule: IntrinsicPlasticity
    programs: tuple[Program, ...]
    target: tuple[float, float, float, float, bool]
    in_fixed_point: bool

    @classmethod
    def of(cls, rule: IntrinsicPlasticity, reservoir: Reservoir) -> _Run:
        variance, eta = rule.target_std**2, rule.learning_rate
        printed = rule.equation == "printed"
        if reservoir.bits is None:
            programs = tuple(Program.of(layer) for layer in _bare(reservoir))
            target = (rule.target_mean, variance, rule.exponential_mean, eta, printed)
            return cls(rule, programs, target, False)
        if not abs(rule.target_mean) <= 1:
            raise ValueError(
                f"target_mean is {rule.target_mean}; in fixed point pass a number from -1 to 1, as "
                "outputs of tanh are"
            )
        if rule.gains != "positive":
            raise ValueError(
                f"gains is {rule.gains!r}; in fixed point gains stay above 0, use bits=None"
            )
        programs = programs_in_fixed_point(_bare(reservoir), reservoir.bits, reservoir.input_range)
        mean = float(rounded(np.array(rule.target_mean), reservoir.bits))
        slowness = 1.0 / eta if eta > 0 else 0.0
        target = (mean, variance, rule.exponential_mean, slowness, printed)
        return cls(rule, programs, target, True)

    @property
    def activation(self) -> NDArray[np.uint8]:
        """Of all layers' units (N,)."""
        return np.concatenate([program.activation for program in self.programs])

    def adapt(self, us: list[Array], gain: Array, shift: Array) -> None:
        """Change gain and shift (N,) in place, as a batch of sequences bids."""
        from catchment_research.plasticity.kernels import ADAPT, DESCEND, adapt_units

        if self.rule.updates == "step":
            self._through(us, gain, shift, ADAPT)
            return
        n = self.rule.n_counted(us)
        if self.in_fixed_point and n > MOST_STEPS:
            raise ValueError(
                f"a batch has {n} steps; in fixed point pass a batch of at most {MOST_STEPS} in all"
            )
        groups = _batches(us, MOST_LANES)
        sums = np.sum([self._through(group, gain, shift, DESCEND) for group in groups], axis=0)
        if self.in_fixed_point:
            adapt_units(self.activation, gain, shift, sums, float(n), self.target)
        elif n > 0:
            k = np.isin(self.activation, ADAPTIVE)
            shift[k] += self.rule.learning_rate * sums[0, k] / n
            gain[k] += self.rule.learning_rate * (1.0 / gain[k] + sums[1, k] / n)

    def measured(self, us: list[Array], gain: Array, shift: Array) -> NDArray[Any]:
        """Return the sums of the drives of at most 32 sequences, as the kernels gather them."""
        from catchment_research.plasticity.kernels import MEASURE

        return self._through(us, gain, shift, MEASURE)

    def _through(self, us: list[Array], gain: Array, shift: Array, task: int) -> NDArray[Any]:
        """Run sequences side by side and return the sums that the task gathers over them."""
        from catchment_research.plasticity.kernels import lockstep_plastic

        rows, kind = (4, "int64") if self.in_fixed_point else (2, "float64")
        sums: NDArray[Any] = np.zeros((rows, len(gain)), dtype=kind)

        def layer_step(
            program: Program, units: slice, mask: Array, X: Rows, U: Rows, S: Rows
        ) -> None:
            part = np.zeros((rows, program.n_units), dtype=kind)
            room = np.empty((program.n_units, X.shape[1]))
            rows_of = (program.starts, program.columns, program.values)
            given = (
                *rows_of,
                program.leak,
                program.activation,
                U,
                X,
                room,
                S,
                (0,) * (X.shape[1].bit_length() - 1),
                mask,
            )
            values = (gain[units], shift[units], self.target, task, part)
            lockstep_plastic(*given, *values, program.rounding)
            sums[:, units] += part

        for _ in advance(
            self.programs, us, step=_by_layers(self.rule, self.programs, us, layer_step)
        ):
            pass
        return sums


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
