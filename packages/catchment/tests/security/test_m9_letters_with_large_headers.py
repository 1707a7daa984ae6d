"""M9: a node reads no header that grows to hundreds of megabytes in its memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from catchment.errors import IntegrityError
from catchment.federation import LETTER_HEADER, Node, Request, RoundContext
from catchment.wire import MAX_HEADER, Message
from tests.security.test_h1_one_reply_refuses_one_client import PLAN, sealed, waves


def letter_of(size: int) -> bytes:
    """Return a letter whose header takes so many bytes, most of them empty lists."""
    lists = ",".join(["[]"] * (size // 3 - 40))
    return sealed(f'{{"kind":"request","facts":{{"parts":[{lists}]}},"arrays":[]}}'.encode())


def test_a_long_header_is_refused_before_it_is_read() -> None:
    facts = "." * (MAX_HEADER - 100)
    raw_request = sealed(f'{{"kind":"request","facts":{{"parts":"{facts}"}},"arrays":[]}}'.encode())
    Message.from_bytes(raw_request)  # what the server keeps itself may be as long
    node = Node("c0", PLAN, lambda: waves()["c0"])
    tracemalloc.start()
    try:
        reply = Message.from_bytes(node.answer(raw_request))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "header claims" in str(reply.facts["reason"])
    assert peak < 4 * LETTER_HEADER


def test_the_longest_header_that_is_read_costs_little() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(IntegrityError, match="malformed"):
            Request.from_bytes(letter_of(LETTER_HEADER), "c0")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * LETTER_HEADER


def test_large_payloads_travel_as_arrays() -> None:
    payload = Message("weights", {}, (np.zeros(1 << 18),))
    asked = Request("p", RoundContext(0, ()), "update", payload)
    assert Request.from_bytes(asked.to_bytes(), "c0").payload.arrays[0].size == 1 << 18
