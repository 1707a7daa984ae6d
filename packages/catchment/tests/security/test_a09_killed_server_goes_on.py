"""A9: a server killed at any step of its journal ends with the very same model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the server is forked")
ROOT = Path(__file__).parents[4]


def report_of(place: Path, stride: int, n_random: int) -> dict[str, Any]:
    how = (str(place), str(stride), str(n_random))
    done = subprocess.run(
        [sys.executable, "-m", "tests.security.killed_server", *how],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def check(report: dict[str, Any]) -> None:
    whole = report["whole"]
    assert whole["ends"] == [0]
    assert whole["states"] == [[0, "PUBLISHED"], [1, "PUBLISHED"]]
    for case in report["killed"]:
        where = f"killed at {case['points']} of {report['n_steps']}"
        *killed, last = case["ends"]
        assert last == 0, where
        # A later kill may find nothing left to do.
        assert killed[0] == -signal.SIGKILL, where
        assert set(killed) <= {-signal.SIGKILL, 0}, where
        assert case["model"] == whole["model"], where
        assert case["asked_again"] == [], where
        # No round was started over: every attempt that began was brought to its end. The last one
        # may lack its last mark, if the state that it led to was already kept.
        assert case["states"][0] == [0, "PUBLISHED"], where
        assert case["states"][1:] in ([[1, "PUBLISHED"]], [[1, "SOLVED"]]), where


def test_killed_at_every_eighth_step(place: Path) -> None:
    report = report_of(place, 8, 2)
    assert len(report["killed"]) >= 5
    check(report)


@pytest.mark.long
def test_killed_at_every_step_and_three_times_at_random(place: Path) -> None:
    report = report_of(place, 1, 100)
    assert len(report["killed"]) == report["n_steps"] + 100
    check(report)
