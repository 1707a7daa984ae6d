"""The race of client trainings keeps rows one by one, and draws a network once in a process."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from torch import nn

from benchmarks import partial
from catchment_research.partial import Freeze, PartialNetwork


def small() -> nn.Module:
    return nn.Linear(3, 2)


def test_rows_of_other_runners_stay_and_those_of_other_settings_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial, "build_seconds", lambda: 0.5)
    options = argparse.Namespace(cohort=4, rounds=2, writers=8, out=tmp_path / "partial.json")
    for runner, rate in (("loop", 1.0), ("catchment", 2.0), ("loop", 3.0)):
        row = {"runner": runner, "trained_percent": 100.0, "clients_per_second": rate}
        partial.keep(row, options)
    kept = json.loads(options.out.read_text())
    rates = {row["runner"]: row["clients_per_second"] for row in kept["rows"]}
    assert rates == {"loop": 3.0, "catchment": 2.0}
    assert kept["build_seconds"] == 0.5
    options.rounds = 3
    partial.keep({"runner": "pfl", "trained_percent": 100.0}, options)
    assert [row["runner"] for row in json.loads(options.out.read_text())["rows"]] == ["pfl"]


def test_a_process_draws_a_network_once() -> None:
    first, again = (
        partial.built(PartialNetwork(make=small, freeze=Freeze(), seed=3)) for _ in range(2)
    )
    assert first is again
    assert partial.built(PartialNetwork(make=small, freeze=Freeze(), seed=4)) is not first
