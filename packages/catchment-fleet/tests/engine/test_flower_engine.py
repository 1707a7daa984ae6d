"""The engine over a network, on a network of functions: order, deadlines, names, who is missing."""

from __future__ import annotations

import logging
import re
import tracemalloc
from contextlib import closing

import pytest

from catchment.errors import FederationError, IntegrityError, TooFewClientsError
from catchment.federation import refusal
from catchment.wire import Message
from catchment_fleet.flower import HELLO, Hello, Roll, Shelf
from tests.engine.town import Town, resident, town

ABC = ("ann", "ben", "cem")


def requests(*names: str) -> dict[str, bytes]:
    return {name: f"for {name}".encode() for name in names}


def test_replies_come_in_the_order_of_the_letters_whoever_answers_first() -> None:
    place = town(*ABC)
    for number, delay in zip(place.nodes_by_id, (9.0, 5.0, 1.0), strict=True):
        place.nodes_by_id[number].delay = delay
    engine = place.engine()
    assert engine.clients() == list(ABC)
    asked = requests("cem", "ann", "ben")
    replies = list(engine.ask(asked))
    assert [(reply.client, reply.message) for reply in replies] == list(asked.items())


def test_a_client_is_reached_on_its_own_node_with_the_stage() -> None:
    place = town(*ABC)
    engine = place.engine().at("evaluation")
    engine.clients()
    place.sent.clear()
    list(engine.ask(requests("ben")))
    ((node, order),) = place.sent
    assert (node, order.stage, order.request) == (101, "evaluation", b"for ben")


def test_the_slow_are_dropped_by_name_and_the_others_are_not() -> None:
    place = town(*ABC)
    place.nodes_by_id[100].delay = 1000.0
    engine = place.engine(expect=2, timeout=30.0)
    engine.clients()
    place.nodes_by_id[100].delay = 0.0
    assert engine.clients() == ["ben", "cem"]
    place.now += 1000
    assert engine.clients() == list(ABC)
    place.nodes_by_id[100].delay = 31.0
    before = place.now
    slow, *others = engine.ask(requests(*ABC))
    assert (slow.client, slow.message) == ("ann", None)
    assert slow.error == "it did not answer within 30 s"
    assert all(reply.message for reply in others)
    assert 30 <= place.now - before <= 32


def test_late_answers_are_never_looked_at() -> None:
    place = town("ann", "ben")
    engine = place.engine(timeout=10.0)
    engine.clients()
    place.nodes_by_id[100].delay = 12.0
    assert next(iter(engine.ask({"ann": b"first"}))).message is None
    place.now += 100
    place.nodes_by_id[100].delay = 0.0
    assert [r.message for r in engine.ask({"ann": b"second"})] == [b"second"]


def test_a_failing_app_is_reported_with_its_client() -> None:
    place = town(*ABC)
    engine = place.engine()
    engine.clients()
    place.nodes_by_id[101].error = "its app failed: ZeroDivisionError"
    replies = list(engine.ask(requests(*ABC)))
    assert [(r.client, r.error) for r in replies if r.message is None] == [
        ("ben", "its app failed: ZeroDivisionError")
    ]


def test_a_lost_client_is_named_and_costs_no_time() -> None:
    place = town(*ABC)
    engine = place.engine()
    assert engine.clients() == list(ABC)
    place.nodes_by_id[102].gone = True
    assert engine.clients() == list(ABC)
    before = place.now
    *_, lost = engine.ask(requests(*ABC))
    assert (lost.client, lost.message, lost.error) == ("cem", None, "it is not connected")
    assert place.now == before


def test_a_client_that_comes_back_on_another_node_is_asked_there() -> None:
    place = town("ann", "ben")
    engine = place.engine()
    engine.clients()
    place.nodes_by_id[100].gone = True
    place.nodes_by_id[200] = resident("ann", lambda order: b"again")
    assert engine.clients() == ["ann", "ben"]
    assert next(iter(engine.ask(requests("ann")))).message == b"again"


