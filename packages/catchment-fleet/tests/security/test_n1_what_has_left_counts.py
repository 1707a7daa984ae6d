"""N1: an upload that has left is in the ledger, whatever becomes of its sum.

A release was entered when a client gave its shares. Lost after its upload, it was in a sum that its
ledger did not know; one appended row was then the difference of two sums. No lie is needed: an
ordinary drop-out will do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment import EchoState, federate
from catchment.data import Recording
from catchment.errors import TooFewClientsError
from catchment.privacy import PrivacyLedger, SecureAggregation, generate_keys
from catchment.privacy.secure_aggregation import Notebook
from catchment.wire import NOTHING
from tests.security.fleet import Fleet, Lossy, losing, released
from tests.security.nodes import PLAN, SECURE, Nodes, numbers
from tests.security.test_n2_the_unit_is_the_owners import OTHER_WAYS

VICTIM = "c00"
ROW = "60,0.5,0.2501,0.125,b,2026-01-04"
CHANGES = {
    "a row appended": lambda nodes: nodes.append(VICTIM, ROW),
    "a file added": lambda nodes: nodes.write(VICTIM, [ROW], "more.csv"),
    "rows in another order": lambda nodes: nodes.write(VICTIM, nodes.lines(VICTIM)[::-1]),
    "a row taken out": lambda nodes: nodes.write(VICTIM, nodes.lines(VICTIM)[:-1]),
}


def lost_from(stage: str) -> Any:
    """Return who is lost: the victim, whose answers do not come back from a stage on."""
    order = ("update", "consistency", "unmask")
    wanted = order[order.index(stage) :]
    return lambda asked, name: name == VICTIM and asked in wanted


@pytest.mark.parametrize("stage", ["consistency", "unmask"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_row_of_a_lost_client_is_not_read(
    stage: str, change: str, tmp_path: Path
) -> None:
    nodes = Nodes(tmp_path, 6)
    # The others open the sum of all six.
    first = nodes.summed(PLAN + SECURE, lost=lost_from(stage))
    assert first.total.n_rows == 6 * 60
    (entry,) = nodes.entries(VICTIM)
    assert entry.n_clients == 6
    CHANGES[change](nodes)
    with pytest.raises(TooFewClientsError, match="have changed since"):
        nodes.summed(PLAN + SECURE)


@pytest.mark.parametrize("way", ["sort column", "one row per recording", "subset of columns"])
def test_nor_if_another_plan_reads_it(way: str, tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 6)
    nodes.summed(PLAN + SECURE, lost=lost_from("consistency"))
    nodes.append(VICTIM, ROW)
    with pytest.raises(TooFewClientsError, match="have changed since"):
        nodes.summed(OTHER_WAYS[way](PLAN) + SECURE)


def test_what_the_rule_prevents_is_real(tmp_path: Path) -> None:
    """Where owners let released data change, the new row is read exactly."""
    nodes = Nodes(tmp_path, 6, policy="changed_data = true\n")
    before = nodes.summed(PLAN + SECURE, lost=lost_from("consistency")).total
    nodes.append(VICTIM, ROW)
    difference = numbers(nodes.summed(PLAN + SECURE).total) - numbers(before)
    assert difference[-3:].tolist() == [0, 1, 0]  # its class
    x = difference[-9:-3] / difference[-9]  # its features: 1, x, z and their products
    np.testing.assert_allclose(x[1:3] * 8, [0.5, 0.125], rtol=1e-3)


def test_a_lost_client_is_asked_again_for_the_same_set_only(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 7)
    nodes.summed(PLAN + SECURE, lost=lost_from("consistency"))
    others = [name for name in nodes.names if name != "c05"]
    with pytest.raises(TooFewClientsError, match="over another set of 7 clients"):
        nodes.summed(PLAN + SECURE, others)
    again = nodes.summed(PLAN + SECURE)
    assert again.total.n_rows == 7 * 60
    assert [one.possible for one in nodes.entries(VICTIM)] == [True, False]


def test_a_round_that_nobody_opened_binds_as_if_it_had_been() -> None:
    fleet = Fleet.drawn(8)
    names = sorted(fleet.vectors)
    everybody = losing(dict.fromkeys(names, "consistency"))
    with pytest.raises(TooFewClientsError):
        fleet.run(Lossy(fleet.engine(), everybody))
    for memory in fleet.memories.values():
        (entry,) = PrivacyLedger(memory).entries()
        assert (entry.possible, entry.n_clients) == (True, 8)
    vectors, fleet.vectors = fleet.vectors, {name: fleet.vectors[name] for name in names[:7]}
    with pytest.raises(TooFewClientsError, match="over another set of 8 clients"):
        fleet.run()
    fleet.vectors = vectors
    np.testing.assert_array_equal(released(fleet.run()), fleet.expected(names))


class CutError(BaseException):
    """The process ends."""


def test_killed_between_the_entry_and_the_answer_it_is_entered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing can leave before the entry is where it lasts, and nothing is sent without one."""
    fleet = Fleet.drawn(5)
    exchange = fleet.until("update")
    requests = {name: exchange.request("update", name, NOTHING) for name in fleet.vectors}
    victim = "c000"
    seen: list[int] = []

    def dies(book: Notebook, stage: str, content: bytes) -> None:
        seen.append(len(PrivacyLedger(fleet.memories[victim]).entries()))
        raise CutError

    monkeypatch.setattr(Notebook, "note", dies)
    with pytest.raises(CutError):
        fleet.ask(victim, "update", requests[victim])
    assert seen == [1]  # entered before anything is remembered as sent
    monkeypatch.undo()
    fleet.ask(victim, "update", requests[victim])  # the same letter again: the same bytes
    assert len(PrivacyLedger(fleet.memories[victim]).entries()) == 1


