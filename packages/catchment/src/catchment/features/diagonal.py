"""`DiagonalReservoir`: a linear recurrence of independent modes, and products or mixtures of them.

    x_i(t) = lambda_i x_i(t-1) + w_i u(t)                        complex, one number per mode
    q_j(t) = (1 - a_j) q_j(t-1) + a_j x_k(t) x_l(t)              a product, followed slowly
    q_j(t) = (1 - a_j) q_j(t-1) + a_j f(m_j x(t) + b_j)          or a mixture of three states

    f(x) = x (27 + x^2) / (27 + 9 x^2), |x| at most 3            which is nearly tanh

Linear recurrences with nonlinear readouts approximate any fading memory (Boyd and Chua 1985;
Grigoryeva and Ortega 2018). A step costs a few operations per feature and no matrix product.

All is in fixed point. Inputs have 24 binary digits after the point and states 28, both at most 8 in
absolute value. Eigenvalues have 19 digits and input weights 18, so that a step's sum is a multiple
of 2^-47 below 32 and exact, whether or not its products are fused. What enters products and
mixtures is a state rounded to 23 digits: a product of two has 52 bits. The leaks of products and
mixed units have 16 digits. A mixture is bent by x (27 + x^2) / (27 + 9 x^2), x at most 3 in
absolute value, which is within 0.024 of tanh and takes half its time: x has 22 digits and its
square 20, so that all but the division is exact. Each rounding is by addition and subtraction of
1.5 2^(52 - digits).

States lie in a ring, real parts before imaginary ones, which is written twice, so that a unit i of
a block reads state i plus the block's shift: neighbors read neighbors, and no index is looked up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from catchment.arrays import Array, Factor, Integers, NonNegativeInt
from catchment.compiling import njit
from catchment.features.base import Arrays, FeatureMap, warn_of_clipping
from catchment.features.echo_state.kernels import SAFE_MATH, fixed_sin
from catchment.features.echo_state.weights import (
    ROUND,
    Purpose,
    Words,
    geometric,
    permutation,
    rounded,
    signs,
    uniform,
)
from catchment.parallel import ordered_map

Nonlinearity = Literal["products", "mix", "both", "none"]
# What "auto" is, where every step has a target, and where a recording has one.
MEMORY = {"step": (1.0, 10.0), "recording": (1.0, 30.0)}
STATES = 0.15  # share of the units
BLOCK_STEPS = 4096  # steps whose rows are made together where rows are pooled

EIGENVALUE_DIGITS, INPUT_WEIGHT_DIGITS, LEAK_DIGITS = 19, 18, 16
MIX_DIGITS, BIAS_DIGITS = 12, 20
MIXED = 3  # states that a mixed unit sees
LIMIT = 8.0  # largest absolute value of inputs, drives and states
INPUT_DIGITS, STATE_DIGITS, FACTOR_DIGITS, BENT_DIGITS = 24, 28, 23, 24
R_INPUT, R_STATE, R_FACTOR, R_BENT = (
    ROUND / 2**digits for digits in (INPUT_DIGITS, STATE_DIGITS, FACTOR_DIGITS, BENT_DIGITS)
)
R_BEND, R_SQUARE = ROUND / 2**22, ROUND / 2**20  # of what is bent, and of its square
TOP = 1.0 - 2.0**-BENT_DIGITS


@dataclass(frozen=True)
class DiagonalReservoir(FeatureMap):
    """A diagonal linear reservoir with products or mixtures of its states.

    Its arithmetic is in fixed point, the same bits on every machine: inputs beyond 8 in absolute
    value are cut off there, so pass inputs of standard deviation about 1.

    Parameters
    ----------
    units
        Features beside the inputs, as many as an `EchoState` of so many units has.
    seed
        Names the random draws.
    nonlinearity
        What those units are that are not states: "products" of two states or of a state and an
        input, which suit outputs that multiply inputs; "mix", nearly the tanh of a weighted sum of
        three states, which suits smooth series; "both", half of each; "none", all are states.
    states
        How many units are states, an even number: real and imaginary parts. "auto" is 15 in
        100, or more where so few have too few products.
    memory
        Mean age, in steps, of what the modes with the shortest and the longest memory remember.
        "auto" is 1 to 10 where every step has a target, and 1 to 30 where a recording has one.
    frequencies
        The fastest oscillation of a mode, as a share of half a turn per step. Take less than 1 for
        series that are smooth.
    leak_rate
        Least and largest of the leaks with which products and mixed units are followed.
    gain
        Length of a mixed unit's weights.
    pool
        "auto": mean and standard deviation over a recording that has one target, None for a row
        per step where every step has its own. None or "mean_std" to choose.
    washout
        Steps at the start of each recording that give no features.
    bits
        Bits of the features; "auto" is 16 for classes and 24 for numbers, None no rounding.

    >>> built = DiagonalReservoir(40).build(3, per_step=True)
    >>> built.n_features, built.rows([np.zeros((5, 3))])[0].shape
    (43, (5, 43))
    >>> DiagonalReservoir(40).build(3, per_step=False).n_features
    86
    """

    units: Annotated[int, Ge(2)] = 200
    seed: int = 0
    nonlinearity: Nonlinearity = "both"
    states: int | Literal["auto"] = "auto"
    memory: tuple[float, float] | Literal["auto"] = "auto"
    frequencies: Factor = 1.0
    leak_rate: tuple[float, float] = (0.1, 1.0)
    gain: Annotated[float, Gt(0), Le(16)] = 2.0
    pool: Literal["auto", "mean_std"] | None = "auto"
    washout: NonNegativeInt = 0
    bits: int | Literal["auto"] | None = "auto"
    n_inputs: int | None = None

    standardize = True
    class_bits = 16  # they are far below their bounds

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nonlinearity == "none" and self.units % 2:
            raise ValueError(f"units is {self.units}; give an even number where all are states")
        if self.states != "auto" and (
            self.states % 2 or not 2 <= self.states <= self.units or self.nonlinearity == "none"
        ):
            raise ValueError(
                f"states is {self.states} of {self.units} units with nonlinearity "
                f"{self.nonlinearity!r}; give an even number from 2 to the units, or 'auto'"
            )
        if self._products > most_products(self._states):
            raise ValueError(
                f"{self._states} states have {most_products(self._states)} products and "
                f"{self._products} are asked for; ask for more states"
            )
        pairs: list[tuple[str, Any, float, float]] = [("leak_rate", self.leak_rate, 2.0**-16, 1.0)]
        if self.memory != "auto":
            pairs.append(("memory", self.memory, 0.01, 10_000.0))
        for name, pair, least, most in pairs:
            if len(pair) != 2 or not least <= pair[0] <= pair[1] <= most:
                raise ValueError(
                    f"{name} is {pair}; give (low, high) between {least:g} and {most:g}"
                )

    def settled(self, n_inputs: int, *, per_step: bool, classes: bool) -> dict[str, Any]:
        pool = (None if per_step else "mean_std") if self.pool == "auto" else self.pool
        memory = MEMORY["step" if pool is None else "recording"]
        return {"pool": pool, "memory": memory if self.memory == "auto" else self.memory}

    @property
    def _states(self) -> int:
        if self.nonlinearity == "none":
            return self.units
        if self.states != "auto":
            return self.states
        few = max(2, 2 * round(STATES * self.units / 2))
        return next(n for n in count(few, 2) if n + most_products(n) >= self.units)

    @property
    def _products(self) -> int:
        rest = self.units - self._states
        return {"products": rest, "both": rest - rest // 2}.get(self.nonlinearity, 0)

    @property
    def _mixed(self) -> int:
        return self.units - self._states - self._products

    @property
    def _n_base(self) -> int:
        return self.known_inputs + self.units

    @property
    def per_step(self) -> bool:
        return self.pool is None

    @property
    def n_features(self) -> int:
        return self._n_base * (1 if self.pool is None else 2)

    @property
    def bounds(self) -> Array:
        """Largest absolute value (F,): inputs and states 8, products 64, mixtures 1."""
        sizes = (self.known_inputs + self._states, self._products, self._mixed)
        largest = np.repeat([LIMIT, LIMIT**2, 1.0], sizes)
        return largest if self.pool is None else np.tile(largest, 2)

    @property
    def cost(self) -> float:
        """Operations per step, about: eight a mode, four a product, 16 a mixture."""
        modes = self._states // 2
        return 2.0 * modes * (self.known_inputs + 4) + 4.0 * self._products + 16.0 * self._mixed

    def names(self) -> list[str]:
        modes = self._states // 2
        base = [f"u{c}" for c in range(self.known_inputs)]
        base += [f"{part}{i}" for part in ("re", "im") for i in range(modes)]
        base += [f"product{j}" for j in range(self._products)]
        base += [f"mixed{j}" for j in range(self._mixed)]
        if self.pool is None:
            return base
        return [f"{kind}_{name}" for kind in ("mean", "std") for name in base]

    @cached_property
    def wiring(self) -> Wiring:
        """Everything that is drawn from the seed; only by operations that IEEE 754 rounds.

        >>> drawn = DiagonalReservoir(19, states=8, memory=(1.0, 10.0), n_inputs=1).wiring
        >>> bool(((drawn.eigenvalues**2).sum(axis=0) < 1).all()), drawn.shifts.tolist()
        (True, [-1])
        """
        assert self.memory != "auto"
        N, products, mixed = self._states, self._products, self._mixed

        def words(purpose: Purpose) -> Words:
            return Words(seed=self.seed, layer=0, purpose=purpose)

        # Each of k equal parts of the half circle has one angle, and the moduli m / (1 + m) are
        # those of memories m that grow by one factor, in random order.
        k, drawn, directions = N // 2, words(Purpose.RECURRENT_VALUES), np.empty((2, N // 2))
        on_circle((np.arange(k) + uniform(drawn, k)) / k * self.frequencies, directions)
        memories = geometric(k, *self.memory)[permutation(drawn, k)]
        moduli = memories / (1.0 + memories)
        # Input weights (I, k) are directions of length 1 - modulus, so that no state leaves the
        # range: the sum of a state's weights on one channel's past is then at most 1.
        drawn, length = words(Purpose.INPUT_VALUES), np.zeros(k)
        W = uniform(drawn, self.known_inputs * k, -1.0, 1.0).reshape(self.known_inputs, k)
        for row in W:  # in this order on every machine
            length += row * row
        places = words(Purpose.RECURRENT_PLACES)
        shifts = np.concatenate([[-1], permutation(places, max(1, N // 2))])
        n_turns = -(-mixed // N)
        turns = [np.resize(permutation(places, N), MIXED) for _ in range(n_turns)]
        leak = uniform(words(Purpose.LEAK), products + mixed, *self.leak_rate)
        leak[: min(N, products)] = 1.0
        weight = self.gain / math.sqrt(MIXED)
        M = signs(words(Purpose.ACTIVATION), MIXED * mixed).reshape(MIXED, mixed) * weight
        bias = uniform(words(Purpose.BIAS), mixed, -1.0, 1.0)
        return Wiring(
            rounded(W / np.sqrt(length) * (1.0 - moduli), INPUT_WEIGHT_DIGITS),
            rounded(moduli * directions, EIGENVALUE_DIGITS),
            shifts[: -(-products // N)].astype(np.int64),
            np.array(turns, dtype=np.int64).reshape(n_turns, MIXED),
            np.vstack([rounded(M, MIX_DIGITS), rounded(bias, BIAS_DIGITS)]),
            rounded(leak, LEAK_DIGITS),
        )

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        self.wiring  # noqa: B018  # drawn once, before threads ask for it

        def work(u: Array) -> Array:
            self.after_washout(u)
            rows, carried = self._advanced(u, 0, ())
            return rows if self.pool is None else self.row_of(carried[3], len(u) - self.washout)

        return list(ordered_map(work, inputs, threads=threads))

    def _advanced(self, u: Array, steps: int, carried: Arrays) -> tuple[Array, Arrays]:
        """Return the rows of the next steps u (T, I), not checked, and what to carry then.

        Of a pool there are no rows, but their moments (3, n) are carried behind the state: the
        first row, and sums of differences to it and of their squares.
        """
        warn_of_clipping(np.count_nonzero(np.abs(u) > LIMIT), u.size, LIMIT)
        drawn, k = self.wiring, self._states // 2
        # Modes, their ring, and other units, at rest before the first step.
        rest = (np.vstack([drawn.eigenvalues, np.zeros((2, k))]), np.zeros(4 * k))
        held = carried[:3] if carried else (*rest, np.zeros(len(drawn.leak)))
        state, moments = tuple(array.copy() for array in held), carried[3:]
        weights = (drawn.W, drawn.shifts, drawn.turns, drawn.M, drawn.leak)
        found = [np.empty((0, self._n_base))]
        for at in range(0, len(u), BLOCK_STEPS):
            part = np.clip(np.ascontiguousarray(u[at : at + BLOCK_STEPS]), -LIMIT, LIMIT)
            first = min(max(0, self.washout - steps - at), len(part))
            z = np.empty((len(part) - first, self._n_base))
            run(part + R_INPUT - R_INPUT, first, *weights, *state, z)
            if self.pool is None:
                found.append(z)
            elif len(z):
                sums = moments[0].copy() if moments else np.zeros((3, self._n_base))
                sums[0] = sums[0] if moments else z[0]
                add_moments(z, *sums)
                moments = (sums,)
        return np.concatenate(found), (*state, *moments)

    def row_of(self, moments: Array, n_steps: int) -> Array:
        """Return the row (1, F) of a pool over so many steps."""
        reference, first, second = moments
        shift = first / n_steps
        spread = np.sqrt(np.maximum(second / n_steps - shift * shift, 0.0))
        return np.concatenate([reference + shift, spread])[None]

    def go_on(self, u: Array, steps: int, carried: Arrays) -> tuple[Array, Arrays]:
        """Return the rows of the next steps; states and the moments of a pool are carried."""
        rows, kept = self._advanced(self.checked_inputs(u), steps, carried)
        none = np.empty((0, self.n_features))
        return self.checked_rows(rows) if self.pool is None else none, kept

    def at_end(self, steps: int, carried: Arrays) -> Array:
        n = steps - self.washout
        if self.pool is None or n < 1:
            return super().at_end(steps, carried)
        return self.checked_rows(self.row_of(carried[3], n))


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


@njit(cache=True, error_model="numpy")
def on_circle(v, out):
    """cos and sin (2, k) of pi v for v in 0..1, in fixed point of 24 digits."""
    for i in range(len(v)):
        out[0, i] = fixed_sin(math.pi * (0.5 - v[i]), R_BENT, TOP)
        out[1, i] = fixed_sin(math.pi * v[i], R_BENT, TOP)


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def _cut(x):
    return min(max(x, -LIMIT), LIMIT)


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def _advance(drive, modes, ring):
    """Advance the rows re, im of modes, whose first two are a, b, and round them into the ring."""
    k = modes.shape[1]
    a, b, re, im = modes[0], modes[1], modes[2], modes[3]
    for i in range(k):
        x, y = re[i], im[i]
        re[i] = _cut(a[i] * x - b[i] * y + _cut(drive[i]) + R_STATE - R_STATE)
        im[i] = _cut(b[i] * x + a[i] * y + R_STATE - R_STATE)
    for i in range(k):
        ring[i] = re[i] + R_FACTOR - R_FACTOR
    for i in range(k):
        ring[k + i] = im[i] + R_FACTOR - R_FACTOR
    for i in range(2 * k):
        ring[2 * k + i] = ring[i]


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def _follow(leak, p, q):
    """q follows p: (1 - leak) q + leak p in fixed point."""
    for i in range(len(q)):
        q[i] = (1.0 - leak[i]) * q[i] + leak[i] * p[i] + R_STATE - R_STATE


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def _products(u, ring, shifts, p):
    """Products of states and inputs, where the shift is negative, or of two states."""
    N, I = len(ring) // 2, len(u)
    for block in range(len(shifts)):
        mine = p[block * N : min(block * N + N, len(p))]
        if shifts[block] < 0:
            for c in range(I):
                for i in range(c, len(mine), I):
                    mine[i] = ring[i] * u[c] + R_STATE - R_STATE
        else:
            other = ring[shifts[block] :]
            for i in range(len(mine)):
                mine[i] = ring[i] * other[i] + R_STATE - R_STATE


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def _mixtures(ring, turns, M, p):
    """A bias and three states each, weighted, and bent."""
    N = len(ring) // 2
    for block in range(len(turns)):
        first = block * N
        mine = p[first : min(first + N, len(p))]
        one, two, three = ring[turns[block, 0] :], ring[turns[block, 1] :], ring[turns[block, 2] :]
        m1, m2, m3, bias = M[0, first:], M[1, first:], M[2, first:], M[3, first:]
        for i in range(len(mine)):
            mine[i] = m1[i] * one[i] + m2[i] * two[i] + m3[i] * three[i] + bias[i]
    for i in range(len(p)):
        x = min(max(p[i], -3.0), 3.0) + R_BEND - R_BEND
        y = x * x + R_SQUARE - R_SQUARE
        bent = x * (27.0 + y) / (27.0 + 9.0 * y) + R_BENT - R_BENT
        p[i] = min(max(bent, -TOP), TOP)


@njit(nogil=True, cache=True, fastmath=SAFE_MATH, error_model="numpy")
def run(u, first, W, shifts, turns, M, leak, modes, ring, q, out):
    """Advance over inputs u (T, I), and put the rows of the steps from the first on into out.

    Rows are inputs, real parts, imaginary parts, products, mixed units. `modes` (4, k) are real and
    imaginary parts of the eigenvalues and of the states; these, and the products and mixed units q,
    are advanced in place. `M` (4, Q) holds the weights of mixed units and their biases.
    """
    T, I = u.shape
    k, Q = modes.shape[1], M.shape[1]
    P = len(q) - Q
    drive, p = np.empty(k), np.empty(P + Q)
    for t in range(T):
        drive[:] = 0.0
        for c in range(I):
            value = u[t, c]
            for i in range(k):
                drive[i] += W[c, i] * value
        _advance(drive, modes, ring)
        if P:
            _products(u[t], ring, shifts, p[:P])
        if Q:
            _mixtures(ring, turns, M, p[P:])
        _follow(leak, p, q)
        if t >= first:
            row = out[t - first]
            row[:I] = u[t]
            row[I : I + k] = modes[2]
            row[I + k : I + 2 * k] = modes[3]
            row[I + 2 * k :] = q


@njit(nogil=True, cache=True, error_model="numpy")
def add_moments(z, reference, first, second):
    """Add rows z (n, F), less a reference, and their squares; one after another, nothing fused."""
    for t in range(z.shape[0]):
        for j in range(z.shape[1]):
            d = z[t, j] - reference[j]
            first[j] += d
            second[j] += d * d
