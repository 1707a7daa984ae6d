"""A11: every kind of bad upload has its own code; the round is as if nobody had sent it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from catchment import FederatedRidge, Plan, Reservoir, federate
from catchment.data import ACTIVITIES, synthetic_wearables
from catchment.engine import LocalEngine
from catchment.features import EchoState
from catchment.federation import Engine, Reply, Tally, run
from catchment.federation.learn import RidgeState
from catchment.readout import Model, RidgeStatistics, accumulate
from catchment.wire import MAGIC, VERSION, Fact, Message
from catchment.wire.messages import _PREFIX

CLIENTS = synthetic_wearables(4, windows_per_user=30, steps=40)
BAD = "user-001"
Change = Callable[[bytes], bytes]
Edit = Callable[[list[NDArray[np.float64]], dict[str, Fact]], None]


def features(units: int = 20) -> EchoState:
    reservoir = Reservoir(units=units, inputs=6, seed=1)
    return EchoState.of(reservoir, bias=True, pool="mean")


PLAN: Plan[RidgeState, Tally[RidgeStatistics], Model] = Plan(
    algorithm=FederatedRidge(features=features(), classes=ACTIVITIES, ridge=1e-3)
)


@dataclass
class Tampering(Engine):
    """An engine on which one client's upload is changed."""

    change: Change

    def clients(self) -> Sequence[str]:
        return sorted(CLIENTS)

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for reply in LocalEngine(PLAN, CLIENTS).ask(requests):
            assert reply.message is not None
            bad = reply.client == BAD
            yield Reply(reply.client, self.change(reply.message)) if bad else reply


def edited(edit: Edit) -> Change:
    def change(message: bytes) -> bytes:
        parts = Message.from_bytes(message)
        arrays, facts = [array.copy() for array in parts.arrays], dict(parts.facts)
        edit(arrays, facts)
        return Message(parts.kind, facts, tuple(arrays)).to_bytes()

    return change


def entry(array: int, place: int, value: float) -> Change:
    def edit(arrays: list[NDArray[np.float64]], facts: dict[str, Fact]) -> None:
        arrays[array].reshape(-1)[place] = value

    return edited(edit)


def wider(arrays: list[NDArray[np.float64]], facts: dict[str, Fact]) -> None:
    arrays[:] = accumulate(features(21), CLIENTS[BAD]).parts().arrays


def single(arrays: list[NDArray[np.float64]], facts: dict[str, Fact]) -> None:
    arrays[:] = [array.astype(np.float32) for array in arrays]


def stranger(arrays: list[NDArray[np.float64]], facts: dict[str, Fact]) -> None:
    facts["fingerprint"] = "0" * 64


def indefinite(arrays: list[NDArray[np.float64]], facts: dict[str, Fact]) -> None:
    arrays[3][-2] = 10 * np.sqrt(arrays[3][-1] * arrays[3][-3])


def huge(arrays: list[NDArray[np.float64]], facts: dict[str, Fact]) -> None:
    arrays[1] *= 30
    arrays[3] *= 900
    arrays[4] *= 30


def miscounted(arrays: list[NDArray[np.float64]], facts: dict[str, Fact]) -> None:
    arrays[0][1] += 2


def big_endian(message: bytes) -> bytes:
    """Return the same numbers the other way round, and a header that says so."""
    parts = Message.from_bytes(message)
    (size,) = struct.unpack_from("<I", message, _PREFIX.size)
    header = message[_PREFIX.size + 4 : _PREFIX.size + 4 + size].replace(b'"f8"', b'">f8"')
    numbers = b"".join(array.astype(">f8").tobytes() for array in parts.arrays)
    body = struct.pack("<I", len(header)) + header + numbers
    return _PREFIX.pack(MAGIC, VERSION, len(body), hashlib.sha256(body).digest()) + body


CASES: dict[str, tuple[Change, str]] = {
    "NaN": (entry(3, 5, np.nan), "not-finite"),
    "infinite": (entry(4, 3, np.inf), "not-finite"),
    "another number of features": (edited(lambda a, f: wider(a, f)), "shape"),
    "another type": (edited(single), "type"),
    "big endian": (big_endian, "malformed"),
    "another reservoir": (edited(stranger), "fingerprint"),
    "negative count": (entry(0, 0, -3.0), "count"),
    "indefinite moments": (edited(indefinite), "moments"),
    "features beyond their bound": (edited(huge), "bound"),
    "constant that is not the count": (edited(miscounted), "constant"),
    "classes that are not ones": (entry(5, 0, 1000.0), "classes"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_round_goes_on_without_the_bad_upload(name: str) -> None:
    change, code = CASES[name]
    result = run(PLAN, Tampering(change))
    assert [(r.client, r.code) for r in result.records[0].refused] == [(BAD, code)]
    assert result.records[0].n_used == 3
    others = {client: data for client, data in CLIENTS.items() if client != BAD}
    expected = federate(PLAN, others)
    assert result.state.total == expected.state.total
    assert result.model is not None
    assert expected.model is not None
    np.testing.assert_array_equal(result.model.readout.weights, expected.model.readout.weights)


def test_kinds_do_not_share_codes() -> None:
    codes = [code for name, (_, code) in CASES.items() if name != "infinite"]
    assert len(set(codes)) == len(codes)


def test_an_untouched_upload_is_used() -> None:
    result = run(PLAN, Tampering(lambda message: message))
    assert result.records[0].refused == ()
    assert result.state.total == federate(PLAN, CLIENTS).state.total
