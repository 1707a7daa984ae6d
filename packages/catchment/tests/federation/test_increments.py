"""Clients that carry their state: segments over rounds are the recordings in one piece."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import NVAR, DiagonalReservoir, EchoState, MiniRocket, Preprocessing, Recording
from catchment.data import Scaler
from catchment.engine import LocalEngine, run_locally
from catchment.errors import TooFewClientsError
from catchment.features import FeatureMap, Reservoir
from catchment.federation import (
    Asked,
    ByRound,
    Increments,
    Memory,
    Node,
    Plan,
    Reply,
    Request,
    RoundContext,
    run,
)
from catchment.federation.learn import FederatedRidge
from catchment.privacy import FileMemory, PrivacyLedger, SecureAggregation, generate_keys
from catchment.readout import RidgeStatistics, accumulate

rng = np.random.default_rng(5)
# Cut every 24 steps, each part from rest 9 steps before: segments fall on all kinds of places.
CUT = Reservoir.from_matrices(
    0.2 * rng.normal(size=(8, 8)),
    rng.normal(size=(8, 2)),
    leak_rate=0.5,
    bits=15,
    cut=(24, 9),
    range=8,
)
SCALER = Scaler(np.array([0.1, -0.2]), np.array([1.5, 1.2]))
STEPWISE: dict[str, FeatureMap] = {
    "echo state": EchoState(9, washout=4).build(2, per_step=True),
    "float64": EchoState(9, washout=4, bits=None).build(2, per_step=True),
    "cut": EchoState.of(CUT, washout=5, feature_bits=8),
    "cut, long washout": EchoState.of(CUT, washout=30, feature_bits=8),
    "NVAR": NVAR(3, stride=2, washout=3).build(2, per_step=True),
    "diagonal": DiagonalReservoir(12, washout=6).build(2, per_step=True),
}
POOLED: dict[str, FeatureMap] = {
    **{f"cut, {p}": EchoState.of(CUT, washout=5, pool=p, feature_bits=8) for p in ("last", "max")},
    "mean": EchoState(9, pool="mean", washout=4).build(2, per_step=False, classes=True),
    "mean_std": EchoState(9, pool="mean_std").build(2, per_step=False, classes=True),
    "float64": EchoState(9, pool="mean_std", bits=None).build(2, per_step=False, classes=True),
    "diagonal": DiagonalReservoir(12, washout=6).build(2, per_step=False),
}
WINDOWED: dict[str, FeatureMap] = {
    "MiniRocket": MiniRocket(84, length=12).build(2, per_step=False, classes=True),
    "echo state": EchoState(9, pool="mean", segments=2).build(2, per_step=False, classes=True),
}
HORIZON = Preprocessing(gaps="hold", horizon=3, scale=SCALER)


def recordings(seed: int, targets: str, lengths: Sequence[int]) -> list[Recording]:
    """Return recordings with gaps, some of them at the start and in a channel that is silent."""
    draw = np.random.default_rng(seed)
    made = []
    for k, n in enumerate(lengths):
        u = draw.normal(size=(n, 2))
        u[draw.random((n, 2)) < 0.2] = np.nan
        u[: draw.integers(0, 6), draw.integers(2)] = np.nan
        if draw.random() < 0.2:
            u[:, 1] = np.nan
        if targets == "classes" and seed % 2:
            u[30:62] = np.nan  # longer than a window: a pause
        y: Any = {"ahead": None, "steps": draw.normal(size=(n, 1))}.get(targets, np.eye(3)[k % 3])
        if targets == "classes":
            y = np.eye(3)[draw.integers(0, 3, size=n)]
        made.append(Recording(u, y, weight=1.0 + k % 2, name=f"recording {k}"))
    return made


def in_rounds(draw: st.DataObject, whole: Sequence[Recording], n_rounds: int) -> ByRound:
    """Return the recordings in segments, each handed in in some round, in their order."""
    rounds: list[list[Recording]] = [[] for _ in range(n_rounds)]
    for one in whole:
        cuts = sorted(draw.draw(st.sets(st.integers(1, one.n_steps - 1), max_size=5)))
        places = sorted(
            draw.draw(
                st.lists(
                    st.integers(0, n_rounds - 1), min_size=len(cuts) + 1, max_size=len(cuts) + 1
                )
            )
        )
        for at, first, stop in zip(places, [0, *cuts], [*cuts, one.n_steps], strict=True):
            rounds[at].append(one.part(first, stop))
    return ByRound(*rounds)


def summed(
    features: FeatureMap,
    preprocessing: Preprocessing,
    source: ByRound,
    classes: tuple[str, ...] | None,
) -> RidgeStatistics:
    """Return the sum of a client's answers over all rounds, its memory kept as bytes between."""
    memory: Memory = {}
    total: RidgeStatistics | None = None
    made = Increments(features, preprocessing, classes)
    for round_ in range(len(source.rounds)):
        asked = Asked("plan", "" if total is None else total.digest())
        context = RoundContext(round_, ("ann",), client="ann", memory=memory)
        if total is None and classes is None and not source.at(round_):
            with pytest.raises(ValueError, match="nothing new"):
                made.answer(asked.parts(), source, context)
            continue
        new = made.answer(asked.parts(), source, context)
        total = new if total is None else total + new
    assert total is not None
    return total


