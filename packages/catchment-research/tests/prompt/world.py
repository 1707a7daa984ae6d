"""A small task that the tests of prompts share: slow and fast waves, to be named by a word."""

from __future__ import annotations

import numpy as np

from catchment import Reservoir
from catchment.features import EchoState
from catchment_research.prompt import (
    EdgeController,
    Example,
    LanguageServer,
    Projection,
    PromptTraining,
    SurrogateLM,
)

WORDS = (5, 9, 23)
MODEL = SurrogateLM(width=12, vocabulary=40, seed=2)
PROJECTION = Projection(bottleneck=6, length=3, width=12, seed=3, scale=0.5)


def features() -> EchoState:
    recipe = Reservoir(units=15, inputs=1, leak_rate=0.5, seed=3)
    return EchoState.of(recipe, bias=True, pool="last")


def waves(n: int, seed: int, *, n_labels: int = 3) -> list[Example]:
    """Return signals whose speed is their label, and a few tokens that say nothing of it."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        label = int(rng.integers(n_labels))
        speed = (0.2, 0.9, 2.0)[label]
        u = np.sin(speed * np.arange(20) + rng.uniform(0, 0.5)) + 0.05 * rng.normal(size=20)
        context = rng.integers(0, 40, size=int(rng.integers(1, 4)))
        made.append(Example(label, u[:, None], context))
    return made


def clients(n_clients: int = 3, n: int = 20) -> dict[str, list[Example]]:
    return {f"client-{k}": waves(n - 3 * k, k) for k in range(n_clients)}


def training(**settings: object) -> PromptTraining:
    """Return a training on the surrogate; other settings as given."""
    controller = EdgeController(projection=PROJECTION, features=features())
    server = LanguageServer(MODEL, PROJECTION, WORDS)
    return PromptTraining(**{"controller": controller, "server": server, **settings})  # type: ignore[arg-type]
