"""Several reservoirs as one: they share the inputs and nothing else.

The states of the union are the states of its members, so whatever is linear in each member's
features (an ensemble of readouts, joint statistics of all of them) is linear in the union's.

On a grid the union has one number of weight digits per layer and one cut, which suit all members;
where a member's own are others, its states in the union differ from those alone by a few steps of
the grid.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from catchment.arrays import Integers
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.weights import LayerWeights, SparseRows


def side_by_side(reservoirs: Sequence[Reservoir]) -> Reservoir:
    """Return the reservoir whose layers hold, one after another, the units of each member's layers.

    Parameters
    ----------
    reservoirs
        With the same inputs and equally many layers; sizes may differ.

    >>> from catchment import Recipe
    >>> members = [Reservoir.from_recipe(Recipe(units=n, inputs=2, seed=n)) for n in (5, 8)]
    >>> u = np.ones((4, 2))
    >>> apart = np.hstack([member.states(u) for member in members])
    >>> np.allclose(side_by_side(members).states(u), apart, atol=1e-14)
    True
    """
    if not reservoirs:
        raise ValueError("there are no reservoirs; pass at least one")
    for name, found in (
        ("inputs", {reservoir.n_inputs for reservoir in reservoirs}),
        ("layers", {len(reservoir.layers) for reservoir in reservoirs}),
    ):
        if len(found) > 1:
            raise ValueError(
                f"the reservoirs have {', '.join(map(str, sorted(found)))} {name}; "
                f"only reservoirs of equally many {name} stand side by side"
            )
    grids = {(reservoir.grid, reservoir.input_range) for reservoir in reservoirs}
    if len(grids) > 1:
        raise ValueError(
            f"the reservoirs have {len(grids)} different grids or input ranges; only reservoirs of "
            "one grid stand side by side"
        )
    ((grid, input_range),) = grids
    stacks = zip(*(reservoir.layers for reservoir in reservoirs), strict=True)
    return Reservoir(
        tuple(_joined(stack, first=k == 0) for k, stack in enumerate(stacks)),
        grid=grid,
        input_range=input_range,
        known_cut=None if grid is None else _common_cut([r.cut for r in reservoirs]),
    )


def _common_cut(cuts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the cut of a union: long enough for all, none if one member has none."""
    if (0, 0) in cuts:
        return 0, 0
    return max(L for L, _ in cuts), max(M for _, M in cuts)


def state_places(
    reservoirs: Sequence[Reservoir],
) -> list[Integers]:
    """Return, for each member, where (N_m,) its states lie among the union's.

    >>> from catchment import Recipe
    >>> deep = [Reservoir.from_recipe(Recipe(units=(2, 1), inputs=1, seed=s)) for s in (1, 2)]
    >>> [places.tolist() for places in state_places(deep)]
    [[0, 1, 4], [2, 3, 5]]
    """
    sizes = np.array([[layer.n_units for layer in r.layers] for r in reservoirs])  # (M, L)
    firsts = np.concatenate([[0], np.cumsum(sizes.T.ravel())])[:-1].reshape(sizes.T.shape).T
    return [
        np.concatenate([np.arange(f, f + n) for f, n in zip(row, counts, strict=True)])
        for row, counts in zip(firsts, sizes, strict=True)
    ]


def _joined(layers: Sequence[LayerWeights], *, first: bool) -> LayerWeights:
    return LayerWeights(
        _diagonal([layer.W for layer in layers]),
        _diagonal([layer.W_in for layer in layers], shared_columns=first),
        *(
            np.concatenate([getattr(layer, name) for layer in layers])
            for name in ("bias", "leak", "gain", "shift", "activation")
        ),
    )


def _diagonal(blocks: Sequence[SparseRows], *, shared_columns: bool = False) -> SparseRows:
    """Return the blocks below one another, each in columns of its own unless these are shared."""
    widths = [0 if shared_columns else block.n_columns for block in blocks]
    offsets = np.concatenate([[0], np.cumsum(widths)])
    counts = np.concatenate([np.diff(block.starts) for block in blocks])
    return SparseRows(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.concatenate(
            [block.columns + np.uint32(o) for block, o in zip(blocks, offsets, strict=False)]
        ),
        np.concatenate([block.values for block in blocks]),
        blocks[0].n_columns if shared_columns else int(offsets[-1]),
    )
