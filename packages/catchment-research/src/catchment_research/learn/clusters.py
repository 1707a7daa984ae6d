"""Groups of clients that are alike, found from their statistics alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from catchment import Array
from catchment.readout import RidgeStatistics, feature_scale, rescaled


def cluster_clients(by_client: Mapping[str, RidgeStatistics], n_clusters: int) -> dict[str, int]:
    """Return a group for every client, by the distance between their mean moments.

    The moments G_k / n_k and C_k / n_k are of features and targets divided by their standard
    deviation over all clients; groups are joined by average distance.

    >>> z = np.array([[1.0, 0.0], [-1.0, 0.5], [0.5, 1.0]])
    >>> data = {"a": (z, z[:, :1]), "b": (z, -z[:, :1]), "c": (z * 1.01, z[:, :1])}
    >>> cluster_clients({k: RidgeStatistics.from_states(*v) for k, v in data.items()}, 2)
    {'a': 0, 'b': 1, 'c': 0}
    """
    names = sorted(by_client)
    if not 1 <= n_clusters <= len(names):
        raise ValueError(f"cannot make {n_clusters} groups of {len(names)} clients")
    if len(names) == 1:
        return {names[0]: 0}
    vectors = _moment_vectors([by_client[name] for name in names])
    inner = vectors @ vectors.T
    squared = np.diag(inner)[:, None] + np.diag(inner)[None] - 2 * inner
    distance = np.sqrt(np.maximum(squared, 0.0))
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), method="average")
    found = fcluster(tree, n_clusters, criterion="maxclust").tolist()
    # Numbered by who comes first, so that the numbers do not depend on the tree's own order.
    order = {label: k for k, label in enumerate(dict.fromkeys(found))}
    return {name: order[label] for name, label in zip(names, found, strict=True)}


def cluster_sums(
    by_client: Mapping[str, RidgeStatistics], groups: Mapping[str, int]
) -> dict[int, RidgeStatistics]:
    """Return the statistics of each group, to be solved by itself.

    >>> s = RidgeStatistics.from_states(np.ones((2, 1)), np.ones((2, 1)))
    >>> {k: v.n_rows for k, v in cluster_sums({"a": s, "b": s}, {"a": 0, "b": 0}).items()}
    {0: 4}
    """
    sums: dict[int, RidgeStatistics] = {}
    for name in sorted(by_client):
        group = groups[name]
        sums[group] = sums[group] + by_client[name] if group in sums else by_client[name]
    return sums


def _moment_vectors(clients: Sequence[RidgeStatistics]) -> Array:
    """Return (clients, L) scaled mean moments whose Euclidean distance is the Frobenius one."""
    total = reduce(add, clients)
    scale = feature_scale(total)
    spread = np.sqrt(total.target_moments() / total.weight)
    spread = np.where(spread > 0, spread, 1.0)
    twice = np.sqrt(2.0 - np.eye(total.n_features))[np.triu_indices(total.n_features)]
    rows = []
    for client in clients:
        if client.weight <= 0:
            raise ValueError("a client has no rows; leave it out before grouping")
        mine = rescaled(client, scale)
        cross = mine.cross / spread
        rows.append(np.concatenate([mine.gram * twice, cross.ravel()]) / client.weight)
    return np.array(rows)
