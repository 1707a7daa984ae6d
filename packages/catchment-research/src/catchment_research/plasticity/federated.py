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

Clients can learn gains and shifts that suit everybody's data in two ways, with 2 N numbers a round.
`FederatedPlasticity` is FedIP (De Caro, Gallicchio, Bacciu, ESANN 2022): clients adapt the gains
and shifts they are sent, the server averages them by the number of sequences. The mean of adapted
values depends on how the data are cut. With `MomentPlasticity` it does not: clients send the sums
and squared sums of their units' drives and the sums of their inputs, and the server sets the gains
and shifts with which Gaussian drives of those moments give outputs of the target mean and standard
deviation. The mean drive that counts is the one to come: once all outputs have mean m, a unit's is
the row sum of W times m, plus W_in times the mean input, plus its bias. (To aim at the mean
measured before a change of gains would overshoot, and for gains that make W expand, diverge.) Both
make a reservoir, not a readout: train one on the result with a second plan.

On a reservoir in fixed point the same rule is followed in arithmetic that is exact, or rounded
where it is written down (`catchment_research.plasticity.kernels`): gains and shifts are integers
times 2^-32, at clients and at the server, and one plan has the same bits on every processor.
Sequences are not cut while units adapt. What clients send is exact: changes of gains times whole
weights, or sums of drives. Their sum is exact in any order while it needs no more than 53 bits
(changes times weights up to 2^21, sums of squared drives up to 2^17), and else that of the order of
their names; secure aggregation rounds only once, at its end. As mathematical libraries differ in
their last digits, the gain and shift (a, c) that give a Gaussian drive outputs of given moments are
then solved in decimal arithmetic, which does not: Newton's steps from a solution known to some
digits,

    mean of y = m,  mean of (y - m)^2 = v,   y = tanh(a z + c),   z standard normal,

with means by the trapezoidal rule, whose error falls exponentially with the step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import ArrayLike, NDArray

from catchment.arrays import (
    LARGEST,
    Array,
    Factor,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    check_fields,
)
from catchment.errors import UploadError
from catchment.features import Reservoir
from catchment.features.echo_state import (
    ACTIVATIONS,
    LayerWeights,
    Program,
    Rows,
    SparseRows,
    advance,
    programs_in_fixed_point,
    rounded,
)
from catchment.federation import Algorithm, Data, RoundContext, WeightedSum, check_weight
from catchment.wire import Message, Shape, Structure
from catchment_research.learn.optimizers import Arrays, Mean, ServerOptimizer

ADAPTIVE = tuple(ACTIVATIONS.index(name) for name in ("tanh", "sigmoid"))
PLASTIC_DIGITS, DRIVE_DIGITS, SQUARE_DIGITS = 32, 20, 36  # after the point, in fixed point
LEAST_GAIN, LARGEST_GAIN, LARGEST_SHIFT = 2.0**-20, 512.0, 4096.0
MOST_LANES = 32
MOST_STEPS = 1 << 24  # of a batch in fixed point: more could leave the 64 bits of its sums
ADAPT, MEASURE, DESCEND = range(3)  # what sequences are run for
TINY = 1e-12
CONTEXT = Context(prec=34)
STEP, FARTHEST = Decimal(1) / 64, 9  # of the rule; beyond it is a mass of 2e-19
NEWTON_STEPS, CLOSE, UNIT = 20, Decimal("1e-26"), Decimal("1e-24")

