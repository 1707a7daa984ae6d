"""The compiled inner loops: many sequences advanced in lockstep, or one sequence alone.

Activations in fixed point have one definition, the same bits wherever there are IEEE numbers. Every
product is of two short fixed-point numbers and exact in a float64, so a fused multiply-add changes
nothing, and every rounding is written down: adding and subtracting 1.5 2^(52 - f) rounds to a
multiple of 2^-f, ties to even. The one operation that is not exact is the division, which IEEE 754
rounds the same way everywhere. In integers:

    y = |2x| rounded to 26 binary digits after the point, at most 20     (sigmoid: |x|)
    k = round(y LOG2E),  r = y - k LN2
    p = C4;  p = round27(p r + c) for c in C3, C2, C1, C0, 0;  p = round27(p r + r)
    e = 2^k p + (2^k - 1)                                                e^y - 1, exactly this
    tanh = e / (e + 2),  sigmoid = (e + 1) / (e + 2)

    sin: a = |x|, at most 64;  k = round(round26(a) OVER_PI);  r = round25(a - k PI);
    z = round24(r r);  p = round36(S4 z + S3);  p = round30(p z + S2);  p = round30(p z + S1);
    p = round29(p z + S0);  sin = (-1)^k round27(round27(p z) r + r)

each then rounded to fixed point and given the sign of x. The results are odd, tanh and sigmoid are
monotone, and with up to 24 digits these two are within 0.61 steps of the true value and
sin within 1.1 (0.54 up to 20 digits).

`digits` below are binary digits after the point; values in fixed point of b digits stay below 1 in
absolute value by one step, so that 16-bit words hold them for b = 15.

A layer is one sparse matrix over the extended state [x; u; 1], so recurrent weights, input weights
and bias are one row product. In lockstep the extended state is a matrix (N + I + 1, B) whose B
columns are sequences; each non-zero then feeds B neighboring numbers, which is what makes sparse
rows vectorize. The row product is written in LLVM's vector types because the compiler does not find
this form by itself; indices are unsigned because signed ones cost a wrap-around test each.

tanh is computed from expm1 with a Taylor polynomial (degree 13, largest error 2.5 units in the last
place; degree 7 for float32), in arithmetic that vectorizes.

The batch width is a tuple of log2 B zeros: its length is part of its type, so the compiler knows B.
Likewise a layer in fixed point passes the pair (rounder, largest number below 1) of its states, and
any other an empty tuple; each is compiled by itself, so that neither pays for the other.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from catchment.compiling import in_every_lane, njit, pointers
from catchment.features.echo_state.weights import LINEAR_BOUND as LINEAR_BOUND
from catchment.features.echo_state.weights import ROUND as ROUND

# 'reassoc' is left out on purpose: it would cancel the roundings by a large constant. In fixed
# point contraction is harmless, because the products are exact.
SAFE_MATH = {"contract", "nnan", "ninf", "nsz"}
DOT_MATH = SAFE_MATH | {"reassoc"}
TANH, SIGMOID, RELU, SIN, IDENTITY = range(5)

# Of activations in fixed point.
R24, R25, R26, R27 = (ROUND / 2**digits for digits in (24, 25, 26, 27))
R29, R30, R36 = (ROUND / 2**digits for digits in (29, 30, 36))
LARGEST = 20.0
LOG2E = 3025551 / 2**21
LN2 = 46516320 / 2**26
FARTHEST = 64.0  # largest argument of sin that is told from larger ones
OVER_PI, PI = 333772 / 2**20, 3454217652358 / 2**40
S0, S1, S2 = -89478485 / 2**29, 8947845 / 2**30, -213039 / 2**30
S3, S4 = 189134 / 2**36, -26220 / 2**40
C0, C1, C2, C3, C4 = (c / 2**27 for c in (67108865, 22369423, 5592344, 1123252, 187240))


def rounder(digits: int) -> float:
    """Return the number whose addition and subtraction rounds to this many binary digits.

    >>> (0.3 + rounder(2)) - rounder(2)
    0.25
    """
    return math.ldexp(ROUND, -digits)


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def growth(y):
    """e^y - 1 for y in 0..20 with 26 binary digits after the point."""
    shifted = y * LOG2E + ROUND
    k = shifted - ROUND
    r = y - k * LN2
    p = C4 * r + (C3 + R27) - R27
    p = p * r + (C2 + R27) - R27
    p = p * r + (C1 + R27) - R27
    p = p * r + (C0 + R27) - R27
    p = p * r + R27 - R27
    p = p * r + (r + R27) - R27
    bits = np.float64(shifted).view(np.int64) << np.int64(52)
    scale = np.int64(bits + np.int64(0x3FF0000000000000)).view(np.float64)
    return scale * p + (scale - 1.0)


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def size_of_tanh(x, G, top):
    """|tanh| in fixed point of rounder G, at most `top`, the largest number below 1."""
    e = growth(min(abs(x + x) + R26 - R26, LARGEST))
    return min(e / (e + 2.0) + G - G, top)


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def fixed_tanh(x, G, top):
    """tanh in fixed point of rounder G, at most `top` in absolute value."""
    return math.copysign(size_of_tanh(x, G, top), x)


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def fixed_sigmoid(x, G, top):
    """The logistic function in fixed point: 1 - sigmoid(-x), exactly, and never 0 or 1."""
    e = growth(min(abs(x) + R26 - R26, LARGEST))
    upper = min((e + 1.0) / (e + 2.0) + G - G, top)
    return upper if x >= 0.0 else 1.0 - upper


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def fixed_sin(x, G, top):
    """sin in fixed point; arguments beyond 64 count as 64."""
    a = min(abs(x), FARTHEST)
    shifted = (a + R26 - R26) * OVER_PI + ROUND
    k = shifted - ROUND
    r = (a - k * PI) + R25 - R25
    z = r * r + R24 - R24
    p = S4 * z + (S3 + R36) - R36
    p = p * z + (S2 + R30) - R30
    p = p * z + (S1 + R30) - R30
    p = p * z + (S0 + R29) - R29
    p = p * z + R27 - R27
    p = p * r + (r + R27) - R27
    odd = np.float64(shifted).view(np.int64) & np.int64(1)
    p = min(max(p + G - G, -top), top)
    sign = 1.0 - 2.0 * odd
    return p * sign * math.copysign(1.0, x)


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def fixed_linear(x, G):
    """x in fixed point, cut off at LINEAR_BOUND."""
    return min(max(x + G - G, -LINEAR_BOUND), LINEAR_BOUND)


def fast_tanh(x):
    """tanh of a float64 or float32, for compiled code only."""
    raise TypeError("fast_tanh is for compiled code")


@overload(fast_tanh, jit_options={"fastmath": SAFE_MATH, "error_model": "numpy"})
def _fast_tanh(x):
    return _tanh32 if x == types.float32 else _tanh64


def _tanh64(x):
    y = min(max(x + x, -40.0), 40.0)
    shifted = y * 1.4426950408889634 + 6755399441055744.0
    k = shifted - 6755399441055744.0
    r = y - k * 6.93147180369123816490e-01
    r = r - k * 1.90821492927058770002e-10
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.7557319223985893e-07
    p = p * r + 2.755731922398589e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 1.984126984126984e-04
    p = p * r + 1.3888888888888889e-03
    p = p * r + 8.333333333333333e-03
    p = p * r + 4.1666666666666664e-02
    p = p * r + 1.6666666666666666e-01
    p = p * r + 0.5
    p = p * r * r + r
    bits = np.float64(shifted).view(np.int64) << np.int64(52)
    scale = np.int64(bits + np.int64(0x3FF0000000000000)).view(np.float64)
    e = scale * p + (scale - 1.0)
    return e / (e + 2.0)


def _tanh32(x):
    one = np.float32(1.0)
    y = min(max(x + x, np.float32(-20.0)), np.float32(20.0))
    shifted = y * np.float32(1.44269504) + np.float32(12582912.0)
    k = shifted - np.float32(12582912.0)
    r = y - k * np.float32(0.693359375)
    r = r + k * np.float32(2.12194440e-4)
    p = np.float32(1.98412698e-04)
    p = p * r + np.float32(1.38888889e-03)
    p = p * r + np.float32(8.33333333e-03)
    p = p * r + np.float32(4.16666667e-02)
    p = p * r + np.float32(1.66666667e-01)
    p = p * r + np.float32(0.5)
    p = p * r * r + r
    bits = np.float32(shifted).view(np.int32) << np.int32(23)
    scale = np.int32(bits + np.int32(0x3F800000)).view(np.float32)
    e = scale * p + (scale - one)
    return e / (e + one + one)


@intrinsic
def row_product(typingctx, values, columns, begin, end, X, row, P, width):
    """P[row, :] = sum of values[q] * X[columns[q], :] over q in begin..end, 2^len(width) lanes."""
    # One cache line; where registers are narrower the compiler takes several.
    B = 1 << width.count
    lanes = min(B, 8 if X.dtype == types.float64 or B < 16 else 16)
    every, element_bytes = range(B // lanes), X.dtype.bitwidth // 8

    def codegen(context, builder, signature, args):
        v, c, begin, end, x, row, p, _ = pointers(context, builder, signature, args)
        element, index = context.get_data_type(X.dtype), ir.IntType(64)
        vector, constant = ir.VectorType(element, lanes), partial(ir.Constant, index)

        def vector_at(base, k):
            pointer = builder.gep(base, [constant(k * lanes)])
            return builder.bitcast(pointer, ir.PointerType(vector))

        # Narrow batches keep several partial sums, or each product would wait for the one before.
        unroll, zero = max(1, 4 // len(every)), ir.Constant(vector, [0.0] * lanes)
        sums = [[cgutils.alloca_once_value(builder, zero) for _ in every] for _ in range(unroll)]

        def add_product(q, part):
            value = builder.load(builder.gep(v, [q]), typ=element)
            column = builder.load(builder.gep(c, [q]), typ=ir.IntType(32))
            factor = in_every_lane(builder, value, vector)
            base = builder.gep(x, [builder.mul(builder.zext(column, index), constant(B))])
            for k, place in enumerate(sums[part]):
                state = builder.load(vector_at(base, k), align=element_bytes, typ=vector)
                product = builder.fmul(factor, state, flags=("contract",))
                total = builder.fadd(builder.load(place, typ=vector), product, flags=("contract",))
                builder.store(total, place)

        groups = builder.sdiv(builder.sub(end, begin), constant(unroll))
        whole = builder.add(begin, builder.mul(groups, constant(unroll)))
        with cgutils.for_range_slice(builder, begin, whole, constant(unroll)) as (q, _):
            for part in range(unroll):
                add_product(builder.add(q, constant(part)), part)
        if unroll > 1:
            with cgutils.for_range_slice(builder, whole, end, constant(1)) as (q, _):
                add_product(q, 0)
        target = builder.gep(p, [builder.mul(row, constant(B))])
        for k in every:
            total = builder.load(sums[0][k], typ=vector)
            for part in range(1, unroll):
                total = builder.fadd(total, builder.load(sums[part][k], typ=vector))
            builder.store(total, vector_at(target, k), align=element_bytes)
        return context.get_dummy_value()

    return types.void(values, columns, begin, end, X, row, P, width), codegen


def _units(*made):
    """Return what advances units in the arithmetic of six functions, all compiled into it.

    Five make a f(p) of a leak a and a drive p; `half` has the type of the numbers. The last rounds.
    Behind the whole comes what each of the five takes by itself.
    """
    tanh, sigmoid, relu, sin, identity, rounded = compiled = [
        njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")(one) for one in made
    ]

    def advance(code, a, fixed, p, x, n):
        half = x.dtype.type(0.5)
        keep = half + half - a
        if code == TANH:
            for b in range(n):
                x[b] = rounded(keep * x[b] + tanh(a, p[b], half, fixed), fixed)
        elif code == SIGMOID:
            for b in range(n):
                x[b] = rounded(keep * x[b] + sigmoid(a, p[b], half, fixed), fixed)
        elif code == RELU:
            for b in range(n):
                x[b] = rounded(keep * x[b] + relu(a, p[b], half, fixed), fixed)
        elif code == SIN:
            for b in range(n):
                x[b] = rounded(keep * x[b] + sin(a, p[b], half, fixed), fixed)
        else:
            for b in range(n):
                x[b] = rounded(keep * x[b] + identity(a, p[b], half, fixed), fixed)

    def alone(function):
        def advance(code, a, fixed, p, x, n):
            half = x.dtype.type(0.5)
            keep = half + half - a
            for b in range(n):
                x[b] = rounded(keep * x[b] + function(a, p[b], half, fixed), fixed)

        return advance

    return [advance, *map(alone, compiled[:5])]


_PLAIN = _units(
    lambda a, p, half, fixed: a * fast_tanh(p),
    lambda a, p, half, fixed: a * (half + half * fast_tanh(half * p)),
    lambda a, p, half, fixed: a * max(p, half - half),
    lambda a, p, half, fixed: a * math.sin(p),
    lambda a, p, half, fixed: a * p,
    lambda x, fixed: x,
)
# All is exact but the roundings. The sign of a tanh goes to the leak, which is there long before.
_IN_FIXED_POINT = _units(
    lambda a, p, half, fixed: math.copysign(a, p) * size_of_tanh(p, fixed[0], fixed[1]),
    lambda a, p, half, fixed: a * fixed_sigmoid(p, fixed[0], fixed[1]),
    lambda a, p, half, fixed: a * fixed_linear(max(p, 0.0), fixed[0]),
    lambda a, p, half, fixed: a * fixed_sin(p, fixed[0], fixed[1]),
    lambda a, p, half, fixed: a * fixed_linear(p, fixed[0]),
    lambda x, fixed: x + fixed[0] - fixed[0],
)


def advance_units(code, a, fixed, p, x, n):
    """x[:n] = (1 - a) x + a f(p), in fixed point if there is one; for compiled code only.

    The code of f is a number, or the length of a tuple: then no other f is compiled.
    """
    raise TypeError("advance_units is for compiled code")


@overload(
    advance_units, jit_options={"fastmath": SAFE_MATH, "error_model": "numpy", "forceinline": True}
)
def _advance_units(code, a, fixed, p, x, n):
    units = _IN_FIXED_POINT if isinstance(fixed, types.BaseTuple) and len(fixed) == 2 else _PLAIN
    return units[1 + len(code) if isinstance(code, types.BaseTuple) else 0]


def code_of(activation, i):
    """Return the code of a unit's activation; for compiled code only."""
    raise TypeError("code_of is for compiled code")


