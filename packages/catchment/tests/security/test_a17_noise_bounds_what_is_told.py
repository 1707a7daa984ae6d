"""A17: nobody moves a clipped sum by more than the bound, and no test beats (epsilon, delta)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, ZCDpEvent
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from catchment import Array, FederatedRidge, Plan, Recording, Reservoir
from catchment.features import EchoState
from catchment.federation import RoundContext, WeightedSum
from catchment.privacy import Clip, GaussianNoise, RecordLevel
from catchment.privacy.dp import (
    Clipped,
    Records,
    concentrated_multiplier,
    gaussian_epsilon,
    gaussian_multiplier,
)
from catchment.readout import RidgeStatistics
from catchment.wire import NOTHING, Message


def exact_square(clipped: Clipped, grid: float) -> Fraction:
    """Return the squared length of a vector in integer arithmetic."""
    steps = clipped.vector / grid
    np.testing.assert_array_equal(steps, np.rint(steps))
    return sum((Fraction(int(step)) ** 2 for step in steps), Fraction(0)) * Fraction(grid) ** 2


entries = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1e-300, 1e150, -1e150, 5e-324])


@st.composite
def adversaries(draw: st.DrawFn) -> RidgeStatistics | WeightedSum:
    """Statistics of rows of any size, or numbers that no data have, or weighted sums."""
    kind = draw(st.sampled_from(["rows", "synthetic", "weighted"]))
    numbers = draw(st.lists(entries, min_size=12, max_size=12))
    if kind == "rows":
        rows = np.clip(np.array(numbers[:9]).reshape(3, 3), -1e70, 1e70)
        return RidgeStatistics.from_states(rows[:, :2], rows[:, 2:])
    if kind == "weighted":
        arrays = np.array(numbers[:6]).reshape(2, 3), np.array(numbers[6:8])
        return WeightedSum(arrays, draw(st.floats(1e-3, 1e9)))
    G, C = np.array(numbers[:3]), np.array(numbers[3:5])[:, None]
    weight = draw(st.floats(1e-3, 1e9))
    sums = np.array(numbers[5:7]), np.array(numbers[7:8])
    return RidgeStatistics(3, weight, *sums, G, C, np.array(numbers[8:9]))


@settings(max_examples=150)
@given(upload=adversaries(), bound=st.floats(1e-3, 1e3), epsilon=st.floats(0.05, 50))
def test_no_client_is_longer_than_the_bound(
    upload: RidgeStatistics | WeightedSum, bound: float, epsilon: float
) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        clip = Clip(bound=bound)
        noise = GaussianNoise(epsilon=epsilon, delta=1e-5, clip=clip)
        clipped = clip.clipped(upload, noise.step)
    assert exact_square(clipped, noise.step) <= Fraction(bound) ** 2
    assert noise.sensitivity == bound


@settings(max_examples=40)
@given(upload=adversaries(), seed=st.integers(0, 100))
def test_a_sum_moves_by_the_client_and_no_more(
    upload: RidgeStatistics | WeightedSum, seed: int
) -> None:
    clip = Clip(bound=3.0)
    noise = GaussianNoise(epsilon=1.0, delta=1e-5, clip=clip)
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore", invalid="ignore"):
        mine = clip.clipped(upload, noise.step)
    steps = np.rint(rng.normal(size=(5, len(mine.vector))) * 1e5)
    others = Clipped(steps.sum(axis=0) * noise.step, 5, mine.about)
    np.testing.assert_array_equal((others + mine).vector - others.vector, mine.vector)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0])
def test_sigma_agrees_with_the_privacy_loss_distribution(epsilon: float) -> None:
    s = gaussian_multiplier(epsilon, 1e-5)
    loss = privacy_loss_distribution.from_gaussian_mechanism(s)
    assert loss.get_epsilon_for_delta(1e-5) == pytest.approx(epsilon, abs=1e-4)
    # Five releases of the noise that five releases get.
    accountant = PLDAccountant()
    accountant.compose(GaussianDpEvent(s * math.sqrt(5)), 5)
    assert accountant.get_epsilon(1e-5) == pytest.approx(epsilon, abs=1e-4)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
def test_the_discrete_multiplier_agrees_with_renyi_accounting(epsilon: float) -> None:
    s = concentrated_multiplier(epsilon, 1e-5)
    accountant = RdpAccountant(orders=1 + np.geomspace(1e-2, 1e4, 4000))
    accountant.compose(ZCDpEvent(0.5 / s**2))
    assert accountant.get_epsilon(1e-5) == pytest.approx(epsilon, abs=1e-4)
    assert s > gaussian_multiplier(epsilon, 1e-5)


def released(noise: GaussianNoise, present: bool) -> float:
    """Return what a release says along the one client that an attacker asks about."""
    n = noise.min_clients
    context = RoundContext(0, tuple(f"c{k}" for k in range(n)))
    vectors = [np.array([9.0 * present, 0.0])] + [np.array([0.0, 1.0])] * (n - 1)
    sent = [noise.on_client(WeightedSum.of((v,), 1.0), context) for v in vectors]
    read = [noise.read_update(upload.parts(), context, _read) for upload in sent]
    total = noise.on_server(sum(read[1:], start=read[0]), context, _read)
    assert isinstance(total, WeightedSum)
    return float(total.arrays[0][0])


def _read(parts: Message, context: RoundContext) -> WeightedSum:
    return WeightedSum.from_message(parts)


def beaten_by(scores: tuple[Array, Array], epsilon: float, delta: float) -> float:
    """Return by how much the best threshold's rates exceed what (epsilon, delta) allows."""
    present, absent = scores
    worst = -np.inf
    for threshold in np.quantile(np.concatenate(scores), np.linspace(0.01, 0.99, 99)):
        true, false = (present > threshold).mean(), (absent > threshold).mean()
        worst = max(worst, true - math.exp(epsilon) * false - delta)
        worst = max(worst, (1 - false) - math.exp(epsilon) * (1 - true) - delta)
    return float(worst)