def check_same(ours: RidgeStatistics, theirs: RidgeStatistics) -> None:
    if ours.fixed is not None:
        assert ours.digest() == theirs.digest()
    assert ours.n_rows == theirs.n_rows
    for name in ("gram", "cross", "target_gram", "feature_sum"):
        one, other = getattr(ours.floats, name), getattr(theirs.floats, name)
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * (1 + abs(other).max()))


@pytest.mark.parametrize("kind", STEPWISE)
@pytest.mark.parametrize("targets", ["steps", "ahead", "recording"])
@settings(max_examples=8)
@given(data=st.data(), seed=st.integers(0, 999))
def test_a_row_per_step(kind: str, targets: str, data: st.DataObject, seed: int) -> None:
    features = STEPWISE[kind]
    preprocessing = HORIZON if targets == "ahead" else Preprocessing(gaps="hold", scale=SCALER)
    classes = ("a", "b", "c") if targets == "recording" else None
    whole = recordings(seed, targets, (90, 40))
    source = in_rounds(data, whole, data.draw(st.integers(1, 5)))
    theirs = accumulate(features, preprocessing.apply(whole), classes=classes is not None)
    check_same(summed(features, preprocessing, source, classes), theirs)


@pytest.mark.parametrize("kind", POOLED)
@settings(max_examples=8)
@given(data=st.data(), seed=st.integers(0, 999))
def test_a_row_per_recording(kind: str, data: st.DataObject, seed: int) -> None:
    features, preprocessing = POOLED[kind], Preprocessing(gaps="hold", scale=SCALER)
    whole = recordings(seed, "recording", (90, 40, 17))
    source = in_rounds(data, whole, data.draw(st.integers(1, 5)))
    theirs = accumulate(features, preprocessing.apply(whole), classes=True)
    check_same(summed(features, preprocessing, source, ("a", "b", "c")), theirs)


@pytest.mark.parametrize("kind", WINDOWED)
@settings(max_examples=12)
@given(
    data=st.data(),
    seed=st.integers(0, 999),
    step=st.sampled_from([5, 12, 20]),
    label=st.sampled_from(["last", "majority"]),
)
def test_windows(kind: str, data: st.DataObject, seed: int, step: int, label: Any) -> None:
    features = WINDOWED[kind]
    preprocessing = Preprocessing(gaps="hold", scale=SCALER, window=12, step=step, label=label)
    whole = recordings(seed, "classes", (90, 40, 7))
    source = in_rounds(data, whole, data.draw(st.integers(1, 5)))
    theirs = accumulate(features, preprocessing.apply(whole), classes=True)
    check_same(summed(features, preprocessing, source, ("a", "b", "c")), theirs)


