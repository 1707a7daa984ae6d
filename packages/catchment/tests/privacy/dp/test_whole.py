"""Noise on integers: nobody is longer than the bound, and the noise is the discrete one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from inspect import getmodule
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from catchment import Array
from catchment.data import Recording
from catchment.engine import LocalEngine
from catchment.errors import BudgetError, UploadError
from catchment.federation import (
    Algorithm,
    Cost,
    Data,
    Plan,
    RoundContext,
    WeightedSum,
    moment_matrix,
    run,
)
from catchment.privacy import Budget, Clip, GaussianNoise, SecureAggregation, generate_keys
from catchment.privacy.dp import (
    Clipped,
    Records,
    concentrated_multiplier,
    gaussian_multiplier,
    square_length,
    square_steps,
    step_name,
    whole_steps,
)
from catchment.readout import FixedPoint, RidgeStatistics
from catchment.wire import Fact, Message
from tests.security.fleet import Tapped

GRID = FixedPoint(8, ((4, 8),), 0)
TURN = RoundContext(0, ())


def noise(**options: Any) -> GaussianNoise:
    usual: dict[str, Any] = {
        "epsilon": 1.0,
        "delta": 1e-5,
        "clip": Clip(bound=3.0),
        "min_clients": 4,
        "small_cohort": True,
    }
    return GaussianNoise(**(usual | options))


def statistics(seed: int, n: int = 40, F: int = 4) -> RidgeStatistics:
    rng = np.random.default_rng(seed)
    z = np.rint(256 * np.tanh(rng.normal(size=(n, F)))) / 256
    y = np.eye(2)[rng.integers(2, size=n)]
    return RidgeStatistics.from_states(z, y, fingerprint="f", fixed=replace(GRID, runs=((F, 8),)))


def exact(steps: NDArray[np.int64]) -> int:
    return sum(int(k) ** 2 for k in steps)


@settings(max_examples=200)
@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(-9, 9), max_size=30))
def test_squares_add_up_as_python_adds_them(numbers: list[int]) -> None:
    assert square_length(np.array(numbers, dtype=np.int64)) == sum(n * n for n in numbers)


entries = st.floats(-1.0, 1.0) | st.sampled_from([0.0, 1.0, -1.0, 1e-200, 0.5, 2.0**-40])


@settings(max_examples=400)
@given(
    direction=st.lists(entries, min_size=1, max_size=60).filter(lambda x: bool(np.any(x))),
    bound=st.floats(1e-6, 1e6),
    exponent=st.integers(-26, 4),
    size=st.sampled_from([1.0, 1 - 2**-53, 1 + 2**-52, 1 - 2**-31, 1 + 2**-29, 1e9, 1e300]),
)
def test_rounding_never_carries_a_vector_beyond_the_bound(
    direction: list[float], bound: float, exponent: int, size: float
) -> None:
    vector = np.array(direction) / math.hypot(*direction) * bound * size
    step = 2.0 ** (exponent + math.floor(math.log2(bound)))
    with np.errstate(over="ignore"):
        steps = whole_steps(vector, bound, step)
    assert Fraction(exact(steps)) * Fraction(step) ** 2 <= Fraction(bound) ** 2
    assert (np.abs(steps) * step <= np.abs(vector)).all()


def test_thousands_of_vectors_at_the_bound_stay_there_where_the_nearest_would_not() -> None:
    rng = np.random.default_rng(0)
    crossed = 0
    for k in range(4000):
        length = int(rng.integers(1, 300))
        step = 2.0 ** -int(rng.integers(2, 24))
        # Just below the next multiple, where rounding to the nearest adds the most.
        multiples = rng.integers(-3, 4, size=length)
        vector = (multiples + np.sign(multiples) * (1 - 2.0**-20)) * step
        bound = float(np.linalg.norm(vector)) or 1.0
        most = square_steps(bound, step)
        assert exact(whole_steps(vector, bound, step)) <= most
        crossed += exact(np.rint(vector / step).astype(np.int64)) > most
        if k % 4 == 0:
            assert exact(whole_steps(vector * 1e6, bound, step)) <= most
    assert crossed > 3000


def test_the_bound_holds_even_if_the_shortening_were_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getmodule(Clipped), "MARGIN", -1e-3)
    vector = np.random.default_rng(0).normal(size=400)
    steps = whole_steps(1e3 * vector, 5.0, 2.0**-20)
    assert exact(steps) <= square_steps(5.0, 2.0**-20) < exact(steps) * 1.01


def test_a_bound_of_too_many_steps_is_refused() -> None:
    with pytest.raises(UploadError, match="too long for steps of"):
        whole_steps(np.ones(2), 1.0, 2.0**-60)


whole = st.integers(-(2**50), 2**50) | st.integers(-300, 300)


@settings(max_examples=100)
@given(
    sums=st.lists(whole, min_size=24, max_size=24),
    weight=st.integers(1, 2**40),
    bound=st.floats(1e-3, 1e3),
)
def test_no_statistics_in_fixed_point_are_longer_than_the_bound(
    sums: list[int], weight: int, bound: float
) -> None:
    x = np.array(sums)
    synthetic = RidgeStatistics(
        3, float(weight), x[:4], x[4:5], x[5:15], x[15:19, None], x[19:20], "f", GRID
    )
    protection = noise(clip=Clip(bound=bound))
    sent = protection.on_client(synthetic, TURN)
    assert isinstance(sent, Clipped)
    step = protection.amount(whole=True).step
    assert sent.grid == step_name(step)
    assert exact(sent.vector) <= square_steps(bound, step)
    assert protection.sensitivity == bound
    protection.read_update(sent.parts(), replace(TURN, client="ann"), _none)


def _none(parts: Message, context: RoundContext) -> Any:
    return None


def test_whole_vectors_are_the_clipped_moments_and_travel_packed() -> None:
    s = statistics(1, F=4)
    protection = noise(clip=Clip(bound=1e3))
    sent = protection.on_client(s, TURN)
    assert isinstance(sent, Clipped)
    assert sent.vector.dtype == np.int64
    step = protection.amount(whole=True).step
    plain = protection.clip.clipped(s.floats, step)
    np.testing.assert_array_equal(sent.vector * step, plain.vector)
    got = Clipped.from_message(Message.from_bytes(sent.parts().to_bytes()))
    assert got == sent
    large = noise().on_client(statistics(2, F=60), TURN)
    floats = noise().on_client(statistics(2, F=60).floats, TURN)
    assert len(large.parts().to_bytes()) < 0.5 * len(floats.parts().to_bytes())


def test_a_reference_in_fixed_point_whitens_as_its_floats_do() -> None:
    clips = [Clip(bound=2.0, reference=r) for r in (statistics(9), statistics(9).floats)]
    a, b = (clip.clipped(statistics(1), 2.0**-30).vector for clip in clips)
    np.testing.assert_array_equal(a, b)


def test_central_noise_in_fixed_point_is_discrete_and_paid_as_such(tmp_path: Path) -> None:
    budget = Budget(path=tmp_path / "b.db", epsilon=1.0, delta=1e-5)
    protection = noise(budget=budget)
    amount = protection.amount(whole=True)
    assert amount.multiplier == concentrated_multiplier(1.0, 1e-5)
    assert protection.multiplier == gaussian_multiplier(1.0, 1e-5)
    assert protection.amount(whole=False).cost == Cost.of_gaussian(protection.multiplier)
    assert amount.steps >= amount.multiplier * protection.sensitivity / amount.step
    about: dict[str, Fact] = {
        "kind": "weighted-sum",
        "facts": {},
        "numbers": 2,
        "shapes": [[20_000]],
    }
    zero = np.zeros(20_000, dtype=np.int64)
    total = Clipped(zero, 4, about, 1.0, step_name(amount.step))
    seen: list[Array] = []

    def read(parts: Message, context: RoundContext) -> WeightedSum:
        seen.append(parts.arrays[1])
        return WeightedSum.from_message(parts)

    context = RoundContext(0, ("a", "b"))
    protection.on_server(total, context, read)
    steps = seen[0] / amount.step
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert np.std(seen[0]) == pytest.approx(amount.spread, rel=0.03)
    (release,) = budget.releases()
    assert release.cost == Cost.of_discrete(amount.multiplier)
    assert budget.spent() == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(BudgetError):
        protection.on_server(total, context, read)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_discrete_amount_keeps_what_a_privacy_loss_distribution_says(epsilon: float) -> None:
    steps = 40  # of the sensitivity; coarse, so that the distribution can be computed
    s = concentrated_multiplier(epsilon, 1e-5)
    loss = privacy_loss_distribution.from_discrete_gaussian_mechanism(
        math.ceil(s * steps), sensitivity=steps
    )
    assert loss.get_epsilon_for_delta(1e-5) <= epsilon


def test_whole_vectors_of_another_step_or_too_long_are_refused() -> None:
    protection, context = noise(), replace(TURN, client="ann")
    amount = protection.amount(whole=True)
    name, longest = step_name(amount.step), math.isqrt(square_steps(3.0, amount.step))

    def read(vector: list[int], grid: str | None = name, n_clients: int = 1) -> None:
        sent = Clipped(np.array(vector), n_clients, {}, None, grid)
        protection.read_update(sent.parts(), context, _none)

    read([longest, 0])
    with pytest.raises(UploadError, match="above the clip's bound"):
        read([longest + 1, 0])
    with pytest.raises(UploadError, match="steps of 2\\^0"):
        read([1, 0], "2^0")
    for wrong in (2**53, -(2**53), -(2**63), 2**63 - 1):
        with pytest.raises(UploadError, match="numbers that no clipped one can have"):
            read([wrong, 0])
    with pytest.raises(UploadError, match="came as int64; it is float64"):
        Clipped(np.array([1]), 1, {})
    with pytest.raises(UploadError, match="came as float64; it is int64"):
        Clipped.from_message(
            Message("clipped", {"about": {}, "grid": name}, (np.array([1.0, 0.0]), np.ones(2)))
        )
    with pytest.raises(UploadError, match="do not add"):
        _ = Clipped(np.array([1]), 1, {}, None, name) + Clipped(np.array([1.0]), 1, {})


def test_records_in_fixed_point_are_bounded_one_by_one() -> None:
    protection = noise(unit="sequence", min_clients=1, clip=Clip(bound=0.5))
    records = [statistics(k, n=5) for k in range(6)]
    total = protection.on_client(Records(lambda: iter(records)), TURN)
    assert isinstance(total, Clipped)
    without = protection.on_client(Records(lambda: iter(records[:-1])), TURN)
    assert isinstance(without, Clipped)
    step = protection.amount(whole=True).step
    assert 0 < exact(total.vector - without.vector) <= square_steps(0.5, step)
    assert total.n_clients == 1


@dataclass(frozen=True, kw_only=True)
class Sending(Algorithm[RidgeStatistics | None, RidgeStatistics, RidgeStatistics | None]):
    """Every client sends its statistics; the state is their sum."""

    known: Mapping[str, RidgeStatistics]

    def start(self) -> RidgeStatistics | None:
        return None

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> RidgeStatistics:
        return self.known[context.client]

    def server_update(
        self, state: RidgeStatistics | None, total: RidgeStatistics, context: RoundContext
    ) -> RidgeStatistics:
        return total

    def result(self, state: RidgeStatistics | None) -> RidgeStatistics | None:
        return state


def test_distributed_noise_in_fixed_point_takes_half_the_ring() -> None:
    known = {f"c{k}": statistics(k, F=30) for k in range(6)}
    identities = generate_keys(known)
    protection = noise(distributed=True, epsilon=1e6, clip=Clip(bound=50.0))
    protections = (protection, SecureAggregation(identities, min_clients=4, rows_per_feature=5))
    sent = {}
    for name, own in (("whole", known), ("floats", {c: s.floats for c, s in known.items()})):
        plan: Any = Plan(algorithm=Sending(known=own), protections=protections)
        sources = {client: [Recording(np.zeros(1))] for client in known}
        tapped = Tapped(LocalEngine(plan, sources, 1, identities.memories))
        total = run(plan, tapped).state
        expected = sum(moment_matrix(s.floats) / 40 for s in known.values())
        np.testing.assert_allclose(moment_matrix(total), expected, atol=0.5)
        sent[name] = Message.from_bytes(tapped.said["update", "c0"]).arrays[0].nbytes
    assert 2 * sent["whole"] - sent["floats"] in range(-32, 33)


def test_central_noise_in_fixed_point_releases_nearly_the_clipped_moments() -> None:
    known = {f"c{k}": statistics(k) for k in range(6)}
    plan: Any = Plan(
        algorithm=Sending(known=known), protections=(noise(epsilon=1e8, clip=Clip(bound=9.0)),)
    )
    sources = {client: [Recording(np.zeros(1))] for client in known}
    total = run(plan, LocalEngine(plan, sources, 1, {})).state
    assert total.fixed is None
    expected = sum(moment_matrix(s.floats) / 40 for s in known.values())
    np.testing.assert_allclose(moment_matrix(total), expected, atol=0.05)
