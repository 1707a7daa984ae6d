"""The examples of this package's algorithms learn, and what they make is used."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

import catchment
from catchment.data import CHANNELS, synthetic_wearables
from catchment.federation import messages_of
from catchment.plans import example_plan, parse_plan, run_plan
from catchment_research.learn import Adagrad
from catchment_research.partial import Freeze, NetworkModel, RecordingTraining, Schedule
from catchment_research.prompt import PromptModel
from tests.commands import typed
from tests.prompt.tiny import tiny_model

WORDS = 'words = {upstairs = "climbing", downstairs = "descending", cycling = "jogging"}'
OWN_NETWORK = """
from torch import nn

def small(n_channels, n_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(128 * n_channels, n_classes))
"""


def accuracy(text: str, folder: Path, run: str = "run") -> float:
    """Return the accuracy of a plan's model."""
    done = run_plan(parse_plan(text, base=folder), folder / run, threads=1)
    assert done.scores.total is not None
    return done.scores.total.value


@pytest.mark.parametrize("name", ["partial", "own", "prompt", "aligned", "stacking", "personal"])
def test_the_predict_that_a_run_prints_is_pasted_and_works(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    if name == "prompt":
        tiny_model(tmp_path / "tiny")
    (tmp_path / f"net_{name}.py").write_text(OWN_NETWORK)
    text = example_plan("partial" if name == "own" else name)
    for old, new in (
        ('"cnn"', f'"net_{name}:small"' if name == "own" else '"cnn"'),
        ("second.weight", "1.weight" if name == "own" else "second.weight"),
        ('"stories260k"', f'"tiny"\n{WORDS}'),
        *((f"users = {n}\n", "users = 3\nwindows_per_user = 8\n") for n in (4, 8, 10)),
        *((f"rounds = {n}\n", "rounds = 1\nbaselines = []\n") for n in (5, 30)),
    ):
        text = text.replace(old, new)
    Path("plan.toml").write_text(text)
    said = typed("run", "plan.toml", "--out", "a run").stdout
    (advice,) = (line for line in said.splitlines() if line.startswith("predict: catchment "))
    head = ",".join(CHANNELS)
    people = synthetic_wearables(3)
    for person, recordings in people.items():
        np.savetxt(f"{person}.csv", recordings[0].u, delimiter=",", header=head, comments="")
    pasted = advice.removeprefix("predict: catchment ").replace("FILES...", "user-*.csv")
    words = [
        str(one)
        for word in shlex.split(pasted)
        for one in (sorted(Path().glob(word)) if "*" in word else [word])
    ]
    assert len(typed(*words).stdout.splitlines()) == 1 + len(people)


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
    with pytest.raises(ValueError, match="no network is called 'rnn'; use cnn, emnist_cnn,"):
        parse_plan(text.replace('"cnn"', '"rnn"'))


FEW = example_plan("partial").replace("users = 8", "users = 3").replace("= 30", "= 2")


def with_settings(lines: str) -> str:
    """Return a short plan of a network with more settings in [learn]."""
    return FEW.replace("epochs = 2\n", f"epochs = 2\n{lines}\n") + "baselines = []\n"


def test_a_plan_says_the_server_the_schedule_and_who_is_weak(tmp_path: Path) -> None:
    lines = """server = {name = "adagrad", learning_rate = 0.1}
    schedule = {warmup = 2, cosine = 20}
    weak = {user-000 = ["first.*"], user-001 = ["first.*"], user-002 = ["first.*"]}"""
    file = parse_plan(with_settings(lines))
    held = file.load_data()
    workflow = file.workflow(held.about)
    n_inputs = len(held.about.channels)
    maps = tuple(one.build(n_inputs, per_step=False, classes=True) for one in workflow.maps)
    algorithm = workflow.learn(maps)
    assert isinstance(algorithm, RecordingTraining)
    training = algorithm.training
    assert training.optimizer == Adagrad(learning_rate=0.1)
    assert training.schedule == Schedule(warmup=2, cosine=20)
    assert training.weak == {f"user-00{k}": Freeze(names=("first.*",)) for k in range(3)}
    run_plan(file, tmp_path / "run", threads=1)
    model = catchment.load(tmp_path / "run" / "model.safetensors")
    assert isinstance(model, NetworkModel)
    begun = training.network.build().state_dict()
    for name, value in model.module.state_dict().items():
        assert torch.equal(value, begun[name]) == (
            name in ("second.weight", "first.weight", "first.bias")
        ), name


def test_a_plan_trains_privately_with_the_clip_of_its_server(tmp_path: Path) -> None:
    lines = """server = {name = "follow_the_leader", noise_multiplier = NOISE, clip = 0.5,
    clients = 3, rounds = 2}""".replace("\n    ", " ")
    found = []
    for k, noise in enumerate(("0.0", "0.0", "2.0")):
        text = with_settings(lines.replace("NOISE", noise))
        accuracy(text, tmp_path / str(k))
        model = catchment.load(tmp_path / str(k) / "run" / "model.safetensors")
        assert isinstance(model, NetworkModel)
        found.append(np.concatenate([value.ravel() for value in model.values]))
    assert np.array_equal(found[0], found[1])
    assert np.linalg.norm(found[2] - found[0]) > 0.5
    with pytest.raises(ValueError, match=r"counts on changes of length 0\.5"):
        accuracy(with_settings("clip = 2.0\n" + lines.replace("NOISE", "1.0")), tmp_path / "long")
    with pytest.raises(ValueError, match="follow_the_leader"):
        parse_plan(example_plan("prompt") + "[learn.server]\nname = 'follow_the_leader'\n")


@pytest.mark.parametrize(
    "table", ["weak = {nobody = ['first.*']}", "recipes = {nobody = {units = 9}}"]
)
def test_settings_for_nobody_are_refused(table: str, tmp_path: Path) -> None:
    text = with_settings(table)
    if table.startswith("recipes"):
        text = example_plan("aligned").replace("[learn]", f"[learn]\n{table}")
    with pytest.raises(ValueError, match="'nobody', who is no client that trains; those are user"):
        run_plan(parse_plan(text), tmp_path / "run")
    (tmp_path / "plan.toml").write_text(text)
    assert "'nobody', who is no client" in typed("plan", tmp_path / "plan.toml", code=2).stderr


def test_a_plan_starts_prompts_in_closed_form(tmp_path: Path) -> None:
    tiny_model(tmp_path / "tiny")
    text = example_plan("prompt").replace('"stories260k"', f'"tiny"\n{WORDS}')
    text = text.replace("rounds = 5", "rounds = 1\nbaselines = []").replace(
        "users = 4", "users = 3"
    )
    text = text.replace("= 4\n", "= 1\n")
    begun, trained = (
        accuracy(text.replace('"closed_form"', f'"{start}"'), tmp_path, start)
        for start in ("closed_form", "zero")
    )
    assert begun > trained + 0.1
    assert {one.purpose for one in messages_of(tmp_path / "closed_form")} >= {"ridge-statistics"}


def test_a_plan_trains_the_projection_of_prompts(tmp_path: Path) -> None:
    tiny_model(tmp_path / "tiny")
    text = (
        example_plan("prompt")
        .replace('"stories260k"', '"tiny"')
        .replace("rounds = 5", "rounds = 2")
    )
    text = text.replace("users = 4", "users = 2\nwindows_per_user = 8")
    text = text.replace("bottleneck = 16", WORDS + "\nbottleneck = 16")
    assert 0 <= accuracy(text + "baselines = []\n", tmp_path) <= 1
    model = catchment.load(tmp_path / "run" / "model.safetensors")
    assert isinstance(model, PromptModel)
    assert model.controller.train_projection
    drawn = model.controller.projection.matrix
    assert model.values[1].shape == drawn.shape
    assert not np.allclose(model.values[1], drawn)
