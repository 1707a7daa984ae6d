"""Reservoirs that differ less: W_k(alpha) = (1 - alpha) W_k + alpha W*, at one spectral radius.

Input weights, biases and leaks are those of the target; only the recurrent matrices differ, and at
alpha = 1 not even they.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.spectral import common_radius
from catchment.features.echo_state.weights import LayerWeights, SparseRows


def with_own_seed(recipe: Recipe, client: str) -> Recipe:
    """Return the recipe with a seed drawn from its seed and the client's name.

    >>> a, b = (with_own_seed(Recipe(units=5, inputs=1), name) for name in ("a", "b"))
    >>> a.seed != b.seed, a == with_own_seed(Recipe(units=5, inputs=1), "a")
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

    >>> own, target = (Reservoir.from_recipe(Recipe(units=20, inputs=1, seed=s)) for s in (1, 2))
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
    return Reservoir(
        tuple(
            replace(layer, W=_blend(mine, layer, alpha))
            for mine, layer in zip(own.layers, target.layers, strict=True)
        ),
        grid=target.grid,
        input_range=target.input_range,
    )


def _blend(own: LayerWeights, target: LayerWeights, alpha: float) -> SparseRows:
    W = SparseRows.from_dense((1 - alpha) * own.W.to_dense() + alpha * target.W.to_dense())
    radius, wanted = common_radius(W)[0], common_radius(target.W)[0]
    return W.times(wanted / radius) if radius > 0 else W
