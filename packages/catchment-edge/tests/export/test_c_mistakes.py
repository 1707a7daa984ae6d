"""What cannot be exported as C, and what the command says: one sentence with a remedy."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment as ct
from catchment import Array
from catchment.cli import main
from catchment.features import FeatureMap
from catchment.readout import PersonalModels
from catchment_edge import c_code
from tests.export.models import untrained


@dataclass(frozen=True)
class Range(FeatureMap):
    """A map of one's own."""

    n_features = 1
    n_inputs = 2
    bounds = np.full(1, 9.0)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return [np.ptp(u, axis=0)[None, :1] for u in inputs]


def with_prepare(**settings: Any) -> ct.Model:
    return untrained(ct.EchoState(5), **settings)


MISTAKES: dict[str, tuple[Callable[[], ct.Model], dict[str, Any], str]] = {
    "own map": (
        lambda: untrained(Range()),
        {},
        "Range cannot be written as C.*WindowStatistics$",
    ),
    "own scale": (
        lambda: replace(
            with_prepare(),
            before=ct.Pipeline(ct.Preprocessing(scale="own"), with_prepare().features),
        ),
        {},
        'train with scale="federated"',
    ),
    "seconds": (lambda: with_prepare(window="2s"), {}, "pass --rate"),
    "short window": (
        lambda: untrained(ct.EchoState(5, washout=9), window=9),
        {},
        "windows have 9 steps and the map needs 10",
    ),
    "steps of windows that overlap": (
        lambda: untrained(ct.EchoState(5), per_step=True, window=9, step=4),
        {},
        "a device has one row at a time",
    ),
    "no steps": (lambda: untrained(ct.MiniRocket(84)), {"steps": 0}, "steps is 0; give the length"),
    "all of a recording": (lambda: untrained(ct.MiniRocket(84)), {}, "pass --steps"),
    "float64": (lambda: untrained(ct.EchoState(5, bits=None)), {}, 'train it with bits="auto"'),
    "float64 windows": (
        lambda: untrained(ct.MiniRocket(84, bits=None)),
        {"steps": 30},
        "is not in fixed point",
    ),
    "name": (with_prepare, {"name": "two words"}, "give a letter, then up to 30"),
    "long name": (with_prepare, {"name": "a" * 300}, "give a letter, then up to 30"),
    "name with a digit first": (with_prepare, {"name": "1x"}, "give a letter, then up to 30"),
    "name of the file's own": (with_prepare, {"name": "map"}, "does not begin with map"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_it_is_refused_with_a_remedy(mistake: str) -> None:
    make, options, said = MISTAKES[mistake]
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        c_code(make(), **options)


def test_a_window_in_seconds_with_the_devices_rate() -> None:
    code = c_code(with_prepare(window="2s", step="1s"), rate=25)
    assert (code.layout.cutting.window, code.layout.cutting.step) == (50, 25)
    assert c_code(with_prepare(window="2s", rate=10.0)).layout.cutting.window == 20
    assert "must sample at 10 Hz" in c_code(with_prepare(window="2s", rate=10.0)).header


def exported(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["export", *map(str, words)])
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out, told.err


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return with_prepare(window=20).save(tmp_path / "model.safetensors")


def test_the_command_prints_the_plan_and_writes_two_files(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "device"
    code, out, err = exported(capsys, saved, "--to", "c", "--name", "har", "--out", folder)
    assert code == 0
    assert all(word in out for word in ("RAM", "flash", "multiply-adds"))
    assert sorted(path.name for path in folder.iterdir()) == ["har.c", "har.h"]
    assert f"wrote {folder / 'har.c'}" in err
    code, out, _ = exported(capsys, saved, "--to", "c", "--out", folder, "--json")
    plan = json.loads(out)
    assert code == 0
    assert plan["flash"] == plan["tables"] + plan["code"]
    assert plan["ram"] > 0


def test_one_of_the_models_by_client_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = with_prepare(window=20)
    own = replace(shared.readout, weights=2 * shared.readout.weights)
    personal = PersonalModels(shared, {"ann": own}).save(tmp_path / "personal.safetensors")
    words = (personal, "--to", "c", "--client", "ann", "--out", tmp_path)
    assert exported(capsys, *words)[0] == 0
    expected = c_code(replace(shared, readout=own, statistics=None)).source
    assert (tmp_path / "model.c").read_text() == expected


def test_mistakes_of_the_command_are_one_line(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "file"
    taken.write_text("mine")
    personal = tmp_path / "personal.safetensors"
    shared = with_prepare()
    PersonalModels(shared, {"ann": shared.readout}).save(personal)
    for words, said in (
        ((saved, "--to", "pdf"), "--to is 'pdf'; choose one of onnx, c"),
        ((saved, "--to", "c", "--out", taken), f"--out {taken} is a file"),
        ((personal, "--to", "c"), "PersonalModels cannot be written as C"),
        ((personal, "--to", "c"), "say whose with --client NAME"),
        ((personal, "--to", "c", "--client", "bob"), "has no model of 'bob'; choose from ann"),
        ((saved, "--to", "c", "--client", "ann"), "has one model for all; leave it out"),
        ((tmp_path / "nothing", "--to", "c"), "there is no model"),
        ((saved, "--to", "onnx", "--train"), "--train is for --to c"),
    ):
        code, _, err = exported(capsys, *words)
        assert code == 2
        assert said in err
        assert err.count("\n") == 1
    assert taken.read_text() == "mine"
