"""A run with its clients in it, killed at any step, goes on: the same model, paid for once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from catchment.errors import BudgetError, FederationError
from catchment.plans import read_plan, run_plan
from catchment.privacy import Journal
from tests.security.killed_run import PLAN

ROOT = Path(__file__).parents[4]
forked = pytest.mark.skipif(not hasattr(os, "fork"), reason="the run is forked")


def report_of(place: Path, stride: int, *starts: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.security.killed_run", str(place), str(stride), *starts],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["begun"] == -signal.SIGKILL, done.stderr[-2000:]
    return report


def check(cases: dict[str, Any], *, same_noise: bool) -> None:
    whole = cases["whole"]
    assert whole["ends"] == [0]
    for case in cases["killed"]:
        where = f"killed at {case['points']} of {whole['steps']}"
        assert case["ends"] == [-signal.SIGKILL, 0], where
        assert case["charged"] == 1, where
        # Five clients trained, and each has one entry; those of the test have none.
        assert sorted(case["ledgers"]) == [0, 0, 0, 1, 1, 1, 1, 1], where
        assert not {"sums", "clients"} & set(case["left"]), where
        if same_noise:
            assert case["model"] == whole["model"], where


@forked
def test_killed_at_some_steps(place: Path) -> None:
    report = report_of(place, 45, "begun")
    assert len(report["begun_cases"]["killed"]) >= 3
    check(report["begun_cases"], same_noise=True)


@forked
@pytest.mark.long
def test_killed_at_every_third_step(place: Path) -> None:
    report = report_of(place, 3, "new", "begun")
    check(report["new_cases"], same_noise=False)
    check(report["begun_cases"], same_noise=True)


class StoppedError(Exception):
    """Something fails, such as a full disk."""


def test_a_run_that_failed_after_it_was_charged_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    file = read_plan(tmp_path / "plan.toml")
    advance = Journal.advance

    def failing(self: Journal, attempt: int, state: str) -> None:
        advance(self, attempt, state)
        if state == "SOLVED":
            raise StoppedError

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "advance", failing)
        with pytest.raises(StoppedError):
            run_plan(file, tmp_path / "run")
    with pytest.raises(FederationError, match="already holds a run"):
        run_plan(file, tmp_path / "run")
    with pytest.raises(BudgetError):
        run_plan(file, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert run_plan(file, tmp_path / "run", resume=True).scores.total is not None
    assert not (tmp_path / "run" / "sums").exists()


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
def test_the_journal_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Journal(tmp_path / "sums") as journal:
            number, _ = journal.begin("plan", 0, ["ann", "ben"])
            journal.keep(number, "ann", b"masked")
            found = [tmp_path / "sums", *(tmp_path / "sums").rglob("*")]
            assert len(found) >= 5
            assert all(path.stat().st_mode & 0o077 == 0 for path in found), found
    finally:
        os.umask(before)
