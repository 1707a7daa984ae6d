"""A20: whatever clients answer, a round ends, is kept, and names them; old faults are found."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import getmodule
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment.engine import LocalEngine
from catchment.federation import (
    Engine,
    Limits,
    Reply,
    Request,
    Result,
    RoundContext,
    RunFolder,
    read_run,
    run,
)
from catchment.federation.runs import ledger
from catchment.wire import NOTHING, Message
from catchment.wire import messages as wire
from tests.security.test_a20_fuzz_and_schedules import Mutator
from tests.security.test_h1_one_reply_refuses_one_client import PLAN, waves

BUDGET = 3_000  # messages within which each of the old faults is found
FUZZED = replace(PLAN, limits=Limits(min_usable=0.0))


@dataclass(frozen=True, eq=False)
class Crowd(Engine):
    """Eight honest clients, and others that send whatever the mutator makes of honest answers."""

    mutated: Mutator
    n_hostile: int
    honest: LocalEngine[Any, Any, Any]

    @classmethod
    def of(cls, seed: int, n_hostile: int) -> Crowd:
        honest = LocalEngine(FUZZED, waves(), threads=1)
        return cls(Mutator(corpus(), seed), n_hostile, honest)

    def clients(self) -> Sequence[str]:
        return [*self.honest.clients(), *(f"x{k:06d}" for k in range(self.n_hostile))]

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        yield from self.honest.ask({c: requests[c] for c in self.honest.clients()})
        for k in range(self.n_hostile):
            yield Reply(f"x{k:06d}", self.mutated())


def corpus() -> list[bytes]:
    """Return answers that honest clients give, a refusal, and a message of no numbers."""
    plan = FUZZED.fingerprint()
    request = Request(plan, RoundContext(0, (), plan=plan), "update", NOTHING).to_bytes()
    asked = dict.fromkeys(["c0", "c1"], request)
    honest = [reply.message or b"" for reply in LocalEngine(FUZZED, waves(), threads=1).ask(asked)]
    refusal = Message("refusal", {"code": "rows", "reason": "there are too few"}).to_bytes()
    empty = Message("empty", {"epsilon": 0.5}, (np.zeros((0, 3)),)).to_bytes()
    return [*honest, refusal, empty]


def fuzzed(seed: int, n: int, folder: Path) -> Result[Any, Any]:
    """Run one round with so many hostile answers, and keep it."""
    with RunFolder(folder) as store:
        return run(FUZZED, Crowd.of(seed, n), keeper=store.keeper("training", FUZZED))


def test_a_round_ends_and_is_kept_whatever_comes(tmp_path: Path) -> None:
    done = fuzzed(0, BUDGET, tmp_path / "run")
    refused = {one.client for one in done.refused}
    assert len(refused) > 0.8 * BUDGET
    assert all(name[0] == "x" for name in refused)  # the honest ones are in the sum
    assert {one.code for one in done.refused} >= {"malformed", "moments", "rows"}
    kept = read_run(tmp_path / "run")
    (record,) = kept.rounds["training"]
    assert record.n_used == done.records[0].n_used == BUDGET + 8 - len(refused)
    assert all(one.reason.isprintable() for one in record.refused)
    assert all(traffic.purpose.isprintable() for traffic in kept.traffic)


@pytest.mark.long
def test_many_rounds_end_whatever_comes() -> None:
    for seed in range(1, 101):
        with tempfile.TemporaryDirectory() as place:
            assert fuzzed(seed, 10_000, Path(place) / "run").refused


def as_it_is(text: object, most: int = 0) -> str:
    return str(text)


KILLERS: dict[str, tuple[list[tuple[Any, str, Any]], type[Exception], str]] = {
    "half a character as kind": (
        [(wire, "_readable", lambda header: None), (ledger, "plain_text", as_it_is)],
        UnicodeEncodeError,
        "surrogates not allowed",
    ),
    "half a character as reason": (
        [(wire, "_readable", lambda header: None), (getmodule(Reply), "plain_text", as_it_is)],
        UnicodeEncodeError,
        "surrogates not allowed",
    ),
}


@pytest.mark.parametrize("killer", KILLERS)
def test_each_killer_is_found_when_it_is_put_back(
    killer: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    changes, error, words = KILLERS[killer]
    for where, name, old in changes:
        monkeypatch.setattr(where, name, old)
    wire._layout.cache_clear()
    try:
        with pytest.raises(error, match=words):
            fuzzed(0, BUDGET, tmp_path / "run")
    finally:
        wire._layout.cache_clear()
