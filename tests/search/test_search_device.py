"""A search on a device finds what one on the CPU finds."""

from __future__ import annotations

from typing import Literal

import pytest

pytest.importorskip("optuna")

from catchment import Reservoir
from catchment.data import narma
from catchment.features import EchoState
from catchment_lab.search import SearchResult, SearchSettings, Space, search
from reproductions.people import synthetic_people
from tests.features.echo_state.devices import DEVICES, one_thread  # noqa: F401  # a fixture

pytestmark = pytest.mark.slow

PEOPLE = synthetic_people(n_users=5, windows=6)
SETTINGS = SearchSettings(trials=3, sampler="random", shares=(0.5, 1.0))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_a_device_finds_the_same_trials_and_the_same_recipe(kind: str, device: str) -> None:
    people = kind == "classes"
    waves = {f"c{k}": [narma(60, seed=k)] for k in range(4)}
    train = PEOPLE.train if people else {name: waves[name] for name in ("c0", "c1", "c2")}

    def features(reservoir: Reservoir) -> EchoState:
        pool: Literal["mean_std"] | None = "mean_std" if people else None
        return EchoState.of(reservoir, pool=pool, feature_bits=8 if people else 20)

    def found(device: str | None) -> SearchResult:
        return search(
            train,
            PEOPLE.validation if people else {"c3": waves["c3"]},
            features=features,
            classes=PEOPLE.classes if people else None,
            space=Space(units=(10, 15), connections=(1, 10)),
            base=Reservoir(units=5, bits=20),
            settings=SETTINGS,
            device=device,
        )

    here, there = found(None), found(device)
    assert here.reservoir == there.reservoir
    for one, other in zip(here.trials, there.trials, strict=True):
        assert (one.score, one.ridge, one.settings) == (other.score, other.ridge, other.settings)
