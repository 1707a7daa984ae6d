"""A9: `catchment run` killed at any write is resumed with the same noise, charged once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the run is forked")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory where there is one: the kernel keeps what a killed process wrote."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


def check(place: Path, n_kills: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.security.killed_run", str(place), str(n_kills)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    for begun, found in report.items():
        whole = found["whole"]
        assert whole["ends"] == [0]
        assert not {"clients", "sums"}.intersection(whole["left"])
        # Two are there for the test only.
        assert sorted(whole["entries"].values()) == [0, 0, 1, 1, 1, 1]
        for case in found["killed"]:
            where = f"{begun}, killed at {case['points']} of {whole['n_steps']}"
            *killed, last = case["ends"]
            assert (killed[0], last) == (-signal.SIGKILL, 0), where
            assert case["charged"] == ["round 0"], where
            assert case["entries"] == whole["entries"], where
            assert case["left"] == whole["left"], where
            if begun == "settled":
                assert case["model"] == whole["model"], where
    return report


def test_killed_here_and_there(place: Path) -> None:
    check(place, 3)


@pytest.mark.long
def test_killed_at_every_write(place: Path) -> None:
    for found in check(place, 0).values():
        assert len(found["killed"]) == found["whole"]["n_steps"] + 1
