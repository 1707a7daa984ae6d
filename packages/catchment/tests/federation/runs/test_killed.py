"""A run that is killed at any moment and taken up again ends with the very same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the run is forked")
ROOT = Path(__file__).parents[5]


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
def test_a_run_killed_at_random_moments_keeps_the_same_bytes(kills: int, tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    how = (str(tmp_path), str(kills), str(seed))
    done = subprocess.run(
        [sys.executable, "-m", "tests.federation.runs.killed", *how],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert set(report["ends"]) == {0}, done.stderr[-2000:]
    assert report["steps"] > 20
    assert report["killed"]
    for killed in report["killed"]:
        assert killed == report["whole"], f"seed {seed}"