FEATURES = STEPWISE["cut"]
NAMES = ("ann", "ben", "cat", "dan")
WHOLE = {
    name: [Recording(rng.normal(size=(400, 2)), rng.normal(size=(400, 1)), name="ward")]
    for name in NAMES
}
GROWING = {
    name: ByRound([one.part(0, 3)], [one.part(3, 200)], [one.part(200, 400)])
    for name, (one,) in WHOLE.items()
}
NEW = FederatedRidge(features=FEATURES, ridge=0.1, increments="new")
PLAN = Plan(algorithm=NEW, rounds=3)
DIGEST = accumulate(
    FEATURES, [one for some in WHOLE.values() for one in some], classes=False
).digest()


def digest_of(plan: Plan[Any, Any, Any], clients: Mapping[str, Any], **given: Any) -> str:
    digest: str = run_locally(plan, clients, **given).state.total.digest()
    return digest


def test_the_sum_of_all_rounds_is_that_of_whole_recordings() -> None:
    assert digest_of(PLAN, GROWING) == DIGEST
    once = {name: ByRound(some) for name, some in WHOLE.items()}
    assert digest_of(replace(PLAN, rounds=2), once) == DIGEST


def test_a_later_run_goes_on_from_an_earlier_one() -> None:
    memories: dict[str, Any] = {}
    held = {name: one.part(0, 150) for name, (one,) in WHOLE.items()}
    sources = {name: (lambda name=name: [held[name]]) for name in NAMES}
    plan = replace(PLAN, rounds=1)
    early = run_locally(plan, sources, memories=memories)
    held |= {name: one.part(150, 400) for name, (one,) in WHOLE.items()}
    changed = replace(plan, algorithm=replace(NEW, ridge=0.2))
    late = run_locally(changed, sources, memories=memories, onto=early.state)
    assert late.state.total is not None
    assert late.state.total.digest() == DIGEST


def test_a_source_may_hold_old_steps_too_and_says_in_the_end_that_it_ends() -> None:
    def grown(one: Recording) -> ByRound:
        early, late = one.part(0, 100), replace(one, goes_on=True)
        return ByRound([early], [early], [late], [one], [one])

    plan = replace(PLAN, rounds=5)
    assert digest_of(plan, {name: grown(one) for name, (one,) in WHOLE.items()}) == DIGEST


def test_memory_does_not_grow_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    memories = {name: FileMemory(tmp_path / name) for name in NAMES}
    assert digest_of(PLAN, GROWING, memories=memories) == DIGEST
    (entry,) = (tmp_path / "ann").glob("*.entry")
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    long = {name: ByRound([replace(one, goes_on=True)]) for name, (one,) in WHOLE.items()}
    short = {name: ByRound([one.part(0, 200)]) for name, (one,) in WHOLE.items()}
    sizes = []
    for clients in (short, long):
        kept: dict[str, Any] = {}
        run_locally(replace(PLAN, rounds=1), clients, memories=kept)
        sizes.append(len(next(iter(kept["ann"].values()))))
    assert abs(sizes[0] - sizes[1]) < 512  # 200 steps would be 3200 bytes


class KilledError(Exception):
    """The process of a client ends here."""


class Breaking(dict[str, bytes]):
    """A memory whose process is killed as it writes, or right after."""

    def __init__(self, kept: Mapping[str, bytes], *, after: bool) -> None:
        super().__init__(kept)
        self.after = after

    def __setitem__(self, name: str, value: bytes) -> None:
        if self.after:
            super().__setitem__(name, value)
        raise KilledError


def request(round_: int, after: str) -> bytes:
    context = RoundContext(round_, (), plan=PLAN.fingerprint(), seed=PLAN.seed)
    asked = Asked(PLAN.fingerprint(), after).parts()
    return Request(PLAN.fingerprint(), context, "update", asked).to_bytes()