def test_a_letter_that_the_network_does_not_take_is_an_answer_too() -> None:
    place = town("ann", "ben")
    engine = place.engine()
    engine.clients()
    send = place.send
    place.send = lambda node, order, seconds: "" if node == 100 else send(node, order, seconds)  # type: ignore[method-assign]
    ann, ben = engine.ask(requests("ann", "ben"))
    assert (ann.message, ann.error) == (None, "the network did not take its request")
    assert ben.message == b"for ben"


def test_letters_go_out_a_few_at_a_time_and_one_that_hangs_holds_up_nobody() -> None:
    names = tuple(f"c{k:03d}" for k in range(100))
    place = town(*names)
    engine = place.engine(timeout=50.0, in_flight=8)
    engine.clients()
    place.most_on_the_way = 0
    place.nodes_by_id[100].delay = 1e9
    asked = requests(*names)
    replies = iter(engine.ask(asked))
    first = next(replies)
    assert first.message is None
    assert [(r.client, r.message) for r in replies] == list(asked.items())[1:]
    assert place.most_on_the_way == 8
    # All others were asked while the first one hung: its time is the round's.
    assert place.now < 52


def test_few_answers_are_fetched_at_once() -> None:
    place = town(*(f"c{k:03d}" for k in range(200)))
    engine = place.engine()
    engine.clients()
    place.collected_at_once = 0
    assert len(list(engine.ask(requests(*engine.clients())))) == 200
    assert place.collected_at_once <= 32