@overload(code_of)
def _code_of(activation, i):
    alike = isinstance(activation, types.BaseTuple)
    return (lambda activation, i: activation) if alike else lambda activation, i: activation[i]


@njit(nogil=True, cache=True, fastmath=SAFE_MATH, error_model="numpy")
def lockstep(
    starts, columns, values, leak, activation, uniform, U, X, flat, P, S, sums, width, fixed=()
):
    """Advance X (N + I + 1, B) over I rows of U (.., T, B), into N rows of S (.., T, B).

    `flat` is (X, P) once more, as two flat arrays. `activation` has the code of each unit's, or is
    a tuple as long as the code of all. `uniform` says that they share it and one leak. With `sums`
    all steps are added to the first step of S. `fixed` is the rounder and the largest number below
    1 of states in fixed point, or empty.
    """
    N = len(leak)
    for t in range(U.shape[1]):
        for j in range(X.shape[0] - N - 1):
            for b in range(1 << len(width)):
                X[N + j, b] = U[j, t, b]
        for i in range(N):
            row_product(values, columns, starts[i], starts[i + 1], X, i, P, width)
        _activate_rows(leak, activation, uniform, X, flat, P, S, sums, t, fixed)


@njit(nogil=True, cache=True, fastmath=SAFE_MATH, error_model="numpy")
def activate_all(leak, activation, uniform, X, flat, P, S, sums, t, fixed=()):
    """Turn pre-activations P (N, B) of step t into states, in X and in N rows of S (.., T, B)."""
    _activate_rows(leak, activation, uniform, X, flat, P, S, sums, t, fixed)


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def _activate_rows(leak, activation, uniform, X, flat, P, S, sums, t, fixed):
    N, B = P.shape
    if uniform:
        # One long loop: rows of 8 or 16 lanes are too short for the unrolled tanh.
        advance_units(code_of(activation, 0), leak[0], fixed, flat[1], flat[0], N * B)
    else:
        for i in range(N):
            advance_units(code_of(activation, i), leak[i], fixed, P[i], X[i], B)
    if sums:
        for i in range(N):
            for b in range(B):
                S[i, 0, b] += X[i, b]
    else:
        for i in range(N):
            for b in range(B):
                S[i, t, b] = X[i, b]


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def _sparse_dot(values, columns, begin, end, x):
    s0 = s1 = s2 = s3 = x.dtype.type(0.0)
    whole = begin + (end - begin) // 4 * 4
    for q in range(begin, whole, 4):
        s0 += values[q] * x[columns[q]]
        s1 += values[q + 1] * x[columns[q + 1]]
        s2 += values[q + 2] * x[columns[q + 2]]
        s3 += values[q + 3] * x[columns[q + 3]]
    for q in range(whole, end):
        s0 += values[q] * x[columns[q]]
    return (s0 + s1) + (s2 + s3)


