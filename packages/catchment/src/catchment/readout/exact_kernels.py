"""Compiled passes: Z Z' in float64, K K' as integers, sums of statistics, and triangular systems.

Products are taken as in any fast matrix product. Rows are laid out in panels, so many neighboring
rows to a panel and column after column, and a tile of the result is summed in registers over some
columns. Of symmetric products BLAS makes a new matrix, and numpy mirrors it; here one triangle is
added to the total in place.

The sums of K K' never round: numbers become whole while they are laid out, and a tile is turned
into integers while it is added to the total. By Cauchy and Schwarz no partial sum of k_i k_j passes
the root of the sum of k_i^2 times that of k_j^2. These are summed too, and a tile whose sums could
pass 2^53 (2^24 in float32) is added to the total more often.
"""

from __future__ import annotations

from functools import partial

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from catchment.compiling import in_every_lane, njit, pointers

GROUP = 128  # columns laid out together, twice as many in float32: a panel stays in the cache
PIECE = 32  # columns whose squares are summed together, and the fewest of a product
# Added and taken away again it rounds what is below 2^51 to integers, ties to even.
ROUND = 1.5 * 2.0**52
_ROUND_BITS = 0x4338000000000000
_SPLIT = 26  # digits of the lower half of a float64 sum, so that both are below 2^51


_known = llvm.get_host_cpu_features()  # of this processor; narrower vectors take several registers
# A tile is HEIGHT rows by three vectors: 12 registers of 16, or 24 of 32.
HEIGHT = LANES = 8 if _known.get("avx512f", False) else 4
WIDTH = 3 * LANES  # rows of a panel in float64; in float32 they are twice as many
_CONVERTS = _known.get("avx512dq", False)  # float64 to int64, eight at once


def _vector_at(builder, base, place, vector):
    return builder.bitcast(builder.gep(base, [place]), ir.PointerType(vector))


def _same(vector, number):
    return ir.Constant(vector, [number] * vector.count)


def _prefetch(builder, pointer):
    """Ask for the cache line of a pointer, to be written."""
    flag, address = ir.IntType(32), ir.PointerType(ir.IntType(8))
    kind = ir.FunctionType(ir.VoidType(), [address, flag, flag, flag])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    where = builder.bitcast(pointer, address)
    builder.call(prefetch, [where, *(ir.Constant(flag, value) for value in (1, 3, 1))])


def _as_integers(builder, total, lanes):
    """Return a vector of whole float64 numbers up to 2^53, or float32 ones, as int64."""
    whole = ir.VectorType(ir.IntType(64), lanes)
    if total.type.element == ir.FloatType():
        narrow = ir.VectorType(ir.IntType(32), lanes)
        return builder.sext(builder.fptosi(total, narrow), whole)
    if _CONVERTS:
        return builder.fptosi(total, whole)
    vector = total.type
    magic = _same(vector, ROUND)
    shifted = builder.fadd(builder.fmul(total, _same(vector, 2.0**-_SPLIT)), magic)
    upper = builder.fmul(builder.fsub(shifted, magic), _same(vector, 2.0**_SPLIT))
    lower = builder.fadd(builder.fsub(total, upper), magic)
    high = builder.shl(builder.bitcast(shifted, whole), _same(whole, _SPLIT))
    both = builder.add(high, builder.bitcast(lower, whole))
    return builder.sub(both, _same(whole, (_ROUND_BITS + (_ROUND_BITS << _SPLIT)) % 2**64))


