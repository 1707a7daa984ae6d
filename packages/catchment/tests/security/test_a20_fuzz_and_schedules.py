"""A20: no input breaks the parser; every schedule ends in the exact sum or in nothing."""

from __future__ import annotations

import hashlib
import json
import math
import random
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from catchment.errors import IntegrityError, UploadError
from catchment.federation import Request, RoundContext
from catchment.privacy.secure_aggregation import Outline
from catchment.wire import MAGIC, NOTHING, VERSION, Message, join, split
from tests.security.fleet import STAGES, Fleet
from tests.security.schedule import Ending, simulate

PREFIX = struct.Struct("<4sHQ32s")
TOKENS = [b"null", b"-1", b"1e999", b"NaN", b"[]", b"{}", b'""', b"true", b"9" * 30, b'"f8"']
TOKENS += [b"[[]]", b'{"a":1}', b"0.5", b"[1,2]", b'"\\ud800"', b"4294967296", b'"O8"', b"-0"]
TOKENS += [
    b"[4294967296,4294967296,0]",
    b"[0,4294967296,4294967296]",
    b'"\\udfff"',
    b'"\\u001b[2J"',
]


def resealed(body: bytes) -> bytes:
    digest = hashlib.sha256(body).digest()
    return PREFIX.pack(MAGIC, VERSION, len(body), digest) + body


def split_up(message: bytes) -> tuple[bytes, bytes]:
    body = message[PREFIX.size :]
    size = struct.unpack_from("<I", body)[0]
    return body[4 : 4 + size], body[4 + size :]


class Mutator:
    """Spoils messages: raw bytes, or the header and the arrays under a checksum that fits."""

    def __init__(self, corpus: list[bytes], seed: int) -> None:
        self.corpus, self.rng = corpus, random.Random(seed)

    def __call__(self) -> bytes:
        message = self.rng.choice(self.corpus)
        way = self.rng.randrange(6)
        if way == 0:
            return self.spoiled(message)
        header, payload = split_up(message)
        if way == 1:
            header = self.spoiled(header)
        elif way == 2:
            header = self.retold(header)
        elif way == 3:
            payload = self.spoiled(payload)
        elif way == 4:
            header = self.retold(header)
            payload = fitted(header, payload)
        else:
            header, payload = self.retold(header), self.spoiled(payload)
        size = len(header) if self.rng.random() < 0.95 else self.rng.randrange(2**32)
        return resealed(struct.pack("<I", size) + header + payload)

    def spoiled(self, content: bytes) -> bytes:
        spoiled = bytearray(content)
        for _ in range(self.rng.randrange(1, 4)):
            way = self.rng.randrange(4)
            place = self.rng.randrange(len(spoiled) + 1)
            if way == 0 and place < len(spoiled):
                spoiled[place] ^= 1 << self.rng.randrange(8)
            elif way == 1:
                del spoiled[place : place + self.rng.randrange(1, 20)]
            elif way == 2:
                spoiled[place:place] = self.rng.randbytes(self.rng.randrange(1, 8))
            else:
                other = self.rng.choice(self.corpus)
                start = self.rng.randrange(len(other))
                spoiled[place:place] = other[start : start + 20]
        return bytes(spoiled)

    def retold(self, header: bytes) -> bytes:
        """Return a header in which a value or a key was put in another's place."""
        told = json.loads(header)
        holder = self.rng.choice([one for one in containers(told) if one])
        places = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        holder[self.rng.choice(places)] = "@@"
        return json.dumps(told).encode().replace(b'"@@"', self.rng.choice(TOKENS))


def fitted(header: bytes, payload: bytes) -> bytes:
    """Return as many bytes as a header promises, so that its other lies are read, too."""
    try:
        arrays = json.loads(header)["arrays"]
        n_bytes = sum(int(math.prod(shape)) * int(code[1:]) for code, shape in arrays)
    except (ValueError, TypeError, KeyError, OverflowError):
        return payload
    return payload[:n_bytes].ljust(n_bytes, b"\0") if 0 <= n_bytes <= 1 << 16 else payload


def containers(value: object) -> Iterator[dict | list]:  # type: ignore[type-arg]
    if isinstance(value, dict | list):
        yield value
        for child in value.values() if isinstance(value, dict) else value:
            yield from containers(child)


def every_letter_and_answer() -> tuple[Fleet, list[bytes], list[bytes]]:
    fleet = Fleet.drawn(3)
    exchange = fleet.open()
    requests, answers = [], []
    for stage in STAGES:
        plan = fleet.plan.fingerprint()
        for client in exchange.asked(stage)[:1]:
            request = exchange.request(stage, client, NOTHING)
            requests.append(
                Request(plan, RoundContext(0, (), plan=plan), stage, request).to_bytes()
            )
            answers.append(fleet.ask(client, stage, request).to_bytes())
        fleet.step(exchange, stage)
    answers.append(Message("refusal", {"code": "a", "reason": "b"}).to_bytes())
    answers.append(join("pair", {"a": NOTHING, "b": Message("x", {}, (np.eye(2),))}).to_bytes())
    return fleet, requests, answers


