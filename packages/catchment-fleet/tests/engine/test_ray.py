"""What of Ray needs no running one; `tests.engine.on_ray` has what does."""

from __future__ import annotations

import importlib.util
import socket
from dataclasses import replace
from inspect import getmodule
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from catchment.cli import app
from catchment.engine import LocalEngine, Workers
from catchment.errors import FederationError, MissingExtraError
from catchment.federation import Plan, run
from catchment.federation.runs import EntryList
from catchment.plans import run_plan
from catchment.readout import RidgeStatistics
from catchment.wire import is_whole
from catchment_fleet.ray import RayEngine, RayWorkers, ready_ray
from tests.engine.on_ray import Adding, Counting, Counts, Numbers


def test_whole_numbers_are_told_from_others() -> None:
    z, y = np.ones((3, 2)), np.ones((3, 1))
    assert not is_whole(RidgeStatistics.from_states(z, y))
    assert is_whole(Counts(1, np.array([2**62, 1])))
    assert is_whole(Counts(1, np.array([2**70, 1], dtype=object)))
    assert not is_whole(Numbers(1, np.array([1.0])))
    assert not is_whole(2.0**53)
    assert not is_whole("text")


def engine_of(algorithm: Any, kind: type, n: int = 1100) -> LocalEngine[Any, Any, Any]:
    rng = np.random.default_rng(0)
    clients = {f"c{k:04d}": tuple(map(kind, rng.normal(50, 9, 3))) for k in range(n)}
    clients |= {"c0300": ("no number",), "c0900": (1, 2)}
    return LocalEngine(Plan(algorithm=algorithm), clients, threads=1)


class OnePlace:
    """What the engine asks of Ray, in this process."""

    def put(self, value: object) -> object:
        return value

    def remote(self, add: Any) -> Any:
        class Task:
            @staticmethod
            def options(**_: object) -> Any:
                return Task

            remote = staticmethod(add)

        return Task

    def get(self, found: object) -> object:
        return found


class Failing(OnePlace):
    """A Ray whose tasks come to an end with an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def remote(self, add: Any) -> Any:
        return super().remote(lambda *_: None)

    def get(self, found: object) -> object:
        raise self.error


@pytest.mark.parametrize(("algorithm", "kind"), [(Counting(), int), (Adding(), float)])
def test_sums_of_tasks_show_nothing_that_one_process_does_not(
    algorithm: Any, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    here = engine_of(algorithm, kind)
    # What lies in the object store is what lies here.
    monkeypatch.setattr(getmodule(RayEngine), "_shared", lambda place: place)

    def seen(engine: Any) -> object:
        notes = EntryList()
        done = run(here.plan, engine, keeper=notes)
        record = replace(done.records[0], seconds=0.0)
        return done.state.parts().to_bytes(), record, notes.entries

    assert seen(RayEngine(here, OnePlace(), 2)) == seen(here)


def test_a_worker_that_always_dies_is_one_sentence_and_an_error_is_itself() -> None:
    exceptions = pytest.importorskip("ray.exceptions")
    here = engine_of(Counting(), int)
    for error, said in (
        (exceptions.WorkerCrashedError(), "Ray gave up .*begun 4 times.*use fewer workers"),
        (FederationError("the file is gone"), "^the file is gone$"),
        (exceptions.RayTaskError("add", "", FederationError("no")), "^no$"),
        (
            exceptions.RaySystemError("not\nstarted"),
            r"Ray gave up \(RaySystemError\): .*not started",
        ),
    ):
        with pytest.raises(FederationError, match=said):
            run(Plan(algorithm=Counting()), RayEngine(here, Failing(error), 1))


def test_fewer_than_two_blocks_are_asked_here() -> None:
    here = engine_of(Counting(), int, n=200)
    found = RayEngine(here, OnePlace(), 1).sums(b"", [("a",)])
    assert list(found) == [None]


def test_workers_are_checked_and_named() -> None:
    assert isinstance(RayWorkers(), Workers)
    assert RayWorkers(2).name == "ray"
    with pytest.raises(ValueError, match="n is 0 workers"):
        RayWorkers(0)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"catchment\[fleet\]"):
        ready_ray()


def test_a_cluster_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        port = taken.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            with pytest.raises(FederationError, match=f"no Ray cluster answers at {address}: .*"):
                ready_ray(address=address)
    with pytest.raises(FederationError, match="Ray does not start at nonsense: Invalid address"):
        ready_ray(address="nonsense")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--address", "auto", "--engine", "flower"], "--address auto is for Ray"),
        (["--workers", "2", "--engine", "flower"], "--workers is for --engine local or ray"),
    ],
)
def test_options_that_do_not_go_together(words: list[str], said: str, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "run")]
    (tmp_path / "plan.toml").write_text('[data]\nsource = "wearables"\n')
    done = CliRunner().invoke(app, ["run", str(tmp_path / "plan.toml"), *out, *words])
    assert done.exit_code != 0
    with pytest.raises(ValueError, match=said):
        raise done.exception or AssertionError(done.output)


def test_a_stopped_run_goes_on_with_the_same_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Any] = []

    def stopped(*_: object, workers: object, **__: object) -> None:
        taken.append(workers)
        raise KeyboardInterrupt

    monkeypatch.setattr(getmodule(run_plan), "run_plan", stopped)
    plan = tmp_path / "plan.toml"
    plan.write_text('[data]\nsource = "wearables"\n')
    words = ["--engine", "ray", "--address", "auto", "--threads", "1"]
    words += ["--data", str(tmp_path), "--edge-client", "board=tcp://127.0.0.1:7007"]
    done = CliRunner().invoke(app, ["run", str(plan), "--out", str(tmp_path / "run"), *words])
    assert done.exit_code == 130
    assert f"--resume {' '.join(words)}\n" in done.output
    assert taken == [RayWorkers(address="auto")]
