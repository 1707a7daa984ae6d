"""What of Ray needs no running one; `tests.engine.on_ray` has what does."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from inspect import getmodule
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from catchment.cli import app
from catchment.engine import LocalEngine, Workers, sum_sources
from catchment.errors import FederationError, MissingExtraError
from catchment.federation import BlockSum, Plan, Refusal, run
from catchment.federation.runs import EntryList
from catchment.plans import run_plan
from catchment.readout import RidgeStatistics
from catchment.wire import is_whole
from catchment_fleet.ray import Agreed, RayEngine, RayWorkers, joined, ready_ray, unless_failed
from tests.engine.on_ray import Adding, Counting, Counts, Numbers


def block(n: int, total: Counts | Numbers | None) -> BlockSum:
    names = () if total is None else (f"c{n}",)
    return BlockSum((f"c{n}", "x"), names, total, bytes_up=n, refused=(Refusal("x", "y", str(n)),))


@given(st.lists(st.none() | st.integers(0, 2**62), min_size=1, max_size=6))
def test_whole_sums_of_blocks_in_a_row_become_one(counts: list[int | None]) -> None:
    totals = [None if n is None else Counts(1, np.array([n // 8, 1])) for n in counts]
    blocks = [block(k, total) for k, total in enumerate(totals)]
    there = [total for total in totals if total is not None]
    found = joined(blocks)
    if not there:
        assert found == blocks
        return
    (one,) = found
    assert isinstance(one, BlockSum)
    assert one.total == reduce(add, there)
    assert one.n_blocks == len(blocks)
    assert one.asked == tuple(name for each in blocks for name in each.asked)
    assert one.bytes_up == sum(each.bytes_up for each in blocks)
    assert one.refused == tuple(each.refused[0] for each in blocks)
    assert one.clients == tuple(name for each in blocks for name in each.clients)


def test_sums_that_have_an_order_or_do_not_add_stay_apart() -> None:
    numbers = [block(k, Numbers(1, np.array([0.1 * k]))) for k in range(3)]
    other = block(4, Counts(1, np.zeros(3, np.int64)))
    whole = block(5, Counts(1, np.zeros(2, np.int64)))
    apart: list[list[BlockSum | Exception | None]] = [
        [*numbers],
        [whole, other],
        [whole, None],
        [whole, ValueError("no")],
    ]
    for blocks in apart:
        assert joined(blocks) == blocks


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


@pytest.mark.parametrize(("algorithm", "kind"), [(Counting(), int), (Adding(), float)])
def test_sums_of_batches_show_nothing_that_one_process_does_not(algorithm: Any, kind: type) -> None:
    pytest.importorskip("ray")
    from ray import cloudpickle

    here = engine_of(algorithm, kind)

    def two_at_a_time(agreed: Agreed, rows: Any, n: int) -> Iterator[BlockSum | None]:
        found = []
        for row in map(cloudpickle.loads, rows):
            found.append(sum_sources(agreed.plan, agreed.message, row.sources))
        assert len(found) == n == 5
        for k in range(0, n, 2):
            yield from map(unless_failed, joined(found[k : k + 2]))

    def seen(engine: Any) -> object:
        notes = EntryList()
        done = run(here.plan, engine, keeper=notes)
        record = replace(done.records[0], seconds=0.0)
        return done.state.parts().to_bytes(), record, notes.entries

    assert seen(RayEngine(here, OnePlace(), two_at_a_time)) == seen(here)


def test_a_worker_that_always_dies_is_one_sentence_and_an_error_is_itself() -> None:
    exceptions = pytest.importorskip("ray.exceptions")

    def failing(error: Exception) -> Any:
        def how(agreed: Agreed, rows: Any, n: int) -> Iterator[BlockSum | None]:
            yield unless_failed(error)

        return RayEngine(engine_of(Counting(), int), OnePlace(), how)

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
            run(Plan(algorithm=Counting()), failing(error))


def test_fewer_than_two_blocks_are_asked_here() -> None:
    here = engine_of(Counting(), int, n=200)
    found = RayEngine(here, OnePlace(), lambda *_: iter(())).sums(b"", [("a",)], 0)
    assert list(found) == [None]


def test_workers_are_checked_and_named() -> None:
    assert isinstance(RayWorkers(), Workers)
    assert (RayWorkers(2).name, RayWorkers(tree=(3, 4)).name) == ("ray", "ray, tree 3x4")
    for wrong, said in (
        ({"n": 0}, "n is 0 workers"),
        ({"tree": (3, 0)}, "two numbers from 1 on"),
        ({"tree": (3, 4), "n": 2}, "leave the workers out"),
    ):
        with pytest.raises(ValueError, match=said):
            RayWorkers(**wrong)


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
        (["--tree", "3x4"], "--tree 3x4 is for Ray; add --engine ray"),
        (["--address", "auto", "--engine", "flower"], "--address auto is for Ray"),
        (["--workers", "2", "--engine", "flower"], "--workers is for --engine local or ray"),
        (["--tree", "3 by 4", "--engine", "ray"], "--tree is '3 by 4'; write .* as 3x4"),
        (["--tree", "3x0", "--engine", "ray"], r"tree is \(3, 0\)"),
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
    words = ["--engine", "ray", "--address", "auto", "--tree", "3x4", "--threads", "1"]
    words += ["--data", str(tmp_path), "--edge-client", "board=tcp://127.0.0.1:7007"]
    done = CliRunner().invoke(app, ["run", str(plan), "--out", str(tmp_path / "run"), *words])
    assert done.exit_code == 130
    assert f"--resume {' '.join(words)}\n" in done.output
    assert taken == [RayWorkers(address="auto", tree=(3, 4))]