def test_what_does_not_leave_is_not_entered() -> None:
    """An upload that its own rules refuse binds nobody."""
    fleet = Fleet.drawn(5)
    fleet.vectors = {**fleet.vectors, "c000": np.array([1.0, np.inf * 0, 2.0])}
    fleet.run()
    assert PrivacyLedger(fleet.memories["c000"]).entries() == []


def test_a_ledger_that_cannot_be_written_lets_nothing_leave() -> None:
    class Full(dict[str, bytes]):
        def __setitem__(self, name: str, value: bytes) -> None:
            if name.startswith("releases/page"):
                raise OSError("no space left on device")
            super().__setitem__(name, value)

    fleet = Fleet.drawn(6)
    fleet.memories["c000"] = Full(fleet.memories["c000"])
    result = fleet.run()
    others = sorted(set(fleet.vectors) - {"c000"})
    np.testing.assert_array_equal(released(result), fleet.expected(others))


def test_python_callers_name_their_units() -> None:
    """One unit per client unless the caller says that the data are others."""
    rng = np.random.default_rng(0)
    weeks = [
        {f"c{k}": [Recording(u[:-1], u[1:])] for k, u in enumerate(rng.normal(size=(4, 200)))}
        for _ in range(2)
    ]
    secure = SecureAggregation(generate_keys(weeks[0]), min_clients=3, rows_per_feature=2.0)
    features = EchoState(8, washout=5)
    federate(features, weeks[0], protections=[secure], ridge=1.0)
    with pytest.raises(TooFewClientsError, match="units in Python"):
        federate(features, weeks[1], protections=[secure], ridge=1.0)
    federate(features, weeks[1], protections=[secure], ridge=1.0, units="week 2")
    fewer = {name: weeks[1][name] for name in ("c0", "c1", "c2")}
    with pytest.raises(TooFewClientsError, match="over another set of 4 clients"):
        federate(features, fewer, protections=[secure], ridge=1.0, units={"c0": "week 3"})
