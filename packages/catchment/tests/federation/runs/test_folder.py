"""Run folders: what is written down, what survives an interruption, and who may write."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from catchment import Reservoir, RidgeStatistics, load
from catchment.data import Recording, contiguous, narma
from catchment.engine import LocalEngine, run_locally
from catchment.errors import FederationError, IntegrityError
from catchment.features import EchoState
from catchment.federation import (
    Engine,
    Plan,
    Record,
    Reply,
    RunFolder,
    Tally,
    messages_of,
    read_run,
    run,
)
from catchment.federation.learn import FederatedRidge, RidgeState
from catchment.federation.runs import BATCH, DATABASE, MODEL, PLAN, Entry
from catchment.readout import Model
from catchment.wire import Message

ROUNDS = 4
RidgePlan = Plan[RidgeState, Tally[RidgeStatistics], Model]


def plan(ridge: float = 1e-3, rounds: int = ROUNDS) -> RidgePlan:
    features = EchoState.of(Reservoir(units=15, inputs=1, seed=2), washout=5)
    algorithm = FederatedRidge(features=features, ridge=ridge, increments=rounds)
    return Plan(algorithm=algorithm, rounds=rounds)


def clients() -> dict[str, list[Recording]]:
    return contiguous(narma(240, seed=3), 3)


def rows(folder: Path, query: str) -> list[tuple[object, ...]]:
    database = sqlite3.connect(folder / DATABASE)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


@dataclass(frozen=True, eq=False)
class Repeating(Engine):
    """An engine whose clients answer more than once: the same again, or something else."""

    inner: LocalEngine[RidgeState, Tally[RidgeStatistics], Model]
    conflicting: bool = False

    def clients(self) -> Sequence[str]:
        return self.inner.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for reply in self.inner.ask(requests):
            yield reply
            second = reply
            if self.conflicting and reply.message is not None:
                first = Message.from_bytes(reply.message)
                changed = tuple(np.asarray(2 * array) for array in first.arrays)
                second = replace(reply, message=replace(first, arrays=changed).to_bytes())
            yield second


class StopError(Exception):
    """Stands for Ctrl-C or a crash."""


@dataclass
class Stopping:
    """A watch that interrupts the run when so many answers have come."""

    after: int
    seen: int = 0

    def __call__(self, round_: int, done: int, asked: int) -> None:
        self.seen += 1
        if self.seen == self.after:
            raise StopError


def test_a_run_is_written_down(tmp_path: Path) -> None:
    p = plan()
    with RunFolder(tmp_path / "run", fingerprint="f", plan="[run]\n") as store:
        result = run_locally(p, clients(), keeper=store.keeper("training", p))
        store.save_model(result.model)
    assert (tmp_path / "run" / PLAN).read_text() == "[run]\n"
    u = narma(50).u
    np.testing.assert_array_equal(
        load(tmp_path / "run" / MODEL).predict(u), result.model.predict(u)
    )
    kept = rows(tmp_path / "run", "SELECT asked, used, bytes_down, bytes_up FROM rounds")
    assert kept == [(r.n_asked, r.n_used, r.bytes_down, r.bytes_up) for r in result.records]
    up = rows(
        tmp_path / "run",
        "SELECT client, bytes, length(sha256), times FROM messages "
        "WHERE direction = 'up' AND round = 0",
    )
    assert [row[0] for row in up] == sorted(clients())
    assert sum(int(str(row[1])) for row in up) == result.records[0].bytes_up
    assert {row[2:] for row in up} == {(64, 1)}
    purposes = rows(tmp_path / "run", "SELECT DISTINCT direction, purpose FROM messages")
    assert set(purposes) == {("down", "nothing"), ("up", "ridge-statistics")}


@pytest.mark.parametrize("after", range(1, 3 * ROUNDS + 1))
def test_an_interrupted_run_resumes_to_the_same_bits(tmp_path: Path, after: int) -> None:
    p, folder = plan(), tmp_path / "run"
    whole = run_locally(p, clients())
    with pytest.raises(StopError), RunFolder(folder) as store:
        run_locally(
            p, clients(), keeper=store.keeper("training", p), watch=Stopping(after), threads=1
        )
    finished = len(rows(folder, "SELECT * FROM rounds"))
    assert finished == (after - 1) // 3
    with RunFolder(folder, resume=True) as store:
        counter = Stopping(10**9)
        resumed = run_locally(
            p, clients(), keeper=store.keeper("training", p), watch=counter, threads=1
        )
    assert counter.seen == 3 * (ROUNDS - finished)  # finished rounds are not asked again
    assert resumed.state.total == whole.state.total
    assert [r.round for r in resumed.records] == list(range(ROUNDS))
    # What was sent before the interruption did leave the client, and is counted as sent twice.
    twice = rows(folder, "SELECT count(*) FROM messages WHERE direction = 'up' AND times = 2")
    assert twice == [((after - 1) % 3 + 1,)]


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    p = plan()
    with RunFolder(tmp_path) as store:
        first = run_locally(p, clients(), keeper=store.keeper("training", p))
    with RunFolder(tmp_path, resume=True) as store:
        second = run_locally(p, {"nobody": []}, keeper=store.keeper("training", p))
    assert second.records == first.records
    assert second.model is not None
    assert first.model is not None
    np.testing.assert_array_equal(second.model.readout.weights, first.model.readout.weights)


def test_refusals_survive_a_resume(tmp_path: Path) -> None:
    p = plan()
    broken = {**clients(), "broken": [Recording(np.full(60, np.nan), np.ones(60))]}
    with RunFolder(tmp_path) as store:
        first = run_locally(p, broken, keeper=store.keeper("training", p))
    with RunFolder(tmp_path, resume=True) as store:
        again = run_locally(p, broken, keeper=store.keeper("training", p))
    assert again.records == first.records
    assert [r.client for r in again.records[0].refused] == ["broken"]
    assert rows(tmp_path, "SELECT DISTINCT client, code FROM refusals") == [("broken", "refused")]


def test_the_same_answer_twice_counts_once(tmp_path: Path) -> None:
    p = plan()
    with RunFolder(tmp_path) as store:
        engine = Repeating(LocalEngine(p, clients()))
        twice = run(p, engine, keeper=store.keeper("training", p))
    once = run_locally(p, clients())
    assert twice.state.total == once.state.total
    assert not twice.records[0].refused
    times = rows(tmp_path, "SELECT DISTINCT times FROM messages WHERE direction = 'up'")
    assert times == [(2,)]


def test_another_answer_under_the_same_name_is_a_conflict(tmp_path: Path) -> None:
    p = plan()
    with RunFolder(tmp_path) as store:
        engine = Repeating(LocalEngine(p, clients()), conflicting=True)
        result = run(p, engine, keeper=store.keeper("training", p))
    once = run_locally(p, clients())
    assert result.state.total == once.state.total
    assert {r.code for r in result.records[0].refused} == {"conflict"}
    n = rows(tmp_path, "SELECT count(*) FROM messages WHERE direction = 'up'")
    assert n == [(2 * 3 * ROUNDS,)]


def test_another_plan_is_refused(tmp_path: Path) -> None:
    with RunFolder(tmp_path, fingerprint="one") as store:
        run_locally(plan(), clients(), keeper=store.keeper("training", plan()))
    with pytest.raises(FederationError, match="another plan"):
        RunFolder(tmp_path, fingerprint="two", resume=True)
    with (
        RunFolder(tmp_path, fingerprint="one", resume=True) as store,
        pytest.raises(FederationError, match=r"'training' .* another plan"),
    ):
        store.keeper("training", plan(ridge=1.0))


def test_a_run_is_not_overwritten(tmp_path: Path) -> None:
    RunFolder(tmp_path).close()
    with pytest.raises(FederationError, match="already holds a run"):
        RunFolder(tmp_path)


def test_two_processes_do_not_write_one_run(tmp_path: Path) -> None:
    with RunFolder(tmp_path, resume=True), pytest.raises(FederationError, match="is in use"):
        RunFolder(tmp_path)
    with (
        RunFolder(tmp_path, resume=True),
        pytest.raises(FederationError, match="another process writes"),
    ):
        RunFolder(tmp_path, resume=True)
    RunFolder(tmp_path, resume=True).close()


@pytest.mark.parametrize("damage", ["flip", "cut", "missing"])
def test_a_damaged_state_is_noticed(tmp_path: Path, damage: str) -> None:
    p = plan()
    with RunFolder(tmp_path) as store:
        run_locally(p, clients(), keeper=store.keeper("training", p))
        path = store.state_path("training", ROUNDS - 1)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(content if damage == "flip" else content[:-10])
    with (
        RunFolder(tmp_path, resume=True) as store,
        pytest.raises(IntegrityError, match=r"training-000003\.bin is (damaged|missing)"),
    ):
        store.keeper("training", p).resume()


def test_only_the_last_state_is_kept(tmp_path: Path) -> None:
    p = plan()
    with RunFolder(tmp_path) as store:
        run_locally(p, clients(), keeper=store.keeper("training", p))
    assert [path.name for path in (tmp_path / "states").iterdir()] == ["training-000003.bin"]


def test_a_closed_run_is_one_database_file(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as store:
        store.write_facts({"title": "t"})
        reader = sqlite3.connect(tmp_path / DATABASE)
        assert reader.execute("SELECT count(*) FROM facts").fetchone()[0] > 0
        reader.close()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {DATABASE, "lock", "states"}


def test_a_reader_may_look_while_a_run_is_closed(tmp_path: Path) -> None:
    reader: sqlite3.Connection
    with RunFolder(tmp_path) as store:
        store.write_facts({"title": "t"})
        reader = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
        reader.execute("BEGIN")
        before = reader.execute("SELECT count(*) FROM facts").fetchone()
    assert reader.execute("SELECT count(*) FROM facts").fetchone() == before
    reader.close()
    assert rows(tmp_path, "SELECT value FROM facts WHERE name = 'title'") == [("t",)]


def test_stages_have_rounds_of_their_own(tmp_path: Path) -> None:
    one, two = plan(rounds=1), plan(ridge=2.0, rounds=2)
    with RunFolder(tmp_path) as store:
        run_locally(one, clients(), keeper=store.keeper("first", one))
        run_locally(two, clients(), keeper=store.keeper("second", two))
    counted = rows(tmp_path, "SELECT stage, count(*) FROM rounds GROUP BY stage")
    assert counted == [("first", 1), ("second", 2)]


def test_messages_are_written_in_batches(tmp_path: Path) -> None:
    p = plan()
    n = 3 * BATCH + 5
    with RunFolder(tmp_path) as store:
        keeper = store.keeper("training", p)
        for k in range(n):
            keeper.note(Entry(0, f"client-{k}", "up", "sums", ((2, 3),), 10, f"{k:064x}"))
        assert rows(tmp_path, "SELECT count(*) FROM messages") == [(3 * BATCH,)]
        keeper.close_round(p.algorithm.start(), Record(0, n, n, 1.0, 0, 10 * n))
        assert rows(tmp_path, "SELECT count(*), sum(bytes) FROM messages") == [(n, 10 * n)]
    assert rows(tmp_path, "SELECT DISTINCT shapes FROM messages") == [("[[2,3]]",)]


def test_a_failing_transaction_leaves_nothing(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as store:
        with pytest.raises(sqlite3.Error):
            store.insert("confusion", [("a", "b", 1), ("a", "b")])
        assert rows(tmp_path, "SELECT count(*) FROM confusion") == [(0,)]


def test_names_are_checked(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as store:
        with pytest.raises(ValueError, match=r"stage is '\.\./x'"):
            store.keeper("../x", plan())
        with pytest.raises(ValueError, match="no table 'people'"):
            store.insert("people", [])


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"something else, and long enough to be looked at" * 40)
    with pytest.raises(IntegrityError, match="not a run's database"):
        RunFolder(tmp_path, resume=True)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as store:
        store.write_facts({"format": "99"})
    with pytest.raises(IntegrityError, match="format 99"):
        RunFolder(tmp_path, resume=True)


def test_figures_of_every_round_are_kept_and_read_again(tmp_path: Path) -> None:
    chosen = replace(plan().algorithm, ridge="gcv", increments=2)  # type: ignore[type-var]
    p: RidgePlan = Plan(algorithm=chosen, rounds=2)
    with RunFolder(tmp_path / "run") as store:
        result = run_locally(p, clients(), keeper=store.keeper("training", p))
    with RunFolder(tmp_path / "run", resume=True) as store:
        kept = store.keeper("training", p).resume()
    assert kept is not None
    for records in (kept[1], read_run(tmp_path / "run").rounds["training"]):
        assert [r.figures for r in records] == [r.figures for r in result.records]
    first, last = (record.figures for record in result.records)
    assert first["rows"] < last["rows"]
    assert last["ridge"] == pytest.approx(result.model.readout.ridge)
    assert {"weight norm", "held-out error"} <= last.keys()


def test_a_folder_says_what_its_messages_hold_in_the_words_of_their_classes(
    tmp_path: Path,
) -> None:
    p = plan(rounds=1)
    with RunFolder(tmp_path / "run") as store:
        run_locally(p, clients(), keeper=store.keeper("training", p))
    assert read_run(tmp_path / "run").kinds == {"ridge-statistics": RidgeStatistics.KIND}


def test_a_run_in_memory_is_kept_read_and_resumed_as_one_in_a_folder(tmp_path: Path) -> None:
    p = plan()
    found = []
    for place in (tmp_path / "run", None):
        with RunFolder(place) as folder:
            keeper = folder.keeper("training", p)
            with pytest.raises(StopError):
                run_locally(p, clients(), keeper=keeper, watch=Stopping(5), threads=1)
            done = run_locally(p, clients(), keeper=keeper)
        told, sent = read_run(folder), messages_of(folder)
        rounds = [replace(one, seconds=0.0) for one in told.rounds["training"]]
        found.append((done.state.total, rounds, tuple(told.traffic), told.kinds, sent))
    assert found[0] == found[1]
    assert len(found[0][1]) == ROUNDS
    assert {one.times for one in found[0][4]} == {1, 2}


def test_a_copy_in_memory_leaves_the_folder_as_it_is(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run") as folder:
        folder.write_facts({"title": "first"})
    with folder.copied() as copy:
        copy.write_facts({"title": "second"})
    again = pickle.loads(pickle.dumps(copy))
    titles = [read_run(one).facts["title"] for one in (folder, copy, again)]
    assert titles == ["first", "second", "second"]


def test_a_folder_of_a_version_that_sealed_its_rows_is_read_and_goes_on(tmp_path: Path) -> None:
    p = plan(rounds=1)
    with RunFolder(tmp_path) as folder:
        run_locally(p, clients(), keeper=folder.keeper("training", p))
    database = sqlite3.connect(tmp_path / DATABASE)
    database.execute("INSERT INTO facts VALUES ('ledger_sha256', '00')")
    database.execute("CREATE TABLE seals (position INTEGER PRIMARY KEY, sha256 TEXT)")
    for table in ("digests", "served", "confusions"):
        database.execute(f"DROP TABLE {table}")
    database.commit()
    database.close()
    assert read_run(tmp_path).rounds["training"]
    with RunFolder(tmp_path, resume=True) as folder:
        assert folder.keeper("training", p).resume() is not None