@pytest.mark.parametrize("runs", [1500, pytest.param(20_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("distributed", [False, True])
def test_no_threshold_beats_the_curve(distributed: bool, runs: int) -> None:
    noise = GaussianNoise(
        epsilon=1.0,
        delta=1e-3,
        clip=Clip(bound=2.0),
        distributed=distributed,
        min_clients=3,
        small_cohort=True,
    )
    scores = tuple(np.array([released(noise, p) for _ in range(runs)]) for p in (True, False))
    # Rates of so many runs are within this of the truth but for one in a million tests.
    slack = (1 + math.e) * math.sqrt(math.log(4e6) / (2 * runs))
    assert beaten_by((scores[0], scores[1]), 1.0, 1e-3) < slack
    # The check has teeth: the same runs break a claim of a much smaller epsilon...
    weak = GaussianNoise(
        epsilon=20.0, delta=1e-3, clip=Clip(bound=2.0), min_clients=3, small_cohort=True
    )
    loose = tuple(np.array([released(weak, p) for _ in range(runs)]) for p in (True, False))
    assert beaten_by((loose[0], loose[1]), 1.0, 1e-3) > slack
    # ...and the noise is what the theory says, not more.
    spread = noise.spread if not distributed else noise.share * math.sqrt(3)
    assert np.std(scores[1]) == pytest.approx(spread, rel=0.1)
    shift = float(np.mean(scores[0]) - np.mean(scores[1]))
    assert shift == pytest.approx(2.0, abs=5 * spread * math.sqrt(2 / runs))


def test_epsilon_is_tight_for_the_strongest_attacker() -> None:
    """The Gaussian trade-off curve is attained: noise below the analytic amount would not do."""
    s = gaussian_multiplier(1.0, 1e-5)
    thresholds = np.linspace(-40, 40, 4001)
    excess = norm.sf(thresholds / s - 1 / s) - math.e * norm.sf(thresholds / s)
    assert excess.max() == pytest.approx(1e-5, rel=1e-3)
    assert gaussian_epsilon(0.99 * s, 1e-5) > 1.0


def test_sequences_are_records_with_states_of_their_own() -> None:
    F = EchoState.of(Reservoir(units=10, inputs=1, seed=1))
    rng = np.random.default_rng(0)
    u = [rng.normal(size=(20, 1)) for _ in range(4)]
    changed = [x.copy() for x in u]
    changed[1][0] += 3.0
    algorithm = RecordLevel(algorithm=FederatedRidge(features=F, ridge=0.0, store_per_client=False))
    noise = GaussianNoise(
        epsilon=1.0, delta=1e-5, clip=Clip(bound=2.0), unit="sequence", min_clients=1
    )
    Plan(algorithm=algorithm, protections=(noise,))

    def records(inputs: list[Array]) -> list[Array]:
        data = [Recording(x, np.ones((20, 1))) for x in inputs]
        upload = algorithm.client_update(NOTHING, lambda: data, RoundContext(0, (), client="a"))
        assert isinstance(upload, Records)
        return [noise.clip.clipped(r, noise.step).vector for r in upload.uploads()]

    before, after = records(u), records(changed)
    for k in (0, 2, 3):
        np.testing.assert_array_equal(before[k], after[k])
    moved = np.linalg.norm(np.sum(after, axis=0) - np.sum(before, axis=0))
    assert 0 < moved <= 2 * 2.0
    assert all(np.linalg.norm(v) <= 2.0 for v in (*before, *after))
