"""Runs of the library are runs of the model, and those of a broken one are not.

Every request and answer is recorded and given to `tools.spin.acceptor`, which has the rules and the
claims of the Promela model. Clients are broken on purpose, one rule each, before the same server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from catchment.federation import RoundContext
from catchment.privacy.secure_aggregation import SHARE_BYTES, Notebook, client, cut, keys, rows
from catchment.wire import NOTHING, Message
from tests.security import schedule
from tests.security.fleet import Fleet, RefusedError
from tests.security.liars import Colluder, consents, number, survivors
from tests.security.schedule import Chaos, simulate
from tests.security.traces import Recorder
from tools.spin.acceptor import NotAllowedError


def test_an_honest_round_is_a_run_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, fleet = Recorder.on(monkeypatch), Fleet.drawn(5)
    exchange = fleet.open()
    for stage in exchange.stages:
        fleet.step(exchange, stage, list(exchange.asked(stage))[: 5 if stage == "keys" else 4])
    assert recorder.accepted(fleet) == 5 + 5 * 4
    assert {event.stage for _, event in recorder.events} == {
        *("keys", "shares", "boxes", "update", "consistency", "unmask")
    }


def schedules(seeds: Sequence[int], folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many events of these worlds the model allows."""
    worlds: list[Chaos] = []

    def kept(*settings: Any, **more: Any) -> Chaos:
        worlds.append(Chaos(*settings, **more))
        return worlds[-1]

    monkeypatch.setattr(schedule, "Chaos", kept)
    recorder, n_events = Recorder.on(monkeypatch), 0
    for seed in seeds:
        recorder.events.clear()
        recorder.crashed = False
        simulate(seed, folder / str(seed))
        world = worlds.pop()
        if not recorder.crashed:
            n_events += recorder.accepted(world.fleet, world.liar.bad if world.liar else ())
    return n_events


def test_schedules_are_runs_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert schedules(range(12), tmp_path, monkeypatch) > 100


@pytest.mark.long
def test_a_thousand_schedules_are_runs_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert schedules(range(1000), tmp_path, monkeypatch) > 10_000


def both_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = client._unmask

    def broken(side: client.Side, received: Message) -> Message:
        sound(side, received)
        return Message(
            "secure-shares-given",
            {},
            (rows(cut(side.book["held shares"], SHARE_BYTES), SHARE_BYTES),),
        )

    monkeypatch.setattr(client, "_unmask", broken)


def no_consents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_check_consents", lambda *_: None)


def any_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.Side, "check_holders", lambda *_: None)


def every_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Notebook, "enter", lambda *_: None)


def lying_server(fleet: Fleet) -> None:
    """Ask for everything there is: two sets of each client, with all signatures that can be had."""
    exchange = fleet.until("consistency")
    names, places = sorted(fleet.vectors), range(len(fleet.vectors))
    at = number(exchange.request("consistency", names[0], NOTHING))
    whole, without, few = set(places), set(places) - {0}, {0, 1, 2}
    signed: dict[int, Message] = {}
    for shown in (few, whole, without):
        for place in shown:
            with suppress(RefusedError):
                request = survivors(at, shown, len(names))
                signed[place] = fleet.ask(names[place], "consistency", request)
    for place in places:
        for others in ({}, signed):
            with suppress(RefusedError):
                rest = {k: one for k, one in others.items() if k != place}
                fleet.ask(names[place], "unmask", consents(at, rest))


def test_a_lying_server_gets_a_run_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, fleet = Recorder.on(monkeypatch), Fleet.drawn(5, corrupt=0.0)
    lying_server(fleet)
    assert recorder.accepted(fleet) > 25


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (both_shares, "gave other mask-key shares"),
        (no_consents, "gave shares for"),
        (any_set, "took a set of too few holders"),
        (every_letter, "answered 'consistency' after"),
    ],
)
def test_a_broken_client_is_found_out(
    broken: Callable[[pytest.MonkeyPatch], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, fleet = Recorder.on(monkeypatch), Fleet.drawn(5, corrupt=0.0)
    broken(monkeypatch)
    lying_server(fleet)
    with pytest.raises(NotAllowedError, match=words):
        recorder.accepted(fleet)


def test_a_signature_that_nobody_made_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, fleet = Recorder.on(monkeypatch), Fleet.drawn(5)
    exchange = fleet.until("consistency")
    names = sorted(fleet.vectors)
    at = number(exchange.request("consistency", names[0], NOTHING))
    session = keys.Session.of("catchment", at, RoundContext(0, (), plan=fleet.plan.fingerprint()))
    whole = set(range(5))
    fleet.ask(names[0], "consistency", survivors(at, whole, 5))
    forged = {k: Colluder(fleet, names[k], session).sign(whole) for k in range(1, 5)}
    fleet.ask(names[0], "unmask", consents(at, forged))
    with pytest.raises(NotAllowedError, match="never made"):
        recorder.accepted(fleet, corrupt=names[4:])
