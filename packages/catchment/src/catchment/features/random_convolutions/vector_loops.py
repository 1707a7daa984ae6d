"""Loops over neighbouring steps in LLVM's vector types, for the kernels beside this file.

Each takes sixteen steps at a time, which processors with narrower registers do in several parts.
There is no loop over single steps for the rest: counts ignore the lanes beyond the end, and sums
are written there too, so every array needs room for `LANES` more numbers.
The compiler does not find this form by itself, and recordings are too short for what it finds.

Arrays are of 32-bit integers, places and lengths of 64 bits.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
_ELEMENT, _INDEX = ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_ELEMENT, LANES)


def _index(number):
    return ir.Constant(_INDEX, number)


def _pointer(context, builder, kind, array):
    return context.make_array(kind)(context, builder, value=array).data


def _load(builder, base, place):
    at = builder.bitcast(builder.gep(base, [place]), ir.PointerType(_VECTOR))
    return builder.load(at, align=4, typ=_VECTOR)


def _store(builder, value, base, place):
    at = builder.bitcast(builder.gep(base, [place]), ir.PointerType(_VECTOR))
    builder.store(value, at, align=4)


def _in_every_lane(builder, value):
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_ELEMENT, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_VECTOR, [0] * LANES))


def _whole_vectors(builder, n):
    return builder.and_(n, _index(-LANES))


def _fill(builder, n, value_at, target):
    """target[t] = value_at(t) for t below n, and up to the next multiple of LANES."""
    end = _whole_vectors(builder, builder.add(n, _index(LANES - 1)))
    with cgutils.for_range_slice(builder, _index(0), end, _index(LANES)) as (t, _):
        _store(builder, value_at(t), target, t)


def _counts(builder, n, values_at, biases):
    """Return in how many of n steps each value of values_at(t) is above its bias."""
    limits = [_in_every_lane(builder, bias) for bias in biases]
    zero = ir.Constant(_VECTOR, [0] * LANES)
    totals = [cgutils.alloca_once_value(builder, zero) for _ in biases]

    def add(t, inside=None):
        for value, limit, total in zip(values_at(t), limits, totals, strict=True):
            above = builder.icmp_signed(">", value, limit)
            if inside is not None:
                above = builder.and_(above, inside)
            ones = builder.sext(above, _VECTOR)  # -1 where it is above
            builder.store(builder.sub(builder.load(total, typ=_VECTOR), ones), total)

    for total in totals:
        builder.store(zero, total)
    whole = _whole_vectors(builder, n)
    with cgutils.for_range_slice(builder, _index(0), whole, _index(LANES)) as (t, _):
        add(t)
    rest = builder.trunc(builder.sub(n, whole), _ELEMENT)
    with builder.if_then(builder.icmp_signed(">", rest, ir.Constant(_ELEMENT, 0))):
        lane = ir.Constant(_VECTOR, list(range(LANES)))
        add(whole, builder.icmp_signed("<", lane, _in_every_lane(builder, rest)))
    kind = ir.FunctionType(_ELEMENT, [_VECTOR])
    name = f"llvm.vector.reduce.add.v{LANES}i32"
    reduce = cgutils.get_or_insert_function(builder.module, kind, name)
    return [builder.call(reduce, [builder.load(total, typ=_VECTOR)]) for total in totals]


def _sum(builder, values):
    """Return the sum of vectors, added in pairs."""
    values = list(values)
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        values = [builder.add(x, y) for x, y in pairs] + values[len(values) // 2 * 2 :]
    return values[0]


@intrinsic
def add_rows(typingctx, X, first, second, start, n, target):
    """target[start : start + n] = row `first` + row `second` of X (I, L), given by their places.

    `first` and `second` are places of row starts in X; `start` is added to all.
    """
    signature = types.void(X, first, second, start, n, target)

    def codegen(context, builder, signature, args):
        x = _pointer(context, builder, signature.args[0], args[0])
        y = _pointer(context, builder, signature.args[5], args[5])
        one, two = (builder.gep(x, [builder.add(args[k], args[3])]) for k in (1, 2))
        goal = builder.gep(y, [args[3]])
        value = lambda t: builder.add(_load(builder, one, t), _load(builder, two, t))  # noqa: E731
        _fill(builder, args[4], value, goal)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def add_row(typingctx, X, row, start, n, target):
    """Add a row of X, given by its place, to target[start : start + n]."""
    signature = types.void(X, row, start, n, target)

    def codegen(context, builder, signature, args):
        x = builder.gep(
            _pointer(context, builder, signature.args[0], args[0]),
            [builder.add(args[1], args[2])],
        )
        goal = builder.gep(_pointer(context, builder, signature.args[4], args[4]), [args[2]])
        value = lambda t: builder.add(_load(builder, x, t), _load(builder, goal, t))  # noqa: E731
        _fill(builder, args[3], value, goal)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def minus_nine(typingctx, y, at, d, n, sums):
    """sums[:n] = minus the sum of nine taps, d steps apart, of which the first begins at `at`."""
    signature = types.void(y, at, d, n, sums)

    def codegen(context, builder, signature, args):
        _, at, d, n, _ = args
        base = builder.gep(_pointer(context, builder, signature.args[0], args[0]), [at])
        target = _pointer(context, builder, signature.args[4], args[4])
        taps = [builder.gep(base, [builder.mul(d, _index(g))]) for g in range(9)]
        value = lambda t: builder.neg(_sum(builder, [_load(builder, x, t) for x in taps]))  # noqa: E731
        _fill(builder, n, value, target)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def with_pair(typingctx, sums, y, a, b, n, pair):
    """pair[:n] = sums + y[a:] + y[b:]."""
    signature = types.void(sums, y, a, b, n, pair)

    def codegen(context, builder, signature, args):
        sums = _pointer(context, builder, signature.args[0], args[0])
        y = _pointer(context, builder, signature.args[1], args[1])
        target = _pointer(context, builder, signature.args[5], args[5])
        bases = [sums, builder.gep(y, [args[2]]), builder.gep(y, [args[3]])]
        value = lambda t: _sum(builder, [_load(builder, x, t) for x in bases])  # noqa: E731
        _fill(builder, args[4], value, target)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def count_pair(typingctx, pair, at, y, c, n, bias):
    """Return in how many of n steps pair[at:] + y[c:] is above the bias."""
    signature = types.int32(pair, at, y, c, n, bias)

    def codegen(context, builder, signature, args):
        _, at, _, c, n, bias = args
        one = builder.gep(_pointer(context, builder, signature.args[0], args[0]), [at])
        two = builder.gep(_pointer(context, builder, signature.args[2], args[2]), [c])
        value = lambda t: [builder.add(_load(builder, one, t), _load(builder, two, t))]  # noqa: E731
        return _counts(builder, n, value, [bias])[0]

    return signature, codegen


@intrinsic
def count_two(typingctx, pair, at, y, c, d, n, biases):
    """Return two counts as `count_pair` does, for y[c:] and y[d:] and a tuple of two biases.

    The second is multiplied by 2^32 and added to the first.
    """
    signature = types.int64(pair, at, y, c, d, n, biases)

    def codegen(context, builder, signature, args):
        one = builder.gep(_pointer(context, builder, signature.args[0], args[0]), [args[1]])
        y = _pointer(context, builder, signature.args[2], args[2])
        others = [builder.gep(y, [args[3]]), builder.gep(y, [args[4]])]
        limits = [builder.extract_value(args[6], k) for k in range(2)]

        def values(t):
            shared = _load(builder, one, t)
            return [builder.add(shared, _load(builder, other, t)) for other in others]

        first, second = _counts(builder, args[5], values, limits)
        high = builder.shl(builder.zext(second, _INDEX), _index(32))
        return builder.or_(builder.zext(first, _INDEX), high)

    return signature, codegen


@intrinsic
def count_alone(typingctx, y, at, d, kernel, n, bias):
    """Return in how many of n steps a kernel is above the bias, from its nine taps.

    `kernel` is the place, in an array, of its three positions of weight 2 and its six of weight -1.
    """
    signature = types.int32(y, at, d, kernel, n, bias)

    def codegen(context, builder, signature, args):
        _, at, d, kernel, n, bias = args
        base = builder.gep(_pointer(context, builder, signature.args[0], args[0]), [at])
        positions = _pointer(context, builder, signature.args[3], kernel)
        taps = []
        for g in range(9):
            position = builder.load(builder.gep(positions, [_index(g)]), typ=_INDEX)
            taps.append(builder.gep(base, [builder.mul(position, d)]))

        def value(t):
            plus = _sum(builder, [_load(builder, x, t) for x in taps[:3]])
            minus = _sum(builder, [_load(builder, x, t) for x in taps[3:]])
            return [builder.sub(builder.add(plus, plus), minus)]

        return _counts(builder, n, value, [bias])[0]

    return signature, codegen


@intrinsic
def compete(typingctx, y, at, d, W, n, largest, winner, loser):
    """Put the largest of eight responses, whose it is and whose the smallest is, into arrays (n,).

    W (8, 9) are the weights of taps d steps apart, of which the first begins at `at`. Of equals the
    first wins or loses.
    """
    signature = types.void(y, at, d, W, n, largest, winner, loser)

    def codegen(context, builder, signature, args):
        _, at, d, _, n = args[:5]
        base = builder.gep(_pointer(context, builder, signature.args[0], args[0]), [at])
        W = _pointer(context, builder, signature.args[3], args[3])
        targets = [_pointer(context, builder, signature.args[k], args[k]) for k in (5, 6, 7)]
        taps = [builder.gep(base, [builder.mul(d, _index(g))]) for g in range(9)]
        factors = []
        for k in range(72):
            weight = builder.load(builder.gep(W, [_index(k)]), typ=_ELEMENT)
            factors.append(_in_every_lane(builder, weight))

        def respond(xs, k):
            pairs = zip(factors[9 * k : 9 * k + 9], xs, strict=True)
            return _sum(builder, [builder.mul(w, x) for w, x in pairs])

        end = _whole_vectors(builder, builder.add(n, _index(LANES - 1)))
        with cgutils.for_range_slice(builder, _index(0), end, _index(LANES)) as (t, _):
            xs = [_load(builder, x, t) for x in taps]
            most = least = respond(xs, 0)
            first = last = ir.Constant(_VECTOR, [0] * LANES)
            for k in range(1, 8):
                r, this = respond(xs, k), ir.Constant(_VECTOR, [k] * LANES)
                above = builder.icmp_signed(">", r, most)
                below = builder.icmp_signed("<", r, least)
                first, last = builder.select(above, this, first), builder.select(below, this, last)
                most, least = builder.select(above, r, most), builder.select(below, r, least)
            for value, target in zip((most, first, last), targets, strict=True):
                _store(builder, value, target, t)
        return context.get_dummy_value()

    return signature, codegen
