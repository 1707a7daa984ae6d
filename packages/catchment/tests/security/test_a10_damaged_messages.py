"""A10: messages cut short or with flipped bits are refused, and the sum stays what it was."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from catchment.errors import FederationError, IntegrityError
from catchment.federation import Engine, Reply
from catchment.privacy import Journal
from catchment.wire import NOTHING, Message
from tests.security.fleet import STAGES, Fleet, RefusedError, released, stage_of

RNG = np.random.default_rng(10)


def cut(message: bytes) -> list[bytes]:
    return [message[: len(message) * k // 16] for k in range(16)]


def flipped(message: bytes, n_places: int = 200) -> Iterator[bytes]:
    for place in RNG.integers(0, 8 * len(message), n_places):
        damaged = bytearray(message)
        damaged[place // 8] ^= 1 << place % 8
        yield bytes(damaged)


@dataclass(eq=False)
class Noisy(Engine):
    """An engine that delivers copies of one client's answer, changed, before the answer itself."""

    engine: Engine
    stage: str
    copies: Callable[[bytes], Iterator[bytes] | list[bytes]]

    def clients(self) -> Sequence[str]:
        return self.engine.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for reply in self.engine.ask(requests):
            if reply.client == "c001" and stage_of(requests["c001"]) == self.stage:
                assert reply.message is not None
                for copy in self.copies(reply.message):
                    yield Reply("c001", copy)
            yield reply


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("copies", [cut, flipped])
def test_damaged_copies_change_nothing(
    stage: str, copies: Callable[[bytes], Iterator[bytes] | list[bytes]]
) -> None:
    fleet = Fleet.drawn(4, length=50)
    result = fleet.run(Noisy(fleet.engine(), stage, copies))
    np.testing.assert_array_equal(released(result), fleet.expected(fleet.vectors))
    refused = result.records[0].refused
    assert {r.client for r in refused} == {"c001"}
    assert len(refused) == (16 if copies is cut else 200)


def test_memory_stays_flat_while_damaged_copies_come() -> None:
    fleet = Fleet.drawn(3, length=20_000)  # 320 kB each
    tracemalloc.start()
    try:
        fleet.run(Noisy(fleet.engine(), "update", lambda message: list(flipped(message, 1))))
        _, once = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        fleet.run(Noisy(fleet.engine(), "update", lambda message: flipped(message, 60)))
        _, often = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert often < once + 3 * 320_000


def resealed(message: bytes, rng: np.random.Generator) -> bytes:
    """Return a message with one bit of one array flipped and a checksum that fits."""
    parts = Message.from_bytes(message)
    arrays = [array.copy() for array in parts.arrays]
    chosen = arrays[rng.integers(len(arrays))].view(np.uint8).reshape(-1)
    chosen[rng.integers(len(chosen))] ^= np.uint8(1 << rng.integers(8))
    return replace(parts, arrays=tuple(arrays)).to_bytes()


@dataclass(eq=False)
class Lying(Engine):
    """An engine in which one answer of one client has a flipped bit and a right checksum."""

    engine: Engine
    stage: str
    rng: np.random.Generator

    def clients(self) -> Sequence[str]:
        return self.engine.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for reply in self.engine.ask(requests):
            if reply.client == "c001" and stage_of(requests["c001"]) == self.stage:
                assert reply.message is not None
                yield Reply("c001", resealed(reply.message, self.rng))
            else:
                yield reply


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("seed", range(8))
def test_a_bit_flipped_by_a_client_never_makes_a_wrong_sum(stage: str, seed: int) -> None:
    fleet = Fleet.drawn(5)
    engine = Lying(fleet.engine(), stage, np.random.default_rng([seed, len(stage)]))
    try:
        result = fleet.run(engine)
    except FederationError as error:
        ended = str(error)
    else:
        sets = itertools.combinations(fleet.vectors, result.records[0].n_used)
        ended = "wrong"
        if any(np.array_equal(released(result), fleet.expected(those)) for those in sets):
            ended = "right"
    assert ended == "right" or "nothing was released" in ended


@pytest.mark.parametrize("stage", STAGES)
def test_a_damaged_letter_does_not_keep_the_right_one_out(stage: str) -> None:
    fleet = Fleet.drawn(4)
    exchange = fleet.until(stage)
    request = exchange.request(stage, "c000", NOTHING)
    arrays = [array.copy() for array in request.arrays if array.size]
    if arrays:
        arrays[-1].view(np.uint8).reshape(-1)[-1] ^= 1
        damaged = replace(request, arrays=(*arrays, *request.arrays[len(arrays) :]))
        if stage == "boxes":
            # Here it is answered, with a complaint: whose fault it is is for the server to find.
            assert fleet.ask("c000", stage, damaged).kind == "secure-complaints"
            return
        with pytest.raises(RefusedError):
            fleet.ask("c000", stage, damaged)
    assert fleet.ask("c000", stage, request).kind.startswith("secure-")


def test_a_damaged_upload_on_the_servers_disk_is_found(tmp_path: Path) -> None:
    fleet = Fleet.drawn(4)
    with Journal(tmp_path / "sums") as journal:
        exchange = fleet.open(journal=journal)
        for stage in STAGES[:4]:
            fleet.step(exchange, stage)
    damaged = next((tmp_path / "sums" / "payloads").iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with (
        Journal(tmp_path / "sums") as journal,
        pytest.raises(IntegrityError, match="damaged or missing"),
    ):
        fleet.open(journal=journal)
