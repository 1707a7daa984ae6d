"""What every feature map promises, those of the library and a user's own alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from catchment import Array, save
from catchment.data import Preprocessing, Recording
from catchment.errors import IntegrityError
from catchment.features import EchoState, FeatureMap, Pipeline
from catchment.readout import accumulate, accumulate_each, load_model, train
from catchment.testing import check_feature_map
from tests.contracts.maps import CHANNELS, MAPS, Delays, OwnStatistics

RNG = np.random.default_rng(3)
INPUTS = [RNG.normal(size=(n, CHANNELS)) for n in (40, 25, 60)]


@pytest.fixture(params=MAPS)
def features(request: pytest.FixtureRequest) -> FeatureMap:
    return MAPS[request.param]()


def recordings(features: FeatureMap) -> list[Recording]:
    if features.per_step:
        return [Recording(u, np.roll(u, 1, axis=0)[:, :2]) for u in INPUTS]
    return [Recording.labeled(u, k % 2, 2) for k, u in enumerate(INPUTS)]


def test_a_map_keeps_its_promises(features: FeatureMap) -> None:
    check_feature_map(features)


def test_clients_at_once_have_the_rows_of_each(features: FeatureMap) -> None:
    data = recordings(features)
    apart = accumulate_each(features, [[one] for one in data])
    assert [s.n_rows for s in apart] == [accumulate(features, [one]).n_rows for one in data]


def test_settings_change_the_fingerprint() -> None:
    one = OwnStatistics()
    assert one.fingerprint == OwnStatistics().fingerprint
    assert one.fingerprint != OwnStatistics(limit=5.0).fingerprint
    weights = np.array([1.0, 0.5, 2.0])
    assert Delays(4, weights).fingerprint != Delays(4, np.nextafter(weights, 3)).fingerprint
    a, b = EchoState(20, seed=1), EchoState(20, seed=2)
    prints = {m.build(3, per_step=step).fingerprint for m in (a, b) for step in (True, False)}
    assert len(prints) == 4


def test_the_pipeline_changes_with_whatever_could_change_a_feature() -> None:
    base = Pipeline(Preprocessing(scale="none"), EchoState(10).build(2, per_step=True))
    others = [
        Pipeline(replace(base.preprocessing, gaps="interpolate"), base.map),
        Pipeline(base.preprocessing, EchoState(10, washout=1).build(2, per_step=True)),
    ]
    assert len({base.fingerprint, *(other.fingerprint for other in others)}) == 3


@dataclass(frozen=True)
class Wrong(FeatureMap):
    """A map that breaks one promise at a time."""

    fault: str
    n_features = 2
    bounds = np.full(2, 1.0)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        row = {"shape": np.zeros((1, 3)), "nan": np.full((1, 2), np.nan), "bound": np.ones((1, 2))}
        many = [
            row.get(self.fault, np.zeros((1, 2))) * (2 if self.fault == "bound" else 1)
            for _ in inputs
        ]
        return many[:-1] if self.fault == "count" else many


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("shape", r"return \(1, 2\)"),
        ("nan", "not finite"),
        ("bound", "outside its bounds"),
        ("count", "2 results for 3"),
    ],
)
def test_a_map_that_breaks_a_promise_is_refused(fault: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"(?i){words}"):
        Wrong(fault).rows(INPUTS)
    with pytest.raises(AssertionError, match="Wrong breaks a law"):
        check_feature_map(Wrong(fault))


def test_a_field_where_every_map_has_a_property_needs_a_default() -> None:
    with pytest.raises(TypeError, match=r"^Coarse has a field 'bits' without a default, and every"):

        @dataclass(frozen=True)
        class Coarse(OwnStatistics):
            bits: int  # type: ignore[misc]

    @dataclass(frozen=True)
    class Fine(OwnStatistics):
        bits: int = 8

    assert Fine().bits == 8
    assert Fine(bits=12).bits == 12


def test_what_is_no_map_is_refused_with_a_remedy() -> None:
    with pytest.raises(TypeError, match=r"write class object\(FeatureMap\), with n_f"):
        Pipeline(Preprocessing(), object())  # type: ignore[arg-type]

    class Plain(FeatureMap):
        n_features = 1
        bounds = np.full(1, 1.0)

        def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
            return [np.zeros((1, 1)) for _ in inputs]

    with pytest.raises(TypeError, match="is no dataclass"):
        Pipeline(Preprocessing(), Plain())


def test_a_model_file_names_its_map_and_refuses_to_load_without_it(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Hidden(OwnStatistics):
        """A class that no module holds."""

    features = Hidden()
    path = save(train(features, recordings(features), 1e-3), tmp_path / "model")
    with pytest.raises(IntegrityError, match=r"Hidden, which is not known here; import its module"):
        load_model(path)
    assert isinstance(load_model(path, use=[Hidden]).features, Hidden)


def test_a_giant_is_refused_before_anything_is_built() -> None:
    with pytest.raises(ValueError, match="ask for fewer units"):
        EchoState(1_000_000_000)
