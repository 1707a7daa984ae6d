"""Federated intrinsic plasticity: gains and shifts that suit everybody's data, 2 N numbers a round.

`FederatedPlasticity` is FedIP (De Caro, Gallicchio, Bacciu, ESANN 2022): clients adapt the gains
and shifts they are sent, the server averages them by the number of sequences. The mean of adapted
values depends on how the data are cut.

`MomentPlasticity` does not: clients send the sums and squared sums of their units' drives and the
sums of their inputs, and the server sets the gains and shifts with which Gaussian drives of those
moments give outputs of the target mean and standard deviation. The result is that of pooled data
for any split. The mean drive that counts is the one to come: once all outputs have mean m, a unit's
is the row sum of W times m, plus W_in times the mean input, plus its bias. (To aim at the mean
measured before a change of gains would overshoot, and for gains that make W expand, diverge.)

Both make a reservoir, not a readout: train one on the result with a second plan.

With a reservoir in fixed point, gains and shifts have 32 binary digits after the point, at clients
and at the server, and one plan has the same bits on every processor. What clients send is exact:
changes of gains times whole weights, or sums of drives. Their sum is exact in any order while it
needs no more than 53 bits (changes times weights up to 2^21, sums of squared drives up to 2^17),
and else that of the order of their names; secure aggregation rounds only once, at its end. As
mathematical libraries differ in their last digits, the gain and shift (a, c) that give a Gaussian
drive outputs of given moments are then solved in decimal arithmetic, which does not: Newton's steps
from a solution known to some digits,

    mean of y = m,  mean of (y - m)^2 = v,   y = tanh(a z + c),   z standard normal,

with means by the trapezoidal rule, whose error falls exponentially with the step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np

from catchment.arrays import Array, Factor
from catchment.errors import UploadError
from catchment.features import Reservoir
from catchment.features.echo_state import ACTIVATIONS, SparseRows
from catchment.federation import Algorithm, Data, RoundContext, WeightedSum, check_weight
from catchment.wire import Message, Shape, Structure
from catchment_research.learn.optimizers import Arrays, Mean, ServerOptimizer
from catchment_research.plasticity.rule import (
    ADAPTIVE,
    LARGEST_GAIN,
    LARGEST_SHIFT,
    LEAST_GAIN,
    IntrinsicPlasticity,
    plasticity_in_fixed_point,
    plasticity_of,
)

RULE = IntrinsicPlasticity()
MEAN = Mean()
TINY = 1e-12
CONTEXT = Context(prec=34)
STEP, FARTHEST = Decimal(1) / 64, 9  # of the rule; beyond it is a mass of 2e-19
MOST_STEPS, CLOSE, UNIT = 20, Decimal("1e-26"), Decimal("1e-24")


@dataclass(frozen=True, eq=False)
class Plasticity(Structure):
    """Gains (N,) and shifts (N,) so far, and what the server's optimizer remembers."""

    gain: Annotated[Array, Shape("units")]
    shift: Annotated[Array, Shape("units")]
    memory: Arrays = ()

    def expect(self, n_units: int) -> Plasticity:
        """Return self; UploadError if it is that of another number of units."""
        if self.gain.shape != (n_units,):
            raise UploadError("shape", f"{self.gain.shape} gains came for {n_units} units")
        return self


class Adapting(Algorithm[Plasticity, WeightedSum, Reservoir]):
    """What both ways end with."""

    reservoir: Reservoir

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

    def broadcast(self, state: Plasticity, context: RoundContext) -> Message:
        return Plasticity(state.gain, state.shift).parts()

    def client_update(self, received: Message, data: Data, context: RoundContext) -> WeightedSum:
        before = Plasticity.from_message(received).expect(self.reservoir.n_units)
        inputs = [sequence.u for sequence in data()]
        start = self.reservoir.with_plasticity(before.gain, before.shift)
        gain, shift = plasticity_of(self.rule.adapt(start, inputs))
        weight = float(len(inputs)) if self.weighting == "samples" else 1.0
        return WeightedSum.of((gain - before.gain, shift - before.shift), weight)

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

    def start(self) -> Plasticity:
        return Plasticity(*_started(self.reservoir))

    def broadcast(self, state: Plasticity, context: RoundContext) -> Message:
        return state.parts()

    def client_update(self, received: Message, data: Data, context: RoundContext) -> WeightedSum:
        now = Plasticity.from_message(received).expect(self.reservoir.n_units)
        reservoir = self.reservoir.with_plasticity(now.gain, now.shift)
        us = reservoir.checked_all([sequence.u for sequence in data()])
        drives = self.rule.drives(reservoir, us)
        inputs = sum(
            (u[self.rule.washout :].sum(axis=0) for u in us), start=np.zeros(reservoir.n_inputs)
        )
        return WeightedSum((drives.total, drives.squares, inputs), drives.n)

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
        for _ in range(MOST_STEPS):
            f, g, slopes = _gaps(a, c, Decimal(mean), Decimal(std) ** 2)
            if max(abs(f), abs(g)) < CLOSE:
                return float(a.quantize(UNIT)), float(c.quantize(UNIT)) + 0.0
            (f_a, f_c), (g_a, g_c) = slopes
            turn = f_a * g_c - f_c * g_a
            if not turn:
                break
            a, c = a - (f * g_c - g * f_c) / turn, c - (f_a * g - g_a * f) / turn
    raise ArithmeticError(f"no gain gives mean {mean} and standard deviation {std}")


Pair = tuple[Decimal, Decimal]
Gaps = tuple[Decimal, Decimal, tuple[Pair, Pair]]


def _gaps(a: Decimal, c: Decimal, m: Decimal, v: Decimal) -> Gaps:
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