Updates = Literal["step", "batch"]
Equation = Literal["corrected", "printed"]
Gains = Literal["positive", "any"]
Pair = tuple[Decimal, Decimal]


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
        gain, shift = _started(reservoir)
        run = _Run.of(self, reservoir)
        for _ in range(self.epochs):
            for batch in _batches(us, self.batch):
                run.adapt(batch, gain, shift)
            sound = bool(np.isfinite(gain).all() and np.isfinite(shift).all())
            sound = sound and (self.gains == "any" or bool((gain > 0).all()))
            if not sound or (reservoir.bits is not None and not within_reach(gain, shift)):
                raise ArithmeticError(
                    f"plasticity diverged at learning rate {self.learning_rate}; lower it"
                )
        return reservoir.with_plasticity(gain, shift)

    def drives(self, reservoir: Reservoir, inputs: Iterable[ArrayLike]) -> WeightedSum:
        """Return sums (N,) over rows of every unit's drive and of its square, nothing adapted.

        In fixed point the drive has 20 binary digits after the point and its square 36, sums over
        sequences are exact, and what is returned is rounded once.
        """
        us = reservoir.checked_all(list(inputs))
        gain, shift = _started(reservoir)
        run, N = _Run.of(self, reservoir), reservoir.n_units
        n = float(self.n_counted(us))
        if reservoir.bits is None:
            total = np.zeros((2, N))
            for batch in _batches(us, MOST_LANES):
                total += run.through(batch, gain, shift, MEASURE)
            return WeightedSum((total[0], total[1]), n)
        whole = np.full((4, N), 0, dtype=object)
        for batch in _batches(us, MOST_LANES):
            whole = whole + run.through(batch, gain, shift, MEASURE)
        total = np.array([k / 2**DRIVE_DIGITS for k in whole[0]])
        squares = [k / 2**SQUARE_DIGITS for k in whole[1] + (whole[2] << 32)]
        return WeightedSum((total, np.array(squares)), n)

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
        programs = programs_in_fixed_point(_bare(reservoir), reservoir.bits, reservoir.range)
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
        from catchment_research.plasticity.kernels import adapt_units

        if self.rule.updates == "step":
            self.through(us, gain, shift, ADAPT)
            return
        n = self.rule.n_counted(us)
        if self.in_fixed_point and n > MOST_STEPS:
            raise ValueError(
                f"a batch has {n} steps; in fixed point pass a batch of at most {MOST_STEPS} in all"
            )
        groups = _batches(us, MOST_LANES)
        sums = np.sum([self.through(group, gain, shift, DESCEND) for group in groups], axis=0)
        if self.in_fixed_point:
            adapt_units(self.activation, gain, shift, sums, float(n), self.target)
        elif n > 0:
            k = np.isin(self.activation, ADAPTIVE)
            shift[k] += self.rule.learning_rate * sums[0, k] / n
            gain[k] += self.rule.learning_rate * (1.0 / gain[k] + sums[1, k] / n)

    def through(self, us: list[Array], gain: Array, shift: Array, task: int) -> NDArray[Any]:
        """Run at most 32 sequences side by side; return the sums that the task gathers of them."""
        from catchment_research.plasticity.kernels import lockstep_plastic

        rows, kind = (4, "int64") if self.in_fixed_point else (2, "float64")
        sums: NDArray[Any] = np.zeros((rows, len(gain)), dtype=kind)
        edges = np.cumsum([0, *(program.n_units for program in self.programs)])
        lengths = np.array([len(u) for u in us])

        def step(k: int, start: int, X: Rows, U: Rows, S: Rows) -> None:
            one, units = self.programs[k], slice(edges[k], edges[k + 1])
            times = np.arange(start, start + U.shape[1])[:, None]
            mask = np.zeros((U.shape[1], X.shape[1]))
            mask[:, : len(us)] = (times >= self.rule.washout) & (times < lengths)
            part = np.zeros((rows, one.n_units), dtype=kind)
            room, width = np.empty((one.n_units, X.shape[1])), (0,) * (X.shape[1].bit_length() - 1)
            layer = (one.starts, one.columns, one.values, one.leak, one.activation)
            values = (gain[units], shift[units], self.target, task, part, one.rounding)
            lockstep_plastic(*layer, U, X, room, S, width, mask, *values)
            sums[:, units] += part

        for _ in advance(self.programs, us, step=step):
            pass
        return sums


def _bare(reservoir: Reservoir) -> list[LayerWeights]:
    """Return the layers without gains and shifts."""
    return [
        replace(layer, gain=np.ones(layer.n_units), shift=np.zeros(layer.n_units))
        for layer in reservoir.layers
    ]


RULE = IntrinsicPlasticity()
MEAN = Mean()


@dataclass(frozen=True, eq=False)
class Plasticity(Structure):
    """Gains (N,) and shifts (N,) so far, and what the server's optimizer remembers."""

    gain: Annotated[Array, Shape("units")]
    shift: Annotated[Array, Shape("units")]
    memory: Arrays = ()


