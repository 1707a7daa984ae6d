"""A run with workers that is killed three times ends with the bytes of one that was not."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from catchment.federation.runs import DATABASE, MODEL, PART
from catchment.plans import read_plan, run_plan

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="kills by signal")]
PLAN = """
[data]
source = "wearables"
users = 1400
windows_per_user = 1
steps = 20
[features]
units = 5
[learn]
ridge = 0.01
[run]
baselines = []
"""
STAGES = ("scaling", "training", "training")


def rows(folder: Path, query: str) -> list[tuple[object, ...]]:
    database = sqlite3.connect(folder / DATABASE)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def killed_in(stage: str, command: list[str], folder: Path, before: bytes) -> bytes:
    """Start a run, kill it and its workers once more of a stage is kept, and return what is."""
    process = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    part, kept = folder / "states" / f"{stage}-000000{PART}", b""
    try:
        while process.poll() is None and kept in (b"", before):
            time.sleep(0.002)
            kept = part.read_bytes() if part.is_file() else b""
        assert process.poll() is None, "the run was over before it was killed"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return kept


def test_a_run_that_is_killed_three_times_ends_with_the_same_bytes(tmp_path: Path) -> None:
    plan, folder = tmp_path / "plan.toml", tmp_path / "killed"
    plan.write_text(PLAN)
    run_plan(read_plan(plan), tmp_path / "whole")
    arguments = ["run", str(plan), "--out", str(folder), "--workers", "2", "--keep-every", "0"]
    command = [sys.executable, "-m", "catchment.cli", *arguments, "--resume"]
    kept = b""
    for stage in STAGES:
        kept = killed_in(stage, command, folder, kept)
    subprocess.run(command, check=True, capture_output=True)
    assert (folder / MODEL).read_bytes() == (tmp_path / "whole" / MODEL).read_bytes()
    for query in (
        # A delivery's letter says which run it is of.
        "SELECT stage, client, direction, purpose, shapes, bytes, sha256 FROM messages "
        "WHERE stage != 'delivery'",
        "SELECT stage, round, asked, used, bytes_up, state_sha256 FROM rounds",
        "SELECT * FROM scores",
    ):
        assert rows(folder, query) == rows(tmp_path / "whole", query)
    # The first block was kept before each kill, and nobody of it was asked again.
    first = "SELECT times FROM messages WHERE stage = 'training' AND client != '' LIMIT 256"
    assert {times for (times,) in rows(folder, first)} == {1}
    assert not list((folder / "states").glob(f"*{PART}"))