def test_memory_is_flat_even_if_the_first_client_is_the_last_to_answer() -> None:
    names = tuple(f"c{k:03d}" for k in range(160))
    place = Town({k: resident(name, lambda order: bytes(1 << 20)) for k, name in enumerate(names)})
    engine = place.engine()
    engine.clients()
    place.nodes_by_id[0].delay = 20.0
    tracemalloc.start()
    try:
        for reply in engine.ask(requests(*names)):
            assert reply.message == bytes(1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 80 << 20


def test_the_shelf_keeps_what_memory_does_not_hold() -> None:
    with closing(Shelf(in_memory=100)) as shelf:
        contents = {f"c{k}": bytes([k]) * (k + 40) for k in range(30)}
        for name, content in contents.items():
            shelf.put(name, content)
        assert shelf._file._rolled  # type: ignore[attr-defined]  # on the disk
        for name in reversed(contents):
            assert shelf.take(name) == contents[name]
            assert name not in shelf
        shelf.put("later", b"x" * 100)
        assert shelf.take("later") == b"x" * 100


def test_the_first_round_waits_for_those_that_are_expected() -> None:
    place = town("ann")
    engine = place.engine(expect=2)
    sleep = place.sleep

    def arrive(seconds: float) -> None:
        sleep(seconds)
        if place.now > 20:
            place.nodes_by_id.setdefault(300, resident("ben"))

    engine.roll._sleep = arrive
    assert engine.clients() == ["ann", "ben"]
    assert 20 <= place.now < 22


def test_after_the_wait_a_round_goes_on_with_enough(caplog: pytest.LogCaptureFixture) -> None:
    place = town("ann", "ben")
    engine = place.engine(expect=5, wait=40.0, fewest=2)
    with caplog.at_level(logging.WARNING):
        assert engine.clients() == ["ann", "ben"]
    assert "2 of 5 clients came within 40 s; going on with ann, ben" in caplog.text
    assert 40 <= place.now < 41
    assert engine.clients() == ["ann", "ben"]
    assert place.now < 41


def test_too_few_are_one_clear_error() -> None:
    place = town("ann")
    place.nodes_by_id[7] = resident("x", stages=("training",))
    place.nodes_by_id[7].respond = lambda order: refusal(ValueError("no plan here"))
    engine = place.engine(expect=3, wait=5.0, fewest=2)
    with pytest.raises(TooFewClientsError) as caught:
        engine.clients()
    assert str(caught.value) == (
        "1 clients are connected for training after 5 s, it takes 2 (connected: ann; refused: "
        "node 7: no plan here); start more nodes, or wait longer"
    )


def test_a_round_with_too_few_left_waits_for_the_lost() -> None:
    place = town("ann", "ben")
    engine = place.engine(fewest=2, wait=10.0)
    engine.clients()
    place.nodes_by_id[101].gone = True
    with pytest.raises(TooFewClientsError, match="lost: ben"):
        engine.clients()
    place.nodes_by_id[101].gone = False
    assert engine.clients() == ["ann", "ben"]


def test_a_stage_that_nobody_knows_is_not_waited_for() -> None:
    place = Town({1: resident("ann", stages=("training",))})
    engine = place.engine(wait=1000.0)
    assert engine.clients() == ["ann"]
    with pytest.raises(TooFewClientsError, match="0 clients are connected for evaluation"):
        engine.at("evaluation").clients()
    assert place.now < 1


def test_stages_have_their_own_clients() -> None:
    place = Town(
        {
            1: resident("ann", stages=("training",)),
            2: resident("ben", stages=("evaluation",)),
            3: resident("cem"),
        }
    )
    engine = place.engine()
    assert engine.clients() == ["ann", "cem"]
    assert engine.at("evaluation").clients() == ["ben", "cem"]


def test_two_nodes_of_one_name_are_an_error_that_names_both() -> None:
    place = Town({4: resident("ann"), 9: resident("ann")})
    with pytest.raises(FederationError, match=r"nodes 4 and 9 both call themselves 'ann'"):
        place.engine().clients()


def test_a_second_of_the_name_does_not_stop_a_run(caplog: pytest.LogCaptureFixture) -> None:
    place = town("ann", "ben")
    engine = place.engine()
    engine.clients()
    place.nodes_by_id[500] = resident("ann", lambda order: b"impostor")
    assert engine.clients() == ["ann", "ben"]
    assert "nodes 100 and 500 both call themselves 'ann'" in caplog.text
    assert next(iter(engine.ask(requests("ann")))).message == b"for ann"


def test_a_node_whose_name_nobody_vouches_for_takes_no_part() -> None:
    place = town("ann", "ben")

    def vouch(node: int, name: str) -> None:
        if node == 101:
            raise IntegrityError(f"it calls itself {name!r}, and its key is not that client's")

    roll = Roll(place, wait=5.0, vouch=vouch, clock=place.clock, sleep=place.sleep)
    assert roll.present("training", 1) == ["ann"]
    with pytest.raises(TooFewClientsError, match="node 101: it calls itself 'ben', and its key"):
        roll.present("training", 2)


def test_a_node_that_could_not_say_its_name_is_asked_again() -> None:
    place = town("ann", "ben")
    place.nodes_by_id[101].error = "its app cannot be loaded"
    engine = place.engine(expect=2, wait=100.0)
    sleep = place.sleep

    def repaired(seconds: float) -> None:
        sleep(seconds)
        if place.now > 5:
            place.nodes_by_id[101].error = ""

    engine.roll._sleep = repaired
    assert engine.clients() == ["ann", "ben"]
    assert place.now < 20


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message(HELLO, {"name": "../x", "stages": []}).to_bytes(), "it calls itself '../x'"),
        (Message(HELLO, {"name": "", "stages": []}).to_bytes(), "it calls itself ''"),
        (Message(HELLO, {"name": 3, "stages": []}).to_bytes(), "it calls itself '3'"),
        (Message(HELLO, {"name": "ann", "stages": "all"}).to_bytes(), "ann names no list"),
        (Message(HELLO, {"name": "ann", "stages": [1]}).to_bytes(), "ann names no list"),
        (Message("other").to_bytes(), "expected 'hello'"),
        (b"", "too few for a header"),
        (refusal(ValueError("why not")), "why not"),
    ],
)
def test_a_hello_that_is_none_is_refused(message: bytes, reason: str) -> None:
    with pytest.raises(IntegrityError, match=re.escape(reason)):
        Hello.from_bytes(message)
    place = Town({1: resident("ann"), 2: resident("ben")})
    place.nodes_by_id[2].respond = lambda order: message
    assert place.engine(expect=1).clients() == ["ann"]


@pytest.mark.parametrize("change", [{"timeout": 0.0}, {"in_flight": 0}, {"expect": 0}])
def test_terms_that_make_no_sense_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(change))} is 0"):
        town("ann").engine(**change)  # type: ignore[arg-type]
