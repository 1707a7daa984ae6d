"""What scikit-learn reaches on all engines' rows in one place: trailing means, products, trees.

Every cycle has, of each channel, its trailing means over 5, 10 and 30 cycles, their slopes, how far
it has come from the engine's first cycles, and the age: nothing is drawn at random. How many
principal components have their products beside them, how strong the ridge is and how large trees
are, five groups of training engines left out decide, by the error over all of their cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from catchment import Array
from catchment.data import Recording
from reproductions.life_data import CAP, Engines

LENGTHS = (5, 10, 30)
FIRST = 10  # cycles that an engine is compared with
GROUPS = 5
RIDGES = (1.0, 10.0, 100.0, 1000.0)
LINEAR = "trailing means and age, linear, pooled"
PRODUCTS = "trailing means and age, products of components, pooled"
BOOSTED = "trailing means and age, gradient boosting, pooled"
Make = Callable[[], Any]


def trailing_columns(u: Array) -> Array:
    """Return the columns (T, 7 I + 1) of an engine's inputs (T, I).

    >>> trailing_columns(np.arange(4.0)[:, None])[:, [0, 6, 7]].tolist()
    [[0.0, 0.0, 1.0], [0.5, 0.5, 2.0], [1.0, 1.0, 3.0], [1.5, 1.5, 4.0]]
    """
    means = [_trailing(u, n) for n in LENGTHS]
    slopes = [_slope(u, n) for n in LENGTHS]
    begun = np.cumsum(u, axis=0) / np.arange(1, len(u) + 1)[:, None]
    begun[FIRST:] = begun[min(FIRST, len(u)) - 1]
    age = np.arange(1.0, len(u) + 1)[:, None]
    return np.hstack([*means, *slopes, means[1] - np.where(age > FIRST, begun, 0.0), age])


def _trailing(u: Array, n: int) -> Array:
    """Return the mean of the last n rows, of fewer at the start."""
    total = np.cumsum(np.vstack([np.zeros_like(u[:1]), u]), axis=0)
    last = np.arange(1, len(u) + 1)
    first = np.maximum(last - n, 0)
    return np.asarray((total[last] - total[first]) / (last - first)[:, None])


def _slope(u: Array, n: int) -> Array:
    """Return how much trailing means of half a window changed within it, a cycle."""
    half = max(n // 2, 1)
    means = _trailing(u, half)
    before = means[np.maximum(np.arange(len(u)) - half, 0)]
    return np.asarray((means - before) / half)


def pooled_options(name: str) -> dict[str, Make]:
    """Return what a contender chooses from, as makers of models that are not fitted."""
    from sklearn.decomposition import PCA
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

    def linear(ridge: float, components: int) -> Any:
        scaled = StandardScaler()
        if not components:
            return make_pipeline(scaled, Ridge(ridge))
        two = PolynomialFeatures(2, include_bias=False)
        products_ = make_pipeline(PCA(components, random_state=0), two, StandardScaler())
        return make_pipeline(scaled, make_union(FunctionTransformer(), products_), Ridge(ridge))

    def trees(rate: float, leaves: int) -> Any:
        return HistGradientBoostingRegressor(
            learning_rate=rate, max_leaf_nodes=leaves, random_state=0
        )

    if name == BOOSTED:
        return {
            f"{leaves} leaves, rate {rate:g}": partial(trees, rate, leaves)
            for rate, leaves in product((0.1, 0.05), (31, 8))
        }
    counts = (0,) if name == LINEAR else (10, 20)
    return {
        (f"{n} components, " if n else "") + f"ridge {ridge:g}": partial(linear, ridge, n)
        for n, ridge in product(counts, RIDGES)
    }


def pooled_said(name: str, engines: Engines) -> tuple[list[float], float, str, int]:
    """Return what is said of each test engine, the error on engines left out, and what was chosen.

    The last number is how many columns there are.
    """
    groups = dict(enumerate(_rows(engines.train)))
    errors = {}
    for text, make in pooled_options(name).items():
        squares = []
        for g in range(min(GROUPS, len(groups))):
            inside = [own for k, own in groups.items() if k % GROUPS != g]
            model = make().fit(*_stacked(inside))
            for k, (z, y) in groups.items():
                if k % GROUPS == g:
                    squares.append((model.predict(z) - y) ** 2)
        errors[text] = float(np.sqrt(np.concatenate(squares).mean()))
    best = min(errors, key=errors.__getitem__)
    model = pooled_options(name)[best]().fit(*_stacked(list(groups.values())))
    said = [model.predict(z[-1:])[0] for z, _ in _rows(engines.test)]
    clipped = [float(value) for value in np.clip(said, 0.0, CAP)]
    columns = getattr(model[-1], "n_features_in_", 0) if name != BOOSTED else model.n_features_in_
    return clipped, errors[best], best, int(columns)


def _rows(engines: Mapping[str, Sequence[Recording]]) -> list[tuple[Array, Array]]:
    found = []
    for (one,) in engines.values():
        assert one.y is not None
        found.append((trailing_columns(one.u), one.y[:, 0]))
    return found


def _stacked(rows: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    z, y = zip(*rows, strict=True)
    return np.concatenate(z), np.concatenate(y)
