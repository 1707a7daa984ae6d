"""What using the library looks like, block by block as /docs shows it, from files to a report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import catchment as ct
from catchment.data import ACTIVITIES, CHANNELS, Clients, synthetic_wearables
from catchment.errors import FederationError
from catchment.readout import nrmse
from catchment.sklearn import EchoStateClassifier

PEOPLE = [f"person-{k:02d}" for k in range(15)] + ["ann"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one CSV per person: labeled windows of six channels, some gaps."""
    place = tmp_path_factory.mktemp("recordings")
    rng = np.random.default_rng(0)
    users = synthetic_wearables(len(PEOPLE), seed=0, windows_per_user=20, steps=100)
    for name, windows in zip(PEOPLE, users.values(), strict=True):
        lines = [",".join(["person", "window", "activity", *CHANNELS])]
        for k, window in enumerate(windows):
            assert window.y is not None
            label = ACTIVITIES[int(window.y.argmax())]
            for row in window.u:
                cells = ["" if rng.random() < 0.01 else f"{value:.5f}" for value in row]
                lines.append(",".join([name, str(k), label, *cells]))
        (place / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def people(folder: Path) -> Clients:
    return ct.read(folder / "*.csv", label="activity", client="person", recording="window")


def test_one_owner(people: Clients, tmp_path: Path) -> None:
    model = ct.fit(ct.EchoState(50), people["ann"])
    new = people["person-01"]
    said = model.predict(new)
    assert len(said) == len(new)
    assert set(said) <= set(ACTIVITIES)
    assert model.predict(new[0]) == said[0]
    probability = model.predict_proba(new)
    assert probability.shape == (len(new), len(people.classes or ()))
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    model.save(tmp_path / "model.safetensors")
    assert ct.load(tmp_path / "model.safetensors").predict(new) == said


def test_one_owner_forecasts() -> None:
    hours = np.arange(24 * 30.0)
    load = 400 + 80 * np.sin(hours * 2 * np.pi / 24) + 20 * np.sin(hours * 2 * np.pi / 168)
    past, future = load[:-24], load[-24:]
    pipeline = ct.Pipeline(ct.Preprocessing(horizon=1), ct.EchoState(100))
    model = ct.fit(pipeline, [ct.Recording(past, channels=("load",))])
    ahead = model.forecast(past, 24)
    assert ahead.shape == (24, 1)
    assert nrmse(future, ahead) < 0.1


def test_many_owners(people: Clients, tmp_path: Path) -> None:
    train, test = ct.split(people, test=0.25, seed=0)
    run = ct.federate(ct.EchoState(100), train)
    scores = ct.evaluate(run.model, test)
    printed = str(scores).splitlines()
    assert scores.total is not None
    assert printed[0] == f"accuracy {scores.total.value:.4f}, 4 clients, 80 rows"
    assert printed[1].startswith("worst")
    assert [line.split()[0] for line in printed[2:]] == sorted(test)
    by_hand = [
        run.model.predict(recording) == (people.classes or ())[int(recording.y.argmax())]
        for held in test.values()
        for recording in held
        if recording.y is not None
    ]
    assert scores.total.value == pytest.approx(np.mean(by_hand))
    assert scores.total.value > 0.6

    text = run.explain()
    assert "What left the clients of 12 clients, EchoState" in text
    assert "scaling: moments" in text
    assert "training: ridge-statistics" in text
    assert "12 clients sent 12 messages" in text
    some = run.explain(sorted(train)[0])
    assert "sha256" in some
    with pytest.raises(ValueError, match="'nobody' sent nothing"):
        run.explain("nobody")
    page = run.report(tmp_path / "report.html").read_text("utf-8")
    assert "sent by each client in training" in page
    scored = run.report(tmp_path / "scored.html", scores).read_text("utf-8")
    assert "accuracy, all test clients" in scored


def test_many_owners_hidden_in_a_sum(people: Clients) -> None:
    train, test = ct.split(people, test=0.25, seed=0)
    keys = ct.generate_keys(train)
    described = ct.EchoState(8, pool="mean", input=False)
    private = ct.federate(described, train, protections=[ct.SecureAggregation(keys)])
    open_ = ct.federate(described, train, ridge="gcv")
    np.testing.assert_allclose(
        private.model.readout.weights, open_.model.readout.weights, rtol=1e-6, atol=1e-9
    )
    assert "masked" in private.explain() or "secure" in private.explain()
    assert ct.evaluate(private.model, test).total is not None


def test_a_run_is_kept_where_out_says(people: Clients, tmp_path: Path) -> None:
    train, test = ct.split(people, test=0.25, seed=0)
    run = ct.federate(ct.EchoState(20), train, out=tmp_path / "run")
    assert run.folder == tmp_path / "run"
    loaded = ct.load(tmp_path / "run" / "model.safetensors")
    new = next(iter(test.values()))
    assert loaded.predict(new) == run.model.predict(new)
    assert run.explain() == ct.federate(ct.EchoState(20), train).explain()
    assert run.report(tmp_path / "report.html").is_file()
    page = run.report(tmp_path / "scored.html", ct.evaluate(run.model, test)).read_text("utf-8")
    assert "accuracy, all test clients" in page
    assert "12 clients sent 12 messages" in page
    with pytest.raises(FederationError, match="already holds a run"):
        ct.federate(ct.EchoState(20), train, out=tmp_path / "run")


def test_maps_are_put_together(people: Clients) -> None:
    train, test = ct.split(people, test=0.25, seed=0)
    both = ct.FeatureUnion(ct.EchoState(10), ct.MiniRocket(42))
    small = ct.RandomProjection(ct.MiniRocket(504), 63)
    for described, columns in ((both, 2 * (10 + 6) + 42), (small, 63)):
        run = ct.federate(described, train)
        assert run.model.features.n_features == columns
        total = ct.evaluate(run.model, test).total
        assert total is not None
        assert total.value > 0.4  # six classes


def test_what_happens_before_the_readout_is_one_value(people: Clients) -> None:
    def pipeline(**changes: object) -> ct.Pipeline:
        settings: dict[str, object] = {"gaps": "hold", "window": 25, "scale": "none"}
        preprocessing = ct.Preprocessing(**settings | changes)  # type: ignore[arg-type]
        return ct.Pipeline(preprocessing, ct.EchoState(20, seed=3)).built(6, per_step=False)

    same, other = pipeline(), pipeline()
    assert same.fingerprint == other.fingerprint
    changed = [pipeline(gaps="interpolate"), pipeline(window=30), pipeline(scale="own")]
    assert len({same.fingerprint, *(one.fingerprint for one in changed)}) == 4
    windows = ct.Pipeline(ct.Preprocessing(window=25, scale="federated"), ct.EchoState(20, seed=3))
    model = ct.fit(windows, people["ann"])
    steps = people["person-01"][0].n_steps
    assert len(model.predict(people["person-01"][0])) == steps // 25


def test_scikit_learn_is_the_same_thing_with_its_habits(people: Clients) -> None:
    X = [recording.u for recording in people["ann"]]
    y = [(people.classes or ())[int(r.y.argmax())] for r in people["ann"] if r.y is not None]
    classifier = EchoStateClassifier(units=50).fit(X, y)
    data = [ct.Recording.labeled(u, label, sorted(set(y))) for u, label in zip(X, y, strict=True)]
    model = ct.fit(ct.EchoState(50), data)
    assert_array_equal(classifier.model_.readout.weights, model.readout.weights)
    assert_array_equal(classifier.model_.readout.intercept, model.readout.intercept)


def test_a_client_is_taken_out_of_the_sum(people: Clients) -> None:
    described = ct.Pipeline(ct.Preprocessing(scale="none"), ct.EchoState(10))
    run = ct.federate(described, people)
    without = {name: held for name, held in people.items() if name != "ann"}
    ann = ct.federate(described, {"ann": people["ann"]}).statistics
    rest = ct.federate(described, without).statistics
    left = run.statistics - ann
    assert left.n_rows == rest.n_rows
    np.testing.assert_allclose(left.gram, rest.gram, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(left.cross, rest.cross, rtol=1e-9, atol=1e-9)
