"""From a plan's file to the C of its devices: what is read, refused, planned and written."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from catchment.cli import app
from catchment.engine import data_of
from catchment.plans import read_plan
from catchment.readout import accumulate
from catchment_edge.training import SumsForm, device_of, sensor_bytes, task_of, to_device
from tests.export.trained import STRICT, Program, messages, needs_gcc, scale, train

PLAN = """
[data]
source = "wearables"
users = 3
windows_per_user = 6
steps = 30

[features]
units = 16
pool = "mean"

[learn]
algorithm = "ridge"
upload = "statistics"
"""
CORTEX = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-Os")


def written(folder: Path, text: str = PLAN) -> Path:
    path = folder / "plan.toml"
    path.write_text(text)
    return path


def test_the_map_is_the_one_that_the_plan_trains(tmp_path: Path) -> None:
    task = task_of(written(tmp_path))
    file = read_plan(tmp_path / "plan.toml")
    workflow = file.workflow(file.load_data().about, n_clients=3)
    (built,) = workflow.start().maps
    assert task.features.fingerprint == built.fingerprint
    assert task.workflow == workflow.fingerprint
    assert task.classes == workflow.classes


@needs_gcc
def test_a_client_of_the_plan_and_its_device_send_the_same(tmp_path: Path) -> None:
    path = written(tmp_path)
    device = to_device(path, tmp_path / "out", name="person")
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == ["person.c", "person.h"]
    program = Program.of(device, tmp_path / "built")
    held = read_plan(path).load_data()
    own = [
        one.among(held.about.classes or ()) for one in data_of(next(iter(held.train.values())))()
    ]
    preprocessing = device.layout.task.preprocessing
    fitted = preprocessing.fitted(preprocessing.moments(own))
    (came,) = messages(program.talk(scale(fitted) + train(), program.sensor(own)))
    expected = accumulate(device.layout.task.features, fitted.apply(own), classes=True)
    assert came == expected.parts().to_bytes()


REFUSED: dict[str, tuple[str, str, str]] = {
    "another upload": ('upload = "statistics"', 'upload = "auto"', 'write upload = "statistics"'),
    "a rate": ("[features]", "[preprocessing]\nrate = 50\n[features]", "leave the rate out"),
    "a window in seconds": ("[features]", '[preprocessing]\nwindow = "2s"\n[features]', "in steps"),
    "interpolated gaps": (
        "[features]",
        '[preprocessing]\ngaps = "interpolate"\n[features]',
        'write gaps = "hold"',
    ),
    "pieces that share a weight": (
        "[features]",
        '[preprocessing]\ngaps = "restart"\n[features]',
        "or cut windows",
    ),
    "a scale of one's own": (
        "[features]",
        '[preprocessing]\nscale = "own"\n[features]',
        'scale = "federated"',
    ),
    "plasticity": ("[learn]", '[plasticity]\nname = "fedip"\n[learn]', "leave it out"),
    "another algorithm": (
        'algorithm = "ridge"\nupload = "statistics"',
        'algorithm = "averaging"',
        'write algorithm = "ridge"',
    ),
    "several maps": (
        'units = 16\npool = "mean"\n\n[learn]\nalgorithm = "ridge"\nupload = "statistics"',
        'map = "auto"',
        "name the one that was chosen",
    ),
    "a map in float64": (
        'pool = "mean"',
        'pool = "mean"\nbits = "none"',
        "give the map bits",
    ),
    "a map without a form": (
        'units = 16\npool = "mean"',
        'map = "echo_state"\nunits = 16\npool = "mean"\nsegments = 3',
        "pass --steps",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_device_can_do_is_one_sentence_with_the_remedy(name: str, tmp_path: Path) -> None:
    before, after, remedy = REFUSED[name]
    assert before in PLAN
    with pytest.raises(ValueError, match=remedy) as error:
        device_of(written(tmp_path, PLAN.replace(before, after)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"rows": 0}, "1 or more"),
        ({"name": "map"}, "does not begin with"),
    ],
)
def test_what_cannot_be_asked_for(settings: dict[str, Any], remedy: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=remedy):
        device_of(written(tmp_path), **settings)


def test_more_rows_than_63_bits_hold_are_refused() -> None:
    assert SumsForm.whole(24, 32_767).gram == "int64_t"
    with pytest.raises(ValueError, match="pass rows=32767"):
        SumsForm.whole(24, 32_768)


@pytest.mark.parametrize("bits", [4, 8, 12, 16, 24])
def test_sums_hold_as_many_rows_as_they_say(bits: int) -> None:
    for rows in (1, 100, 32_767):
        form = SumsForm.whole(bits, rows)
        most = {"int32_t": 2**31 - 1, "int64_t": 2**63 - 1}
        assert form.most_rows >= rows
        assert form.most_rows * 2 ** (2 * bits) <= most[form.gram]
        assert form.most_rows * 2**bits <= most[form.sum]


def test_the_command_prints_the_plan_before_it_writes(tmp_path: Path) -> None:
    path, out = written(tmp_path), tmp_path / "out"
    words = ["export", str(path), "--to", "c", "--train", "--name", "har", "--out", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "har: trains in integers, 22 features" in done.stdout
    assert "upload at most" in done.stdout
    known = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert known["ram"] == sum(known["ram_of"].values())


@pytest.mark.skipif(
    not shutil.which("arm-none-eabi-gcc"), reason="no arm-none-eabi-gcc here; make edge installs it"
)
@pytest.mark.parametrize(
    "change",
    [
        {},
        {
            'pool = "mean"': 'pool = "mean_std"\nbits = 15',
            "[features]": "[preprocessing]\nwindow = 9\n[features]",
        },
        {"[features]": '[preprocessing]\nwindow = 9\nstep = 4\nlabel = "majority"\n[features]'},
    ],
)
def test_the_plan_of_ram_is_what_the_compiler_takes(change: dict[str, str], tmp_path: Path) -> None:
    text = PLAN
    for before, after in change.items():
        text = text.replace(before, after)
    device = to_device(written(tmp_path, text), tmp_path, name="har")
    words = ["arm-none-eabi-gcc", *CORTEX, *STRICT, "-c", "har.c"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    sized = subprocess.run(
        ["arm-none-eabi-size", "har.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    flash, data, bss = (int(word) for word in sized.stdout.splitlines()[1].split()[:3])
    assert data == 0
    assert abs(bss - device.ram) <= 8  # holes between what is aligned
    assert abs(device.flash - flash) < 0.1 * flash


def test_targets_that_are_no_classes_are_refused() -> None:
    from catchment import Recording

    with pytest.raises(ValueError, match="not one-hot"):
        sensor_bytes([Recording(np.zeros((2, 1)), np.array([0.5, 0.5]), per_step=False)], classes=2)
    with pytest.raises(ValueError, match="weight 2"):
        sensor_bytes([Recording.labeled([0.0], 0, 2, weight=2.0)], classes=2)
