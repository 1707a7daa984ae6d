"""DP-FTRL: noise over sensitivity is the multiplier, whoever answers and whatever was declared.

Both are measured on what a run gives out: how far the network moves when one client fails, and how
far it scatters over draws of the noise. The sum was divided by those who answered while the noise
was that of the declared number: with half of the clients lost the noise was half of what the stated
epsilon needs, and leaving one client out moved the weight of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest
from torch import nn

from catchment import Array, Limits, Plan, federate
from catchment.engine import run_locally
from catchment.errors import FederationError, UploadError
from catchment.federation import RoundContext
from catchment.federation.learn import ReadoutAveraging
from catchment_research.partial import (
    Examples,
    FederatedTraining,
    FollowTheLeader,
    LocalSteps,
    PartialNetwork,
    schedule_epsilon,
)

CLIP, MULTIPLIER, N_CLIENTS = 0.05, 1.5, 6
NAMES = [f"c{k}" for k in range(N_CLIENTS)]
Source = Callable[[], Iterable[Examples]]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 1000), nn.Tanh(), nn.Linear(1000, 4))


def private(noise: float, *, declared: int, clip: float = CLIP) -> FederatedTraining:
    return FederatedTraining(
        network=PartialNetwork(make=network, seed=1),
        # Steps so long that every change is clipped, and so is as long as it may be.
        steps=LocalSteps(learning_rate=1.0, batch_size=32),
        clip=clip,
        optimizer=FollowTheLeader(noise_multiplier=noise, clip=clip, clients=declared, rounds=1),
        device="cpu",
    )


def source(k: int) -> Source:
    rng = np.random.default_rng(k)
    x = rng.normal(size=(5 + 4 * k, 8)).astype(np.float32)
    return lambda: [Examples(x, rng.integers(0, 4, len(x)) * 0 + k % 4)]


def lost() -> Iterable[Examples]:
    raise ValueError("the battery is empty")


def moved(training: FederatedTraining, share: float, failing: Iterable[str]) -> Array:
    """Return how far a round moves all values, as one vector."""
    clients = {name: lost if name in failing else source(k) for k, name in enumerate(NAMES)}
    plan = Plan(algorithm=training, client_fraction=share, seed=2, limits=Limits(min_usable=0.0))
    state = run_locally(plan, clients, threads=1).state
    pairs = zip(state.values, training.start().values, strict=True)
    return np.concatenate([(a - b).ravel() for a, b in pairs])


CASES = {
    "all answer": (6, 1.0, ()),
    "three of six are lost": (6, 1.0, ("c0", "c2", "c5")),
    "two of six are drawn": (6, 0.34, ()),
    "a hundred were declared": (100, 1.0, ()),
    "a hundred were declared, half are drawn, one is lost": (100, 0.5, ("c1",)),
}


@pytest.mark.parametrize("case", CASES)
def test_noise_over_sensitivity_is_the_multiplier(case: str) -> None:
    declared, share, failing = CASES[case]
    exact = private(0.0, declared=declared)
    all_there = moved(exact, share, failing)
    cohort = Plan(algorithm=exact, client_fraction=share, seed=2).cohort(NAMES, 0)
    answering = [name for name in cohort if name not in failing]
    assert len(answering) < len(cohort) or not set(failing) & set(cohort)
    without = [moved(exact, share, (*failing, name)) for name in answering[:1]]
    sensitivity = max(float(np.linalg.norm(all_there - one)) for one in without)
    assert sensitivity == pytest.approx(CLIP / declared, rel=1e-4)

    noisy = private(MULTIPLIER, declared=declared)
    noise = np.concatenate([moved(noisy, share, failing) - all_there for _ in range(2)])
    spread = float(np.sqrt(np.mean(noise**2)))
    assert spread / sensitivity == pytest.approx(MULTIPLIER, rel=6 / np.sqrt(2 * noise.size))


def test_a_client_that_is_left_out_takes_its_own_change_and_no_other() -> None:
    """The changes of any set of clients add up to what all of them move together."""
    exact = private(0.0, declared=10)
    one_by_one = [moved(exact, 1.0, [n for n in NAMES if n != name]) for name in NAMES]
    for gone in ([], ["c0", "c4", "c5"]):
        kept = [m for name, m in zip(NAMES, one_by_one, strict=True) if name not in gone]
        np.testing.assert_allclose(moved(exact, 1.0, gone), np.sum(kept, axis=0), atol=1e-9)


def test_more_clients_than_were_declared_are_refused_before_anyone_is_asked() -> None:
    asked: list[str] = []

    def told() -> Iterable[Examples]:
        asked.append("somebody")
        return source(0)()

    plan = Plan(algorithm=private(1.0, declared=5))
    with pytest.raises(FederationError, match=r"6 clients are asked.*declared for 5"):
        federate(plan, dict.fromkeys(NAMES, told))
    assert not asked
    rule = private(1.0, declared=5).optimizer
    assert isinstance(rule, FollowTheLeader)
    with pytest.raises(FederationError, match="declared for 5"):
        schedule_epsilon(rule, [NAMES], 1e-5)


def test_noise_needs_a_clip_that_is_no_longer_than_its_own() -> None:
    training = private(1.0, declared=6)
    for clip in (None, 2 * CLIP):
        with pytest.raises(ValueError, match=r"counts on changes of length 0\.05"):
            replace(training, clip=clip)
    assert replace(training, clip=CLIP / 2).clip == CLIP / 2


def test_a_longer_or_heavier_change_is_refused() -> None:
    training = private(1.0, declared=6)
    told = training.broadcast(training.start(), RoundContext(0, ("c0",)))
    context = RoundContext(0, ("c0",), client="c0")
    sent = training.client_update(told, source(0), context)
    training.read_update(sent.parts(), context)
    longer = replace(sent, changes=tuple(c * np.float32(1.01) for c in sent.changes))
    heavier = replace(sent, weight=7.0)
    for bad, reason in (
        (longer, "were agreed on"),
        (heavier, "the weight is 7; where changes are"),
    ):
        with pytest.raises(UploadError, match=reason):
            training.read_update(bad.parts(), context)


def test_the_rule_cannot_stand_where_a_mean_of_unclipped_changes_is_handed_over() -> None:
    """Nothing else clips or has a fixed divisor, so that its epsilon would hold nowhere else."""
    assert not hasattr(FollowTheLeader, "step")
    assert "FollowTheLeader" not in str(ReadoutAveraging.__annotations__)
