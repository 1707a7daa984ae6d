"""Diagonal reservoirs as nodes: fixed point as in `catchment.features.diagonal`.

Two Scans, one over the modes and one over what follows products and mixtures; what is between them
is done for all steps at once.
"""

from __future__ import annotations

import numpy as np

from catchment import Integers
from catchment.features import DiagonalReservoir
from catchment.features import diagonal as kernels
from catchment.features.diagonal import Wiring
from catchment_edge.onnx.activations import rounded
from catchment_edge.onnx.values import Value


def on(x: Value, rounder: float) -> Value:
    """Return numbers on the grid of a rounder, where fractions are fine enough for it."""
    return rounded(x, rounder) if x.builder.exact else x


def cut(x: Value) -> Value:
    return x.clip(-kernels.LIMIT, kernels.LIMIT)


def inputs_on_grid(u: Value) -> Value:
    return on(cut(u), kernels.R_INPUT)


def next_modes(drawn: Wiring, re: Value, im: Value, drive: Value) -> tuple[Value, Value]:
    """Return real and imaginary parts (.., k) of the modes after one step."""
    a, b = drawn.eigenvalues
    new = cut(on(re * a - im * b + cut(drive), kernels.R_STATE))
    return new, cut(on(re * b + im * a, kernels.R_STATE))


def products_and_mixtures(drawn: Wiring, u: Value, re: Value, im: Value) -> Value:
    """Return what the units (.., P + Q) that are no modes follow."""
    builder = u.builder
    ring = on(builder.concat([re, im], axis=-1), kernels.R_FACTOR)
    N, Q = 2 * drawn.eigenvalues.shape[1], drawn.M.shape[1]
    P, I = len(drawn.leak) - Q, len(drawn.W)
    parts = []
    if P:
        both = builder.concat([ring, u], axis=-1)
        one, other = factors(drawn.shifts, N, I, P)
        parts.append(on(ring.take(one, axis=-1) * both.take(other, axis=-1), kernels.R_STATE))
    if Q:
        places = turned(drawn.turns, N, Q)
        mixed = ring.take(places[0], axis=-1) * drawn.M[0]
        for k in (1, 2):
            mixed = mixed + ring.take(places[k], axis=-1) * drawn.M[k]
        parts.append(bent(mixed + drawn.M[3]))
    return builder.concat(parts, axis=-1)


def factors(shifts: Integers, N: int, I: int, P: int) -> tuple[Integers, Integers]:
    """Return the places (P,) of both factors: of states 0 to N - 1, and of inputs from N on."""
    i = np.arange(P)
    within, shift = i % N, shifts[i // N]
    return within, np.where(shift < 0, N + within % I, (within + shift) % N)


def turned(turns: Integers, N: int, Q: int) -> Integers:
    """Return the places (3, Q) of the states that mixed units see."""
    i = np.arange(Q)
    return (turns[i // N].T + i % N) % N


def bent(p: Value) -> Value:
    """Return mixtures bent nearly as tanh does."""
    x = on(p.clip(-3.0, 3.0), kernels.R_BEND)
    y = on(x * x, kernels.R_SQUARE)
    found = on(x * (y + 27.0) / (9.0 * y + 27.0), kernels.R_BENT)
    return found.clip(-kernels.TOP, kernels.TOP)


def followed(drawn: Wiring, q: Value, p: Value) -> Value:
    """Return the units (.., P + Q) after one step."""
    return on(q * (1.0 - drawn.leak) + p * drawn.leak, kernels.R_STATE)


def steps_rows(settings: DiagonalReservoir, u: Value) -> Value:
    """Return the features (B, T, n_base) of all steps of recordings (B, T, I)."""
    drawn, builder = settings.wiring, u.builder
    u = inputs_on_grid(u)
    k = drawn.eigenvalues.shape[1]
    rest = builder.zeros(u.length(0), k)

    def advance(states: list[Value], steps: list[Value]) -> tuple[list[Value], list[Value]]:
        new = list(next_modes(drawn, states[0], states[1], steps[0]))
        return new, new

    _, (re, im) = builder.over_time(advance, [rest, rest], [u @ drawn.W])
    if not len(drawn.leak):
        return builder.concat([u, re, im], axis=-1)

    def follow(states: list[Value], steps: list[Value]) -> tuple[list[Value], list[Value]]:
        new = [followed(drawn, states[0], steps[0])]
        return new, new

    still = builder.zeros(u.length(0), len(drawn.leak))
    _, (q,) = builder.over_time(follow, [still], [products_and_mixtures(drawn, u, re, im)])
    return builder.concat([u, re, im, q], axis=-1)


def mean_and_deviation(z: Value) -> Value:
    """Return means and deviations (B, 2 F) of steps (B, T, F), added one after another."""
    builder = z.builder
    first = z.part(0, 1, axis=1)
    about = z - first
    n = z.length(1).cast(builder.real)

    def add(states: list[Value], steps: list[Value]) -> tuple[list[Value], list[Value]]:
        return [states[0] + steps[0], states[1] + steps[0] * steps[0]], []

    zero = builder.zeros(z.length(0), z.length(2))
    (total, squares), _ = builder.over_time(add, [zero, zero], [about])
    shift = total / n
    spread = (squares / n - shift * shift).at_least(0.0).sqrt()
    return builder.concat([first.squeeze(1) + shift, spread], axis=-1)
