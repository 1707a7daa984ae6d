"""Echo states as an ONNX graph: a Scan over the steps of each layer.

In fixed point activations are the operations of `catchment.features.echo_state.kernels`. There
every product is exact and every rounding written down, so the same operations in the same order
give the same numbers in any runtime that follows IEEE 754. What float32 cannot hold is left to the
runtime's own functions.

A deviation in fixed point is `catchment.features.echo_state.run`'s: the sum of the squares of
integers d = k - m is exact there. Here d is split, d = 2^16 h + l, the sums of h h, h l and
l l are exact in float64, and carries are brought up before the two halves are added, which rounds
once, as the conversion of that sum to float64 does.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.features import EchoState, form
from catchment.features.echo_state import ACTIVATIONS, LINEAR_BOUND, ROUND, Program
from catchment.features.echo_state import kernels as exact
from catchment_edge.c.echo_state import dense
from catchment_edge.onnx.builder import INT64, Sequences, Value, in_fixed_point

MOST_DOUBLINGS = 32  # 2^k below is of k = round(20 log2 e) = 29 at most
HALF = 2.0**16
# Units from which a product with all weights is slow, and how many there should be for each weight
# of a unit before picking out its few states is faster.
LARGE_LAYER, FEW_WEIGHTS = 400, 16


def rounded(x: Value, rounder: float) -> Value:
    """Return numbers rounded by adding and subtracting, where fractions are fine enough for it."""
    return x + rounder - rounder if x.builder.exact else x


def copied_sign(size: Value, x: Value) -> Value:
    """Return sizes with the signs of x."""
    return size.builder.where(x < 0.0, -size, size)


def growth(y: Value) -> Value:
    """Return e^y - 1 for y in 0..20 with 26 binary digits after the point."""
    k = y * exact.LOG2E + ROUND - ROUND
    r = y - k * exact.LN2
    p = exact.C4 * r + (exact.C3 + exact.R27) - exact.R27
    for c in (exact.C2, exact.C1, exact.C0, 0.0):
        p = p * r + (c + exact.R27) - exact.R27
    p = p * r + (r + exact.R27) - exact.R27
    powers = y.builder.constant(np.ldexp(1.0, np.arange(MOST_DOUBLINGS)))
    scale = powers.take(k.cast(INT64), axis=0)
    return scale * p + (scale - 1.0)


def fixed_tanh(x: Value, G: float, top: float) -> Value:
    """Return tanh in fixed point of rounder G, at most `top` in absolute value."""
    e = growth(rounded((x + x).size(), exact.R26).at_most(exact.LARGEST))
    return copied_sign(rounded(e / (e + 2.0), G).at_most(top), x)


def fixed_sigmoid(x: Value, G: float, top: float) -> Value:
    """Return the logistic function in fixed point."""
    e = growth(rounded(x.size(), exact.R26).at_most(exact.LARGEST))
    upper = rounded((e + 1.0) / (e + 2.0), G).at_most(top)
    return x.builder.where(x < 0.0, 1.0 - upper, upper)


def fixed_sin(x: Value, G: float, top: float) -> Value:
    """Return sin in fixed point; arguments beyond 64 count as 64."""
    a = x.size().at_most(exact.FARTHEST)
    k = rounded(a, exact.R26) * exact.OVER_PI + ROUND - ROUND
    r = rounded(a - k * exact.PI, exact.R25)
    z = rounded(r * r, exact.R24)
    p = exact.S4 * z + (exact.S3 + exact.R36) - exact.R36
    p = p * z + (exact.S2 + exact.R30) - exact.R30
    p = p * z + (exact.S1 + exact.R30) - exact.R30
    p = p * z + (exact.S0 + exact.R29) - exact.R29
    p = p * z + exact.R27 - exact.R27
    p = p * r + (r + exact.R27) - exact.R27
    p = rounded(p, G).clip(-top, top)
    odd = k - 2.0 * (k * 0.5).floor()
    return copied_sign(p * (1.0 - 2.0 * odd), x)


def fixed_linear(x: Value, G: float) -> Value:
    """Return x in fixed point, cut off."""
    return rounded(x, G).clip(-LINEAR_BOUND, LINEAR_BOUND)


def activated(name: str, p: Value, fixed: tuple[()] | tuple[float, float]) -> Value:
    """Return an activation of pre-activations, in fixed point of a rounder and a top if given."""
    if not fixed:
        plain = {"tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "sin": "Sin"}
        return p if name == "identity" else p.apply(plain[name])
    G, top = fixed
    match name:
        case "tanh":
            return fixed_tanh(p, G, top)
        case "sigmoid":
            return fixed_sigmoid(p, G, top)
        case "sin":
            return fixed_sin(p, G, top)
        case "relu":
            return fixed_linear(p.at_least(0.0), G)
    return fixed_linear(p, G)


def mixed(codes: np.ndarray, p: Value, fixed: tuple[()] | tuple[float, float]) -> Value:
    """Return the activations of units (.., N), each of its own kind.

    Parameters
    ----------
    codes
        (N,) places in ACTIVATIONS.
    """
    kinds = sorted(set(codes.tolist()))
    if len(kinds) == 1:
        return activated(ACTIVATIONS[kinds[0]], p, fixed)
    # Each kind is computed for its own units; the last step puts them back into their order.
    places = [np.flatnonzero(codes == kind) for kind in kinds]
    parts = [
        activated(ACTIVATIONS[kind], p.take(where, axis=-1), fixed)
        for kind, where in zip(kinds, places, strict=True)
    ]
    order = np.argsort(np.concatenate(places), kind="stable")
    return p.builder.concat(parts, axis=-1).take(order, axis=-1)


def pooled(z: Value, n: Value, pool: str, *, digits: int | None) -> Value:
    """Return the features (B, F or 2 F) of recordings from those (B, T, n_base) of their steps.

    Parameters
    ----------
    n
        T, as a fraction.
    digits
        Of the states in fixed point; None if they are not, or fractions are float32.
    """
    builder = z.builder
    if pool == "last":
        return z.take(-1, axis=1)
    if pool == "max":
        return z.max(axis=1)
    if digits is not None:
        total = z.sum(axis=1)
        mean = total / n
        if pool == "mean":
            return mean
        return builder.concat([mean, exact_deviation(z, total, n, digits)], axis=-1)
    if pool == "mean":
        return z.sum(axis=1) / n
    # About the first step, for accuracy.
    first = z.part(0, 1, axis=1)
    about = z - first
    shift = about.sum(axis=1) / n
    variance = (about * about).sum(axis=1) / n - shift * shift
    return builder.concat([first.squeeze(1) + shift, variance.at_least(0.0).sqrt()], axis=-1)


def exact_deviation(z: Value, total: Value, n: Value, digits: int) -> Value:
    """Return standard deviations (B, F) of steps (B, T, F) in fixed point with sums `total`."""
    unit = 2.0**digits
    S1 = total * unit
    m = (S1 / n).floor()
    whole = z * unit - m.unsqueeze(1)
    h = (whole * (1.0 / HALF)).floor()
    l = whole - h * HALF
    high, cross, low = ((one * other).sum(axis=1) for one, other in ((h, h), (h, l), (l, l)))
    # The sum is high 2^32 + cross 2^17 + low; what of the last two passes 2^32 goes to the first.
    above = (cross * 2.0**-15).floor()
    up = (low * 2.0**-32).floor()
    rest = (cross - above * 2.0**15) * 2.0**17 + (low - up * 2.0**32)
    carry = (rest * 2.0**-32).floor()
    squares = (high + above + up + carry) * 2.0**32 + (rest - carry * 2.0**32)
    d = (S1 - n * m) / n
    return (squares / n - d * d).sqrt() * (1.0 / unit)


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer: recurrent weights (N, N), input weights (I, N) and offsets (N,), transposed."""

    W: NDArray[Any]
    W_in: NDArray[Any]
    offset: NDArray[Any]
    program: Program

    @classmethod
    def of(cls, program: Program) -> Layer:
        N, matrix = program.n_units, dense(program)
        return cls(matrix[:, :N].T, matrix[:, N:-1].T, matrix[:, -1], program)

    def recurrent(self, x: Value) -> Value:
        """Return what states (B, N) add to the sums of units; few products if weights are few."""
        N = len(self.W)
        most = int(np.count_nonzero(self.W, axis=0).max())
        if N < LARGE_LAYER or FEW_WEIGHTS * most > N:
            return x @ self.W
        # Row k has the k-th weight of every unit, largest first, and whose state it multiplies.
        places = np.argsort(-np.abs(self.W), axis=0, kind="stable")[:most]
        weights = np.take_along_axis(self.W, places, axis=0)
        return (x.take(places, axis=1) * weights).sum(axis=1)

    def step(self, x: Value, drive: Value) -> Value:
        """Return the states (.., N) after one step."""
        leak = self.program.leak.astype(np.float64)
        fixed = self.program.rounding if x.builder.exact else ()
        y = mixed(self.program.activation, self.recurrent(x) + drive, fixed)
        if (leak == 1.0).all():
            return y
        follows = x * (1.0 - leak) + y * leak
        return rounded(follows, fixed[0]) if fixed else follows


