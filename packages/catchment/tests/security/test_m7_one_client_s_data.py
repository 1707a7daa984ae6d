"""M7: whatever one client's data source raises, the others learn without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catchment as ct
from catchment.engine import data_of, run_locally
from catchment.federation import Node, Request, RoundContext, answer_together
from catchment.wire import NOTHING, Message
from tests.security.test_h1_one_reply_refuses_one_client import CULPRIT, PLAN, waves

ERRORS = [
    KeyError("y"),
    AttributeError("'NoneType' object has no attribute 'u'"),
    MemoryError("a terabyte"),
    RuntimeError("the sensor is gone"),
    TypeError("a list and a number"),
    StopIteration(),
]


def with_a_source_that_raises(error: BaseException) -> dict[str, Any]:
    def source() -> Any:
        raise error

    return {**waves(), CULPRIT: source}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_others_learn_without_it(error: Exception) -> None:
    done = run_locally(PLAN, with_a_source_that_raises(error))
    (refused,) = done.refused
    assert (refused.client, refused.code) == (CULPRIT, "refused")
    assert type(error).__name__ in refused.reason
    others = {name: held for name, held in waves().items() if name != CULPRIT}
    honest = run_locally(PLAN, others).model.readout.weights
    np.testing.assert_array_equal(done.model.readout.weights, honest)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_clients_served_together_do_not_suffer(error: Exception) -> None:
    sources = with_a_source_that_raises(error)
    nodes = [Node(name, PLAN, data_of(source)) for name, source in sources.items()]
    request = Request(PLAN.fingerprint(), RoundContext(0, ()), "update", NOTHING).to_bytes()
    replies = answer_together(nodes, request)
    kinds = [Message.from_bytes(reply.message or b"").kind for reply in replies]
    assert kinds.count("refusal") == 1


def test_federate_says_who_and_why() -> None:
    with pytest.warns(ct.errors.RefusedClientsWarning, match=r"7 of 8 clients; c3: KeyError: 'y'"):
        run = ct.federate(ct.EchoState(10), with_a_source_that_raises(KeyError("y")))
    assert [(one.client, one.stage) for one in run.refused] == [
        ("c3", "scaling"),
        ("c3", "training"),
    ]


def test_ctrl_c_is_no_fault_of_a_client() -> None:
    with pytest.raises(KeyboardInterrupt):
        run_locally(PLAN, with_a_source_that_raises(KeyboardInterrupt()), threads=1)
