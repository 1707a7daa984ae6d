"""Networks on a user's own recordings: trained, saved, loaded and used like any model."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import catchment
from catchment import Plan, Preprocessing, Recording
from catchment.engine import run_locally
from catchment.errors import IntegrityError
from catchment.readout import Predictor
from catchment_research.partial import (
    FederatedTraining,
    Freeze,
    LocalSteps,
    Maker,
    NetworkModel,
    PartialNetwork,
    RecordingTraining,
    examples_of,
)
from tests.commands import typed, typed_apart

MODULE = """
from torch import nn


def small(n_inputs: int, n_outputs: int) -> nn.Module:
    first = nn.Linear(20 * n_inputs, 16)
    return nn.Sequential(nn.Flatten(), first, nn.Tanh(), nn.Linear(16, n_outputs))
"""


def small(n_inputs: int, n_outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(20 * n_inputs, 16), nn.Tanh(), nn.Linear(16, n_outputs)
    )


def person(seed: int, n: int = 12, steps: int = 20) -> list[Recording]:
    rng = np.random.default_rng(seed)
    held = []
    for k in range(n):
        pace = (0.2, 1.0)[k % 2]
        u = np.sin(pace * np.arange(steps) + rng.uniform(0, 1)) + 0.1 * rng.normal(size=steps)
        held.append(replace(Recording.labeled(5.0 + u, k % 2, ("slow", "fast")), channels=("x",)))
    return held


PEOPLE = {f"p{k}": person(k) for k in range(3)}


@cache
def trained(function: object = small) -> NetworkModel:
    maker = Maker(function, 1, 2)  # type: ignore[arg-type]
    network = PartialNetwork(make=maker, freeze=Freeze(names=("1.weight",)), seed=3)
    training = FederatedTraining(
        network=network, steps=LocalSteps(learning_rate=0.2, epochs=3), device="cpu"
    )
    plan = Plan(
        algorithm=RecordingTraining(training=training, classes=("slow", "fast")),
        rounds=8,
        preprocessing=Preprocessing(scale="own"),
        channels=("x",),
    )
    made = run_locally(plan, PEOPLE, threads=1).predictor
    assert isinstance(made, NetworkModel)
    return made


def test_a_network_learns_from_recordings_and_is_evaluated_like_a_model() -> None:
    made = trained()
    assert isinstance(made, Predictor)
    scores = catchment.evaluate(made, {"new": person(9)})
    assert scores.total is not None
    assert scores.total.value > 0.9
    assert made.predict(person(9)[:2]) == ["slow", "fast"]


def test_logits_are_those_of_torch_on_the_prepared_recordings() -> None:
    made, (raw, *_) = trained(), person(9)
    u = (raw.u - raw.u.mean()) / raw.u.std()
    with torch.inference_mode():
        expected = made.module(torch.from_numpy(u[None].astype(np.float32)))
    (outputs,) = made.outputs_of(made.preprocessing.apply([raw]))
    np.testing.assert_allclose(outputs, expected.numpy(), rtol=1e-5)
    np.testing.assert_allclose(made.probabilities(outputs).sum(), 1.0)


def test_a_file_holds_what_was_trained_and_loads_only_where_its_function_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_networks.py").write_text(MODULE)
    sys.path.insert(0, str(tmp_path))
    try:
        import mine_networks  # type: ignore[import-not-found]

        made = trained(mine_networks.small)
        path = made.save(tmp_path / "network.safetensors")
    finally:
        sys.path.remove(str(tmp_path))
        del sys.modules["mine_networks"]
    with pytest.raises(IntegrityError, match="--use mine_networks:small"):
        catchment.load(path)
    same = catchment.load(path, use=[mine_networks.small])
    raw = person(9)
    for a, b in zip(
        made.outputs_of(made.preprocessing.apply(raw)),
        same.outputs_of(raw_of(same, raw)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    held = same.stored()
    assert set(held.tensors) == {"trained.1.bias", "trained.3.weight", "trained.3.bias"}
    lines = "\n".join(f"{value:.9f}" for value in raw[0].u[:, 0])
    (tmp_path / "new.csv").write_text(f"x\n{lines}\n")
    monkeypatch.chdir(tmp_path)
    done = typed_apart("predict", path, "new.csv", "--use", "mine_networks:small")
    assert done.stdout.splitlines()[1].startswith("new.csv,0,0.0,slow,")
    refused = typed("predict", path, "new.csv", code=2)
    assert "--use mine_networks:small" in refused.stderr


def raw_of(model: Predictor, raw: list[Recording]) -> list[Recording]:
    return model.preprocessing.apply(raw)


def test_another_architecture_under_the_same_name_is_refused(tmp_path: Path) -> None:
    path = trained().save(tmp_path / "n")

    def other(n_inputs: int, n_outputs: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(20 * n_inputs, 8), nn.Linear(8, n_outputs))

    other.__qualname__ = small.__qualname__
    with pytest.raises(Exception, match=r"makes another network|no parameter matches"):
        catchment.load(path, use=[other])


def test_recordings_of_several_lengths_are_told_to_be_windowed() -> None:
    mixed = [*person(0, 2, 20), *person(0, 2, 30)]
    with pytest.raises(ValueError, match="20 to 30 steps, a network takes examples of one length"):
        examples_of(mixed, 2)
    with pytest.raises(ValueError, match="no label"):
        examples_of([Recording(np.ones(2), np.ones(2))], 2)
