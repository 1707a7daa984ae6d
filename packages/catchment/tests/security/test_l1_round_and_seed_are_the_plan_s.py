"""L1: a client answers for the rounds and the seed of its plan, and for no others."""

from __future__ import annotations

import pytest

from catchment.engine import data_of
from catchment.federation import Node, Request, RoundContext, answer_together
from catchment.wire import NOTHING, Message
from tests.security.test_h1_one_reply_refuses_one_client import PLAN, waves


def asked(round_: int, seed: int) -> list[Message]:
    nodes = [Node(name, PLAN, data_of(held)) for name, held in waves().items()]
    request = Request(
        PLAN.fingerprint(), RoundContext(round_, (), seed), "update", NOTHING
    ).to_bytes()
    return [Message.from_bytes(one.message or b"") for one in answer_together(nodes, request)]


@pytest.mark.parametrize(("round_", "seed"), [(1, 0), (-1, 0), (2**62, 0), (0, 1)])
def test_other_rounds_and_seeds_are_refused(round_: int, seed: int) -> None:
    for reply in asked(round_, seed):
        assert reply.kind == "refusal"
        assert "the plan has 1 rounds and seed 0" in str(reply.facts["reason"])


def test_its_own_are_answered() -> None:
    assert {reply.kind for reply in asked(0, 0)} == {"ridge-statistics"}