@form("onnx", EchoState)
def rows(features: EchoState, given: Sequences) -> Value:
    """Return the feature rows (B, T - washout, F), or (B, F) if pooled."""
    u, reservoir = given.u, features.reservoir
    if reservoir.bits is not None:
        cut = u.clip(-reservoir.range, reservoir.range)
        u = rounded(cut, np.ldexp(ROUND, -reservoir.bits).item())
    builder, layers = u.builder, [Layer.of(program) for program in features.programs]
    L, M = reservoir.cut
    whole = L == 0 or not builder.exact or (given.steps is not None and given.steps <= L)
    states = run(layers, u) if whole else cut_states(layers, u, L, M)
    z = selected(features, u, states)
    bits, digits = (
        features.feature_bits,
        features.feature_digits if features.feature_bits else None,
    )
    z = pooled_parts(features, z, given) if features.pool else given.after(z, features.washout)
    if digits is None or not isinstance(bits, int):
        return z
    if features.pool:
        return in_fixed_point(z, digits, bits)
    if builder.exact:
        rounder = np.ldexp(ROUND, -digits)
        return z + rounder - rounder
    unit = np.ldexp(1.0, digits)
    return (z * unit).rint() / unit


def run(layers: list[Layer], u: Value, going: Value | None = None) -> Value:
    """Return the states (B, T, N) of all layers, from rest.

    Parameters
    ----------
    going
        (B, T, 1) ones where states go on, zeros where they are held at rest.
    """
    found, below = [], u
    for layer in layers:
        rest = u.builder.zeros(u.length(0), len(layer.offset))

        def body(
            states: list[Value], steps: list[Value], layer: Layer = layer
        ) -> tuple[list[Value], list[Value]]:
            x = layer.step(states[0], steps[0])
            x = x if len(steps) == 1 else x * steps[1]
            return [x], [x]

        inputs = [below @ layer.W_in + layer.offset, *([] if going is None else [going])]
        _, (below,) = u.builder.over_time(body, [rest], inputs)
        found.append(below)
    return u.builder.concat(found, axis=-1)


