"""What is seen of a run before it, while it goes, when it dies and when it is over."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from inspect import getmodule
from pathlib import Path

import pytest

from catchment.errors import FederationError
from catchment.federation import RunFolder, read_run
from catchment.federation.runs import (
    DATABASE,
    PROGRESS,
    Progress,
    is_held,
    read_progress,
    remove_run,
    reported,
)
from catchment.plans import example_plan, parse_plan, run_plan
from catchment_lab.watch import Feed, judged, look
from tests.watch.runs import RUDE, run_in, running, wait_until


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with noise, of which one client never answers."""
    folder = tmp_path_factory.mktemp("runs") / "noisy"
    run_in(folder, lambda: None, rounds=3, rude="ann <b>", noisy=True)
    return folder


def test_a_finished_run_is_seen_as_its_reader_sees_it(finished: Path) -> None:
    seen, run = look(finished), read_run(finished)
    assert seen.state == "finished"
    assert not (finished / PROGRESS).exists()
    assert [stage.name for stage in seen.stages] == ["training", "delivery", "evaluation"]
    assert {stage.state for stage in seen.stages} == {"done"}
    up, down, _ = run.totals()
    assert sum((seen.bytes_up or {}).values()) == up
    assert sum((seen.bytes_down or {}).values()) == down
    assert seen.n_rounds == {stage: len(records) for stage, records in run.rounds.items()}
    assert seen.scores == run.scores[""]
    worst = min((values["accuracy"], name) for name, values in run.scores.items() if name)
    assert seen.worst == (worst[1], worst[0])
    assert seen.facts is not None
    assert seen.facts["engine"] == "elsewhere"
    lines = {one.name: one.values for one in seen.series if one.stage == "training"}
    told = [record.figures["weight norm"] for record in run.rounds["training"]]
    assert list(lines["weight norm"]) == told
    json.loads(seen.to_json(), parse_constant=pytest.fail)


def test_refusals_and_epsilon_are_seen(finished: Path) -> None:
    seen = look(finished)
    assert [(one.client, one.round, one.times) for one in seen.refusals] == [("ann <b>", 2, 3)]
    assert seen.refused == {"no-answer": 3}
    assert RUDE in seen.refusals[0].reason
    (held,) = seen.bounds
    assert (held.stage, held.made, held.releases, held.epsilon) == ("training", 3, 3, 2.0)


def test_a_run_is_seen_while_it_goes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert look(folder).state == "waiting"
    with running(folder, rounds=3) as gate:
        wait_until(lambda: (read_progress(folder) or Progress()).done == 3)
        seen = look(folder)
        assert seen.state == "running"
        assert seen.progress is not None
        assert (seen.progress.stage, seen.progress.asked) == ("training", 4)
        assert [stage.state for stage in seen.stages] == ["now", "next", "next"]
        gate.open()
        wait_until(lambda: (look(folder).n_rounds or {}).get("training") == 1)
        assert look(folder).rounds[0].used == 4
    assert look(folder).state == "finished"
    # It leaves one database file, as without anybody who looked.
    names = {path.name for path in folder.iterdir()}
    assert names == {DATABASE, "lock", "states", "plan.toml", "model.safetensors"}


def test_a_run_that_is_killed_is_seen_to_be_gone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "tests.watch.runs", str(folder)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: (look(folder).n_rounds or {}).get("training", 0) > 1)
            assert is_held(folder)
            assert look(folder).state == "running"
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    seen = look(folder)
    assert seen.state == "stopped"
    assert "no process has the folder open" in seen.says
    assert seen.stages[0].state == "cut short"
    assert not is_held(folder)


def test_a_run_that_fails_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def broken() -> None:
        if (look(folder).n_rounds or {}).get("training"):
            raise FederationError("the network <is> down")

    with pytest.raises(FederationError):
        run_in(folder, broken)
    seen = look(folder)
    assert seen.state == "failed"
    assert "FederationError: the network <is> down" in seen.says
    assert "--resume" in seen.says
    run_in(folder, lambda: None)
    assert look(folder).state == "finished"