class Adapting(Algorithm[Plasticity, WeightedSum, Reservoir]):
    """What both ways begin and end with."""

    reservoir: Reservoir

    def start(self) -> Plasticity:
        return Plasticity(*_started(self.reservoir))

    def broadcast(self, state: Plasticity, context: RoundContext) -> Message:
        return Plasticity(state.gain, state.shift).parts()

    def reservoir_of(self, received: Message) -> Reservoir:
        """Return the reservoir with the gains and shifts of a request; UploadError if they differ.

        They do if they are those of another number of units.
        """
        now, n_units = Plasticity.from_message(received), self.reservoir.n_units
        if now.gain.shape != (n_units,):
            raise UploadError("shape", f"{now.gain.shape} gains came for {n_units} units")
        return self.reservoir.with_plasticity(now.gain, now.shift)

    def result(self, state: Plasticity) -> Reservoir:
        """Return the reservoir with the state's gains and shifts."""
        return self.reservoir.with_plasticity(state.gain, state.shift)

    def figures(self, state: Plasticity) -> dict[str, float]:
        return {"mean gain": float(state.gain.mean()), "mean shift": float(state.shift.mean())}


@dataclass(frozen=True, kw_only=True)
class FederatedPlasticity(Adapting):
    """FedIP: rounds of local plasticity, averaged.

    Parameters
    ----------
    reservoir
        Its weights are frozen; its gains and shifts are the start.
    rule
        What a client does in a round.
    weighting
        "samples" weighs a client by its number of sequences, "uniform" each alike.
    optimizer
        What the server does with the mean change.

    >>> from catchment import Plan, Reservoir, Recording, federate
    >>> reservoir = Reservoir(units=20, inputs=1, seed=1)
    >>> u = np.random.default_rng(0).uniform(-1, 1, (300, 1))
    >>> algorithm = FederatedPlasticity(reservoir=reservoir)
    >>> federate(Plan(algorithm=algorithm, rounds=2), {"a": [Recording(u)]}).result.n_units
    20
    """

    reservoir: Reservoir
    rule: IntrinsicPlasticity = RULE
    weighting: Literal["samples", "uniform"] = "samples"
    optimizer: ServerOptimizer = MEAN

    def start(self) -> Plasticity:
        values = _started(self.reservoir)
        return Plasticity(*values, self.optimizer.start(values))

    def client_update(self, received: Message, data: Data, context: RoundContext) -> WeightedSum:
        start, inputs = self.reservoir_of(received), [sequence.u for sequence in data()]
        before, after = plasticity_of(start), plasticity_of(self.rule.adapt(start, inputs))
        weight = float(len(inputs)) if self.weighting == "samples" else 1.0
        return WeightedSum.of((after[0] - before[0], after[1] - before[1]), weight)

    def read_update(self, parts: Message, context: RoundContext) -> WeightedSum:
        N = self.reservoir.n_units
        update = WeightedSum.from_message(parts).expect((N,), (N,))
        return check_weight(update, self.weighting, context.client)

    def server_update(
        self, state: Plasticity, total: WeightedSum, context: RoundContext
    ) -> Plasticity:
        (gain, shift), memory = self.optimizer.step(
            (state.gain, state.shift), total.mean(), state.memory
        )
        return Plasticity(*_settled(self.reservoir, gain, shift), memory)