def parse(message: bytes) -> str:
    """Return how far a message gets; anything but an IntegrityError is a find."""
    try:
        parts = Message.from_bytes(message, header_limit=1 << 18)
    except IntegrityError:
        return "refused"
    outcome = "read"
    for reader in (
        lambda: split(parts, parts.kind),
        lambda: Outline.from_fact(parts.facts.get("outline")),
        lambda: Request.from_bytes(message, "c000"),
    ):
        try:
            reader()
        except IntegrityError:
            continue
        outcome = "understood"
    return outcome


def fuzz(n_inputs: int, seconds: float, seed: int) -> Counter[str]:
    _, requests, answers = every_letter_and_answer()
    mutated = Mutator(requests + answers, seed)
    end = time.monotonic() + seconds
    outcomes: Counter[str] = Counter()
    for _ in range(n_inputs):
        outcomes[parse(mutated())] += 1
        if time.monotonic() > end:
            break
    return outcomes


def test_no_message_breaks_the_parser() -> None:
    outcomes = fuzz(20_000, 60.0, seed=0)
    # All three happen, so the inputs reach every depth.
    assert min(outcomes[kind] for kind in ("refused", "read", "understood")) > 100


@pytest.mark.long
def test_a_million_messages_do_not_break_the_parser() -> None:
    started = time.monotonic()
    outcomes = fuzz(1_000_000, 600.0, seed=1)
    assert outcomes.total() == 1_000_000 or time.monotonic() - started >= 600.0


def answers_always(fleet: Fleet, requests: list[bytes], n_inputs: int, seed: int) -> Counter[str]:
    mutated = Mutator(requests, seed)
    kinds: Counter[str] = Counter()
    for _ in range(n_inputs):
        reply = Message.from_bytes(fleet.node("c000").answer(mutated()))
        kinds[reply.kind] += 1
    return kinds


def test_a_client_answers_anything_with_a_message() -> None:
    fleet, requests, _ = every_letter_and_answer()
    kinds = answers_always(fleet, requests, 3_000, seed=2)
    assert kinds["refusal"] > 1_000


@pytest.mark.long
def test_a_client_answers_a_lot_of_anything() -> None:
    fleet, requests, _ = every_letter_and_answer()
    assert answers_always(fleet, requests, 100_000, seed=3)["refusal"] > 10_000


def server_takes_anything(n_inputs: int, seed: int) -> int:
    n_refused = 0
    for stage in STAGES:
        fleet = Fleet.drawn(3)
        exchange = fleet.until(stage)
        answer = fleet.ask("c000", stage, exchange.request(stage, "c000", NOTHING))
        mutated = Mutator([answer.to_bytes()], seed)
        for _ in range(n_inputs // len(STAGES)):
            try:
                parts = Message.from_bytes(mutated())
                exchange.take(stage, parts, RoundContext(0, (), client="c000"))
            except (IntegrityError, UploadError, ValueError):
                n_refused += 1
    return n_refused


def test_a_server_refuses_anything_with_a_reason() -> None:
    assert server_takes_anything(3_000, seed=4) > 2_000


@pytest.mark.long
def test_a_server_refuses_a_lot_of_anything() -> None:
    assert server_takes_anything(100_000, seed=5) > 50_000


def endings(seeds: range, place: Path, world: Callable[[int, Path], Ending]) -> Counter[str]:
    ended: Counter[str] = Counter()
    for seed in seeds:
        ending = world(seed, place / str(seed))
        ended["released" if ending.released else "nothing"] += 1
        ended["aborted"] += ending.aborted
        ended["crashed and released"] += bool(ending.crashes and ending.released)
        ended["lied to and released"] += bool(ending.lies and ending.released)
        ended["lied to and aborted"] += bool(ending.lies and ending.aborted)
    return ended


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(k, marks=pytest.mark.long) for k in (250, 500, 750))]
)
def test_a_thousand_schedules(first: int, place: Path) -> None:
    ended = endings(range(first, first + 250), place, simulate)
    # Every kind of ending is met, so the schedules are neither too kind nor too cruel.
    assert ended["released"] > 60
    assert ended["aborted"] > 30
    assert ended["crashed and released"] > 10
    assert ended["lied to and released"] > 3
    assert ended["lied to and aborted"] > 10


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 11000, 1000))
def test_ten_thousand_more_schedules(first: int, place: Path) -> None:
    assert endings(range(first, first + 1000), place, simulate)["released"] > 200