def test_a_long_silence_is_told_from_a_dead_process() -> None:
    facts = {"started": "now"}
    assert judged(facts, True, None, 100.0, 129.0)[0] == "running"
    assert judged(facts, True, None, 100.0, 131.0)[0] == "silent"
    assert judged(facts, False, None, 100.0, 101.0)[0] == "stopped"
    assert judged(facts | {"finished": "now"}, False, None, 100.0, 999.0)[0] == "finished"
    ended = Progress(ended="stopped")
    assert judged(facts, False, ended, 100.0, 101.0)[0] == "failed"
    assert judged(facts, True, ended, 100.0, 101.0)[0] == "running"  # it was taken up again


def test_a_run_that_is_removed_is_not_waited_for_in_silence(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_in(folder, lambda: None, rounds=2)
    with Feed(folder, every=0.02) as feed:
        remove_run(folder)
        wait_until(lambda: feed.latest.state == "failed")
        assert feed.latest.says == (
            "The run ended before its training and left nothing behind; its terminal says why."
        )
    assert not folder.exists()


def test_looking_keeps_no_run_from_its_folder(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").close()
    reader = sqlite3.connect(f"file:{tmp_path / 'run' / 'lock'}?mode=ro", uri=True)
    with RunFolder(tmp_path / "run", resume=True):
        assert is_held(tmp_path / "run")
        with pytest.raises(FederationError, match="another process writes"):
            RunFolder(tmp_path / "run", resume=True)
    reader.close()
    assert not is_held(tmp_path / "run")


@pytest.mark.parametrize("content", [b"", b"nothing", b"\0" * 4096])
def test_what_is_no_run_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / DATABASE).write_bytes(content)
    (tmp_path / PROGRESS).write_bytes(content)
    seen = look(tmp_path)
    assert seen.state in ("waiting", "stopped")
    assert read_progress(tmp_path) is None
    with pytest.raises(ValueError, match="is a file; pass the folder"):
        look(tmp_path / DATABASE)


def test_the_last_of_many_quick_steps_is_written_while_a_client_lets_everybody_wait(
    tmp_path: Path,
) -> None:
    heard: list[int] = []
    with reported(tmp_path, lambda *told: heard.append(told[2])) as tell:
        for k in range(1000):
            tell("training", 0, k + 1, 1001)
        wait_until(lambda: (read_progress(tmp_path) or Progress()).done == 1000)
    assert heard == list(range(1, 1001))
    assert read_progress(tmp_path) is None


def test_a_disk_that_is_full_or_read_only_does_not_stop_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", full)
        with reported(tmp_path) as tell:
            tell("training", 0, 1, 2)
    with reported(tmp_path / "not" / "there") as tell:
        tell("training", 0, 1, 2)
    assert list(tmp_path.iterdir()) == []


def test_every_run_of_a_plan_file_tells_its_progress(tmp_path: Path) -> None:
    text = example_plan("wearables").replace("users = 16", "users = 4")
    found: list[Progress | None] = []

    def heard(*_: object) -> None:
        found.append(read_progress(tmp_path / "run"))

    run_plan(parse_plan(text.replace("units = 100", "units = 10")), tmp_path / "run", watch=heard)
    told = {one.stage for one in found if one is not None}
    assert told
    assert not (tmp_path / "run" / PROGRESS).exists()
    seen = look(tmp_path / "run")
    assert seen.state == "finished"
    assert seen.facts is not None
    assert seen.facts["engine"] == "local"


def test_a_folder_that_cannot_be_read_is_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RunFolder(tmp_path / "run").close()

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(getmodule(look), "is_held", denied)
    seen = look(tmp_path / "run")
    assert (seen.state, "Permission denied" in seen.says) == ("stopped", True)


def test_folds_take_the_place_of_an_evaluation(tmp_path: Path) -> None:
    folder, stages = tmp_path / "run", []
    text = example_plan("averaging").replace("users = 12", 'users = 4\ntest = "folds"')

    def heard(stage: str, *_: object) -> None:
        if stage.startswith("fold"):
            stages.append([(one.name, one.state) for one in look(folder).stages])

    run_plan(parse_plan(text.replace("units = 60", "units = 10")), folder, watch=heard)
    done = [("training", "done"), ("delivery", "done")]
    assert stages[-1][:2] == done
    assert [(one.name, one.state) for one in look(folder).stages] == done