@dataclass(frozen=True, kw_only=True)
class MomentPlasticity(Adapting):
    """Gains and shifts from the summed moments of all clients' drives: exact for any split.

    A few rounds are needed because the drives change with the gains. The server sees each client's
    mean input and the mean and spread of every unit's drive unless a protection hides them.

    Parameters
    ----------
    reservoir
        Its weights are frozen; its gains and shifts are the start.
    rule
        Its target mean and standard deviation (tanh units) and washout apply.
    damping
        Share of the way to the new gains that a round goes. All of it is
        quicker, but may swing about the target where inputs are weak against the recurrence.

    >>> from catchment import Plan, Reservoir, Recording, federate
    >>> reservoir = Reservoir(units=20, inputs=1, seed=1)
    >>> u = np.random.default_rng(0).uniform(-1, 1, (300, 1))
    >>> algorithm = MomentPlasticity(reservoir=reservoir)
    >>> federate(Plan(algorithm=algorithm, rounds=3), {"a": [Recording(u)]}).result.n_units
    20
    """

    reservoir: Reservoir
    rule: IntrinsicPlasticity = RULE
    damping: Factor = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if any((layer.activation != ADAPTIVE[0]).any() for layer in self.reservoir.layers):
            raise ValueError(f"moments set the plasticity of {ACTIVATIONS[ADAPTIVE[0]]} units only")

    def client_update(self, received: Message, data: Data, context: RoundContext) -> WeightedSum:
        reservoir = self.reservoir_of(received)
        us = reservoir.checked_all([sequence.u for sequence in data()])
        drives = self.rule.drives(reservoir, us)
        inputs = sum(
            (u[self.rule.washout :].sum(axis=0) for u in us), start=np.zeros(reservoir.n_inputs)
        )
        return WeightedSum((*drives.arrays, inputs), drives.weight)

    def read_update(self, parts: Message, context: RoundContext) -> WeightedSum:
        N, I = self.reservoir.n_units, self.reservoir.n_inputs
        return WeightedSum.from_message(parts).expect((N,), (N,), (I,))

    def server_update(
        self, state: Plasticity, total: WeightedSum, context: RoundContext
    ) -> Plasticity:
        mean, squares, inputs = total.mean()
        spread = np.sqrt(np.maximum(squares - mean**2, 0.0))
        a, c, still = self.standard()
        gain, _ = matched(mean, spread, a, c, still)
        gain = state.gain + self.damping * (gain - state.gain)
        shift = np.where(gain * spread > TINY, c, still) - gain * self._mean_drive(inputs)
        return Plasticity(*_settled(self.reservoir, gain, shift))

    def standard(self) -> tuple[float, float, float]:
        """Return gain and shift for a standard drive, and the shift for one that stands still."""
        mean, std = self.rule.target_mean, self.rule.target_std
        if not (abs(mean) < 1 and std**2 < 1 - mean**2):
            raise ValueError(f"no output of tanh has mean {mean} and standard deviation {std}")
        a, c = _standard_match(mean, std)
        if self.reservoir.bits is None:
            return a, c, float(np.arctanh(mean))
        return *refined(mean, std, (round(a, 6), round(c, 6))), inverse_tangent(mean)

    def _mean_drive(self, inputs: Array) -> Array:
        """Return the mean drives (N,) once all outputs have the target mean."""

        def times(matrix: SparseRows, x: Array) -> Array:
            """Return a product; in fixed point each row's sum is rounded at its end only."""
            if self.reservoir.bits is None:
                return np.asarray(matrix.to_dense() @ x)
            products = matrix.values * x[matrix.columns]
            return np.array([math.fsum(products[a:b]) for a, b in pairwise(matrix.starts)])

        means, below = [], inputs
        for layer in self.reservoir.layers:
            outputs = np.full(layer.n_units, self.rule.target_mean)
            means.append(times(layer.W, outputs) + times(layer.W_in, below) + layer.bias)
            below = outputs
        return np.concatenate(means)


def matched(mean: Array, spread: Array, a: float, c: float, still: float) -> tuple[Array, Array]:
    """Return gains and shifts (N,) for drives of given moments.

    Parameters
    ----------
    a, c, still
        Gain and shift for a standard drive, and the shift for one that does not vary: its unit
        keeps gain 1.

    >>> gain, shift = matched(np.array([0.5]), np.array([2.0]), 0.2, 0.1, 0.0)
    >>> gain, shift
    (array([0.1]), array([0.05]))
    """
    varies = spread > TINY * np.maximum(np.abs(mean), 1.0)
    gain = np.where(varies, a / np.where(varies, spread, 1.0), 1.0)
    shift = np.where(varies, c, still) - gain * mean
    return gain, shift


def _started(reservoir: Reservoir) -> tuple[Array, Array]:
    values = plasticity_of(reservoir)
    return values if reservoir.bits is None else plasticity_in_fixed_point(*values)


