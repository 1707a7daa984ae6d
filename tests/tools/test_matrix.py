"""Interpreters are found where they are, and one that only pretends is passed over."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools import matrix

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_an_interpreter_that_does_not_start_is_passed_over(tmp_path: Path) -> None:
    pretends = tmp_path / "python"
    pretends.write_text("#!/bin/sh\nexit 127\n")
    pretends.chmod(0o755)
    candidates = [str(tmp_path / "none"), str(pretends), sys.executable]
    assert matrix.interpreter(HERE, candidates) == sys.executable
    assert matrix.interpreter("3.2", candidates) is None


def test_pyenv_gives_its_newest_first(tmp_path: Path) -> None:
    for name in ("3.99.2", "3.99.10", "3.98.11", "3.99.0rc1"):
        (tmp_path / ".pyenv" / "versions" / name).mkdir(parents=True)
    found = [Path(place).parts[-3] for place in matrix.places("3.99", tmp_path)]
    assert found == ["3.99.10", "3.99.2", "3.99.0rc1"]


def test_every_version_is_tested_and_one_failure_fails_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = []

    def test(version: str, python: str, options: Sequence[str]) -> bool:
        asked.append((version, tuple(options)))
        return version != HERE

    assert matrix.main([HERE, "3.2", "--", "-x"], test) == 1
    assert asked == [(HERE, ("-x",))]
    said = capsys.readouterr().out
    assert "Python 3.2: not on this machine" in said
    assert f"Python {HERE}: FAILED" in said
    assert matrix.main(["3.2"], test) == 1
