"""`python -m tools.edge`, without a board."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tools.edge import __main__ as command
from tools.edge.federation import Outcome
from tools.edge.needs import missing
from tools.edge.population import Population
from tools.edge.recipes import RECIPES

FOUND = Outcome(
    devices=2,
    rows=10,
    features=4,
    ram=1000,
    flash=2000,
    digest="aa",
    pooled_digest="aa",
    gram_error=0.0,
    cross_error=0.0,
    tested=8,
    agree=8,
    device_agree=7,
    accuracy=0.5,
    pooled_accuracy=0.5,
    upload=300,
    seconds=1.0,
)


def test_what_is_missing_is_one_sentence_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing().startswith("there is no arm-none-eabi-gcc and no qemu-system-arm here; ")
    assert "`make edge` as root installs it on Debian" in missing()
    assert CliRunner().invoke(command.app, ["needs"]).exit_code == 1


def test_each_result_is_added_to_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "trained", lambda recipe, population: FOUND)
    monkeypatch.setattr(command, "missing", lambda: "")
    first, second, *_ = RECIPES
    words = ["run", "--devices", "2", "--out", str(tmp_path / "edge.json"), "--recipe"]
    for name in (first, second):
        done = CliRunner().invoke(command.app, [*words, name])
        assert done.exit_code == 0, done.output
        assert f"{name}: 2 devices, 10 windows, 4 features; one SHA-256; 8 of 8" in done.output
    kept = (tmp_path / "edge.json").read_text()
    assert kept.count('"data": "synthetic wearables"') == 2
    refused = CliRunner().invoke(command.app, [*words, "64"])
    assert refused.exit_code == 1


def test_people_are_either_taught_from_or_tested_on() -> None:
    found = Population.of(4)
    assert len(found.people) == 4
    assert found.unseen
    assert not set(found.people) & set(found.unseen)
    assert {window.u.shape for held in found.people.values() for window in held} == {(128, 6)}
