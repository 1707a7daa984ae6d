"""Changes in few bits: right on average, within a step, shorter, and the same again by the seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import Plan, federate
from catchment.errors import IntegrityError, UploadError
from catchment.federation import Algorithm, LowRankUpload, Requirements, RoundContext, WeightedSum
from catchment.privacy import SecureAggregation, generate_keys
from catchment.readout import RidgeStatistics
from catchment.wire import Message, serialize
from catchment_research import StochasticQuantization, packed_codes, unpacked_codes
from catchment_research.learn import Arrays

Bits = Literal[32, 16, 8, 4, 2, 1]
FEW: tuple[Bits, ...] = (16, 8, 4, 2, 1)


def sent(seed: int = 0) -> WeightedSum:
    rng = np.random.default_rng(seed)
    return WeightedSum.of((rng.normal(size=(30, 20)), rng.normal(size=7)), 3.0)


def arrived(
    rounded: StochasticQuantization, value: WeightedSum, context: RoundContext
) -> WeightedSum:
    """Return what the server reads of the bytes that a client sends."""
    message = serialize(rounded.on_client(value, context)).to_bytes()
    read: Any = rounded.read_update(
        Message.from_bytes(message), context, lambda parts, _: WeightedSum.from_message(parts)
    )
    assert isinstance(read, WeightedSum)
    return read


def flat(value: WeightedSum) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.concatenate([array.ravel() for array in value.arrays])


def steps(value: WeightedSum, bits: int, block: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the distance between the levels of every number, by a loop over its blocks."""
    v = flat(value)
    found = np.empty_like(v)
    for k in range(0, len(v), block):
        gaps = 2**bits - 2 if bits > 1 else 1
        found[k : k + block] = 2 * np.abs(v[k : k + block]).max() / gaps
    return found


@pytest.mark.parametrize("bits", FEW)
def test_every_number_is_within_a_step_and_right_on_average(bits: Bits) -> None:
    value, n = sent(), 400
    rounded = StochasticQuantization(bits=bits, block=50)
    errors = np.array(
        [
            flat(arrived(rounded, value, RoundContext(k, (), client="a"))) - flat(value)
            for k in range(n)
        ]
    )
    step = steps(value, bits, 50)
    assert (np.abs(errors) <= step * (1 + 1e-5)).all()
    # A draw between two levels has at most half a step as its deviation.
    means = errors.mean(axis=0) / (step / 2 / np.sqrt(n))
    assert np.abs(means).max() < 5.0
    assert abs(means.mean()) < 5.0 / np.sqrt(means.size)


def test_fewer_bits_are_fewer_bytes_and_weights_stay_exact() -> None:
    value, context = (
        WeightedSum.of((np.ones(4000, np.float32),), 7.0),
        RoundContext(0, (), client="a"),
    )
    sizes = {}
    for bits in (32, *FEW):
        rounded = StochasticQuantization(bits=bits, block=1000)
        sizes[bits] = len(serialize(rounded.on_client(value, context)).to_bytes())
        assert arrived(rounded, value, context).weight == 7.0
    rest = {bits: size - 4000 * bits / 8 for bits, size in sizes.items()}
    assert all(0 < left < 420 for left in rest.values())


def test_the_draw_is_the_clients_own_in_its_round() -> None:
    rounded, value = StochasticQuantization(bits=2), sent()
    first = flat(arrived(rounded, value, RoundContext(0, (), seed=1, client="a")))
    again = flat(arrived(rounded, value, RoundContext(0, ("b",), seed=1, client="a")))
    assert np.array_equal(first, again)
    for other in (
        RoundContext(1, (), seed=1, client="a"),
        RoundContext(0, (), seed=2, client="a"),
        RoundContext(0, (), seed=1, client="b"),
    ):
        assert not np.array_equal(first, flat(arrived(rounded, value, other)))


