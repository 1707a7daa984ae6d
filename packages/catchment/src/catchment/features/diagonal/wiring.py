"""The numbers of a diagonal reservoir, drawn from its seed and rounded to their grids."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from catchment.arrays import Array, Integers
from catchment.features.echo_state.weights import (
    Purpose,
    Words,
    geometric,
    permutation,
    rounded,
    signs,
    uniform,
)

EIGENVALUE_DIGITS, INPUT_WEIGHT_DIGITS, LEAK_DIGITS = 19, 18, 16
MIX_DIGITS, BIAS_DIGITS = 12, 20
MIXED = 3  # states that a mixed unit sees


@dataclass(frozen=True, eq=False)
class Wiring:
    """Eigenvalues a + ib and input weights of k modes, and which states are multiplied or mixed."""

    W: Array  # (I, k)
    eigenvalues: Array  # (2, k) real and imaginary parts
    shifts: Integers  # (blocks,) of the products; -1: with inputs
    turns: Integers  # (blocks, 3) of the mixed units
    M: Array  # (4, Q) weights and biases of the mixed units
    leak: Array  # (P + Q,)


def most_products(n_states: int) -> int:
    """Return how many different products there are: with inputs, and of two states.

    >>> most_products(4)
    12
    """
    return n_states + n_states * (n_states // 2)


def wire(
    n_inputs: int,
    *,
    modes: int,
    products: int,
    mixed: int,
    seed: int,
    memory: tuple[float, float],
    frequencies: float,
    leak_rate: tuple[float, float],
    gain: float,
) -> Wiring:
    """Return the numbers of a reservoir; only operations that IEEE 754 rounds are used.

    >>> drawn = wire(1, modes=4, products=6, mixed=5, seed=0, memory=(1.0, 10.0), frequencies=1.0,
    ...              leak_rate=(0.1, 1.0), gain=2.0)
    >>> bool(((drawn.eigenvalues**2).sum(axis=0) < 1).all()), drawn.shifts.tolist()
    (True, [-1])
    """

    def words(purpose: Purpose) -> Words:
        return Words(seed=seed, layer=0, purpose=purpose)

    eigenvalues, moduli = _eigenvalues(words(Purpose.RECURRENT_VALUES), modes, memory, frequencies)
    N, places = 2 * modes, words(Purpose.RECURRENT_PLACES)
    shifts = np.concatenate([[-1], permutation(places, max(1, N // 2))])
    n_turns = -(-mixed // N)
    turns = [np.resize(permutation(places, N), MIXED) for _ in range(n_turns)]
    leak = uniform(words(Purpose.LEAK), products + mixed, *leak_rate)
    leak[: min(N, products)] = 1.0
    weight = gain / math.sqrt(MIXED)
    M = signs(words(Purpose.ACTIVATION), MIXED * mixed).reshape(MIXED, mixed) * weight
    bias = uniform(words(Purpose.BIAS), mixed, -1.0, 1.0)
    return Wiring(
        _input_weights(words(Purpose.INPUT_VALUES), n_inputs, moduli),
        eigenvalues,
        shifts[: -(-products // N)].astype(np.int64),
        np.array(turns, dtype=np.int64).reshape(n_turns, MIXED),
        np.vstack([rounded(M, MIX_DIGITS), rounded(bias, BIAS_DIGITS)]),
        rounded(leak, LEAK_DIGITS),
    )


def _input_weights(rng: Words, n_inputs: int, moduli: Array) -> Array:
    """Return weights (I, k): directions of length 1 - modulus, so that no state leaves the range.

    The sum of a state's weights on one channel's past is then at most 1.
    """
    W = uniform(rng, n_inputs * len(moduli), -1.0, 1.0).reshape(n_inputs, -1)
    length = np.zeros(len(moduli))
    for row in W:  # in this order on every machine
        length += row * row
    return rounded(W / np.sqrt(length) * (1.0 - moduli), INPUT_WEIGHT_DIGITS)


def _eigenvalues(
    rng: Words, modes: int, memory: tuple[float, float], frequencies: float
) -> tuple[Array, Array]:
    """Return real and imaginary parts (2, k), and the moduli (k,) that they have but for rounding.

    Each of k equal parts of the half circle has one angle, and the moduli m / (1 + m) are those of
    memories m that grow by one factor, in random order.
    """
    from catchment.features.diagonal.kernels import on_circle

    v = (np.arange(modes) + uniform(rng, modes)) / modes * frequencies
    memories = geometric(modes, *memory)[permutation(rng, modes)]
    moduli = memories / (1.0 + memories)
    directions = np.empty((2, modes))
    on_circle(v, directions)
    return rounded(moduli * directions, EIGENVALUE_DIGITS), moduli
