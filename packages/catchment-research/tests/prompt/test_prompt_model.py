"""Prompts on a user's own recordings: trained, saved without the language model, and used."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import catchment
from catchment import EchoState, Plan, Preprocessing, Recording
from catchment.engine import run_locally
from catchment.errors import IntegrityError, MissingDataError
from catchment.readout import Predictor
from catchment_research.prompt import (
    EdgeController,
    Projection,
    PromptModel,
    PromptTraining,
    RecordingPrompts,
    labeled,
    served,
)
from tests.prompt.tiny import VOCABULARY, tiny_model

CLASSES = ("walking", "sitting")
WORDS = tuple(VOCABULARY.index(word) for word in CLASSES)
CONTEXT = tuple(VOCABULARY.index(word) for word in ("The", "person", "is"))


def person(seed: int, n: int = 10) -> list[Recording]:
    rng = np.random.default_rng(seed)
    held = []
    for k in range(n):
        u = np.sin((1.0, 0.1)[k % 2] * np.arange(25) + rng.uniform(0, 0.5))
        held.append(replace(Recording.labeled(3.0 + u, k % 2, CLASSES), channels=("x",)))
    return held


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def trained(language: Path) -> PromptModel:
    projection = Projection(bottleneck=4, length=2, width=16, seed=1, scale=0.4)
    features = EchoState(15, seed=2, bias=True).build(1, per_step=False)
    training = PromptTraining(
        controller=EdgeController(projection=projection, features=features),
        server=served(str(language), projection, WORDS),
        epochs=4,
    )
    algorithm = RecordingPrompts(
        training=training, classes=CLASSES, language_model=str(language), context=CONTEXT
    )
    plan = Plan(
        algorithm=algorithm, rounds=6, preprocessing=Preprocessing(scale="own"), channels=("x",)
    )
    made = run_locally(plan, {f"p{k}": person(k) for k in range(3)}).predictor
    assert isinstance(made, PromptModel)
    return made


def test_a_prompt_learns_from_recordings_and_is_evaluated_like_a_model(
    trained: PromptModel,
) -> None:
    assert isinstance(trained, Predictor)
    scores = catchment.evaluate(trained, {"new": person(9)})
    assert scores.total is not None
    assert scores.total.value > 0.8


def test_a_saved_prompt_says_the_same_in_another_process_and_holds_no_language_model(
    trained: PromptModel, tmp_path: Path, language: Path
) -> None:
    path = trained.save(tmp_path / "prompt.safetensors")
    assert path.stat().st_size < 40_000
    np.save(tmp_path / "u.npy", person(9)[0].u)
    code = (
        "import sys, numpy as np, torch, catchment\n"
        "torch.set_num_threads(int(sys.argv[3]))\n"  # the last bits of a product depend on it
        "model = catchment.load(sys.argv[1])\n"
        "raw = catchment.Recording(np.load(sys.argv[2]))\n"
        "(y,) = model.outputs_of(model.preprocessing.apply([raw]))\n"
        "print(y.tobytes().hex())\n"
    )
    there = subprocess.run(
        [sys.executable, "-c", code, path, tmp_path / "u.npy", str(torch.get_num_threads())],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    (here,) = trained.outputs_of(trained.preprocessing.apply(person(9)[:1]))
    assert there == [here.tobytes().hex()]


def test_a_prompt_is_refused_by_another_language_model_and_by_none(
    trained: PromptModel, tmp_path: Path
) -> None:
    away = replace(trained, link=None, language_model=str(tmp_path / "nowhere"))
    with pytest.raises(MissingDataError, match="nowhere"):
        away.predict(person(9)[0])
    other = replace(trained, asked="another")
    with pytest.raises(IntegrityError, match="another language model"):
        other.predict(person(9)[0])


def test_recordings_without_a_label_for_all_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="no label"):
        labeled([Recording(np.ones(2), np.ones(2))], 2)
