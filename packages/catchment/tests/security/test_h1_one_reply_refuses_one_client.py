"""H1: a malformed reply refuses the client that sent it, and nobody else."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment.data import Recording
from catchment.engine import LocalEngine, run_locally
from catchment.features import EchoState, Reservoir
from catchment.federation import Engine, Plan, Reply, RoundContext, RunFolder, read_run, run
from catchment.federation.learn import FederatedRidge
from catchment.wire import MAGIC, Message, plain_text

FEATURES = EchoState.of(Reservoir(units=10, inputs=1, seed=1), washout=5)
PLAN = Plan(algorithm=FederatedRidge(features=FEATURES, ridge=0.1))
CULPRIT = "c3"


def waves() -> dict[str, list[Recording]]:
    u = np.sin(np.arange(80.0) / 5)
    return {f"c{k}": [Recording((1 + k / 9) * u[:-1], (1 + k / 9) * u[1:])] for k in range(8)}


def sealed(header: bytes, payload: bytes = b"", version: int = 1) -> bytes:
    body = struct.pack("<I", len(header)) + header + payload
    prefix = struct.pack("<4sHQ32s", MAGIC, version, len(body), hashlib.sha256(body).digest())
    return prefix + body


def told(kind: str = "x", facts: object = None, arrays: Sequence[object] = ()) -> bytes:
    return json.dumps({"kind": kind, "facts": facts or {}, "arrays": list(arrays)}).encode()


HUGE = 2**32
REPLIES = {
    "a huge shape of no numbers": sealed(told(arrays=[["f8", [HUGE, HUGE, 0]]])),
    "a huge shape with the zero first": sealed(told(arrays=[["f8", [0, HUGE, HUGE]]])),
    "a packed array of a huge shape": sealed(told(arrays=[["i8", [HUGE] * 8, 8]]), version=2),
    "half a character as kind": sealed(told("\ud800")),
    "half a character in facts": sealed(told("x", {"a": ["\ud800"]})),
    "half a character as a fact's name": sealed(told("x", {"\udfff": 1})),
    "half a character as code": sealed(told("refusal", {"code": "\ud800", "reason": "b"})),
    "half a character as reason": sealed(told("refusal", {"code": "a", "reason": "\udfff"})),
    "an escape sequence as kind": sealed(told("\x1b[2J")),
    "a number that is none": sealed(b'{"kind":"x","facts":{"epsilon":NaN},"arrays":[]}'),
    "an infinite number": sealed(b'{"kind":"x","facts":{"epsilon":1e999},"arrays":[]}'),
    "a very large integer": sealed(b'{"kind":"x","facts":{"n":18446744073709551616},"arrays":[]}'),
    "a name twice": sealed(b'{"kind":"x","kind":"y","facts":{},"arrays":[]}'),
    "UTF-16": sealed(told().decode().encode("utf-16")),
    "bytes that are no UTF-8": sealed(b'{"kind":"\xff","facts":{},"arrays":[]}'),
    "a large header": sealed(told("x", {"a": "b" * (1 << 24)})),
    "very deep": sealed(b'{"kind":"x","facts":' + b"[" * 99_999 + b"]" * 99_999 + b',"arrays":[]}'),
    "no header": sealed(b""),
    "nothing": b"",
}


@dataclass(frozen=True)
class Hostile(Engine):
    """Clients one of whom answers with something else."""

    inner: LocalEngine[Any, Any, Any]
    message: bytes

    def clients(self) -> Sequence[str]:
        return self.inner.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for reply in self.inner.ask(requests):
            yield replace(reply, message=self.message) if reply.client == CULPRIT else reply


@pytest.mark.parametrize("reply", REPLIES)
def test_the_run_goes_on_without_the_one(reply: str, tmp_path: Path) -> None:
    engine = Hostile(LocalEngine(PLAN, waves(), threads=1), REPLIES[reply])
    with RunFolder(tmp_path / "run") as store:
        done = run(PLAN, engine, keeper=store.keeper("training", PLAN))
    (refused,) = done.refused
    assert refused.client == CULPRIT
    assert refused.code
    assert refused.reason.isprintable()
    others = {name: held for name, held in waves().items() if name != CULPRIT}
    honest = run_locally(PLAN, others)
    np.testing.assert_array_equal(done.model.readout.weights, honest.model.readout.weights)
    (record,) = read_run(tmp_path / "run").rounds["training"]
    assert (record.n_asked, record.n_used, record.refused) == (8, 7, (refused,))


@pytest.mark.parametrize("error", [MemoryError("200 GB"), RecursionError("deep"), KeyError("y")])
def test_whatever_reading_raises_refuses_one_client_and_is_named(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = FederatedRidge.read_update

    def breaks(self: FederatedRidge, parts: Message, context: RoundContext) -> Any:
        if context.client == CULPRIT:
            raise error
        return read(self, parts, context)

    monkeypatch.setattr(FederatedRidge, "read_update", breaks)
    done = run_locally(replace(PLAN), waves())
    (refused,) = done.refused
    assert (refused.client, refused.code) == (CULPRIT, "malformed")
    assert refused.reason.startswith(type(error).__name__)


def test_reasons_of_clients_are_short_and_move_no_cursor() -> None:
    reason = "\x1b[31mred\x1b[0m\r\n" + "x" * 200_000
    facts = {"code": "\x07" * 99, "reason": reason}
    engine = Hostile(LocalEngine(PLAN, waves(), threads=1), Message("refusal", facts).to_bytes())
    (refused,) = run(PLAN, engine).refused
    assert len(refused.reason) == 300
    assert refused.reason.startswith("?[31mred?[0m??xxx")
    assert len(refused.code) <= 40
    assert refused.code.isprintable()


def test_facts_are_nobody_elses() -> None:
    message = Message("x", {"a": {"b": [1]}}).to_bytes()
    first: Any = Message.from_bytes(message)
    first.facts["a"]["b"].append(2)
    first.facts["a"]["c"] = 3
    assert Message.from_bytes(message).facts == {"a": {"b": [1]}}


def test_plain_text_keeps_what_can_be_read() -> None:
    assert plain_text("Zoë: 20 °C, 温度") == "Zoë: 20 °C, 温度"
    assert plain_text("\u202eabc\ud800") == "?abc?"