@pytest.mark.parametrize("after", [False, True], ids=["before it is kept", "after it is kept"])
def test_a_client_that_is_killed_answers_as_if_it_had_not_been(after: bool) -> None:
    source: ByRound = GROWING["ann"]
    memory: dict[str, bytes] = {}
    untouched: Memory = {}
    for round_, place in enumerate(("", "first", "second")):
        message = request(round_, place)
        expected = Node("ann", PLAN, source, untouched).answer(message)
        broken = Breaking(memory, after=after)
        assert b"KilledError" in Node("ann", PLAN, source, broken).answer(message)
        memory = dict(broken)
        assert Node("ann", PLAN, source, memory).answer(message) == expected


def test_a_round_that_is_repeated_reads_nothing_and_has_the_same_answer() -> None:
    source: ByRound = GROWING["ann"]
    memory: dict[str, bytes] = {}
    node = Node("ann", PLAN, source, memory)
    node.answer(request(0, ""))
    first = node.answer(request(1, "sum"))
    kept = dict(memory)

    def gone() -> list[Recording]:
        raise AssertionError("the data were read again")

    assert Node("ann", PLAN, gone, memory).answer(request(1, "sum")) == first
    assert memory == kept


@dataclass(frozen=True, eq=False)
class Losing(LocalEngine[Any, Any, Any]):
    """Clients of this process, some of whose answers are lost on the way, by number of the ask."""

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        number = len(self.memories.setdefault("asks", {}))
        self.memories["asks"][str(number)] = b""
        for reply in super().ask(requests):
            lost = (number, reply.client) in {(1, "ann"), (1, "ben"), (2, "ben")}
            yield Reply(reply.client, None, "lost") if lost else reply


def test_an_answer_that_was_lost_comes_with_the_next() -> None:
    plan = replace(PLAN, rounds=4, min_clients=1)
    result = run(plan, Losing(plan, GROWING, threads=1))
    assert [record.n_used for record in result.records] == [4, 2, 3, 4]
    assert result.state.missed == ()
    assert result.state.total is not None
    assert result.state.total.digest() == DIGEST
    by_client = result.state.by_client["ben"]
    assert by_client.digest() == accumulate(FEATURES, WHOLE["ben"], classes=False).digest()


def test_a_server_that_begins_anew_gets_everything_or_is_told_what_is_missing() -> None:
    memories: dict[str, Any] = {}
    assert digest_of(PLAN, GROWING, memories=memories) == DIGEST
    late = {name: ByRound([one.part(200, 400)]) for name, (one,) in WHOLE.items()}
    with pytest.raises(TooFewClientsError, match="goes on at step 200, and 0 steps of it were"):
        run_locally(PLAN, late, memories=memories)
    assert digest_of(PLAN, WHOLE, memories=memories) == DIGEST


def test_secure_aggregation_of_increments_is_the_digest_of_the_whole() -> None:
    secure = SecureAggregation(generate_keys(NAMES), min_clients=3, rows_per_feature=2.0)
    hidden = replace(NEW, store_per_client=False)
    growing = {
        name: ByRound([one.part(0, 150)], [one.part(150, 300)], [one.part(300, 400)])
        for name, (one,) in WHOLE.items()
    }
    plan = Plan(algorithm=hidden, rounds=3, protections=(secure,))
    assert digest_of(plan, growing) == DIGEST


def test_what_has_left_for_secure_aggregation_is_not_sent_again_with_what_is_new() -> None:
    """It may be in that sum, and the next one would differ by one client's steps."""
    (one,) = WHOLE["ann"]
    source = ByRound([one.part(0, 200)], [one.part(200, 400)])
    makes, ledger = Increments(FEATURES, PLAN.preprocessing), PrivacyLedger({})

    def answered(asked: Asked, round_: int, session: str, memory: Memory) -> RidgeStatistics:
        context = RoundContext(round_, ("ann",), 0, "ann", ledger=ledger, session=session)
        return makes.answer(asked.parts(), source, replace(context, memory=memory))

    memory: dict[str, bytes] = {}
    first = answered(Asked("p"), 0, "s", memory)
    noted = ledger.about
    assert answered(Asked("p"), 0, "t", dict(memory)) == first
    assert ledger.about == noted != ""  # the same data once more, though they are not read
    late = Asked("p", "sum", missed=("ann",))
    hidden, clear = answered(late, 1, "s", dict(memory)), answered(late, 1, "", dict(memory))
    assert clear.n_rows == first.n_rows + hidden.n_rows
    assert hidden.n_rows > 0


