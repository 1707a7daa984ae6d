"""Every map of the library as an ONNX file: the features are the library's own numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnx

from catchment import (
    NVAR,
    AppendNorm,
    DefaultMap,
    DiagonalReservoir,
    EchoState,
    FeatureUnion,
    Hydra,
    MiniRocket,
    Preprocessing,
    RandomFourierFeatures,
    RandomProjection,
    WindowStatistics,
)
from catchment.features import FeatureMap, Reservoir
from catchment.features.echo_state import LogUniform, MixedActivation
from catchment_edge import to_onnx
from tests.export.onnx_models import (
    model_of,
    own_scores,
    reference_scores,
    scores_in,
    waves,
)

ALL = MixedActivation(tanh=0.3, sigmoid=0.2, relu=0.2, sin=0.2, identity=0.1)
WINDOWS: dict[str, FeatureMap] = {
    "mean and deviation": EchoState(20),
    "segments": EchoState(20, segments=3, washout=4),
    "last": EchoState(20, pool="last", input=False),
    "largest": EchoState(20, pool="max", bias=True),
    "mean": EchoState(20, pool="mean", leak_rate=0.3),
    "deep": EchoState((12, 8), leak_rate=(0.5, 0.9)),
    "leaks": EchoState(20, leak_rate=LogUniform(0.1, 1.0)),
    "activations": EchoState(30, activation=ALL, spectral_radius=0.5),
    "minirocket": MiniRocket(100),
    "minirocket of one length": MiniRocket(90, length=30),
    "hydra": Hydra(64),
    "statistics": WindowStatistics(),
    "default": DefaultMap(200),
    "diagonal": DiagonalReservoir(30, washout=3),
    "cosines": RandomFourierFeatures(EchoState(15), features=20),
    "rectifiers": RandomFourierFeatures(EchoState(15), features=20, activation="relu"),
    "projected": RandomProjection(EchoState(30), features=20),
    "norm": AppendNorm(EchoState(15)),
    "side by side": FeatureUnion(WindowStatistics(), EchoState(15)),
}
STEPWISE: dict[str, FeatureMap] = {
    "states": EchoState(20, washout=5, bias=True),
    "diagonal": DiagonalReservoir(30, washout=3),
    "only modes": DiagonalReservoir(12, nonlinearity="none"),
    "delays": NVAR(3, stride=2, order=3, washout=2),
    "no delays": NVAR(1, order=1),
    "cosines": RandomFourierFeatures(features=20),
    "side by side": FeatureUnion(EchoState(15, washout=3), NVAR(2)),
}


def exported(path: Path, described: FeatureMap, u: Any, **settings: Any) -> Any:
    """Write a model whose scores are its features; return it and the file's scores."""
    model = model_of(described, features_out=True, **settings)
    at_once = ("minirocket", "hydra", "statistics")
    steps = len(u) if any(word in repr(described).lower() for word in at_once) else None
    steps = len(u) if isinstance(described, DefaultMap) else steps
    to_onnx(model, path, steps=steps)
    return model, scores_in(path, model, u)


@pytest.mark.parametrize("name", WINDOWS)
def test_features_of_recordings_are_the_same_numbers(tmp_path: Path, name: str) -> None:
    (u,) = waves(1, seed=3)
    model, found = exported(tmp_path / "m.onnx", WINDOWS[name], u)
    np.testing.assert_array_equal(found, own_scores(model, u))


@pytest.mark.parametrize("name", ["mean and deviation", "hydra", "default", "diagonal", "cosines"])
def test_features_for_numbers_have_more_digits(tmp_path: Path, name: str) -> None:
    (u,) = waves(1, seed=3)
    model, found = exported(tmp_path / "m.onnx", WINDOWS[name], u, classes=None)
    np.testing.assert_array_equal(found, own_scores(model, u))


@pytest.mark.parametrize("name", STEPWISE)
def test_features_of_steps_are_the_same_numbers(tmp_path: Path, name: str) -> None:
    (u,) = waves(1, seed=4)
    model, found = exported(tmp_path / "m.onnx", STEPWISE[name], u, classes=None, per_step=True)
    np.testing.assert_array_equal(found, own_scores(model, u))


@pytest.mark.parametrize("name", ["segments", "activations", "deep", "statistics", "minirocket"])
def test_another_evaluator_finds_the_same_numbers(tmp_path: Path, name: str) -> None:
    (u,) = waves(1, seed=5)
    model, found = exported(tmp_path / "m.onnx", WINDOWS[name], u)
    theirs = reference_scores(tmp_path / "m.onnx", u, alone=False)
    np.testing.assert_array_equal(theirs, found)
    np.testing.assert_array_equal(theirs, own_scores(model, u))


@pytest.mark.parametrize("name", ["states", "diagonal", "delays"])
def test_another_evaluator_finds_the_same_steps(tmp_path: Path, name: str) -> None:
    (u,) = waves(1, seed=6)
    model, _ = exported(tmp_path / "m.onnx", STEPWISE[name], u, classes=None, per_step=True)
    theirs = reference_scores(tmp_path / "m.onnx", u, alone=True)
    np.testing.assert_array_equal(theirs, own_scores(model, u))


