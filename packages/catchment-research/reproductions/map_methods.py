"""The rows of `python -m reproductions maps`: what each method's candidates are.

A method is one map, or several of which the clients left out choose one in every fold; the upload
is then as large as those of all candidates together. Nothing here was set by test figures of these
sets except the documented reservoir, which was searched for UCI HAR's training subjects.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from catchment.features import (
    AutoMap,
    DefaultMap,
    EchoState,
    FeatureMap,
    FeatureUnion,
    Hydra,
    MiniRocket,
    RandomProjection,
    WindowStatistics,
)

Method = Callable[[int, int], tuple[FeatureMap, ...]]  # of the seed and the channels
MAJORITY, AUTO = "majority", "auto"
NOTHING_SET = "default, nothing set"  # `federate("default", clients)`: the README's row
# What targets are compared with, on every set.
RULES = (NOTHING_SET, "default, 510", "default, 800", "auto")
ANY_SIZE = "default, 2016"
OVER_ROUNDS = "MiniRocket, 9996 over rounds"  # computed only of dealt cases
LARGE = ("MiniRocket, 2016", "default, 2016")  # computed only where there is one fold


def _one(make: Callable[[int], FeatureMap]) -> Method:
    return lambda seed, n_inputs: (make(seed),)


def documented(seed: int) -> FeatureMap:
    """Return the reservoir that docs/research/unseen.md has for UCI HAR."""
    return EchoState(500, seed=seed, spectral_radius=0.397, leak_rate=0.336, input_scaling=0.361)


def recipes(seed: int, n_inputs: int) -> tuple[FeatureMap, ...]:
    """Return six reservoirs of 300 units to choose from: slow or quick, weakly or strongly driven.

    >>> len(recipes(0, n_inputs=3))
    6
    """
    return tuple(
        EchoState(300, seed=seed, spectral_radius=radius, leak_rate=leak, input_scaling=scaling)
        for (radius, leak), scaling in product(((0.4, 0.3), (0.9, 0.1), (0.9, 0.8)), (0.2, 0.8))
    )


def beside_all(seed: int) -> FeatureMap:
    """Return window statistics beside many convolutions that are mixed into few."""
    return FeatureUnion(
        WindowStatistics(), RandomProjection(MiniRocket(4032, seed=seed), 600, seed=seed)
    )


# A map without a seed is drawn once: window statistics have no second seed.
METHODS: dict[str, Method | None] = {
    MAJORITY: None,
    "window statistics": lambda seed, n_inputs: (WindowStatistics(),) if seed == 0 else (),
    "reservoir, default": _one(lambda seed: EchoState(200, seed=seed)),
    "reservoir, documented": _one(documented),
    "reservoir, chosen": recipes,
    "MiniRocket, 504": _one(lambda seed: MiniRocket(504, seed=seed)),
    "MiniRocket, 1008": _one(lambda seed: MiniRocket(1008, seed=seed)),
    "MiniRocket, 2016": _one(lambda seed: MiniRocket(2016, seed=seed)),
    OVER_ROUNDS: _one(lambda seed: MiniRocket(9996, seed=seed)),
    "Hydra, 512": _one(lambda seed: Hydra(512, seed=seed)),
    "Hydra, 1024": _one(lambda seed: Hydra(1024, seed=seed)),
    "MiniRocket, 4032 projected to 504": _one(
        lambda seed: RandomProjection(MiniRocket(4032, seed=seed), 504, seed=seed)
    ),
    "statistics beside 4032 projected to 600": _one(beside_all),
    NOTHING_SET: _one(lambda seed: DefaultMap(seed=seed)),
    "default, 510": _one(lambda seed: DefaultMap(510, seed=seed)),
    "default, 800": _one(lambda seed: DefaultMap(800, seed=seed)),
    "default, 2016": _one(lambda seed: DefaultMap(2016, seed=seed)),
    AUTO: lambda seed, n_inputs: AutoMap(seed=seed).candidates(n_inputs, per_step=False),
}