def test_a_round_of_increments_may_be_asked_for_again_and_its_steps_for_no_other_set() -> None:
    keys = generate_keys(NAMES)
    algorithm = replace(NEW, store_per_client=False)
    secure = SecureAggregation(keys, min_clients=3, rows_per_feature=2.0)
    plan = Plan(algorithm=algorithm, protections=(secure,))
    first = {name: [one.part(0, 200)] for name, (one,) in WHOLE.items()}
    fewer = {name: first[name] for name in NAMES[:3]}
    run_locally(plan, first)
    with pytest.raises(TooFewClientsError, match="over another set of 4 clients"):
        run_locally(replace(plan, seed=1), fewer)
    with pytest.raises(TooFewClientsError, match="have changed since"):
        run_locally(replace(plan, seed=2), WHOLE)  # with the steps that were told, and more


def test_recordings_without_a_name_are_whole_and_new() -> None:
    alone = {name: ByRound([replace(one, name="")]) for name, (one,) in WHOLE.items()}
    assert digest_of(replace(PLAN, rounds=2), alone) == DIGEST


STEADY = Recording(np.ones((20, 2)), np.ones((20, 1)), name="r")


@pytest.mark.parametrize(
    ("features", "preprocessing", "segment", "said"),
    [
        (WINDOWED["MiniRocket"], Preprocessing(scale=SCALER), STEADY, "needs a recording whole"),
        (WINDOWED["echo state"], Preprocessing(scale=SCALER), STEADY, "segments is 2"),
        (FEATURES, Preprocessing(scale=SCALER, rate=2), STEADY, "rate is 2"),
        (FEATURES, Preprocessing(scale=SCALER, gaps="restart"), STEADY, "gaps is 'restart'"),
        (FEATURES, Preprocessing(scale="own"), STEADY, 'scale is "own"'),
        (FEATURES, Preprocessing(scale="federated"), STEADY, "not fitted yet"),
        (FEATURES, Preprocessing(scale=SCALER, window="2s"), STEADY, "numbers of steps"),
        (FEATURES, Preprocessing(scale=SCALER), replace(STEADY, y=None), "has no targets"),
        (FEATURES, Preprocessing(scale=SCALER), replace(STEADY, first_step=4), "hand in the steps"),
        (POOLED["mean"], Preprocessing(scale=SCALER), STEADY, "pass pool=None"),
    ],
)
def test_what_cannot_go_on_is_refused_with_a_sentence(
    features: FeatureMap, preprocessing: Preprocessing, segment: Recording, said: str
) -> None:
    context = RoundContext(0, ("ann",), client="ann", memory={})
    made = Increments(features, preprocessing)
    with pytest.raises(ValueError, match=said):
        made.answer(Asked("p").parts(), lambda: [segment], context)


def test_a_recording_that_ended_does_not_go_on() -> None:
    context = RoundContext(0, ("ann",), client="ann", memory={})
    made = Increments(FEATURES, Preprocessing(scale=SCALER))
    both = [STEADY.part(0, 9), replace(STEADY, goes_on=False)]
    made.answer(Asked("p").parts(), lambda: both, context)
    longer = Recording(np.ones((30, 2)), np.ones((30, 1)), name="r")
    with pytest.raises(ValueError, match="ended after 20 steps and has 30 now"):
        made.answer(Asked("p", "sum").parts(), lambda: [longer], context)


def test_within_another_algorithm_and_with_other_words_it_is_refused() -> None:
    with pytest.raises(ValueError, match="increments is 'old'"):
        FederatedRidge(features=FEATURES, increments="old")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="use the ridge by itself"):
        NEW.client_update(Asked("p").parts(), lambda: [STEADY], RoundContext(0, ()))
    with pytest.raises(ValueError, match="name a recording that comes in segments"):
        Recording(np.zeros(1), goes_on=True)