@pytest.mark.parametrize("length", [30, 64, 65, 150, 256])
def test_long_recordings_are_cut_as_fixed_point_defines(tmp_path: Path, length: int) -> None:
    described = EchoState(12, leak_rate=0.2)
    for per_step in (False, True):
        model = model_of(described, features_out=True, per_step=per_step, classes=None)
        model = _with_cut(model, (64, 48))
        (u,) = waves(1, length, seed=7)
        to_onnx(model, tmp_path / "m.onnx")
        expected = own_scores(model, u)
        np.testing.assert_array_equal(scores_in(tmp_path / "m.onnx", model, u), expected)
        if per_step:
            whole = own_scores(_with_cut(model, (0, 0)), u)
            assert np.array_equal(whole, expected) == (length <= 64)


def _with_cut(model: Any, cut: tuple[int, int]) -> Any:
    from dataclasses import replace

    from catchment.features import Pipeline

    features = model.features
    drawn = features.reservoir
    reservoir = Reservoir.of_layers(drawn.layers, bits=drawn.bits, range=drawn.range, cut=cut)
    return replace(model, before=Pipeline(model.preprocessing, features.reading(reservoir)))


def test_few_weights_of_many_units_are_picked_out(tmp_path: Path) -> None:
    described = EchoState(400, connections=4, pool="mean")
    (u,) = waves(1, 12)
    model, found = exported(tmp_path / "m.onnx", described, u)
    np.testing.assert_array_equal(found, own_scores(model, u))
    body = next(n for n in onnx.load(tmp_path / "m.onnx").graph.node if n.op_type == "Scan")
    nodes = body.attribute[0].g.node
    assert "MatMul" not in {node.op_type for node in nodes}


def test_gains_of_plasticity_are_in_the_file(tmp_path: Path) -> None:
    from dataclasses import replace

    from catchment.features import Pipeline

    model = model_of(EchoState(20), features_out=True)
    rng = np.random.default_rng(0)
    features: Any = model.features
    adapted = features.reservoir.with_plasticity(rng.uniform(0.5, 1.5, 20), rng.normal(size=20))
    changed = replace(model, before=Pipeline(model.preprocessing, features.reading(adapted)))
    (u,) = waves(1)
    to_onnx(changed, tmp_path / "m.onnx")
    found = scores_in(tmp_path / "m.onnx", changed, u)
    np.testing.assert_array_equal(found, own_scores(changed, u))
    assert not np.array_equal(found, own_scores(model, u))


@settings(max_examples=8, deadline=None)
@given(
    units=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    bits=st.sampled_from([8, 15, 20, 24]),
    feature_bits=st.sampled_from([None, 4, 8, 24]),
    leak=st.floats(0.01, 1.0),
    radius=st.floats(0.1, 1.5),
    pool=st.sampled_from([None, "last", "mean", "mean_std", "max"]),
    chosen=st.sampled_from([(True, True, True), (False, True, False), (False, False, True)]),
    washout=st.integers(0, 5),
    seed=st.integers(0, 2**31),
)
def test_any_recipe_in_fixed_point_gives_the_same_numbers(
    tmp_path_factory: pytest.TempPathFactory,
    units: list[int],
    bits: int,
    feature_bits: int | None,
    leak: float,
    radius: float,
    pool: Any,
    chosen: tuple[bool, bool, bool],
    washout: int,
    seed: int,
) -> None:
    described = EchoState(
        tuple(units), leak_rate=leak, spectral_radius=radius, bits=bits, feature_bits=feature_bits,
        pool=pool, bias=chosen[0], input=chosen[1], state=chosen[2], washout=washout, seed=seed,
        activation=ALL,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("recipe") / "m.onnx"
    (u,) = waves(1, 25, seed=seed)
    model, found = exported(path, described, u, classes=None, per_step=pool is None)
    np.testing.assert_array_equal(found, own_scores(model, u))


@pytest.mark.parametrize("pool", [None, "last", "mean", "mean_std", "max"])
def test_states_in_floating_point_agree_to_rounding(tmp_path: Path, pool: Any) -> None:
    described = EchoState(20, bits=None, pool=pool, leak_rate=0.4, activation=ALL)
    model = model_of(described, features_out=True, per_step=pool is None, classes=None)
    (u,) = waves(1)
    to_onnx(model, tmp_path / "m.onnx")
    found = scores_in(tmp_path / "m.onnx", model, u)
    np.testing.assert_allclose(found, own_scores(model, u), rtol=0, atol=1e-13)


@pytest.mark.parametrize("length", [1, 2, 3, 255, 257, 700])
def test_statistics_of_windows_of_any_length(tmp_path: Path, length: int) -> None:
    (u,) = waves(1, length)
    described = WindowStatistics(bits=None)
    model, found = exported(tmp_path / "m.onnx", described, u)
    np.testing.assert_array_equal(found, own_scores(model, u))


def test_windows_are_cut_in_the_file(tmp_path: Path) -> None:
    preprocessing = Preprocessing(window=20, step=7)
    (u,) = waves(1, 75)
    for described in (EchoState(15), MiniRocket(84), WindowStatistics()):
        model = model_of(described, features_out=True, preprocessing=preprocessing)
        to_onnx(model, tmp_path / "m.onnx")
        found = scores_in(tmp_path / "m.onnx", model, u)
        assert len(found) == 8
        np.testing.assert_array_equal(found, own_scores(model, u))
