"""Processes that end with us, and everything they started."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from catchment.errors import FederationError
from tools.fleet.processes import Processes, marked

# A parent whose child leaves its session and ignores the polite signal, as a daemon would.
STUBBORN = """
import subprocess, sys, time
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
child += "print('up'); time.sleep(600)"
started = subprocess.Popen([sys.executable, "-uc", child], start_new_session=True)
print(started.pid, flush=True)
time.sleep(600)
"""


def wait_for(path: Path, text: str) -> str:
    for _ in range(200):
        if path.is_file() and text in path.read_text():
            return path.read_text()
        time.sleep(0.05)
    raise AssertionError(f"{text!r} never came: {path.read_text()}")


def gone(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rsplit(") ", 1)[1][0] == "Z"


def test_a_stubborn_grandchild_in_a_session_of_its_own_is_ended_too(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        parent = processes.start("parent", [sys.executable, "-c", STUBBORN])
        grandchild = int(wait_for(tmp_path / "parent.log", "up").split()[0])
        assert not gone(grandchild)
        processes.stop("parent", grace=0.3)
        assert gone(parent.pid)
        assert gone(grandchild)


def test_a_grandchild_whose_parent_was_killed_is_ended_too(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        parent = processes.start("parent", [sys.executable, "-c", STUBBORN])
        grandchild = int(wait_for(tmp_path / "parent.log", "up").split()[0])
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        assert not gone(grandchild)
        processes.stop("parent", grace=0)
        assert gone(grandchild)


def test_others_are_left_locked(tmp_path: Path) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    with Processes(tmp_path / "a") as ours, Processes(tmp_path / "b") as theirs:
        first, second = ours.start("x", sleep), ours.start("y", sleep)
        other = theirs.start("x", sleep)
        ours.stop("x")
        assert first.poll() is not None
        assert second.poll() is None
        assert other.poll() is None


def test_an_error_inside_stops_everything(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Processes(tmp_path) as processes:  # noqa: PT012
        started = processes.start("x", [sys.executable, "-c", "import time; time.sleep(600)"])
        raise KeyboardInterrupt
    assert gone(started.pid)
    assert list(marked(str(tmp_path.resolve()), None)) == []


def test_one_that_ends_early_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("x", [sys.executable, "-c", "raise SystemExit('no such port')"])
        with pytest.raises(FederationError, match=r"x ended \(1\).*no such port"):
            processes.wait_until("x", lambda: False, seconds=20)


def test_one_that_is_not_ready_in_time_is_reported(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("x", [sys.executable, "-c", "import time; time.sleep(600)"])
        with pytest.raises(FederationError, match=r"was not ready after 0\.2 seconds"):
            processes.wait_until("x", lambda: False, seconds=0.2)


def test_what_an_earlier_run_left_is_swept(tmp_path: Path) -> None:
    left = Processes(tmp_path)
    started = left.start("x", [sys.executable, "-c", "import time; time.sleep(600)"])
    Processes(tmp_path).kill_leftovers()
    assert started.wait(10) == -signal.SIGKILL
    left.stop("x")


def test_a_name_is_started_once(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("x", [sys.executable, "-c", "import time; time.sleep(600)"])
        with pytest.raises(FederationError, match="x runs already"):
            processes.start("x", [sys.executable, "-c", ""])
