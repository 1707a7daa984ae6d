"""A client answers its own plan only, and says why it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.data import Recording
from catchment.errors import UploadError
from catchment.features import EchoState, Reservoir
from catchment.federation import (
    Node,
    Plan,
    Protection,
    Request,
    RoundContext,
    Upload,
    answer_together,
)
from catchment.federation.learn import FederatedRidge
from catchment.readout import RidgeStatistics, accumulate
from catchment.wire import NOTHING, Message, join

FEATURES = EchoState.of(Reservoir(units=5, inputs=1, seed=1), washout=2)
RIDGE = FederatedRidge(features=FEATURES, ridge=0.1)
PLAN: Plan[Any, Any, Any] = Plan(algorithm=RIDGE, rounds=9, seed=3)
DATA = [Recording(np.sin(np.arange(30.0)), np.cos(np.arange(30.0)))]
NODE = Node("a", PLAN, lambda: DATA)
TURN = RoundContext(4, ("a", "b"), seed=3)
ODD_TURN = Message("turn", {"round": "1", "seed": 0})


def request(plan: str | None = None, stage: str = "update", payload: Message = NOTHING) -> bytes:
    return Request(plan or PLAN.fingerprint(), TURN, stage, payload).to_bytes()


def refusal(message: bytes) -> Message:
    parts = Message.from_bytes(message)
    assert parts.kind == "refusal"
    return parts


def test_a_request_arrives_as_it_was_sent_but_without_the_others_names() -> None:
    got = Request.from_bytes(request(), "a")
    assert (got.plan, got.stage, got.payload.kind) == (PLAN.fingerprint(), "update", "nothing")
    assert (got.context.round, got.context.seed, got.context.client) == (4, 3, "a")
    assert got.context.cohort == ()
    assert got.context.rng().random() == replace(TURN, client="a").rng().random()
    assert b'"b"' not in request()


def test_the_answer_is_the_upload() -> None:
    sent = Message.from_bytes(NODE.answer(request()))
    assert RidgeStatistics.from_message(sent) == accumulate(FEATURES, DATA)
    assert NODE.answer(request()) == NODE.answer(request())


def test_another_plan_is_refused_before_any_data_is_read() -> None:
    def forbidden() -> list[Recording]:
        raise AssertionError("the data were read")

    other = replace(PLAN, seed=9).fingerprint()
    parts = refusal(Node("a", PLAN, forbidden).answer(request(other)))
    assert "another plan" in str(parts.facts["reason"])


def test_a_stage_that_the_plan_does_not_have_is_refused() -> None:
    assert "no stage" in str(refusal(NODE.answer(request(stage="keys"))).facts["reason"])


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"hello",
        NOTHING.to_bytes(),
        join("request", {}).to_bytes(),
        join("request", {"turn": NOTHING, "payload": NOTHING}).to_bytes(),
        join("request", {"turn": ODD_TURN, "payload": NOTHING}).to_bytes(),
    ],
)
def test_a_malformed_request_is_refused_with_a_reason(message: bytes) -> None:
    assert refusal(NODE.answer(message)).facts["reason"]


@settings(max_examples=60)
@given(place=st.integers(0, 8 * len(request()) - 1))
def test_any_flipped_bit_in_a_request_is_refused(place: int) -> None:
    message = bytearray(request())
    message[place // 8] ^= 1 << place % 8
    assert refusal(NODE.answer(bytes(message))).facts["reason"]


def failing(error: Exception) -> Callable[[], list[Recording]]:
    def data() -> list[Recording]:
        raise error

    return data


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("odd rows"), "refused"),
        (FileNotFoundError("no such file"), "refused"),
        (ZeroDivisionError("nothing there"), "refused"),
        (UploadError("too-few-rows", "only three rows"), "too-few-rows"),
    ],
)
def test_what_goes_wrong_on_the_client_travels_as_a_reason(error: Exception, code: str) -> None:
    parts = refusal(Node("a", PLAN, failing(error)).answer(request()))
    assert parts.facts == {"code": code, "reason": str(error)}


def test_an_error_that_does_not_explain_itself_is_named() -> None:
    parts = refusal(Node("a", PLAN, failing(AttributeError("a bug"))).answer(request()))
    assert parts.facts == {"code": "refused", "reason": "AttributeError: a bug"}


def test_clients_served_together_answer_as_each_by_itself() -> None:
    lengths = (20, 30, 40)
    nodes = [
        Node(
            str(n),
            PLAN,
            partial(list, [Recording(np.sin(np.arange(float(n))), np.arange(float(n)))]),
        )
        for n in lengths
    ]
    together = [one.message for one in answer_together(nodes, request())]
    assert together == [node.answer(request()) for node in nodes]
    broken = [nodes[0], Node("x", PLAN, failing(ValueError("odd"))), nodes[2]]
    replies = [one.message or b"" for one in answer_together(broken, request())]
    assert replies[0] == together[0]
    assert replies[2] == together[2]
    assert refusal(replies[1]).facts["reason"] == "odd"


@dataclass(frozen=True)
class Doubling(Protection):
    """A protection that doubles what leaves, for the test."""

    def on_client(self, upload: Upload, context: RoundContext) -> Upload:
        return RidgeStatistics.from_message(upload.parts()).scaled(2.0)

    def read_update(self, parts: Message, context: RoundContext, inner: Any) -> Any:
        return inner(parts, context)


def test_protections_are_applied_in_order_before_anything_leaves() -> None:
    plan = replace(PLAN, protections=(Doubling(), Doubling()))
    message = Request(plan.fingerprint(), TURN, "update", NOTHING).to_bytes()
    sent = Message.from_bytes(Node("a", plan, lambda: DATA).answer(message))
    assert RidgeStatistics.from_message(sent) == accumulate(FEATURES, DATA).scaled(4.0)
