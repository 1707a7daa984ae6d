"""The examples of this package's algorithms learn, and what they make is used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import catchment
from catchment.plans import example_plan, parse_plan, run_plan
from catchment_research.partial import NetworkModel
from catchment_research.prompt import PromptModel
from tests.prompt.tiny import tiny_model


def accuracy(text: str, folder: Path) -> float:
    """Return the accuracy of a plan's model."""
    done = run_plan(parse_plan(text, base=folder), folder / "run", threads=1)
    assert done.scores.total is not None
    return done.scores.total.value


@pytest.mark.parametrize("name", ["aligned", "stacking", "personal"])
def test_an_example_is_better_than_the_most_frequent_class(name: str, tmp_path: Path) -> None:
    text = example_plan(name).replace("users = 10", "users = 5")
    assert accuracy(text + "[run]\nbaselines = []\n", tmp_path) > 0.5  # which has .3


def test_a_network_of_the_library_is_named_and_loads_without_being_handed_over(
    tmp_path: Path,
) -> None:
    text = example_plan("partial").replace("users = 8", "users = 3")
    assert accuracy(text + "baselines = []\n", tmp_path) > 0.5
    model = catchment.load(tmp_path / "run" / "model.safetensors")
    assert isinstance(model, NetworkModel)
    assert model.maker.name.endswith("networks:Cnn")
    with pytest.raises(ValueError, match="no network is called 'rnn'; use cnn or module:function"):
        parse_plan(text.replace('"cnn"', '"rnn"'))


def test_a_plan_trains_the_projection_of_prompts(tmp_path: Path) -> None:
    tiny_model(tmp_path / "tiny")
    text = example_plan("prompt").replace('"stories260k"', '"tiny"').replace("= 25", "= 1")
    text = text.replace("users = 4", "users = 2\nwindows_per_user = 8")
    said = 'words = {upstairs = "climbing", downstairs = "descending", cycling = "jogging"}'
    text = text.replace("bottleneck = 16", said + "\nbottleneck = 16")
    assert 0 <= accuracy(text + "baselines = []\n", tmp_path) <= 1
    model = catchment.load(tmp_path / "run" / "model.safetensors")
    assert isinstance(model, PromptModel)
    assert model.controller.train_projection
    drawn = model.controller.projection.matrix
    assert model.values[1].shape == drawn.shape
    assert not np.allclose(model.values[1], drawn)