def cut_states(layers: list[Layer], u: Value, L: int, M: int) -> Value:
    """Return the states (B, T, N) of sequences that are cut at L, 2L, ..., as fixed point defines.

    Every part is a sequence of its own beside the others, started from rest M steps before it. The
    first, which has no steps before it, is held at rest for as long. A sequence of up to L steps
    is one part, without a warm-up.
    """
    builder = u.builder
    B, T, I = u.length(0), u.length(1), len(layers[0].W_in)
    several = T > L
    warm = builder.where(several, M, builder.constant(np.array(0)))
    long = builder.where(several, builder.constant(np.array(L)), T)
    n_parts = (T + long - 1) / long
    begins = (builder.arange(0, n_parts) * long - warm).unsqueeze(1)
    places = begins + builder.arange(0, warm + long)  # (parts, warm + long)
    inside = places.at_least(0).at_most(T - 1)
    lanes = u.take(inside, axis=1).reshape(-1, warm + long, I)
    going = builder.op(
        "Expand",
        (places > -1).cast(builder.real),
        builder.concat([builder.vector([B]), builder.op("Shape", places)], axis=0),
    )
    going = going.reshape(-1, warm + long, 1)
    states = run(layers, lanes, going).part(warm, warm + long, axis=1)
    n_units = sum(len(layer.offset) for layer in layers)
    return states.reshape(B, n_parts * long, n_units).part(0, T, axis=1)


def selected(features: EchoState, u: Value, states: Value) -> Value:
    """Return the features (.., n_base) of steps: the constant, the inputs, the states."""
    parts = []
    if features.bias:
        last = u.take([0], axis=-1)
        parts.append(last * 0.0 + 1.0)
    if features.input:
        parts.append(u)
    if features.state:
        parts.append(states)
    return u.builder.concat(parts, axis=-1)


def pooled_parts(features: EchoState, z: Value, given: Sequences) -> Value:
    """Return the rows (B, F) of the features (B, T, n_base) of all steps."""
    assert features.pool is not None
    builder, skip, parts = z.builder, features.washout, features.segments
    digits = features.reservoir.bits if builder.exact else None
    if given.steps is not None:
        n_rows = given.steps - skip
        edges: list[int | Value] = [skip + n_rows * k // parts for k in range(parts + 1)]
    else:
        counted = z.length(1) - skip
        edges = [counted * k / parts + skip for k in range(parts + 1)]
    found = []
    for first, last in pairwise(edges):
        some = z.part(first, last, axis=1)
        n = builder.value(last, np.dtype(np.int64)) - first
        found.append(pooled(some, n.cast(builder.real), features.pool, digits=digits))
    return builder.concat(found, axis=-1)