def test_zeros_stay_zeros_where_there_is_a_level_for_them() -> None:
    v = np.zeros(100)
    v[3] = 5.0
    value = WeightedSum((v, np.zeros(300)), 1.0)
    for bits in FEW[:-1]:
        got = flat(
            arrived(
                StochasticQuantization(bits=bits, block=128), value, RoundContext(0, (), client="a")
            )
        )
        assert got[3] == pytest.approx(5.0, rel=1e-6)
        assert np.flatnonzero(got).tolist() == [3]
    assert not flat(
        arrived(
            StochasticQuantization(bits=1), WeightedSum((np.zeros(9),), 1.0), RoundContext(0, ())
        )
    ).any()


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(0, 70), bits=st.sampled_from(FEW), block=st.integers(1, 40), seed=st.integers(0)
)
def test_any_shape_comes_back(n: int, bits: Bits, block: int, seed: int) -> None:
    v: Any = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)
    value = WeightedSum((v, v[:1]), 1.0)
    got = arrived(
        StochasticQuantization(bits=bits, block=block), value, RoundContext(0, (), client="c")
    )
    assert [array.shape for array in got.arrays] == [(n, 3), v[:1].shape]
    assert (np.abs(flat(got) - flat(value)) <= 1.001 * steps(value, bits, block)).all()
    codes = np.random.default_rng(seed).integers(0, 2**bits, n).astype(np.uint16)
    assert np.array_equal(unpacked_codes(packed_codes(codes, bits), n, bits), codes)


@pytest.mark.parametrize("bits", FEW)
def test_rounding_never_lengthens_a_change_past_the_bound(bits: Bits) -> None:
    value = sent()
    bound = float(np.linalg.norm(flat(value)))
    free = arrived(StochasticQuantization(bits=bits), value, RoundContext(0, (), client="a"))
    held = arrived(
        StochasticQuantization(bits=bits, longest=bound), value, RoundContext(0, (), client="a")
    )
    assert np.linalg.norm(flat(held)) <= bound
    if bits < 8:  # the levels are far apart: without the bound it is longer
        assert np.linalg.norm(flat(free)) > bound
    cosine = flat(free) @ flat(held) / np.linalg.norm(flat(free)) / np.linalg.norm(flat(held))
    assert cosine == pytest.approx(1.0)


@dataclass(frozen=True)
class Told(Algorithm[Arrays, WeightedSum, Arrays]):
    """An algorithm that adds what its clients hold; its changes may have a bound."""

    longest: float | None = None

    @property
    def requirements(self) -> Requirements:
        return Requirements(longest=self.longest)

    def start(self) -> Arrays:
        return ()

    def client_update(self, received: Message, data: Any, context: RoundContext) -> WeightedSum:
        return next(iter(data()))  # type: ignore[no-any-return]

    def read_update(self, parts: Message, context: RoundContext) -> WeightedSum:
        return WeightedSum.from_message(parts)

    def server_update(self, state: Arrays, total: WeightedSum, context: RoundContext) -> Arrays:
        return total.mean()

    def result(self, state: Arrays) -> Arrays:
        return state


def test_plans_that_rounding_does_not_fit_are_refused() -> None:
    keys = generate_keys(["a", "b", "c"])
    secure = SecureAggregation(keys, min_clients=3)
    with pytest.raises(
        ValueError, match="StochasticQuantization needs every client's message by itself"
    ):
        Plan(algorithm=Told(), protections=(StochasticQuantization(), secure))
    with pytest.raises(ValueError, match="LowRankUpload makes others of them"):
        Plan(algorithm=Told(), protections=(LowRankUpload(), StochasticQuantization()))
    with pytest.raises(
        ValueError, match=r"clipped at 0\.5 .* pass StochasticQuantization longest=0\.5"
    ):
        Plan(algorithm=Told(0.5), protections=(StochasticQuantization(longest=0.6),))
    Plan(algorithm=Told(0.5), protections=(StochasticQuantization(longest=0.5),))
    for wrong in ({"bits": 3}, {"block": 0}, {"longest": 0.0}):
        with pytest.raises(ValueError, match=r"pass|let|give"):
            StochasticQuantization(**wrong)
    with pytest.raises(UploadError, match="use LowRankUpload"):
        StochasticQuantization().on_client(RidgeStatistics.zero(2, 1), RoundContext(0, ()))
    with pytest.raises(UploadError, match="NaN"):
        StochasticQuantization().on_client(
            WeightedSum((np.array([np.nan]),), 1.0), RoundContext(0, ())
        )