def _settled(reservoir: Reservoir, gain: Array, shift: Array) -> tuple[Array, Array]:
    """Return gains and shifts as clients begin with them: in fixed point, rounded and in reach."""
    if reservoir.bits is None:
        return gain, shift
    inside = np.clip(gain, 2 * LEAST_GAIN, LARGEST_GAIN - 1)
    return plasticity_in_fixed_point(inside, np.clip(shift, 1 - LARGEST_SHIFT, LARGEST_SHIFT - 1))


@lru_cache(maxsize=64)
def _standard_match(mean: float, std: float) -> tuple[float, float]:
    """Return (a, c) with which tanh(a z + c) of a standard Gaussian z has this mean and std."""
    from scipy.optimize import root

    nodes, weights = np.polynomial.hermite_e.hermegauss(96)
    weights = weights / weights.sum()

    def gap(ac: Array) -> Array:
        y = np.tanh(np.exp(ac[0]) * nodes + ac[1])
        first = float(weights @ y)
        return np.array([first - mean, float(weights @ (y - first) ** 2) - std**2])

    found = root(gap, np.array([np.log(std), np.arctanh(mean)]), tol=1e-12)
    # The solver also reports failure where it cannot improve on a solution exact to rounding.
    if not np.abs(gap(found.x)).max() < 1e-9:
        raise ArithmeticError(f"no gain gives mean {mean} and standard deviation {std}")
    return float(np.exp(found.x[0])), float(found.x[1])


@lru_cache(maxsize=64)
def refined(mean: float, std: float, near: tuple[float, float]) -> tuple[float, float]:
    """Return (a, c) near a solution known to some digits.

    >>> a, c = refined(0.0, 0.2, (0.2, 0.01))
    >>> round(a, 6), c
    (0.20823, 0.0)
    """
    with localcontext(CONTEXT):
        a, c = (Decimal(round(value, 6)) for value in near)
        for _ in range(NEWTON_STEPS):
            f, g, slopes = _gaps(a, c, Decimal(mean), Decimal(std) ** 2)
            if max(abs(f), abs(g)) < CLOSE:
                return float(a.quantize(UNIT)), float(c.quantize(UNIT)) + 0.0
            (f_a, f_c), (g_a, g_c) = slopes
            turn = f_a * g_c - f_c * g_a
            if not turn:
                break
            a, c = a - (f * g_c - g * f_c) / turn, c - (f_a * g - g_a * f) / turn
    raise ArithmeticError(f"no gain gives mean {mean} and standard deviation {std}")


def _gaps(
    a: Decimal, c: Decimal, m: Decimal, v: Decimal
) -> tuple[Decimal, Decimal, tuple[Pair, Pair]]:
    """Return by how much mean and variance are off, and their slopes in a and c."""
    whole = f = g = f_a = f_c = g_a = g_c = Decimal(0)
    for z, w in _nodes():
        y = hyperbolic_tangent(a * z + c)
        slope, off = w * (1 - y * y), y - m
        whole, f, g = whole + w, f + w * off, g + w * off * off
        f_a, f_c = f_a + slope * z, f_c + slope
        g_a, g_c = g_a + 2 * off * slope * z, g_c + 2 * off * slope
    slopes = (f_a / whole, f_c / whole), (g_a / whole, g_c / whole)
    return f / whole, g / whole - v, slopes


@lru_cache(maxsize=1)
def _nodes() -> list[Pair]:
    with localcontext(CONTEXT):
        nodes = [k * STEP for k in range(-FARTHEST * 64, FARTHEST * 64 + 1)]
        return [(z, (-z * z / 2).exp()) for z in nodes]


def hyperbolic_tangent(x: Decimal) -> Decimal:
    """Return tanh x in the precision of the context.

    >>> float(hyperbolic_tangent(Decimal("0.5")))
    0.46211715726000974
    """
    e = (-2 * abs(x)).exp()
    return ((1 - e) / (1 + e)).copy_sign(x)


def inverse_tangent(y: float) -> float:
    """Return artanh y, correctly rounded but in one case of 10^15.

    >>> inverse_tangent(0.5)
    0.5493061443340549
    """
    with localcontext(CONTEXT):
        x = Decimal(y)
        return float(((1 + x) / (1 - x)).ln() / 2)