@njit(nogil=True, cache=True, fastmath=SAFE_MATH, error_model="numpy")
def serial(starts, columns, values, leak, activation, uniform, U, x, p, S, sums, fixed=()):
    """Advance x (N + I + 1,) over I columns of U (T, ..), into N columns of S (T, ..).

    With `sums` all steps are added to the first row of S.
    """
    N = len(leak)
    for t in range(U.shape[0]):
        for j in range(len(x) - N - 1):
            x[N + j] = U[t, j]
        for i in range(N):
            p[i] = _sparse_dot(values, columns, np.uint64(starts[i]), np.uint64(starts[i + 1]), x)
        _finish_serial(leak, activation, uniform, x, p, S[0 if sums else t], sums, fixed)


@njit(fastmath=DOT_MATH, error_model="numpy")
def _dense_dot(row, x):
    total = x.dtype.type(0.0)
    for j in range(len(row)):
        total += row[j] * x[j]
    return total


@njit(fastmath=DOT_MATH, error_model="numpy")
def _dense_dots(one, other, x, y):
    """Return the products of two rows and two vectors, each number loaded once for both."""
    a = b = c = d = x.dtype.type(0.0)
    for j in range(len(x)):
        a += one[j] * x[j]
        b += one[j] * y[j]
        c += other[j] * x[j]
        d += other[j] * y[j]
    return a, b, c, d


