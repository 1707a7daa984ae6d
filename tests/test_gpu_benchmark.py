"""The benchmark of a GPU runs on torch's CPU as well, in little."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch")

from benchmarks import gpu
from tests.features.echo_state.devices import one_thread  # noqa: F401  # a fixture


def test_it_measures_in_little_and_writes_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = ["echo_states", "one_sequence", "gram"]
    words = ["--device", "cpu", "--small", "--out", str(tmp_path), "--parts", *parts]
    monkeypatch.setattr(sys, "argv", ["gpu", *words])
    assert gpu.main() == 0
    results = json.loads((tmp_path / "gpu.json").read_text())
    assert set(parts) < set(results)
    assert results["all the same"]
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_what_fails_is_told_and_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(bench: gpu.Bench) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(gpu, "PARTS", (broken,))
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", "--out", str(tmp_path)])
    assert gpu.main() == 1
    assert "no such thing" in (tmp_path / "gpu.json").read_text()
