"""Recurrent matrices before scaling: who is connected to whom, and with which raw weights.

`random`, `small_world` (Watts and Strogatz 1998) and `scale_free` (Barabási and Albert 1999) have
weights uniform in (-1, 1); both directions of an edge of the last two get a weight of their own.
`ring`, `delay_line`, `permutation` and `cycle_jumps` (Rodan and Tiňo 2011, 2012) have weight 1, or
a random sign each. `orthogonal` is a product of rotations. Row i holds what unit i receives.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np

from catchment.arrays import Array, Integers
from catchment.features.echo_state.random_words import (
    Purpose,
    Words,
    distinct,
    integers,
    orthogonal,
    permutation,
    signs,
    uniform,
)
from catchment.features.echo_state.weights import SparseRows

TOPOLOGIES = (
    "random",
    "small_world",
    "scale_free",
    "ring",
    "delay_line",
    "cycle_jumps",
    "permutation",
    "orthogonal",
)
DECIMALS, BISECTIONS = Context(prec=40), 80
SIGNED = ("ring", "delay_line", "cycle_jumps", "permutation")


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """All that decides the raw matrix of a layer; each topology reads only its own settings."""

    topology: str
    units: int
    density: float | None = None
    connections: int = 0
    rewiring: float = 0.0
    jump: int = 1
    jump_weight: float = 0.0
    random_signs: bool = False
    seed: int = 0
    layer: int = 0

    def words(self, purpose: Purpose) -> Words:
        return Words(seed=self.seed, layer=self.layer, purpose=purpose)


def raw_matrix(wiring: Wiring) -> SparseRows:
    """Return the recurrent matrix (N, N) before scaling.

    >>> raw_matrix(Wiring(topology="ring", units=3)).to_dense()
    array([[0., 0., 1.],
           [1., 0., 0.],
           [0., 1., 0.]])
    """
    N = wiring.units
    if wiring.topology == "orthogonal":
        return SparseRows.from_dense(orthogonal(wiring.words(Purpose.RECURRENT_VALUES), N))
    rows, columns = _places(wiring)
    values = _values(wiring, len(rows))
    if wiring.topology == "cycle_jumps":
        values[N:] *= wiring.jump_weight
    return SparseRows.from_coordinates(rows, columns, values, N, N)


def known_radius(wiring: Wiring) -> float | None:
    """Return the spectral radius of the raw matrix where a formula gives it, else None.

    A delay line has no cycle, so its radius is 0.

    >>> known_radius(Wiring(topology="permutation", units=50))
    1.0
    >>> known_radius(Wiring(topology="random", units=50, density=0.1))
    """
    if wiring.topology in ("ring", "permutation", "orthogonal"):
        return 1.0
    if wiring.topology == "delay_line":
        return 0.0
    if wiring.topology == "cycle_jumps" and not wiring.random_signs:
        return _cycle_jumps_radius(wiring)
    return None


def _values(wiring: Wiring, n: int) -> Array:
    rng = wiring.words(Purpose.RECURRENT_VALUES)
    if wiring.topology not in SIGNED:
        return uniform(rng, n, -1.0, 1.0)
    return signs(rng, n) if wiring.random_signs else np.ones(n)


def _places(wiring: Wiring) -> tuple[Integers, Integers]:
    """Return the rows and columns of the non-zeros."""
    N = wiring.units
    units = np.arange(N)
    match wiring.topology:
        case "random":
            return _random_places(wiring)
        case "small_world":
            return _both_directions(_small_world_edges(wiring))
        case "scale_free":
            return _both_directions(_scale_free_edges(wiring))
        case "ring":
            return units, (units - 1) % N
        case "delay_line":
            return units[1:], units[:-1]
        case "permutation":
            return units, permutation(wiring.words(Purpose.RECURRENT_PLACES), N)
        case "cycle_jumps":
            jump = wiring.jump
            start = units[: N // jump] * jump
            there, back = _both_directions(np.stack([start, (start + jump) % N], axis=1))
            # With two jumps in all, the way there and the way back are the same pair twice.
            once = np.unique(there * N + back)
            return np.concatenate([units, once // N]), np.concatenate([(units - 1) % N, once % N])
    raise ValueError(f"topology is {wiring.topology!r}; choose one of {', '.join(TOPOLOGIES)}")


def _random_places(wiring: Wiring) -> tuple[Integers, Integers]:
    N, rng = wiring.units, wiring.words(Purpose.RECURRENT_PLACES)
    if wiring.density is not None:
        place = distinct(rng, 1, round(wiring.density * N * N), N * N)[0]
        return place // N, place % N
    k = wiring.connections
    return np.repeat(np.arange(N), k), distinct(rng, N, k, N).ravel()


def _both_directions(edges: Integers) -> tuple[Integers, Integers]:
    there, back = edges[:, 0], edges[:, 1]
    return np.concatenate([there, back]), np.concatenate([back, there])


def _small_world_edges(wiring: Wiring) -> Integers:
    """Return the edges (n, 2) of a ring of nearest neighbours, some moved to a random far end."""
    N, k = wiring.units, wiring.connections
    rng = wiring.words(Purpose.RECURRENT_PLACES)
    near = np.tile(np.arange(N), k // 2)
    far = (near + np.repeat(np.arange(1, k // 2 + 1), N)) % N
    moved = np.flatnonzero(uniform(rng, len(near)) < wiring.rewiring)
    linked: list[set[int]] = [set() for _ in range(N)]
    for i, j in zip(near.tolist(), far.tolist(), strict=True):
        linked[i].add(j)
        linked[j].add(i)
    for edge in moved.tolist():
        i, old = int(near[edge]), int(far[edge])
        if len(linked[i]) == N - 1:
            continue
        new = i
        while new == i or new in linked[i]:
            new = int(integers(rng, 1, N)[0])
        linked[i].remove(old)
        linked[old].remove(i)
        linked[i].add(new)
        linked[new].add(i)
        far[edge] = new
    return np.stack([near, far], axis=1)


def _scale_free_edges(wiring: Wiring) -> Integers:
    """Return the edges (n, 2) of a graph grown unit by unit, a new one linking to popular ones."""
    N, m = wiring.units, wiring.connections // 2
    rng = wiring.words(Purpose.RECURRENT_PLACES)
    # An end of a random edge is a unit drawn in proportion to its number of edges.
    edges = [(0, i) for i in range(1, m + 1)]
    ends = [unit for edge in edges for unit in edge]
    for new in range(m + 1, N):
        chosen: set[int] = set()
        while len(chosen) < m:
            chosen.add(ends[int(integers(rng, 1, len(ends))[0])])
        for unit in sorted(chosen):
            edges.append((new, unit))
            ends += (new, unit)
    return np.array(edges, dtype=np.int64).reshape(-1, 2)


def _cycle_jumps_radius(wiring: Wiring) -> float | None:
    """Return the radius of a cycle of weight 1 with jumps of weight w over l units, if l divides N.

    Then the matrix repeats every l units and has no negative entry, so its radius is that of the
    l units of one period closed on themselves: a cycle in which one unit feeds itself with weight
    2w. That is the positive root of r^l = 2w r^(l-1) + 1.
    """
    N, jump, weight = wiring.units, wiring.jump, wiring.jump_weight
    if N % jump or weight < 0.0:
        return None
    loop = Decimal(weight if 2 * jump == N else 2.0 * weight)
    # In the form r = loop + r^(1-l) the right side falls with r: bisection between 1 and loop + 1.
    # In decimals, because the last bits of a power differ between mathematical libraries.
    low, high = max(Decimal(1), loop), loop + 1
    for _ in range(BISECTIONS):
        middle = DECIMALS.divide(DECIMALS.add(low, high), Decimal(2))
        if DECIMALS.subtract(middle, loop) > DECIMALS.power(middle, Decimal(1 - jump)):
            high = middle
        else:
            low = middle
    return float(high)