@pytest.mark.parametrize("bits", FEW)
def test_numbers_at_the_ends_of_float32(bits: Bits) -> None:
    rounded, context = StochasticQuantization(bits=bits, block=4), RoundContext(0, (), client="a")
    for kind, size in ((np.float64, 1e-60), (np.float32, 1e-38), (np.float32, 1e-44)):
        tiny = WeightedSum((np.array([size, 0.0, -size, 0.0, 1.0], kind),), 1.0)
        found = flat(arrived(rounded, tiny, context))
        assert np.abs(found[:4]).max() <= 1e-37
        assert abs(found[4]) == 1.0
    with pytest.raises(UploadError, match=r"1e\+39 is too large"):
        rounded.on_client(WeightedSum((np.array([1e39]),), 1.0), context)


def test_a_message_that_contradicts_itself_is_not_read() -> None:
    rounded, context = StochasticQuantization(bits=4), RoundContext(0, (), client="a")
    good = serialize(rounded.on_client(sent(), context))
    numbers, scales, codes = good.arrays

    def read(facts: dict[str, Any] | None = None, arrays: tuple[Any, ...] = good.arrays) -> object:
        parts = Message(good.kind, {**good.facts, **(facts or {})}, arrays)
        return rounded.read_update(parts, context, lambda parts, _: WeightedSum.from_message(parts))

    read()
    bad_facts: tuple[dict[str, Any], ...] = (
        {"shapes": [[30, 21], [7]]},
        {"shapes": [[10**12], [7]]},
        {"shapes": [[-1], [7]]},
        {"shapes": [[30, 20]]},
        {"types": ["f8", "i8"]},
        {"types": "f8"},
        {"kind": 3},
        {"facts": None},
        {"shapes": [[30, 20] + [1] * 40, [7]]},
        {"shapes": [[30, 20], [7], [0, 2**62, 2**62]], "types": ["f8"] * 3},
    )
    for facts in bad_facts:
        with pytest.raises(IntegrityError):
            read(facts)
    for arrays in ((numbers, scales[1:], codes), (numbers, scales, codes[1:])):
        with pytest.raises(IntegrityError):
            read(arrays=arrays)
    with pytest.raises(UploadError, match="not finite"):
        read(arrays=(numbers, scales * np.float32(np.nan), codes))
    with pytest.raises(UploadError, match="not finite, or beyond"):
        read(arrays=(numbers, -scales, codes))
    with pytest.raises(UploadError, match="beyond its levels"):
        read(arrays=(numbers, scales, np.full_like(codes, 255)))


def test_the_ledger_counts_the_bytes_and_the_sum_is_that_of_the_rounded() -> None:
    clients = {name: [sent(k)] for k, name in enumerate("abc")}
    whole = federate(Plan(algorithm=Told()), clients)
    same = Plan(algorithm=Told(), protections=(StochasticQuantization(bits=32),))
    for a, b in zip(whole.state, federate(same, clients).state, strict=True):
        assert np.array_equal(a, b)
    few = Plan(algorithm=Told(), protections=(StochasticQuantization(bits=4),), seed=5)
    result = federate(few, clients)
    assert result.records[0].bytes_up < 0.25 * whole.records[0].bytes_up
    by_hand = [
        arrived(StochasticQuantization(bits=4), sent(k), RoundContext(0, (), 5, n))
        for k, n in enumerate("abc")
    ]
    for k, array in enumerate(result.state):
        np.testing.assert_allclose(array, sum(one.arrays[k] for one in by_hand) / 9.0, rtol=1e-12)
