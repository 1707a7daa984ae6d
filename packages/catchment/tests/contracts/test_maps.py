"""What every feature map promises, those of the library and a user's own alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from catchment import Array, save
from catchment.data import Prepare, Recording
from catchment.errors import IntegrityError
from catchment.features import Adapted, EchoState, FeatureMap, Pipeline, Thinned, as_map, restored
from catchment.readout import accumulate, accumulate_each, load_model, train, unpack
from catchment.wire import Parts
from tests.contracts.maps import CHANNELS, MAPS, Delays, OwnStatistics

RNG = np.random.default_rng(3)
INPUTS = [RNG.normal(size=(n, CHANNELS)) for n in (40, 25, 60)]


@pytest.fixture(params=MAPS)
def features(request: pytest.FixtureRequest) -> FeatureMap:
    return MAPS[request.param]()


def one_of(features: FeatureMap) -> int:
    """Return of how many rows one is learnt from."""
    if isinstance(features, Adapted) and isinstance(features.inner, Thinned):
        return math.lcm(features.inner.every, one_of(features.inner.inner))
    return 1


def recordings(features: FeatureMap) -> list[Recording]:
    if features.per_step:
        return [Recording(u, np.roll(u, 1, axis=0)[:, :2]) for u in INPUTS]
    return [Recording.labelled(u, k % 2, 2) for k, u in enumerate(INPUTS)]


def test_rows_have_the_promised_shape_and_are_finite(features: FeatureMap) -> None:
    assert features.n_inputs in (None, CHANNELS)
    assert len(features.names()) == features.n_features
    assert features.cost > 0
    for u, z in zip(INPUTS, features.rows(INPUTS), strict=True):
        n_rows = len(u) - features.washout if features.per_step else 1
        assert z.shape == (n_rows, features.n_features)
        assert np.isfinite(z).all()


@pytest.mark.filterwarnings("ignore::catchment.errors.ClippingWarning")
def test_no_feature_exceeds_its_bound(features: FeatureMap) -> None:
    assert features.bounds.shape == (features.n_features,)
    loud = [1e3 * u for u in INPUTS]
    for z in features.rows(loud):
        assert (np.abs(z) <= features.bounds * (1 + 1e-9)).all()
    if features.constant:
        assert all((z[:, 0] == 1).all() for z in features.rows(INPUTS))


def test_rows_do_not_depend_on_company_or_threads(features: FeatureMap) -> None:
    together = features.rows(INPUTS, threads=2)
    for u, z in zip(INPUTS, together, strict=True):
        np.testing.assert_allclose(features.rows([u], threads=1)[0], z, rtol=1e-6, atol=1e-6)


def test_a_map_is_rebuilt_from_its_parts_to_the_bit(features: FeatureMap) -> None:
    again = restored(Parts.from_bytes(features.parts().to_bytes()))
    assert again.fingerprint == features.fingerprint
    for one, other in zip(features.rows(INPUTS), again.rows(INPUTS), strict=True):
        np.testing.assert_array_equal(one, other)


def test_statistics_are_those_of_the_rows(features: FeatureMap) -> None:
    data = recordings(features)
    total = accumulate(features, data)
    every = one_of(features)
    rows = [z[every - 1 :: every] for z in features.rows(INPUTS)]
    Z = np.concatenate(rows).astype(np.float64)
    first = features.washout + every - 1
    y = [
        s.y[first::every] if s.per_step else np.repeat(s.y[None], len(z), axis=0)  # type: ignore[index]
        for s, z in zip(data, rows, strict=True)
    ]
    np.testing.assert_allclose(unpack(total.floats.gram), Z.T @ Z, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(total.floats.cross, Z.T @ np.concatenate(y), rtol=1e-6, atol=1e-9)
    assert total.fingerprint == features.fingerprint
    apart = accumulate_each(features, [[one] for one in data])
    assert [s.n_rows for s in apart] == [len(z) for z in rows]


def test_a_model_with_the_map_is_saved_and_loaded(features: FeatureMap, tmp_path: Path) -> None:
    classes = None if features.per_step else ("odd", "even")
    model = train(features, recordings(features), 1e-3, classes=classes)
    same = load_model(save(model, tmp_path / "model.safetensors"))
    for one, other in zip(model.outputs(INPUTS), same.outputs(INPUTS), strict=True):
        np.testing.assert_array_equal(one, other)


def test_settings_change_the_fingerprint() -> None:
    one = as_map(OwnStatistics())
    assert one.fingerprint == as_map(OwnStatistics()).fingerprint
    assert one.fingerprint != as_map(OwnStatistics(limit=5.0)).fingerprint
    weights = np.array([1.0, 0.5, 2.0])
    assert (
        as_map(Delays(4, weights)).fingerprint
        != as_map(Delays(4, np.nextafter(weights, 3))).fingerprint
    )
    a, b = EchoState(20, seed=1), EchoState(20, seed=2)
    prints = {m.build(3, per_step=step).fingerprint for m in (a, b) for step in (True, False)}
    assert len(prints) == 4


def test_the_pipeline_changes_with_whatever_could_change_a_feature() -> None:
    base = Pipeline(Prepare(scale="none"), EchoState(10).build(2, per_step=True))
    others = [
        Pipeline(replace(base.prepare, gaps="interpolate"), base.map),
        Pipeline(base.prepare, EchoState(10, washout=1).build(2, per_step=True)),
    ]
    assert len({base.fingerprint, *(other.fingerprint for other in others)}) == 3


@dataclass(frozen=True)
class Wrong:
    """A map that breaks one promise at a time."""

    fault: str
    n_features = 2
    bounds = (-1.0, 1.0)

    def rows(self, recordings: Sequence[Recording]) -> list[Array]:
        row = {"shape": np.zeros((1, 3)), "nan": np.full((1, 2), np.nan), "bound": np.ones((1, 2))}
        many = [
            row.get(self.fault, np.zeros((1, 2))) * (2 if self.fault == "bound" else 1)
            for _ in recordings
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
        as_map(Wrong(fault)).rows(INPUTS)


def test_what_is_no_map_is_refused_with_a_remedy() -> None:
    with pytest.raises(TypeError, match="needs n_features, bounds and rows"):
        as_map(object())  # type: ignore[arg-type]

    class Plain:
        n_features = 1
        bounds = (0.0, 1.0)

        def rows(self, recordings: Sequence[Recording]) -> list[Array]:
            return [np.zeros((1, 1)) for _ in recordings]

    with pytest.raises(TypeError, match="is no dataclass"):
        as_map(Plain())


def test_a_model_file_names_its_map_and_refuses_to_load_without_it(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Hidden(OwnStatistics):
        """A class that no module holds."""

    features = as_map(Hidden())
    path = save(train(features, recordings(features), 1e-3), tmp_path / "model")
    with pytest.raises(IntegrityError, match=r"Hidden, which is not known here; import its module"):
        load_model(path)
    assert isinstance(load_model(path, use=[Hidden]).features, Adapted)


def test_a_giant_is_refused_before_anything_is_built() -> None:
    with pytest.raises(ValueError, match="ask for fewer units"):
        EchoState(1_000_000_000)
