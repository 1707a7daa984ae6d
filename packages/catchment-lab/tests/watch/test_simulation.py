"""A run of Flower's simulation by Ray, seen while it goes, by a process that is not its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from catchment_lab.watch import watching
from tests.watch.runs import PLAN, wait_until


@pytest.mark.long
def test_a_simulation_is_followed_to_its_end(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    (tmp_path / "plan.toml").write_text(PLAN.replace("ROUNDS", "3"))
    command = [sys.executable, "-m", "catchment.cli", "run", str(tmp_path / "plan.toml")]
    words = ["--engine", "flower", "--out", str(tmp_path / "run")]
    states: list[str] = []
    with watching(tmp_path / "run") as server:
        assert server.feed.latest.state == "waiting"
        with subprocess.Popen([*command, *words], stderr=subprocess.DEVNULL) as process:

            def seen() -> bool:
                states.append(server.feed.latest.state)
                return process.poll() is not None

            wait_until(seen, seconds=300)
        assert process.returncode == 0
        wait_until(lambda: server.feed.latest.state == "finished")
        last = server.feed.latest
    assert "running" in states
    assert last.facts is not None
    assert last.facts["engine"] == "flower"
    assert (last.n_rounds or {})["training"] == 3
