"""Reservoirs of several clients: moved towards one another, or side by side.

Several reservoirs side by side are one: they share the inputs and nothing else. The states of the
union are the states of its members, so whatever is linear in each member's features (an ensemble of
readouts, joint statistics of all of them) is linear in the union's.

In fixed point the union has one number of weight digits per layer and one cut, which suit all
members; where a member's own are others, its states in the union differ from those alone by a few
steps of the grid.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from catchment import Integers
from catchment.features import Reservoir
from catchment.features.echo_state import LayerWeights, SparseRows, common_radius


def with_own_seed(recipe: Reservoir, client: str) -> Reservoir:
    """Return the recipe with a seed drawn from its seed and the client's name.

    >>> a, b = (with_own_seed(Reservoir(units=5, inputs=1), name) for name in ("a", "b"))
    >>> a.seed != b.seed, a == with_own_seed(Reservoir(units=5, inputs=1), "a")
    (True, True)
    """
    digest = hashlib.sha256(f"{recipe.seed}/{client}".encode()).digest()
    return replace(recipe.unprepared(), seed=int.from_bytes(digest[:8]))


def aligned_reservoir(own: Reservoir, target: Reservoir, alpha: float) -> Reservoir:
    """Return the target with its recurrent matrices moved towards another reservoir's.

    Parameters
    ----------
    own
        Whose recurrent matrices it has at alpha = 0, rescaled to the target's spectral radii.
    target
        Whose input weights, biases and leaks it has; at alpha = 1 it is the target itself.
    alpha
        Between 0 and 1.

    >>> own, target = (Reservoir(units=20, inputs=1, seed=s) for s in (1, 2))
    >>> half = aligned_reservoir(own, target, 0.5)
    >>> common_radius(half.layers[0].W)[0] == common_radius(target.layers[0].W)[0]
    True
    >>> aligned_reservoir(own, target, 1.0).fingerprint == target.fingerprint
    True
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}; pass a number between 0 and 1")
    if alpha == 1:
        return target
    sizes = [[layer.n_units for layer in r.layers] for r in (own, target)]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"layers of {sizes[0]} units do not align with layers of {sizes[1]}; use equal sizes"
        )
    layers = []
    for mine, layer in zip(own.layers, target.layers, strict=True):
        W = SparseRows.from_dense((1 - alpha) * mine.W.to_dense() + alpha * layer.W.to_dense())
        radius, wanted = common_radius(W)[0], common_radius(layer.W)[0]
        layers.append(replace(layer, W=W.times(wanted / radius) if radius > 0 else W))
    return Reservoir.of_layers(layers, bits=target.bits, input_range=target.input_range)


def side_by_side(reservoirs: Sequence[Reservoir]) -> Reservoir:
    """Return the reservoir whose layers hold, one after another, the units of each member's layers.

    Parameters
    ----------
    reservoirs
        With the same inputs and equally many layers; sizes may differ.

    >>> members = [Reservoir(units=n, inputs=2, seed=n) for n in (5, 8)]
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
    formats = {(reservoir.bits, reservoir.input_range) for reservoir in reservoirs}
    if len(formats) > 1:
        raise ValueError(
            f"the reservoirs have {len(formats)} different pairs of bits and input range; only "
            "reservoirs with the same stand side by side"
        )
    ((bits, input_range),) = formats
    cuts = [reservoir.cut for reservoir in reservoirs]
    # Long enough for all, and none if one member has none.
    cut = (0, 0) if (0, 0) in cuts else (max(L for L, _ in cuts), max(M for _, M in cuts))
    stacks = zip(*(reservoir.layers for reservoir in reservoirs), strict=True)
    return Reservoir.of_layers(
        [_joined(stack, first=k == 0) for k, stack in enumerate(stacks)],
        bits=bits,
        input_range=input_range,
        cut=cut,
    )


def state_places(reservoirs: Sequence[Reservoir]) -> list[Integers]:
    """Return, for each member, where (N_m,) its states lie among the union's.

    >>> deep = [Reservoir(units=(2, 1), inputs=1, seed=s) for s in (1, 2)]
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
