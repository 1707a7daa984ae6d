"""Gram matrices of eight lanes at once, compiled.

Lanes lie side by side, so the product of two rows is eight products in one vector instruction, and
a tile of four rows by four keeps sixteen such sums in registers. A lane's sums are added step after
step whoever else is in the batch, so they do not show who was.

For matrices of a hundred rows this beats one call of BLAS per lane, which first has to be handed
each lane by itself.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from catchment.compiling import njit

LANES, TILE = 8, 4


@intrinsic
def add_tile(typingctx, rows, i, j, n_steps, G):
    """G[i + a, j + b] += sum over the steps of rows[i + a] * rows[j + b], for a, b in 0..3."""
    signature = types.void(rows, i, j, n_steps, G)

    def codegen(context, builder, signature, args):
        rows_, G_ = (
            context.make_array(signature.args[k])(context, builder, value=args[k]) for k in (0, 4)
        )
        i, j, n_steps = args[1:4]
        index = ir.IntType(64)
        vector = ir.VectorType(ir.DoubleType(), LANES)

        def constant(number):
            return ir.Constant(index, number)

        def row(array, first, offset):
            apart = cgutils.unpack_tuple(builder, array.strides)[0]
            apart = builder.sdiv(apart, constant(8))
            place = builder.mul(builder.add(first, constant(offset)), apart)
            return builder.gep(array.data, [place])

        def vector_at(base, place):
            pointer = builder.gep(base, [builder.mul(place, constant(LANES))])
            return builder.bitcast(pointer, ir.PointerType(vector))

        left = [row(rows_, i, a) for a in range(TILE)]
        right = [row(rows_, j, b) for b in range(TILE)]
        kept = [
            [vector_at(row(G_, i, a), builder.add(j, constant(b))) for b in range(TILE)]
            for a in range(TILE)
        ]
        sums = [
            [
                cgutils.alloca_once_value(builder, builder.load(place, align=8, typ=vector))
                for place in line
            ]
            for line in kept
        ]
        with cgutils.for_range_slice(builder, constant(0), n_steps, constant(1)) as (t, _):
            x = [builder.load(vector_at(base, t), align=8, typ=vector) for base in left]
            y = [builder.load(vector_at(base, t), align=8, typ=vector) for base in right]
            for a in range(TILE):
                for b in range(TILE):
                    product = builder.fmul(x[a], y[b], flags=("contract",))
                    total = builder.load(sums[a][b], typ=vector)
                    builder.store(builder.fadd(total, product, flags=("contract",)), sums[a][b])
        for line, places in zip(sums, kept, strict=True):
            for total, place in zip(line, places, strict=True):
                builder.store(builder.load(total, typ=vector), place, align=8)
        return context.get_dummy_value()

    return signature, codegen


@njit(nogil=True, cache=True)
def add_grams(rows, G):
    """Add the products of all rows (n, T, 8) to the upper triangle of G (n, n, 8); 4 divides n."""
    for i in range(0, rows.shape[0], TILE):
        for j in range(i, rows.shape[0], TILE):
            add_tile(rows, i, j, rows.shape[1], G)


@njit(nogil=True, cache=True)
def take_apart(G, packed, edge):
    """Put lane b's triangle of F rows into packed[b], the columns to their right into edge[b].

    `packed` is (lanes, F(F+1)/2) and `edge` is (lanes, F + K + 1, K + 1).
    """
    n, width = edge.shape[1:]
    F = n - width
    for b in range(len(packed)):
        place = 0
        for i in range(F):
            for j in range(i, F):
                packed[b, place] = G[i, j, b]
                place += 1
        for i in range(n):
            for k in range(width):
                edge[b, i, k] = G[i, F + k, b]
