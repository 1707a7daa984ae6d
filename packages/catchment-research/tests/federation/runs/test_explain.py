"""Explanations: every kind of message is described, and none is called harmless for being new."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catchment import FederatedRidge, Plan, Reservoir
from catchment.data import contiguous, narma
from catchment.engine import run_locally
from catchment.features import EchoState
from catchment.federation import Record, RunFolder, explain, messages_of, read_run
from catchment.federation.runs import Entry, Keeper, Run, Stage, Traffic, in_words, say_bytes
from catchment.privacy.dp import Clipped
from catchment.readout import RidgeStatistics
from tests.contracts.cases import cases


def a_run(*traffic: Traffic, rows: dict[str, int] | None = None) -> Run:
    names = dict.fromkeys(t.stage for t in traffic)
    return Run(
        Path("run"),
        {"title": "a run"},
        tuple(Stage(name, "", 1, {}) for name in names),
        {name: (Record(0, 9, 9, 0.1, 1, 1),) for name in names},
        traffic,
        {},
        {},
        rows_by_client=rows or {},
        kinds={kind.name: kind for kind in (RidgeStatistics.KIND, Clipped.KIND)},
    )


def up(
    purpose: str, *, clients: int = 3, shapes: tuple[tuple[int, ...], ...] = ((4, 2),)
) -> Traffic:
    return Traffic("training", "up", purpose, shapes, clients, clients, 3000)


class Noted(Keeper[Any]):
    """A keeper that only remembers which kinds went up."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()

    def note(self, entry: Entry) -> None:
        if entry.direction == "up":
            self.kinds.add(entry.purpose)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_upload_of_every_algorithm_is_described(case: object) -> None:
    noted = Noted()
    run_locally(case.plan, case.clients, keeper=noted)  # type: ignore[attr-defined]
    assert noted.kinds
    described = {name for name, kind in case.plan.messages().items() if kind.tells}  # type: ignore[attr-defined]
    assert noted.kinds <= described


def test_what_is_sent_how_often_and_how_large() -> None:
    (one,) = explain(a_run(up("ridge-statistics"))).up
    assert one.sentence() == (
        "3 clients sent 3 messages of 8 numbers, about 1 kB each, 3 kB in all."
    )


def test_messages_of_several_sizes_are_one_kind() -> None:
    run = a_run(
        up("moment-factor", clients=1, shapes=((3,),)), up("moment-factor", shapes=((7, 2),))
    )
    (one,) = explain(run).up
    assert one.n_numbers == (3, 14)
    assert (one.n_clients, one.n_messages) == (4, 4)
    assert "3 to 14 numbers" in one.sentence()


def test_an_unknown_kind_is_not_called_harmless() -> None:
    run = a_run(up("ridge-statistics"), up("telepathy"))
    explained = explain(run)
    assert explained.unknown == ("telepathy",)
    assert explained.never == ()
    text = in_words(run, [])
    assert "assume that all of it can be read" in text
    assert "not known: there are messages of kind telepathy" in text


@pytest.mark.parametrize("shapes", [((8,), (8, 2)), ((2,), (1, 8), (2, 36), (1, 8, 2), (1, 3))])
def test_few_rows_are_a_warning(shapes: tuple[tuple[int, ...], ...]) -> None:
    rows = {"a": 3, "b": 10, "c": 100}
    (one,) = explain(a_run(up("ridge-statistics", shapes=shapes), rows=rows)).up
    few, weak = one.notes
    assert few.startswith("1 of 3 clients (a) have fewer rows than the 8 features")
    assert weak.startswith("1 of 3 clients have fewer than five rows per feature")
    (fine,) = explain(a_run(up("ridge-statistics"), rows={"a": 1000})).up
    assert fine.notes == ()


@pytest.mark.parametrize("distributed", [False, True])
def test_what_is_bounded_is_said_with_delta_and_the_number_of_clients(distributed: bool) -> None:
    noise = {"epsilon": 2.5, "delta": 1e-5, "unit": "client", "distributed": distributed}
    plan = {"Plan": {"protections": [{"GaussianNoise": noise}, {"SecureAggregation": {}}]}}
    run = a_run(up("clipped"))
    said = in_words(replace(run, stages=(Stage("training", "", 1, plan),)), [])
    assert "to whoever sees the model, epsilon 2.5 at delta 1e-05 for each of 9 clients" in said
    assert ("To the server, no bound: what it is sent is exact" in said) is not distributed
    assert ("training: to the server and to whoever sees the model" in said) is distributed
    assert "Not bounded: who takes part" in said


def test_nothing_yet() -> None:
    assert "Nothing has left any client yet." in in_words(a_run(), [])


def test_a_real_run_in_words(tmp_path: Path) -> None:
    features = EchoState.of(Reservoir(units=20, inputs=1), washout=5)
    plan = Plan(algorithm=FederatedRidge(features=features))
    with RunFolder(tmp_path) as store:
        run_locally(plan, contiguous(narma(150), 3), keeper=store.keeper("training", plan))
    run = read_run(tmp_path)
    messages = messages_of(tmp_path)
    text = in_words(run, messages, more=True)
    assert "3 clients sent 3 messages" in text
    assert "Statistics are not anonymous." in text
    assert "training: the request alone" in text
    assert all(m.sha256 in text for m in messages)
    assert text.count("sha256") == 3
    assert "name a client" in text
    assert "times" not in text
    assert "sent 2 times" in in_words(run, [replace(messages[0], times=2)])


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0 bytes"), (999, "999 bytes"), (2500, "2.5 kB"), (3 * 10**9, "3 GB")]
)
def test_sizes_in_words(n: int, text: str) -> None:
    assert say_bytes(n) == text
