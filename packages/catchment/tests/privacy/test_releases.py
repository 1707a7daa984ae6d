"""A client's own ledger: what it enters, what it refuses, and what it notices."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, MutableMapping
from fractions import Fraction
from pathlib import Path
from threading import Thread
from typing import Any, cast

import numpy as np
import pytest
from flwr.app import ConfigRecord
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.data import Recording
from catchment.errors import BudgetError, CatchmentError, IntegrityError, RuleError
from catchment.federation import Cost, Memory
from catchment.privacy import HEAD, PAGE, PENDING, FileMemory, Policy, PrivacyLedger, _head
from catchment.privacy.dp import concentrated_multiplier

PAGE_0 = "releases/page/000000"
KIND = "ridge-statistics"
TEN = [f"c{k}" for k in range(10)]
MANY = Policy(exact_sums=20_000)
ONE = Cost.of_discrete(concentrated_multiplier(1.0, 1e-5))
MEMORIES: dict[str, Callable[[Path], Memory]] = {
    "dict": lambda place: {},
    "folder": FileMemory,
    "flower": lambda place: cast(Memory, ConfigRecord()),
}


@pytest.fixture(params=MEMORIES)
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Memory:
    return MEMORIES[request.param](tmp_path / "ann")


def recording(n_steps: int = 60, seed: int = 0, **settings: Any) -> Recording:
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n_steps, 2))
    return Recording(u, settings.pop("y", u[:, :1]), **settings)


def sent(
    ledger: PrivacyLedger,
    session: str,
    data: Recording | None = None,
    *,
    clients: list[str] = TEN,
    lost: int = 0,
    kind: str = KIND,
    plan: str = "plan",
    noise: Cost | None = None,
) -> None:
    """Make an upload as a client does: read, add noise, note."""
    if data is not None:
        list(ledger.reading(lambda: [data])())
    if noise is not None:
        ledger.charge(noise, epsilon=1.0, delta=1e-5)
    ledger.upload(plan, 0, kind, session, clients, lost=lost)


def summed(
    memory: Memory,
    session: str,
    clients: list[str] = TEN,
    data: Recording | None = None,
    policy: Policy | None = None,
    unit: str = "data",
    **about: Any,
) -> None:
    """Go through a whole round, each letter with a ledger of its own."""
    sent(PrivacyLedger(memory, policy, unit), session, data, clients=clients, **about)
    PrivacyLedger(memory, policy).check(session, clients)
    PrivacyLedger(memory, policy).release(session, clients)


def test_the_same_clients_may_sum_again_and_no_others(memory: Memory) -> None:
    for session in "abc":
        summed(memory, session, data=recording())
    with pytest.raises(RuleError, match="over another set of 10 clients") as refused:
        summed(memory, "d", TEN[:9], recording())
    assert refused.value.code == "cohort"
    kept = PrivacyLedger(memory).entries()
    assert [one.session for one in kept] == ["a", "b", "c"]
    assert {one.n_clients for one in kept} == {10}
    assert all(one.is_exact and one.at for one in kept)


def test_a_unit_of_another_name_has_its_own_account(memory: Memory) -> None:
    summed(memory, "a", TEN, recording(seed=0))
    with pytest.raises(RuleError, match="have changed since"):
        summed(memory, "b", TEN[:5], recording(seed=1))
    summed(memory, "b", TEN[:5], recording(seed=1), unit="tuesday")
    with pytest.raises(RuleError, match="another set of"):
        summed(memory, "c", TEN[:5], recording(seed=0))
    # Nor does another name make other data of the same ones.
    with pytest.raises(RuleError, match="another set of"):
        summed(memory, "d", TEN[:5], recording(seed=0), unit="wednesday")


CHANGED: dict[str, Callable[[Recording], Recording]] = {
    "grown": lambda r: recording(61),
    "cut at the start": lambda r: r.part(1, 200),
    "other targets": lambda r: Recording(r.u, r.u[:, 1:]),
    "no targets": lambda r: Recording(r.u),
    "other weight": lambda r: Recording(r.u, r.y, weight=2.0),
    "one channel": lambda r: Recording(r.u[:, 1:], r.y),
}


@pytest.mark.parametrize("change", CHANGED)
def test_data_that_overlap_and_differ_are_refused(change: str) -> None:
    memory: Memory = {}
    data = recording(60 if change == "grown" else 200)
    summed(memory, "a", TEN, data)
    with pytest.raises(RuleError, match="have changed since") as refused:
        summed(memory, "b", TEN, CHANGED[change](data))
    assert refused.value.code == "data"
    summed(memory, "c", TEN, CHANGED[change](data), Policy(changed_data=True))


def test_one_recording_more_is_a_change() -> None:
    memory: Memory = {}
    for session, n in (("a", 3), ("b", 4)):
        ledger = PrivacyLedger(memory)
        list(ledger.reading(lambda n=n: [recording(seed=k) for k in range(n)])())  # type: ignore[misc]
        if session == "b":
            with pytest.raises(RuleError, match="have changed"):
                ledger.upload("plan", 0, KIND, session, TEN)
        else:
            ledger.upload("plan", 0, KIND, session, TEN)


def test_unknown_data_overlap_with_everything() -> None:
    memory: Memory = {}
    summed(memory, "a", TEN, recording())
    with pytest.raises(RuleError, match="have changed"):
        summed(memory, "b", TEN)  # nobody saw what was read
    unknown: Memory = {}
    summed(unknown, "a")
    with pytest.raises(RuleError, match="have changed"):
        summed(unknown, "b", TEN, recording())


def test_what_was_made_without_data_is_entered_and_binds_nothing() -> None:
    memory: Memory = {}
    for n in range(3):
        ledger = PrivacyLedger(memory, Policy(exact="never"))
        ledger.reading(lambda: [recording()])
        ledger.upload(f"delivery {n}", 0, "receipt")
    assert [one.data for one in PrivacyLedger(memory).entries()] == ["none"] * 3
    summed(memory, "a", TEN, recording())


def test_models_that_are_scored_are_counted_in_all_plans_together(memory: Memory) -> None:
    policy = Policy(evaluations=2)
    for session, plan in [("a", "one"), ("b", "two"), ("c", "two")]:
        summed(memory, session, data=recording(), policy=policy, kind="score", plan=plan)
    with pytest.raises(RuleError, match="2 models were scored with these data") as refused:
        summed(memory, "d", data=recording(), policy=policy, kind="score", plan="three")
    assert refused.value.code == "scores"
    summed(memory, "e", data=recording(), policy=policy, kind="score", plan="one")


def test_an_owner_who_allows_no_evaluation_sends_no_score(memory: Memory) -> None:
    with pytest.raises(RuleError, match="evaluations in this client's policy is 0"):
        summed(memory, "a", data=recording(), policy=Policy(evaluations=0), kind="score")


def test_scores_are_compared_with_scores() -> None:
    memory: Memory = {}
    summed(memory, "a", TEN, recording())
    summed(memory, "b", TEN[:4], recording(), kind="score")
    with pytest.raises(RuleError, match="over another set of 4 clients"):
        summed(memory, "c", TEN, recording(), kind="score")


def test_messages_in_the_clear_are_releases(memory: Memory) -> None:
    for _ in range(3):
        sent(PrivacyLedger(memory), "", recording())
    assert len(PrivacyLedger(memory).entries()) == 1
    with pytest.raises(RuleError, match="have changed"):
        sent(PrivacyLedger(memory), "", recording(61))
    with pytest.raises(RuleError, match="this release has no noise"):
        sent(PrivacyLedger(memory, Policy(exact="never")), "", recording(), plan="other")
    sent(PrivacyLedger(memory), "", recording(), plan="other")
    assert len(PrivacyLedger(memory).entries()) == 2


def test_the_policy_limits_exact_sums() -> None:
    memory: Memory = {}
    for session in "ab":
        summed(memory, session, policy=Policy(exact_sums=2))
    with pytest.raises(RuleError, match="policy allows") as refused:
        summed(memory, "c", policy=Policy(exact_sums=2))
    assert refused.value.code == "releases"
    summed(memory, "c", TEN[:4], policy=Policy(exact="any clients"))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_sum_of_too_few_hides_nobody(n: int) -> None:
    with pytest.raises(RuleError, match="hides nobody"):
        summed({}, "a", TEN[:n])


def test_noise_adds_up_to_what_the_first_plan_said(memory: Memory) -> None:
    half = Cost(0.0, ONE.concentrated / 2)
    summed(memory, "a", TEN, recording(), noise=half)
    summed(memory, "b", TEN[:4], recording(), noise=half)  # other clients: noise covers that
    with pytest.raises(BudgetError, match=r"above this client's 1; nothing was sent") as refused:
        summed(memory, "c", TEN, recording(), noise=half)
    assert refused.value.code == "budget"
    summed(memory, "d", TEN, recording(), Policy(epsilon=2.0, delta=1e-5), noise=half)
    summed(memory, "e", TEN, recording(seed=5), unit="another", noise=ONE)


def test_data_that_grew_have_spent_what_they_spent() -> None:
    memory: Memory = {}
    summed(memory, "a", TEN, recording(60), noise=ONE)
    with pytest.raises(BudgetError):
        summed(memory, "b", TEN, recording(61), noise=ONE)


def test_a_promise_of_the_server_is_no_cost() -> None:
    memory: Memory = {}
    sent(PrivacyLedger(memory), "", recording(), kind="clipped", noise=Cost())
    (entry,) = PrivacyLedger(memory).entries()
    assert entry.is_exact
    assert (entry.epsilon, entry.delta) == (1.0, 1e-5)


def test_noise_of_one_upload_is_not_taken_for_the_next() -> None:
    memory: Memory = {}
    ledger = PrivacyLedger(memory, Policy(exact="any clients"))
    sent(ledger, "a", recording(), noise=ONE)
    sent(ledger, "b", recording())
    list(ledger.reading(lambda: [recording()])())
    ledger.charge(ONE, epsilon=1.0, delta=1e-5)  # an upload that failed afterwards
    sent(ledger, "c", recording())
    for session in "abc":
        ledger.release(session, TEN)
    assert [one.is_exact for one in ledger.entries()] == [False, True, True]


def test_the_same_release_again_is_none(memory: Memory) -> None:
    summed(memory, "a")
    for _ in range(3):
        PrivacyLedger(memory).check("a", TEN)
        PrivacyLedger(memory).release("a", TEN)
    assert len(PrivacyLedger(memory).entries()) == 1
    with pytest.raises(RuleError, match="another set of clients"):
        PrivacyLedger(memory).release("a", TEN[:9])


def test_noise_is_entered_once_whoever_is_in_the_sum(memory: Memory) -> None:
    sent(PrivacyLedger(memory), "a", recording(), noise=ONE)
    PrivacyLedger(memory).check("a", TEN)
    assert [one.n_clients for one in PrivacyLedger(memory).entries()] == [10]
    PrivacyLedger(memory).release("a", TEN[:9])
    assert len(PrivacyLedger(memory).entries()) == 1


def test_an_upload_that_was_sent_does_not_change() -> None:
    ledger = PrivacyLedger({})
    sent(ledger, "a", recording())
    sent(ledger, "a", recording())
    with pytest.raises(RuleError, match="changed since it sent") as refused:
        sent(ledger, "a", recording(61))
    assert refused.value.code == "changed"
    with pytest.raises(RuleError, match="no upload"):
        ledger.release("z", TEN)


def test_what_has_left_counts_whatever_became_of_it(memory: Memory) -> None:
    """Lost after its upload, a client is asked again for the same set and for no other."""
    sent(PrivacyLedger(memory), "a", recording())
    (entry,) = PrivacyLedger(memory).entries()
    assert (entry.possible, entry.n_clients) == (True, 10)
    with pytest.raises(RuleError, match="over another set of 10 clients"):
        sent(PrivacyLedger(memory), "b", recording(), clients=TEN[:9])
    with pytest.raises(RuleError, match="over another set of 10 clients"):
        sent(PrivacyLedger(memory), "b", recording(), clients=[*TEN, "one more"], lost=5)
    with pytest.raises(RuleError, match="have changed since"):
        sent(PrivacyLedger(memory), "b", recording(61))
    sent(PrivacyLedger(memory), "b", recording())
    with pytest.raises(RuleError, match="over another set of 10 clients"):
        PrivacyLedger(memory).release("b", TEN[:9])  # "a" may have been opened with all ten
    PrivacyLedger(memory).release("b", TEN)
    assert [one.possible for one in PrivacyLedger(memory).entries()] == [True, False]


def test_the_set_that_is_opened_takes_the_place_of_the_one_that_was_there(memory: Memory) -> None:
    sent(PrivacyLedger(memory), "a", recording())
    PrivacyLedger(memory).check("a", TEN[:9])
    PrivacyLedger(memory).release("a", TEN[:9])
    with pytest.raises(RuleError, match="gives them once"):
        PrivacyLedger(memory).release("a", TEN)
    summed(memory, "b", TEN[:9], recording())
    with pytest.raises(RuleError, match="over another set of 9 clients"):
        summed(memory, "c", TEN, recording())


def test_noise_that_has_left_is_spent_and_nothing_exact_follows() -> None:
    memory: Memory = {}
    sent(PrivacyLedger(memory), "a", recording(), noise=ONE)
    with pytest.raises(BudgetError):
        sent(PrivacyLedger(memory), "b", recording(), noise=ONE)
    with pytest.raises(RuleError, match="released with noise"):
        sent(PrivacyLedger(memory), "c", recording())


def old_ledger(memory: Memory, *, exact: bool = True) -> Memory:
    """Return a memory as an earlier version left it: segments of data, and uploads that wait."""
    blocks = b"12345678" * 3
    name = hashlib.sha256(b"12345678").hexdigest()
    cost = {} if exact else {"concentrated": ONE.concentrated, "epsilon": 1.0, "delta": 1e-5}
    names = json.dumps(TEN).encode()
    clients = hashlib.sha256(names).hexdigest()
    entry = {"plan": "p", "round": 0, "kind": KIND, "session": "old", "data": name, "at": "2026"}
    line = json.dumps({**entry, **cost, "n_clients": 10, "clients": clients}).encode()
    memory[f"releases/data/{name}"] = blocks
    memory[f"releases/set/{clients}"] = names
    memory["releases/secret"] = b"0" * 32
    memory[PAGE_0] = line
    memory[HEAD] = _head([line])
    return memory


def test_entries_of_an_earlier_form_count_for_all_data(memory: Memory) -> None:
    """They knew data by how a plan read them, which can be compared with nothing."""
    old_ledger(memory)
    assert [one.n_clients for one in PrivacyLedger(memory).entries()] == [10]
    with pytest.raises(RuleError, match="have changed since"):
        summed(memory, "a", TEN, recording())
    with pytest.raises(RuleError, match="over another set of 10 clients"):
        summed(memory, "a", TEN[:9], recording(), Policy(changed_data=True))
    summed(memory, "a", TEN, recording(), Policy(changed_data=True))


def test_noise_of_an_earlier_form_adds_up() -> None:
    memory = old_ledger({}, exact=False)
    with pytest.raises(BudgetError):
        summed(memory, "a", TEN, recording(), noise=ONE)
    with pytest.raises(RuleError, match="released with noise"):
        summed(memory, "a", TEN, recording())


def test_uploads_that_an_earlier_form_let_leave_count() -> None:
    memory = old_ledger({})
    del memory[PAGE_0]
    memory[HEAD] = _head([])
    entry = {"plan": "p", "round": 0, "kind": KIND, "session": "left", "data": ""}
    memory[PENDING] = json.dumps({"left": entry}).encode()
    with pytest.raises(RuleError, match="have changed since"):
        summed(memory, "a", TEN, recording())
    with pytest.raises(RuleError, match="no upload"):
        PrivacyLedger(memory).release("left", TEN)


def test_secrets_are_the_clients_own_and_last(memory: Memory) -> None:
    one, again, other = PrivacyLedger(memory), PrivacyLedger(memory), PrivacyLedger({})
    assert one.secret(b"x") == again.secret(b"x")
    assert len({one.secret(b"x"), one.secret(b"y"), other.secret(b"x")}) == 3


def begun(memory: Memory, n: int = 3) -> Memory:
    for k in range(n):
        summed(memory, f"s{k}", TEN, recording())
    return memory


def _cut(name: str) -> Any:
    def cut(memory: MutableMapping[str, bytes]) -> None:
        memory[name] = memory[name][: len(memory[name]) // 2]

    return cut


def _without_the_last(memory: MutableMapping[str, bytes]) -> None:
    lines = memory[PAGE_0].splitlines()
    memory[PAGE_0] = b"\n".join(lines[:-1])


def _without_the_first(memory: MutableMapping[str, bytes]) -> None:
    lines = memory[PAGE_0].splitlines()
    memory[PAGE_0] = b"\n".join(lines[1:])


DAMAGE: dict[str, Callable[[Memory], object]] = {
    "no head": lambda memory: memory.pop(HEAD),
    "no page": lambda memory: memory.pop(PAGE_0),
    "neither": lambda memory: [memory.pop(HEAD), memory.pop(PAGE_0)],
    "empty head": lambda memory: memory.update({HEAD: b""}),
    "short head": _cut(HEAD),
    "short page": _cut(PAGE_0),
    "last entry": _without_the_last,
    "first entry": _without_the_first,
    "older head": lambda memory: memory.update({HEAD: b"0 "}),
    "changed": lambda memory: memory.update(
        {PAGE_0: memory[PAGE_0].replace(b'"round": 0', b'"round": 1')}
    ),
    "blocks": lambda memory: [
        memory.pop(k) for k in list(memory) if k.startswith("releases/units")
    ],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_noticed_and_nothing_is_sent(damage: str, memory: Memory) -> None:
    DAMAGE[damage](begun(memory))
    with pytest.raises(IntegrityError, match=r"ledger of releases is damaged: .*; restore"):
        summed(memory, "next", TEN, recording(61))


def test_a_file_cut_short_is_noticed(tmp_path: Path) -> None:
    for path in sorted(p.name for p in _folder(tmp_path / "a").glob("*.entry")):
        memory = FileMemory(_folder(tmp_path / path))
        name, whole = next((k, v) for k, v in memory.items() if memory._path(k).name == path)
        memory._path(name).write_bytes(memory._path(name).read_bytes()[: -len(whole) // 2])
        with pytest.raises(IntegrityError, match="ledger of releases is damaged"):
            _used(memory)


def _used(memory: Memory) -> None:
    PrivacyLedger(memory).secret(b"")
    summed(memory, "next", TEN, recording(61))


def _folder(place: Path) -> Path:
    begun(FileMemory(place))
    return place


class DyingError(BaseException):
    """The process ends."""


class Dying(dict[str, bytes]):
    """A memory whose process dies at a write; what was written before stays."""

    left = sys.maxsize

    def __setitem__(self, name: str, value: bytes) -> None:
        self.left -= 1
        if self.left < 0:
            raise DyingError
        super().__setitem__(name, value)


def long(memory: Memory, n: int) -> Memory:
    """Return a memory with a ledger of so many entries about `recording()`."""
    line = begun({}, 1)[PAGE_0].splitlines()[-1]
    lines = [line.replace(b'"s0"', b'"s%d"' % k) for k in range(n)]
    memory.update(begun({}, 1))
    for k in range(0, max(n, 1), PAGE):
        memory[f"releases/page/{k // PAGE:06d}"] = b"\n".join(lines[k : k + PAGE])
    memory[HEAD] = _head(lines)
    return memory


@pytest.mark.parametrize("before", [0, 1, PAGE - 1, PAGE])
def test_a_process_that_dies_at_any_write_leaves_a_ledger(before: int) -> None:
    """What was released is known afterwards, the rest can be asked for again."""
    data = recording(seed=0 if before else 9)
    for n_writes in range(16):
        memory = Dying(long({}, before) if before else {})
        memory.left, finished = n_writes, False
        try:
            summed(memory, "a", TEN, data, MANY)
            finished = True
        except DyingError:
            pass
        memory.left = sys.maxsize
        known = [one.session for one in PrivacyLedger(memory).entries()]
        assert not finished or "a" in known
        summed(memory, "a", TEN, data, MANY)  # the server asks again
        summed(memory, "b", TEN, data, MANY)
        assert [one.session for one in PrivacyLedger(memory).entries()][before:] == ["a", "b"]
        if finished:
            return
    pytest.fail("a release takes more writes than were tried")


def test_letters_at_the_same_time_get_one_answer() -> None:
    """Eight sums over eight different sets at once: one is released."""
    memory: Memory = {}
    sets = [[*TEN[:k], *TEN[k + 1 :]] for k in range(8)]
    refused: list[CatchmentError] = []

    def ask(k: int) -> None:
        try:
            sent(PrivacyLedger(memory), str(k), recording(), clients=sets[k])
        except CatchmentError as error:
            refused.append(error)

    threads = [Thread(target=ask, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 7
    assert len(PrivacyLedger(memory).entries()) == 1


class Counting(dict[str, bytes]):
    """A memory that counts how much is read of it."""

    n_reads = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.n_reads += 1
        return super().get(name, default)


def test_a_release_reads_few_entries_of_many() -> None:
    memory = Counting(long({}, 10_000))
    summed(memory, "next", TEN, recording(), MANY)
    assert len(PrivacyLedger(memory).entries()) == 10_001
    assert memory.n_reads < 300


def in_the_span(rows: list[list[int]], wanted: list[int]) -> bool:
    """Return whether a vector is a combination of others, in exact arithmetic."""

    def rank(matrix: list[list[int]]) -> int:
        left, found = [[Fraction(x) for x in row] for row in matrix], 0
        for column in range(len(wanted)):
            pivot = next((row for row in left if row[column]), None)
            if pivot is None:
                continue
            left = [
                [a - row[column] / pivot[column] * b for a, b in zip(row, pivot, strict=True)]
                for row in left
                if row is not pivot
            ]
            found += 1
        return found

    return rank(rows) == rank([*rows, wanted])


def test_the_span_of_three_sums_gives_one_client() -> None:
    """The check has teeth: without the ledger this is how one client is read."""
    X, Y = [1] * 5 + [0] * 6, [0] * 5 + [1] * 5 + [0]
    assert in_the_span([X, Y, [1] * 11], [0] * 10 + [1])
    assert not in_the_span([X, [1] * 11], [0] * 10 + [1])


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 7), min_size=1), st.sets(st.integers(0, 7), max_size=2)),
        max_size=12,
    )
)
def test_no_sums_that_are_released_add_up_to_one_client(
    asked: list[tuple[set[int], set[int]]],
) -> None:
    """Whatever sets a server asks for, and whoever it loses after the upload.

    A sum is released if every client in it let its upload leave and all but the lost ones agree.
    """
    memories: list[Memory] = [{} for _ in range(8)]
    out: list[list[int]] = []
    for number, (members, lost) in enumerate(asked):
        names = [f"c{k}" for k in members]
        try:
            for k in members:
                sent(PrivacyLedger(memories[k]), str(number), clients=names)
            for k in members - lost:
                PrivacyLedger(memories[k]).check(str(number), names)
            for k in members - lost:
                PrivacyLedger(memories[k]).release(str(number), names)
        except RuleError:
            continue
        out.append([int(k in members) for k in range(8)])
    for k in range(8):
        assert not in_the_span(out, [int(j == k) for j in range(8)])


def test_before_the_upload_leaves_the_set_of_before_may_still_come_out(memory: Memory) -> None:
    """Eleven are there, one of whom was in no sum and is lost again before the sum is sealed."""
    summed(memory, "a", TEN, recording())
    more = [*TEN, "one more"]
    with pytest.raises(RuleError, match="over another set of 10 clients"):
        sent(PrivacyLedger(memory), "b", recording(), clients=more)
    with pytest.raises(RuleError, match="over another set of 10 clients"):
        sent(PrivacyLedger(memory), "b", recording(), clients=TEN[:9], lost=5)
    sent(PrivacyLedger(memory), "b", recording(), clients=more, lost=1)
    with pytest.raises(RuleError, match="over another set of 10 clients"):
        PrivacyLedger(memory).check("b", more)
    with pytest.raises(RuleError, match="over another set of 10 clients"):
        PrivacyLedger(memory).release("b", more)
    PrivacyLedger(memory).release("b", TEN)


def test_a_later_plan_does_not_raise_what_the_first_one_said(memory: Memory) -> None:
    summed(memory, "a", TEN, recording(), noise=ONE)
    ledger = PrivacyLedger(memory)
    list(ledger.reading(lambda: [recording()])())
    ledger.charge(ONE, epsilon=100.0, delta=1e-5)
    with pytest.raises(BudgetError, match="above this client's 1;"):
        ledger.upload("another plan", 0, KIND, "b", TEN)


@pytest.mark.parametrize(("of_the_limit", "fits"), [(0.999, True), (1.01, False)])
def test_an_epsilon_has_no_slack(memory: Memory, of_the_limit: float, fits: bool) -> None:
    policy = Policy(epsilon=1 / of_the_limit, delta=1e-5)
    if fits:
        summed(memory, "a", TEN, recording(), policy, noise=ONE)
        return
    with pytest.raises(BudgetError):
        summed(memory, "a", TEN, recording(), policy, noise=ONE)


@pytest.mark.parametrize("which", [0, 1, 2, 3, 4, 5])
def test_every_entry_is_tied_to_all_before_it(which: int) -> None:
    """An entry changed by itself is noticed, however many unchanged ones come after it."""
    memory = begun({})
    lines = memory[PAGE_0].splitlines()
    assert len(lines) == 6
    lines[which] = lines[which].replace(b'"round": 0', b'"round": 1')
    memory[PAGE_0] = b"\n".join(lines)
    with pytest.raises(IntegrityError, match="ledger of releases is damaged"):
        PrivacyLedger(memory).entries()


def test_two_entries_that_change_places_are_noticed() -> None:
    memory = begun({})
    first, second, *rest = memory[PAGE_0].splitlines()
    memory[PAGE_0] = b"\n".join([second, first, *rest])
    with pytest.raises(IntegrityError, match="ledger of releases is damaged"):
        PrivacyLedger(memory).entries()


@pytest.mark.parametrize("delta", [0.5, 0.9, 1e-3])
def test_a_later_plan_does_not_buy_epsilon_with_its_delta(memory: Memory, delta: float) -> None:
    """At a delta of 1/2 hardly anything is told; the budget stays at the first plan's."""
    summed(memory, "a", TEN, recording(), noise=ONE)
    ledger = PrivacyLedger(memory)
    list(ledger.reading(lambda: [recording()])())
    ledger.charge(ONE, epsilon=1.0, delta=delta)
    with pytest.raises(BudgetError, match="at delta 1e-05 in all, above this client's 1;"):
        ledger.upload("another plan", 0, KIND, "b", TEN)


@pytest.mark.parametrize("kind", [KIND, "score"])
@pytest.mark.parametrize("data", [recording(61), recording(59), recording(seed=1)])
def test_nothing_exact_of_a_unit_follows_noise_about_it(data: Recording, kind: str) -> None:
    """Grown, cut or other data of the unit do not escape the rule either."""
    memory: Memory = {}
    summed(memory, "a", TEN, recording(), noise=ONE)
    with pytest.raises(RuleError, match="released with noise") as refused:
        sent(PrivacyLedger(memory), "b", data, kind=kind)
    assert refused.value.code == "noise"
    sent(PrivacyLedger(memory, None, "another unit"), "c", recording(seed=2), kind=kind)
