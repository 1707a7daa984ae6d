"""A device's samples stay on it; what leaves its gateway is protected as any client's upload."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import catchment as ct
from catchment.data import synthetic_wearables
from catchment.errors import RefusedClientsWarning
from catchment_edge import EdgeClient
from catchment_edge.client import Frame
from tests.engine.stand_in import Fault, StandIn

PEOPLE = synthetic_wearables(4, windows_per_user=72, steps=12)
BOARD = sorted(PEOPLE)[0]
CLASSES = PEOPLE[BOARD][0].classes
MAP = ct.EchoState(8, pool="mean", seed=3)
POOLED = ct.federate(MAP, PEOPLE)


def run_with(fault: Fault, **settings: Any) -> ct.Run:
    device = StandIn(POOLED.known.maps[0], [PEOPLE[BOARD]], classes=CLASSES, fault=fault)
    with device.listening() as address:
        clients: dict[str, Any] = {**PEOPLE, BOARD: EdgeClient(address)}
        return ct.federate(MAP, clients, **settings)


def test_no_sample_goes_over_the_line() -> None:
    line = bytearray()

    def tapped(kind: str, answer: bytes) -> bytes:
        line.extend(answer)
        return answer

    run_with(tapped)
    samples = np.concatenate([one.u.ravel() for one in PEOPLE[BOARD]])
    assert len(line) > 1000
    for form in ("<f8", "<f4"):
        size = np.dtype(form).itemsize
        sent = {bytes(line[k : k + size]) for k in range(len(line))}
        # Not even by chance: few of 2^32 patterns go over a line of kilobytes.
        assert sum(value.tobytes() in sent for value in samples.astype(form)) == 0


def test_the_server_of_secure_aggregation_sees_a_masked_upload_of_a_device() -> None:
    keys = ct.generate_keys(PEOPLE)
    run = run_with(
        lambda _, answer: answer, protections=[ct.SecureAggregation(keys, min_clients=4)]
    )
    said = run.explain(BOARD)
    kinds = set(re.findall(rf"{BOARD}  training round 1  ([\w-]+)", said))
    assert "secure-upload" in kinds
    assert "ridge-statistics" not in kinds
    assert run.statistics.digest() == POOLED.statistics.digest()


@pytest.mark.parametrize(
    "content", [b"\x80\x04\x95cos\nsystem\n", b"import os", b"CTMT" + b"\xff" * 60]
)
def test_nothing_that_a_device_sends_is_executed(content: bytes) -> None:
    def lying(kind: str, answer: bytes) -> bytes:
        sent = Frame("u", content).to_bytes() + Frame("e").to_bytes()
        return sent if kind in "MT" else answer

    with pytest.warns(RefusedClientsWarning):
        run = run_with(lying)
    assert {one.client for one in run.refused} == {BOARD}
    assert run.records[0].n_used == 3
