"""Networks that a plan names: trained on files, saved, loaded, and refused for other recordings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import catchment
from catchment import Recording
from catchment.plans import parse_plan, run_plan
from catchment_research.partial import (
    NETWORKS,
    EmnistCnn,
    Freeze,
    Maker,
    NetworkModel,
    PartialNetwork,
    ResNet18,
    network_named,
)
from reproductions.networks import EMNIST_FREEZE, RESNET_FREEZES
from tests.commands import typed

PLAN = """
[data]
files = "people/*.csv"
label = "what"
recording = "image"
test = 0.5
test_of = "recordings"

[learn]
algorithm = "partial"
network = "{name}"
freeze = ["{freeze}"]
learning_rate = 0.01

[run]
rounds = 1
baselines = []
"""
SHAPES = {"cnn": (20, 3), "emnist_cnn": (28, 28), "resnet18": (32, 96)}
FROZEN = {"cnn": "second.weight", "emnist_cnn": "hidden.*", "resnet18": "stage4.*.conv?.weight"}


def people_drawn(folder: Path, steps: int, channels: int) -> None:
    """Write two people's images, bright above or bright below, a row a step."""
    rng = np.random.default_rng(0)
    (folder / "people").mkdir()
    head = ",".join(["image", "what", *(f"c{k}" for k in range(channels))])
    for person in ("anna", "ben"):
        lines = [head]
        for image in range(4):
            u = rng.uniform(size=(steps, channels))
            u[: steps // 2] += 2 * (image % 2)
            name = ("below", "above")[image % 2]
            lines += [f"{image},{name}," + ",".join(f"{v:.3f}" for v in row) for row in u]
        (folder / "people" / f"{person}.csv").write_text("\n".join([*lines, ""]))


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] if n == "resnet18" else []) for n in NETWORKS],
)
def test_a_named_network_is_trained_from_a_plan_and_predicts_after_save_and_load(
    name: str, tmp_path: Path
) -> None:
    people_drawn(tmp_path, *SHAPES[name])
    text = PLAN.format(name=name, freeze=FROZEN[name])
    made = run_plan(parse_plan(text, base=tmp_path), tmp_path / "run", threads=1).model
    assert isinstance(made, NetworkModel)
    start = dict(made.network.build().named_parameters())
    for key, value in made.module.named_parameters():
        assert torch.equal(value, start[key]) == (key in made.network.freeze.frozen(made.module))
    same = catchment.load(made.save(tmp_path / "again.safetensors"))  # no function is handed over
    assert isinstance(same, NetworkModel)
    u = np.random.default_rng(1).uniform(size=(3, *SHAPES[name]))
    new = [replace(Recording.labeled(one, 0, 2), channels=made.channels) for one in u]
    np.testing.assert_array_equal(made.outputs_of(new), same.outputs_of(new))
    assert same.predict(new) == made.predict(new)
    assert set(same.predict(new)) <= {"above", "below"}


@pytest.mark.parametrize(
    ("name", "sides"), [("emnist_cnn", (28, 28, 1)), ("resnet18", (32, 32, 3))]
)
def test_rows_of_an_image_reach_the_papers_network_as_that_image(
    name: str, sides: tuple[int, int, int]
) -> None:
    images = np.random.default_rng(0).normal(size=(2, *sides)).astype(np.float32)
    rows = torch.from_numpy(images.reshape(2, sides[0], -1))  # as numpy keeps an image
    named = PartialNetwork(make=Maker(network_named(name), rows.shape[2], 10), seed=5).build()
    kinds = {"emnist_cnn": EmnistCnn, "resnet18": ResNet18}
    plain = PartialNetwork(make=lambda: kinds[name](10), seed=5).build()
    with torch.inference_mode():
        expected = plain(torch.from_numpy(images.transpose(0, 3, 1, 2).copy()))
        torch.testing.assert_close(named(rows), expected)


@pytest.mark.parametrize(
    ("name", "outputs", "freeze", "percent"),
    [
        ("emnist_cnn", 62, EMNIST_FREEZE, 4.96),
        *[("resnet18", 100, freeze, percent) for percent, freeze in RESNET_FREEZES.items()],
    ],
)
def test_a_named_network_has_the_shares_of_the_paper(
    name: str, outputs: int, freeze: Freeze, percent: float
) -> None:
    maker = Maker(network_named(name), SHAPES[name][1], outputs)
    assert round(PartialNetwork(make=maker, freeze=freeze).share().percent, 2) == percent


@pytest.mark.parametrize("name", ["emnist_cnn", "resnet18"])
def test_recordings_of_another_shape_are_refused_in_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    people_drawn(tmp_path, 30, 3)
    (tmp_path / "plan.toml").write_text(PLAN.format(name=name, freeze=FROZEN[name]))
    steps, channels = SHAPES[name]
    needed = f"the network '{name}' needs {steps} steps of {channels} channels, the rows of an"
    for command in ("plan", "run"):
        said = " ".join(typed(command, "plan.toml", code=2).stderr.split())
        assert said.startswith(f"error: recordings have 3 channels; {needed} image of {steps} x")
    assert not Path("runs/plan").exists()


def test_windows_and_recordings_of_another_length_are_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    people_drawn(tmp_path, 30, 28)
    text = PLAN.format(name="emnist_cnn", freeze=FROZEN["emnist_cnn"])
    needed = "28 channels; the network 'emnist_cnn' needs 28 steps of 28 channels"
    Path("plan.toml").write_text(text + "[preprocessing]\nwindow = 15\n")
    assert f"recordings have 15 steps of {needed}" in typed("plan", "plan.toml", code=2).stderr
    Path("plan.toml").write_text(text + "[preprocessing]\nwindow = 28\n")
    assert "is a good plan" in typed("plan", "plan.toml").stdout
    # Of whole recordings only the channels are known before somebody reads them all.
    Path("plan.toml").write_text(text)
    said = " ".join(typed("run", "plan.toml", code=2).stderr.split())
    assert f"recordings have 30 steps of {needed}" in said