@njit(nogil=True, cache=True, fastmath=SAFE_MATH, error_model="numpy")
def serial_dense(W, leak, activation, uniform, U, X, P, S, sums, fixed=()):
    """Advance X (B, N + I + 1) by a dense matrix W (N, N + I + 1), which is read once for all.

    U (T, B, ..) and S (T, B, ..) are as those of `serial`, for one lane or two; P is (B, N).
    """
    N, B = len(leak), len(X)
    x, p, y, q = X[0], P[0], X[-1], P[-1]
    for t in range(U.shape[0]):
        for b in range(B):
            for j in range(X.shape[1] - N - 1):
                X[b, N + j] = U[t, b, j]
        if B == 1:
            for i in range(N):
                p[i] = _dense_dot(W[i], x)
        else:
            for i in range(0, N, 2):
                j = min(i + 1, N - 1)
                p[i], q[i], p[j], q[j] = _dense_dots(W[i], W[j], x, y)
        for b in range(B):
            to = S[0 if sums else t, b]
            _finish_serial(leak, activation, uniform, X[b], P[b], to, sums, fixed)


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def _finish_serial(leak, activation, uniform, x, p, to, sums, fixed):
    N = len(leak)
    if uniform:
        advance_units(code_of(activation, 0), leak[0], fixed, p, x, N)
    else:
        for i in range(N):
            one = slice(i, i + 1)
            advance_units(code_of(activation, i), leak[i], fixed, p[one], x[one], 1)
    if sums:
        for i in range(N):
            to[i] += x[i]
    else:
        for i in range(N):
            to[i] = x[i]


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def pool_into(largest, Z, R, sums):
    """Fold the steps of Z (F, T, B) into running sums (k, F, B) of a pool.

    One is the sum, or the largest. Three are a reference, and the sums of distances from it and of
    their squares. Four are exact: a number is split in two by the rounder of its feature, R (F,):
    z = h + l, so that z z is h h + 2 h l + l l, whose sums stand behind that of z.
    """
    for i in range(Z.shape[0]):
        first, B = sums[0, i], Z.shape[2]
        if len(sums) == 1:
            for t in range(Z.shape[1]):
                if largest:
                    for b in range(B):
                        first[b] = max(first[b], Z[i, t, b])
                else:
                    for b in range(B):
                        first[b] += Z[i, t, b]
        elif len(sums) == 3:
            moved, squared = sums[1, i], sums[2, i]
            for t in range(Z.shape[1]):
                for b in range(B):
                    d = Z[i, t, b] - first[b]
                    moved[b] += d
                    squared[b] += d * d
        else:
            high, cross, low = sums[1, i], sums[2, i], sums[3, i]
            for t in range(Z.shape[1]):
                for b in range(B):
                    h = Z[i, t, b] + R[i] - R[i]
                    l = Z[i, t, b] - h
                    first[b] += Z[i, t, b]
                    high[b] += h * h
                    cross[b] += h * l
                    low[b] += l * l


@njit(nogil=True, cache=True, fastmath=SAFE_MATH, error_model="numpy")
def round_inputs(u, G, limit):
    """Cut u off at a limit and round it by G, in place; return how many values were cut off."""
    n_clipped = 0
    for j in range(len(u)):
        n_clipped += abs(u[j]) > limit
        u[j] = min(max(u[j], -limit), limit) + G - G
    return n_clipped


@njit(nogil=True, cache=True, fastmath=SAFE_MATH, error_model="numpy")
def round_block(Z, R, by_step):
    """Round Z in place: row i by rounder R[i], or, where a row is a step, column j by R[j]."""
    for i in range(Z.shape[0]):
        if by_step:
            for j in range(Z.shape[1]):
                Z[i, j] = Z[i, j] + R[j] - R[j]
        else:
            for j in range(Z.shape[1]):
                Z[i, j] = Z[i, j] + R[i] - R[i]


@njit(nogil=True, cache=True)
def keep_columns(Z, places):
    """Move the columns of Z at ascending places to its beginning."""
    for i in range(Z.shape[0]):
        row = Z[i]
        for j in range(len(places)):
            row[j] = row[places[j]]
