"""Secure aggregation of integers: exact in 64 and in 32 bits, refused where they could wrap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from catchment.data import Recording
from catchment.engine import LocalEngine
from catchment.errors import TooFewClientsError, UploadError
from catchment.federation import Algorithm, Data, Memory, Plan, RoundContext, run
from catchment.privacy import SecureAggregation, generate_keys
from catchment.privacy.secure_aggregation import (
    Masks,
    Outline,
    Ring,
    SecureRound,
    add_into,
    decode_whole,
    encode_whole,
    encoded,
    subtract_from,
)
from catchment.readout import TARGET_DIGITS, FixedPoint, RidgeStatistics
from catchment.wire import Message, join
from tests.security.fleet import STAGES, Lossy, Tapped, losing

GRID = "[8,[[3,8]],0]"
RINGS = [Ring(32, 0), Ring(64, 0), Ring(64, 40), Ring()]


@dataclass(frozen=True, eq=False)
class Sums:
    """Counts and integers, as statistics in fixed point travel."""

    n_rows: float
    values: NDArray[np.int64]
    grid: str | None = GRID

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.n_rows + other.n_rows, self.values + other.values, self.grid)

    def parts(self) -> Message:
        facts = {} if self.grid is None else {"grid": self.grid}
        return Message("sums", facts, (np.array([self.n_rows]), self.values))

    @classmethod
    def from_message(cls, parts: Message) -> Sums:
        numbers, values = parts.expect("sums", 2).arrays
        return cls(float(numbers[0]), values, GRID if "grid" in parts.facts else None)


@dataclass(frozen=True, kw_only=True)
class Sending(Algorithm[Any, Any, Any]):
    """Every client sends the sums it was given."""

    known: Mapping[str, Any]

    def start(self) -> Any:
        return None

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Any:
        return self.known[context.client]

    def read_update(self, parts: Message, context: RoundContext) -> Any:
        return (Sums if parts.kind == "sums" else RidgeStatistics).from_message(parts)

    def server_update(self, state: Any, total: Any, context: RoundContext) -> Any:
        return total

    def result(self, state: Any) -> Any:
        return state


def drawn(n_clients: int, *, length: int = 200, bits: int = 20, seed: int = 0) -> dict[str, Sums]:
    rng = np.random.default_rng(seed)
    return {
        f"c{k:03d}": Sums(
            float(rng.integers(1, 999)), rng.integers(-(2**bits), 2**bits, size=(1, length))
        )
        for k in range(n_clients)
    }


def engine_of(
    known: Mapping[str, Any], **options: Any
) -> tuple[Plan[Any, Any, Any], LocalEngine[Any, Any, Any]]:
    identities = generate_keys(known)
    memories: dict[str, Memory] = identities.memories
    masking = SecureAggregation(identities, **({"min_clients": 3} | options))
    plan: Plan[Any, Any, Any] = Plan(algorithm=Sending(known=known), protections=(masking,))
    sources = {name: [Recording(np.zeros(1))] for name in known}
    return plan, LocalEngine(plan, sources, 1, memories)


def upload_bytes(known: Mapping[str, Any], **options: Any) -> int:
    plan, engine = engine_of(known, **options)
    tapped = Tapped(engine)
    run(plan, tapped)
    return len(tapped.said["update", "c000"])


whole = st.integers(-(2**25), 2**25)


@settings(max_examples=60)
@given(
    ring=st.sampled_from(RINGS),
    rows=st.integers(1, 20).flatmap(
        lambda n: st.lists(st.lists(whole, min_size=n, max_size=n), min_size=1, max_size=9)
    ),
)
def test_residues_of_whole_numbers_add_as_python_adds_them(
    ring: Ring, rows: list[list[int]]
) -> None:
    total = np.zeros((ring.limbs, len(rows[0])), dtype=ring.dtype)
    masks = Masks(ring, len(rows[0]))
    for row in rows:
        add_into(total, encode_whole(np.array(row), ring, n_clients=len(rows)))
    add_into(total, masks.of(bytes(32)))
    subtract_from(total, masks.of(bytes(32)))
    assert decode_whole(total, ring).tolist() == [sum(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("n_clients", [1, 2, 3, 7, 1000])
def test_the_largest_whole_numbers_do_not_wrap_and_one_more_is_refused(
    ring: Ring, n_clients: int
) -> None:
    limit = ring.whole_limit(n_clients)
    x = np.array([limit, -limit])
    total = np.zeros((ring.limbs, 2), dtype=ring.dtype)
    for _ in range(n_clients):
        add_into(total, encode_whole(x, ring, n_clients=n_clients))
    assert decode_whole(total, ring).tolist() == [n_clients * limit, -n_clients * limit]
    too_large = [-limit - 1] if n_clients == 1 else [limit + 1, -limit - 1]
    for value in too_large:
        with pytest.raises(ValueError, match=f"above {limit}, the most that each of {n_clients}"):
            encode_whole(np.array([value]), ring, n_clients=n_clients)


@pytest.mark.parametrize("bits", [128, 32])
def test_the_sum_is_the_plain_sum_in_whole_numbers(bits: int) -> None:
    known = drawn(6)
    plan, engine = engine_of(known, bits=bits)
    total, expected = run(plan, engine).state, reduce(add, known.values())
    assert total.values.dtype == np.int64
    assert total.parts().to_bytes() == expected.parts().to_bytes()


@pytest.mark.parametrize("bits", [128, 32])
@pytest.mark.parametrize("stage", STAGES)
def test_whoever_drops_out_the_sum_is_that_of_the_others(bits: int, stage: str) -> None:
    known = drawn(7, seed=1)
    plan, engine = engine_of(known, bits=bits)
    lost = losing({"c002": stage, "c005": stage})
    total = run(plan, Lossy(engine, lost)).state
    left = [c for c in known if STAGES.index(stage) > 3 or c not in ("c002", "c005")]
    expected = reduce(add, (known[c] for c in left))
    assert total.parts().to_bytes() == expected.parts().to_bytes()


def test_64_bits_are_half_of_128_and_32_are_half_of_64() -> None:
    known = drawn(4, length=20_000)
    floats = {c: Sums(s.n_rows, s.values.astype(np.float64), None) for c, s in known.items()}
    masks = {bits: upload_bytes(known, bits=bits) - 4 * 20_000 for bits in (128, 32)}
    wide = upload_bytes(floats)
    assert 0 < masks[32] < 1000
    assert 0 < masks[128] - 4 * 20_000 < 1000
    assert 0 < wide - 16 * 20_000 < 1000


def test_a_masked_upload_of_32_bits_is_uniform_and_does_not_follow_its_secret() -> None:
    walk = np.cumsum(np.random.default_rng(0).integers(-9, 10, size=(1, 60_000)), axis=1)
    known = {f"c{k:03d}": Sums(1.0, walk + k) for k in range(3)}
    plan, engine = engine_of(known, bits=32)
    tapped = Tapped(engine)
    run(plan, tapped)
    numbers = Message.from_bytes(tapped.said["update", "c000"]).arrays[0]
    counts = np.bincount(numbers.view(np.uint8).ravel(), minlength=256)
    assert scipy.stats.chisquare(counts).pvalue > 1e-6
    assert abs(np.corrcoef(numbers[0, 1:].astype(np.float64), walk[0])[0, 1]) < 0.02


def test_numbers_beyond_32_bits_are_refused_by_the_client_with_a_remedy() -> None:
    known = drawn(5, bits=29)
    plan, engine = engine_of(known, bits=32)
    with pytest.raises(TooFewClientsError, match=r"has 29 bits and is above 429496729.*bits=64"):
        run(plan, engine)
    plan, engine = engine_of(known)
    total = run(plan, engine).state
    np.testing.assert_array_equal(total.values, sum(s.values for s in known.values()))


def test_a_refusal_does_not_tell_the_number() -> None:
    with pytest.raises(ValueError, match="has 31 bits") as refused:
        encode_whole(np.array([1_234_567_891]), Ring(32, 0), n_clients=2)
    assert "1234567891" not in str(refused.value)


def test_numbers_that_are_not_in_fixed_point_do_not_go_into_32_bits() -> None:
    known = {c: replace(s, grid=None) for c, s in drawn(4).items()}
    plan, engine = engine_of(known, bits=32)
    with pytest.raises(TooFewClientsError, match=r"'sums' is not in fixed point.*or bits=128"):
        run(plan, engine)


def test_counts_that_are_not_whole_are_refused() -> None:
    for wrong in (2.5, np.inf, np.nan, 2.0**54):
        with pytest.raises(ValueError, match="numbers that are not whole"):
            encoded(Sums(wrong, np.array([1, 2])).parts(), Ring(64, 0))


def test_the_ring_follows_from_the_plan_and_the_outline_alone() -> None:
    wide, narrow = (SecureAggregation({"ann": "00" * 32}, bits=bits) for bits in (128, 32))
    in_fixed_point, floats = drawn(1)["c000"].parts(), Message("sums", {}, (np.zeros(3),))
    assert wide.ring_of(Outline.of(in_fixed_point)) == Ring(64, 0)
    assert narrow.ring_of(Outline.of(in_fixed_point)) == Ring(32, 0)
    assert wide.ring_of(Outline.of(floats)) == Ring()
    compact = SecureAggregation({"ann": "00" * 32}, bits=64, bound=100.0)
    assert compact.ring_of(Outline.of(in_fixed_point)) == Ring(64, 0)
    assert compact.ring_of(Outline.of(floats)) == Ring.compact(100.0)
    with pytest.raises(UploadError, match="not in fixed point"):
        narrow.ring_of(Outline.of(floats))
    plans = {
        Plan(algorithm=Sending(known={}), protections=(masking,)).fingerprint()
        for masking in (wide, narrow, compact)
    }
    assert len(plans) == 3


def test_an_upload_in_another_ring_than_the_plans_is_refused() -> None:
    known = drawn(4)
    plan, engine = engine_of(known, bits=32)
    tapped = Tapped(engine)
    run(plan, tapped)
    upload = Message.from_bytes(tapped.said["update", "c000"])
    assert upload.arrays[0].dtype == np.uint32
    masking = plan.masking
    assert isinstance(masking, SecureAggregation)
    context = RoundContext(0, tuple(known), plan=plan.fingerprint())
    opened = masking.open(context, min_clients=3, journal=None)
    assert isinstance(opened, SecureRound)
    outline = Outline.of(known["c000"].parts())
    for wrong in (upload.arrays[0].astype(np.uint64), upload.arrays[0][:, :5]):
        facts = {"round": opened._number, "outline": outline.fact()}
        message = Message("secure-upload", facts, (wrong, upload.arrays[1]))
        with pytest.raises(UploadError, match="of uint32"):
            opened._take_upload(message, "c000", 0, None)


def test_parts_in_parts_are_whole_only_if_all_of_them_are() -> None:
    one, nothing = drawn(1)["c000"].parts(), Message("empty", {"x": 1})
    floats = Message("scores", {}, (np.zeros(2),))
    for named, expected in [
        ({"a": one}, True),
        ({"a": one, "b": join("two", {"c": one, "d": nothing})}, True),
        ({"a": one, "b": floats}, False),
        ({"a": floats}, False),
        ({}, False),
    ]:
        assert Outline.of(join("all", named)).is_whole is expected
    assert not Outline("x", {"parts": [{"arrays": -1, "facts": {}}]}, one_array()).is_whole
    assert not Outline("x", {"parts": "no"}, one_array()).is_whole
    assert not Outline("x", {"parts": [7]}, one_array()).is_whole
    assert not Outline("x", {"grid": 8}, one_array()).is_whole
    assert not Outline("x", {"grid": GRID}, (("f8", (2,)), ("f8", (2,)))).is_whole
    assert not Outline("x", {"grid": GRID}, (("u8", (2,)),)).is_whole


def one_array() -> tuple[tuple[str, tuple[int, ...]], ...]:
    return (("i8", (2,)),)


def test_whole_numbers_among_others_are_exact_too() -> None:
    mixed = join(
        "both", {"a": drawn(1, bits=60)["c000"].parts(), "b": Message("s", {}, (np.array([0.5]),))}
    )
    outline = Outline.of(mixed)
    assert not outline.is_whole
    back = outline.fill(encoded(mixed, Ring(), n_clients=4), Ring())
    assert back.to_bytes() == mixed.to_bytes()


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="bits is 16"):
        SecureAggregation({"ann": "00" * 32}, bits=16)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bits is 32 and bound is 5"):
        SecureAggregation({"ann": "00" * 32}, bits=32, bound=5.0)
    with pytest.raises(ValueError, match="32 bits holds integers"):
        Ring(32, 3)


def statistics(seed: int, *, numbers: bool, rows: int = 60) -> RidgeStatistics:
    rng = np.random.default_rng(seed)
    z = np.rint(256 * np.tanh(rng.normal(size=(rows, 12)))) / 256
    y = rng.normal(size=(rows, 2)) if numbers else np.eye(3)[rng.integers(3, size=rows)]
    grid = FixedPoint(8, ((12, 8),), TARGET_DIGITS if numbers else 0)
    return RidgeStatistics.from_states(z, y, fingerprint="f", fixed=grid)


@pytest.mark.parametrize(("numbers", "bits"), [(False, 128), (False, 32), (True, 128)])
def test_the_digest_of_secure_aggregation_is_that_of_the_plain_sum(
    numbers: bool, bits: int
) -> None:
    known = {f"c{k}": statistics(k, numbers=numbers) for k in range(6)}
    plan, engine = engine_of(known, bits=bits, rows_per_feature=2)
    total = run(plan, Lossy(engine, losing({"c4": "update"}))).state
    expected = reduce(add, (s for c, s in known.items() if c != "c4"))
    received = RidgeStatistics.from_message(total.parts())
    assert received == expected
    assert received.digest() == expected.digest()


def test_the_sizes_that_the_guide_states() -> None:
    """512 features of 8 bits, 6 classes, 300 rows: in the clear, and in each ring."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(40, 512))
    grid, known = FixedPoint(8, ((512, 8),), 0), {}
    for k in range(10):
        z = np.rint(256 * np.tanh(0.12 * rng.normal(size=(300, 40)) @ mixing + 0.1)) / 256
        y = np.eye(6)[rng.integers(6, size=300)]
        known[f"c{k:03d}"] = RidgeStatistics.from_states(z, y, fingerprint="f" * 64, fixed=grid)
    floats = {client: s.floats for client, s in known.items()}
    rules: dict[str, Any] = {"min_clients": 10, "rows_per_feature": 2}
    found = [
        len(floats["c000"].parts().to_bytes()),
        len(known["c000"].parts().to_bytes()),
        upload_bytes(floats, **rules),
        upload_bytes(known, **rules),
        upload_bytes(known, bits=32, **rules),
    ]
    assert [round(n / 1e6, 2) for n in found] == [1.08, 0.39, 2.16, 1.08, 0.54]


def test_limbs_of_targets_that_are_numbers_do_not_go_into_32_bits() -> None:
    known = {f"c{k}": statistics(k, numbers=True) for k in range(4)}
    plan, engine = engine_of(known, bits=32, rows_per_feature=2)
    with pytest.raises(TooFewClientsError, match="has 40 bits and is above"):
        run(plan, engine)