@intrinsic
def add_tile(typingctx, packed, left, right, count, total, place, apart, vectors):
    """Add a tile of the product of two panels over `count` columns, a multiple of four.

    HEIGHT rows of the panel at `left` times as many vectors of the panel at `right` as `vectors`
    has entries, to rows of the flat total from `place` on, so far `apart`.
    """
    signature = types.void(packed, left, right, count, total, place, apart, vectors)
    single = packed.dtype == types.float32
    lanes = 2 * LANES if single else LANES
    width, beside = 3 * lanes, range(vectors.count)

    def codegen(context, builder, signature, args):
        given = pointers(context, builder, signature, args)
        k, left, right, count, sums_to, place, apart, _ = given
        element, index = context.get_data_type(packed.dtype), ir.IntType(64)
        vector, rounds = ir.VectorType(element, lanes), total.dtype == types.float64
        kind = vector if rounds else ir.VectorType(index, lanes)
        plus = builder.fadd if rounds else builder.add
        constant = partial(ir.Constant, index)
        made = partial(cgutils.alloca_once_value, builder, _same(vector, 0.0))
        sums = [[made() for _ in beside] for _ in range(HEIGHT)]

        def add_column(a, b):
            starts = [builder.add(b, constant(q * lanes)) for q in beside]
            places = [_vector_at(builder, k, start, vector) for start in starts]
            columns = [builder.load(one, align=4 if single else 8, typ=vector) for one in places]
            for r, row in enumerate(sums):
                value = builder.load(builder.gep(k, [builder.add(a, constant(r))]), typ=element)
                factor = in_every_lane(builder, value, vector)
                for where, column in zip(row, columns, strict=True):
                    product = builder.fmul(factor, column, flags=("contract",))
                    before = builder.load(where, typ=vector)
                    builder.store(builder.fadd(before, product, flags=("contract",)), where)

        # What is added to lies far away: it is asked for before it is needed.
        lines = [builder.add(place, builder.mul(apart, constant(r))) for r in range(HEIGHT)]
        for line in lines:
            for first in range(0, lanes * len(beside), 8):
                _prefetch(builder, builder.gep(sums_to, [builder.add(line, constant(first))]))
        end = builder.mul(count, constant(width))
        with cgutils.for_range_slice(builder, constant(0), end, constant(4 * width)) as (at, _):
            for part in range(4):
                here = builder.add(at, constant(part * width))
                add_column(builder.add(left, here), builder.add(right, here))
        for line, row in zip(lines, sums, strict=True):
            for q, where in enumerate(row):
                found = builder.load(where, typ=vector)
                found = found if rounds else _as_integers(builder, found, lanes)
                to = _vector_at(builder, sums_to, builder.add(line, constant(q * lanes)), kind)
                before = builder.load(to, align=8, typ=kind)
                builder.store(plus(before, found), to, align=8)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def lay_rows(typingctx, z, place, apart, scale, most, row, packed, to, width, count, energies, at):
    """Lay out LANES rows of `count` columns, a multiple of LANES, as integers.

    They begin at `place` of the flat z. `apart` is how far rows are apart, the numbers of each
    being neighbors; in a tuple it is how far columns are apart. Numbers are multiplied by `scale`,
    rounded, and cut off at `most`, both from `row` on. Columns go to `to`, `width` apart, and the
    sums of the rows' squares to energies from `at` on. Without a scale they stay as they are.
    """
    kinds = (z, place, apart, scale, most, row, packed, to, width, count, energies, at)
    by_rows, whole = isinstance(apart, types.Integer), scale != types.none

    def codegen(context, builder, signature, args):
        given = pointers(context, builder, signature, args)
        z, place, apart, scale, most, row, k, to, width, count, energies, at = given
        constant = partial(ir.Constant, ir.IntType(64))
        vector = ir.VectorType(ir.DoubleType(), LANES)
        narrow = ir.VectorType(context.get_data_type(packed.dtype), LANES)
        apart = apart if by_rows else builder.extract_value(apart, 0)

        def load(base, first):
            return builder.load(_vector_at(builder, base, first, vector), align=8, typ=vector)

        squares = cgutils.alloca_once_value(builder, _same(vector, 0.0))
        if whole:
            factors, limits, magic = load(scale, row), load(most, row), _same(vector, ROUND)
            lowest = builder.fsub(_same(vector, -0.0), limits)

        def rounded(line):
            value = builder.fsub(builder.fadd(builder.fmul(line, factors), magic), magic)
            value = builder.select(builder.fcmp_ordered("<", value, limits), value, limits)
            value = builder.select(builder.fcmp_ordered(">", value, lowest), value, lowest)
            square = builder.fmul(value, value, flags=("contract",))
            before = builder.load(squares, typ=vector)
            builder.store(builder.fadd(before, square, flags=("contract",)), squares)
            return value if narrow == vector else builder.fptrunc(value, narrow)

        half, every = LANES // 2, range(LANES)
        mixed = [[first + q // 2 + q % 2 * LANES for q in every] for first in (0, half)]
        orders = [ir.Constant(ir.VectorType(ir.IntType(32), LANES), order) for order in mixed]
        with cgutils.for_range_slice(builder, constant(0), count, constant(LANES)) as (j, _):
            here = builder.add(place, j if by_rows else builder.mul(j, apart))
            far = [builder.add(here, builder.mul(apart, constant(q))) for q in every]
            lines = [load(z, first) for first in far]
            # Mixed with the line half of them below it, so often, rows have become columns.
            for _ in range(half.bit_length() if by_rows else 0):
                pairs = [(lines[q // 2], lines[q // 2 + half], orders[q % 2]) for q in every]
                lines = [builder.shuffle_vector(*pair) for pair in pairs]
            for q, line in enumerate(lines):
                where = builder.add(to, builder.mul(builder.add(j, constant(q)), width))
                value = rounded(line) if whole else line
                builder.store(value, _vector_at(builder, k, where, narrow), align=4)
        if whole:
            total = _vector_at(builder, energies, at, vector)
            builder.store(builder.load(squares, typ=vector), total, align=8)
        return context.get_dummy_value()

    return types.void(*kinds), codegen


@njit(nogil=True, cache=True)
def lay_out(z, apart, n, m, packed, width, scale, most, energies):
    """Lay out z (n, m) as panels in `packed`, its columns filled up to a multiple of 4.

    z is flat, with rows and columns so far `apart`. Rows are filled up to whole panels. With a
    scale numbers become integers, and energies (pieces, panels * width), flat, get the sums of
    squares of each row over every PIECE columns.
    """
    padded, height = (m + 3) // 4 * 4, -(-n // width) * width
    packed[n // width * width * padded : height * padded] = 0.0
    if scale is not None:
        energies[: -(-m // PIECE) * height] = 0.0
    for i in range(0, n, LANES):
        base, tall = i // width * width * padded + i % width, min(LANES, n - i)
        packed[base // padded * padded + m * width : (i // width + 1) * width * padded] = 0.0
        for piece in range(0, m, PIECE):
            start, to = i * apart[0] + piece * apart[1], base + piece * width
            at, count, done = piece // PIECE * height + i, min(PIECE, m - piece), 0
            if tall == LANES and 1 in apart:
                done = count // LANES * LANES
                held = scale, most, i, packed, to, width, done, energies, at
                if apart[1] == 1:
                    lay_rows(z, start, apart[0], *held)
                else:
                    lay_rows(z, start, (apart[1],), *held)
            for j in range(done, count):
                for r in range(i, i + tall):
                    value = z[start + (r - i) * apart[0] + j * apart[1]]
                    if scale is not None:
                        value = np.rint(value * scale[r])
                        value = value if value < most[r] else most[r]
                        value = value if value > -most[r] else -most[r]
                        energies[at + r - i] += value * value
                    packed[to + j * width + r - i] = value


@njit(nogil=True, cache=True)
def find_peaks(energies, n_pieces, height, size, peaks):
    """Fill peaks (n_pieces + 1, height / size) with what no row's sum of squares is larger than.

    Rows are taken `size` at a time; the last line is for all pieces together. Return the largest
    number of it.
    """
    largest = 0.0
    for g in range(height // size):
        total = 0.0
        for c in range(n_pieces):
            first, peak = c * height + g * size, 0.0
            for i in range(first, first + size):
                peak = max(peak, energies[i])
            peaks[c, g] = peak
            total += peak
        peaks[n_pieces, g] = total
        largest = max(largest, total)
    return largest


@njit(nogil=True, cache=True)
def add_panels(packed, count, width, total, height, left, right, n_pieces, limit, n):
    """Add the product of all panels to the upper triangle of a flat total (height, height).

    `left` and `right` are the peaks of rows HEIGHT and `width` at a time; `limit` is what products
    of two of them must stay below. Of rows from n on, and below the diagonal, little is computed.
    """
    lanes = width // 3
    for q in range(height // width):
        b, end = q * width, min(q * width + width, n)
        for i in range(0, end, HEIGHT):
            a, g, skip = i // width * count * width + i % width, i // HEIGHT, max(i - b, 0) // lanes
            vectors, place = -(-(end - b) // lanes) - skip, i * height + b + skip * lanes
            first = 0
            while first < n_pieces:
                # The pieces whose products fit one sum, one at the least.
                above, beside, last = left[first, g], right[first, q], first + 1
                if left[n_pieces, g] * right[n_pieces, q] < limit:
                    last = n_pieces
                while last < n_pieces:
                    above, beside = above + left[last, g], beside + right[last, q]
                    if above * beside >= limit:
                        break
                    last += 1
                at, beyond = first * PIECE, b * count + skip * lanes + first * PIECE * width
                rest, held = min(last * PIECE, count) - at, (total, place, height)
                if vectors == 3:
                    add_tile(packed, a + at * width, beyond, rest, *held, (0, 0, 0))
                elif vectors == 2:
                    add_tile(packed, a + at * width, beyond, rest, *held, (0, 0))
                else:
                    add_tile(packed, a + at * width, beyond, rest, *held, (0,))
                first = last


@njit(nogil=True, cache=True)
def add_product(z, apart, n, m, packed, width, total, height, scale, most, energies, limit):
    """Add Z Z' over the columns of z (n, m) to the upper triangle of a flat total.

    z is flat, with rows and columns so far `apart`. The total is (height, height), and `packed` has
    room for a group of columns. With a scale it is K K', in int64: K are the rows of z times their
    scales, rounded. No sum in floating point passes `limit` then; return a number that no entry can
    have grown by more than.
    """
    grown, group = 0.0, len(packed) // height
    left = np.zeros((group // PIECE + 1, height // HEIGHT))
    right = np.zeros((group // PIECE + 1, height // width))
    # By Cauchy and Schwarz; a little less than the square, for the product is rounded.
    square = limit * limit * (1.0 - 2.0**-40)
    for first in range(0, m, group):
        count = min(group, m - first)
        lay_out(z[first * apart[1] :], apart, n, count, packed, width, scale, most, energies)
        n_pieces, padded = -(-count // PIECE), (count + 3) // 4 * 4
        if scale is not None:
            find_peaks(energies, n_pieces, height, HEIGHT, left)
            grown += find_peaks(energies, n_pieces, height, width, right)
        add_panels(packed, padded, width, total, height, left, right, n_pieces, square, n)
    return grown


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def times_packed(matrix, digits, floats, whole, about):
    """Add the product of a symmetric matrix of int64, packed, and vectors (K, n) of integers.

    The vectors come as `digits` and as `floats`; their products go to `whole` (K, n) modulo 2^64,
    and to `about` (K, n) in float64.
    """
    n, end = digits.shape[1], 0
    float_a, float_b = np.empty((2, n))
    for i in range(0, n, 2):
        # Two rows at once, so that what they are multiplied with and added to is read once.
        m, row = n - i - 2, matrix[end : end + n - i]
        for k in range(len(digits) if m < 0 else 0):
            whole[k, i] += row[0] * digits[k, i]
            about[k, i] += row[0] * floats[k, i]
        if m < 0:
            break
        corner, below, a = row[0], row[1], row[2:]
        last, b = matrix[end + n - i], matrix[end + n - i + 1 : end + 2 * (n - i) - 1]
        end += 2 * (n - i) - 1
        for j in range(m):
            float_a[j], float_b[j] = a[j], b[j]
        for k in range(len(digits)):
            x, y, to, near = digits[k, i:], floats[k, i:], whole[k, i:], about[k, i:]
            total_a, total_b = corner * x[0] + below * x[1], below * x[0] + last * x[1]
            sum_a, sum_b = corner * y[0] + below * y[1], below * y[0] + last * y[1]
            for j in range(m):
                total_a += a[j] * x[j + 2]
                total_b += b[j] * x[j + 2]
                sum_a += float_a[j] * y[j + 2]
                sum_b += float_b[j] * y[j + 2]
                to[j + 2] += a[j] * x[0] + b[j] * x[1]
                near[j + 2] += float_a[j] * y[0] + float_b[j] * y[1]
            to[0] += total_a
            to[1] += total_b
            near[0] += sum_a
            near[1] += sum_b


@njit(nogil=True, cache=True)
def add_int64(one, other, total):
    """Fill the total with the sum of two vectors; return False if it overflowed."""
    every = np.int64(0)
    for k in range(len(one)):
        a, b = one[k], other[k]
        c = a + b
        total[k] = c
        # A sum overflowed where both signs differ from its own.
        every |= (a ^ c) & (b ^ c)
    return every >= 0


@njit(nogil=True, cache=True)
def unpack_rows(packed, mean, sums):
    """Return an upper triangle (n, n) from a packed one, less the product of two vectors."""
    n, place = len(mean), 0
    upper = np.zeros((n, n))
    for i in range(n):
        row, to, a = packed[place : place + n - i], upper[i, i:], mean[i]
        for j in range(n - i):
            to[j] = row[j] - a * sums[i + j]
        place += n - i
    return upper


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def solve_rows(T, B, backward):
    """Solve T X = B for the rows of B (n, m), in place: for a lower T, or backward for an upper.

    What lies on the other side of the diagonal is not read.
    """
    n, m = B.shape
    start, on = (n - 1, -1) if backward else (0, 1)
    for first in range(0, m, 128):  # columns at once, which stay in the cache
        last = min(first + 128, m)
        for s in range(0, n, 2):  # two rows at once, so that those before are read once for both
            i = start + on * s
            e = i if s == n - 1 else i + on
            x, y = B[i, first:last], np.zeros(last - first) if e == i else B[e, first:last]
            for q in range(0, s, 2):
                k = start + on * q
                a, b, c, d = T[i, k], T[i, k + on], T[e, k], T[e, k + on]
                one, two = B[k, first:last], B[k + on, first:last]
                for j in range(len(x)):
                    x[j] -= a * one[j] + b * two[j]
                    y[j] -= c * one[j] + d * two[j]
            a, b, c = 1.0 / T[i, i], T[e, i], 1.0 / T[e, e]
            for j in range(len(x)):
                x[j] *= a
                y[j] = (y[j] - b * x[j]) * c
