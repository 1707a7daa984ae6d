"""A model as an ONNX file: what goes in, what comes out, what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from inspect import getmodule
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnx
import onnxruntime

from catchment import (
    Array,
    EchoState,
    Hydra,
    MiniRocket,
    Preprocessing,
    Recording,
    WindowStatistics,
)
from catchment.cli import app
from catchment.errors import IntegrityError
from catchment.features import FeatureMap, Pipeline
from catchment.readout import Model, PersonalModels, Readout
from catchment.sklearn import (
    EchoStateClassifier,
    EchoStateFeatures,
    EchoStateRegressor,
    TimeSeriesClassifier,
)
from catchment_edge import Encoder, to_onnx
from tests.export.onnx_models import (
    CHANNELS,
    STEPS,
    model_of,
    own_scores,
    scores_in,
    waves,
)
from tests.features.onnx_graphs import write

RAW = Preprocessing(gaps="error", scale="none")


def outputs_in(path: Path, u: Array) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(path)
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, {"samples": u}), strict=True))


@pytest.mark.parametrize("temperature", [None, 0.3])
def test_scores_probabilities_and_labels_are_the_models(
    tmp_path: Path, temperature: float | None
) -> None:
    model = replace(model_of(EchoState(20)), temperature=temperature)
    new = waves(5, seed=8)
    written = to_onnx(model, tmp_path / "m.onnx")
    found = outputs_in(tmp_path / "m.onnx", np.stack(new))
    np.testing.assert_allclose(found["scores"], model.scores(new), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(new), rtol=0, atol=1e-12)
    assert found["label"].tolist() == model.predict(new) == model.classify(new)
    assert written.relative_difference < 1e-12
    assert written.n_bytes == (tmp_path / "m.onnx").stat().st_size


def test_numbers_have_scores_alone(tmp_path: Path) -> None:
    model = model_of(EchoState(20, washout=3), per_step=True, classes=None)
    to_onnx(model, tmp_path / "m.onnx")
    (u,) = waves(1)
    found = outputs_in(tmp_path / "m.onnx", u)
    assert list(found) == ["scores"]
    np.testing.assert_allclose(found["scores"], model.predict(u), rtol=0, atol=1e-12)


@given(data=st.data())
@settings(max_examples=15)
def test_probabilities_are_the_nearest_on_the_simplex(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("simplex") / "m.onnx"
    scores = data.draw(
        st.lists(st.sampled_from([-2.0, -0.25, 0.0, 0.25, 0.5, 1.0, 3.0]), min_size=3, max_size=3)
    )
    # The scores are the means of the inputs, which are constant.
    features = EchoState(2, pool="mean", state=False, bits=None).build(3, per_step=False)
    model = Model(Pipeline(RAW, features), Readout(np.eye(3), np.zeros(3)), ("a", "b", "c"))
    to_onnx(model, path)
    u = np.tile(np.array(scores), (4, 1))
    found = outputs_in(path, u[None])
    np.testing.assert_allclose(found["probabilities"], model.predict_proba([u]), rtol=0, atol=1e-12)
    assert found["label"].tolist() == model.classify([u])


@pytest.mark.parametrize("gaps", ["hold", "interpolate"])
def test_gaps_are_filled_in_the_file(tmp_path: Path, gaps: Any) -> None:
    model = model_of(
        EchoState(20, bits=None), preprocessing=Preprocessing(gaps=gaps), features_out=True
    )
    to_onnx(model, tmp_path / "m.onnx")
    rng = np.random.default_rng(0)
    for share in (0.1, 0.6, 0.97):
        (u,) = waves(1)
        u[rng.random(u.shape) < share] = np.nan
        u[:, 1] = np.nan if share > 0.9 else u[:, 1]
        found = scores_in(tmp_path / "m.onnx", model, u)
        np.testing.assert_allclose(found, own_scores(model, u), rtol=0, atol=1e-12)


def test_what_the_model_refuses_has_no_score(tmp_path: Path) -> None:
    model = model_of(EchoState(20), preprocessing=Preprocessing(gaps="error"))
    to_onnx(model, tmp_path / "m.onnx")
    new = np.stack(waves(3))
    new[0, 5, 0], new[1, 7, 1] = np.nan, np.inf
    found = outputs_in(tmp_path / "m.onnx", new)
    assert np.isnan(found["scores"]).all(axis=1).tolist() == [True, True, False]
    assert np.isnan(found["probabilities"][:2]).all()


def test_a_window_in_seconds_is_counted_at_the_rate(tmp_path: Path) -> None:
    preprocessing = Preprocessing(rate=10, window="2s", step="1s")
    model = model_of(EchoState(15), preprocessing=preprocessing)
    to_onnx(model, tmp_path / "m.onnx")
    (u,) = waves(1, 65)
    told = {one.key: one.value for one in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert (told["rate"], told["window"], told["step"]) == ("10.0", "20", "10")
    (expected,) = model.outputs([Recording(u, times=np.arange(65) / 10)])
    found = scores_in(tmp_path / "m.onnx", model, u)
    assert len(found) == 5
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)

    free = model_of(EchoState(15), preprocessing=Preprocessing(window="2s"))
    with pytest.raises(ValueError, match="depends on the rate of the samples; say it"):
        to_onnx(free, tmp_path / "free.onnx")
    to_onnx(free, tmp_path / "free.onnx", rate=10)
    assert len(scores_in(tmp_path / "free.onnx", free, u)) == 3
    with pytest.raises(ValueError, match="takes samples at 10 Hz"):
        to_onnx(model, tmp_path / "m.onnx", rate=20)


def test_a_recording_shorter_than_a_window_has_no_rows(tmp_path: Path) -> None:
    model = model_of(EchoState(15), preprocessing=Preprocessing(window=20))
    to_onnx(model, tmp_path / "m.onnx")
    assert scores_in(tmp_path / "m.onnx", model, waves(1, 12)[0]).shape == (0, 3)


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    model = replace(model_of(MiniRocket(84)), channels=("x", "y"))
    to_onnx(model, tmp_path / "m.onnx", steps=STEPS)
    file = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(file, full_check=True)
    told = {one.key: one.value for one in file.metadata_props}
    assert json.loads(told["classes"]) == ["run", "sit", "walk"]
    assert json.loads(told["channels"]) == ["x", "y"]
    assert told["fingerprint"] == model.pipeline.fingerprint
    assert file.opset_import[0].version == 13
    (given,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").get_inputs()
    assert given.shape == ["recordings", STEPS, CHANNELS]


def test_float32_is_close(tmp_path: Path) -> None:
    for described in (EchoState(40), EchoState(40, bits=None), WindowStatistics(), Hydra(64)):
        model = model_of(described)
        written = to_onnx(model, tmp_path / "m.onnx", precision="float32", steps=STEPS)
        (u,) = waves(1, seed=9)
        found = scores_in(tmp_path / "m.onnx", model, u)
        assert found.dtype == np.float32
        assert written.relative_difference < 1e-3
        np.testing.assert_allclose(found, own_scores(model, u), rtol=0, atol=0.02)


def test_a_network_in_a_model_is_in_its_file(tmp_path: Path) -> None:
    sha256 = write(tmp_path / "net.onnx")
    described = Encoder(tmp_path / "net.onnx", sha256, pool="mean")
    model = model_of(described, channels=3)
    written = to_onnx(model, tmp_path / "m.onnx")
    (tmp_path / "net.onnx").rename(tmp_path / "elsewhere.onnx")
    new = waves(3, channels=3)
    found = outputs_in(tmp_path / "m.onnx", np.stack(new))
    moved = replace(described, onnx=tmp_path / "elsewhere.onnx")
    features = moved.build(3, per_step=False, classes=True)
    own = replace(model, before=Pipeline(model.preprocessing, features))
    np.testing.assert_allclose(found["scores"], own.scores(new), rtol=0, atol=1e-6)
    assert written.opset == 17


def test_estimators_have_files_with_their_own_labels(tmp_path: Path) -> None:
    X, y = np.stack(waves(24)), np.arange(24) % 3 + 5
    X[y == 6] *= 2.0
    for estimator in (EchoStateClassifier(30), TimeSeriesClassifier(MiniRocket(84))):
        estimator.set_params(layout="time_first").fit(X, y)
        to_onnx(estimator, tmp_path / "m.onnx", steps=STEPS)
        found = outputs_in(tmp_path / "m.onnx", X)
        assert found["label"].tolist() == estimator.predict(X).tolist()
        np.testing.assert_allclose(
            found["probabilities"], estimator.predict_proba(X), rtol=0, atol=1e-12
        )
    named = EchoStateClassifier(30, layout="time_first").fit(X, np.array(["a", "b", "c"])[y - 5])
    to_onnx(named, tmp_path / "m.onnx")
    assert outputs_in(tmp_path / "m.onnx", X)["label"].tolist() == named.predict(X).tolist()


def test_a_regressor_answers_for_its_washout(tmp_path: Path) -> None:
    u = np.sin(np.arange(300) / 5)[:, None]
    regressor = EchoStateRegressor(30, washout=50).fit(u[:-1], u[1:, 0])
    to_onnx(regressor, tmp_path / "m.onnx")
    found = outputs_in(tmp_path / "m.onnx", u)["scores"]
    np.testing.assert_allclose(found[:, 0], regressor.predict(u), rtol=0, atol=1e-10)


@dataclass(frozen=True)
class Own(FeatureMap):
    n_features = 1
    bounds = np.full(1, 100.0)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return [np.ptp(u, axis=0)[:1][None] for u in inputs]


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = model_of(EchoState(10))
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (
            replace(model, before=Pipeline(Preprocessing(scale="own"), model.features)),
            {},
            'is "own"',
        ),
        (replace(model, before=Pipeline(Preprocessing(), model.features)), {}, "not fitted"),
        (model_of(EchoState(10), preprocessing=Preprocessing(gaps="restart")), {}, '"restart"'),
        (model_of(MiniRocket(84)), {}, "--steps 128"),
        (
            model_of(EchoState(10), preprocessing=Preprocessing(window=9)),
            {"steps": 9},
            "leave it out",
        ),
        (PersonalModels(model), {}, "models by client"),
        (EchoStateFeatures(10), {}, "EchoStateFeatures does not predict"),
        (model, {"precision": "float16"}, "use 'float64' or 'float32'"),
        (model_of(MiniRocket(84)), {"steps": 0}, "steps is 0; give the length"),
    ]
    own = Model(Pipeline(RAW, Own()), Readout(np.eye(1), np.zeros(1)), channels=("x",))
    cases += [(own, {}, "map of one's own")]
    for given_, settings_, said in cases:
        with pytest.raises(ValueError, match=said):
            to_onnx(given_, path, **settings_)
    with pytest.raises(TypeError, match="has no form in ONNX"):
        to_onnx("model", path)  # type: ignore[arg-type]
    assert not path.exists()
    with pytest.raises(ValueError, match="is a folder; name a file"):
        to_onnx(model, tmp_path)


def test_folders_of_a_file_are_made(tmp_path: Path) -> None:
    assert to_onnx(model_of(EchoState(10)), tmp_path / "new" / "m.onnx").path.is_file()


def test_a_file_that_disagrees_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from catchment_edge.onnx import batch_graph

    def spoilt(source: Any, *rest: Any) -> onnx.ModelProto:
        readout = source.model.readout
        wrong = Readout(readout.weights * (1 + 1e-9), readout.intercept)
        return batch_graph(replace(source, model=replace(source.model, readout=wrong)), *rest)

    monkeypatch.setattr(getmodule(to_onnx), "batch_graph", spoilt)
    with pytest.raises(IntegrityError, match="nothing was written"):
        to_onnx(model_of(EchoState(20)), tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_a_file_that_needs_no_catchment(tmp_path: Path) -> None:
    model = model_of(EchoState(20))
    model.save(tmp_path / "model.safetensors")
    np.save(tmp_path / "u.npy", waves(1, seed=11)[0])
    told = CliRunner().invoke(
        app, ["export", str(tmp_path / "model.safetensors"), "--to", "onnx", "-o",
              str(tmp_path / "m.onnx")],
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    assert "ONNX opset 13, float64, " in told.output
    code = (
        "import sys, numpy, onnxruntime as o; s = o.InferenceSession('m.onnx');"
        "print(s.run(['label'], {'samples': numpy.load('u.npy')[None]})[0][0]);"
        "assert 'catchment' not in sys.modules"
    )
    said = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (u,) = waves(1, seed=11)
    assert said.stdout.strip() == model.predict(u)


def test_the_command_tells_in_json(tmp_path: Path) -> None:
    model_of(EchoState(20)).save(tmp_path / "model.safetensors")
    told = CliRunner().invoke(
        app, ["export", str(tmp_path / "model.safetensors"), "--to", "onnx",
              "--precision", "float32", "--json", "-o", str(tmp_path / "m.onnx")],
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    facts = json.loads(told.stdout)
    assert facts["precision"] == "float32"
    assert facts["bytes"] == (tmp_path / "m.onnx").stat().st_size


def test_without_the_extra_it_is_named() -> None:
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "import numpy as np, catchment as ct\n"
        "from catchment.readout import Model, Readout\n"
        "features = ct.EchoState(3).build(1, per_step=True)\n"
        "model = Model(features, Readout(np.zeros((4, 1)), np.zeros(1)))\n"
        "try:\n"
        "    from catchment_edge import to_onnx\n"
        "    to_onnx(model, 'never.onnx')\n"
        "except ct.errors.MissingExtraError as error:\n"
        "    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "catchment[edge]"' in said.stdout


def test_no_warning_comes_from_made_up_recordings(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_onnx(model_of(EchoState(20)), tmp_path / "m.onnx")
