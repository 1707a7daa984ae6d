"""Seven attacks by one client among twenty: refused, flagged, or honestly not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from catchment import Recording, Reservoir
from catchment.engine import run_locally
from catchment.errors import UploadError
from catchment.features import EchoState
from catchment.federation import Plan, RoundContext, check_statistics
from catchment.federation.learn import FederatedRidge
from catchment.federation.measure import (
    Flag,
    left_out_losses,
    loss_flags,
    robust_scores,
)
from catchment.readout import RidgeStatistics, accumulate, pack, unpack

RIDGE = 1e-4
FEATURES = EchoState.of(Reservoir(units=60, inputs=1, leak_rate=0.8, seed=1), washout=20)
BOUNDS = FEATURES.bounds


def flagged(by_client: Mapping[str, RidgeStatistics]) -> tuple[Flag, ...]:
    """Return the clients whose left-out loss stands out."""
    return loss_flags(left_out_losses(by_client, RIDGE))


def task(k: int) -> Recording:
    """Products of past inputs and noise: clients alike but for chance."""
    rng = np.random.default_rng(k)
    u = rng.uniform(-1, 1, 202)
    return Recording(u[2:], u[1:-1] * u[:-2] + u[2:] + 0.1 * rng.normal(size=200))


HONEST = {f"client-{k:02d}": accumulate(FEATURES, [task(k)], threads=1) for k in range(20)}
VICTIM = task(20)


def of(y: np.ndarray) -> RidgeStatistics:
    return accumulate(FEATURES, [Recording(VICTIM.u, y)], threads=1)


def is_believed(s: RidgeStatistics) -> bool:
    try:
        check_statistics(s, fingerprint=FEATURES.fingerprint, n_targets=1, state_bound=BOUNDS)
    except UploadError:
        return False
    return True


def z_of(s: RidgeStatistics, name: str = "mallory") -> float:
    losses = left_out_losses({**HONEST, name: s}, RIDGE)
    scores = robust_scores(np.log(list(losses.values())))
    return float(dict(zip(losses, scores, strict=True))[name])


assert VICTIM.y is not None
Y = VICTIM.y
GOOD = of(Y)


def indefinite() -> RidgeStatistics:
    G = unpack(GOOD.gram)
    return replace(GOOD, gram=pack(G - 2 * np.linalg.eigvalsh(G)[-2] * np.eye(len(G))))


def test_honest_clients_are_believed_and_not_flagged() -> None:
    everyone = {**HONEST, "client-20": GOOD}
    assert all(is_believed(s) for s in everyone.values())
    assert flagged(everyone) == ()


@pytest.mark.parametrize(
    "attack",
    [
        lambda: replace(
            GOOD,
            gram=1000 * GOOD.gram,
            cross=-1000 * GOOD.cross,
            target_gram=1000 * GOOD.target_gram,
        ),
        lambda: replace(GOOD, cross=-50 * GOOD.cross),
        indefinite,
    ],
    ids=["thousandfold", "cross", "indefinite"],
)
def test_impossible_poison_is_refused(attack: Callable[[], RidgeStatistics]) -> None:
    assert not is_believed(attack())


@pytest.mark.parametrize(
    "targets",
    [20 * Y, 2 * Y.mean() - Y, np.random.default_rng(0).permutation(Y)],
    ids=["twentyfold", "flipped", "random"],
)
def test_plausible_poison_passes_and_is_flagged(targets: np.ndarray) -> None:
    poisoned = of(targets)
    assert is_believed(poisoned)
    found = flagged({**HONEST, "mallory": poisoned})
    assert [flag.client for flag in found] == ["mallory"]
    assert found[0].z == pytest.approx(z_of(poisoned))
    assert "mallory" in str(found[0])


def test_replays_under_other_names_are_not_seen_but_a_replayed_message_counts_once() -> None:
    """Twenty copies of one upload agree with each other; only identities tell them apart."""
    copies = {f"copy-{k:02d}": GOOD for k in range(20)}
    assert not any(flag.client.startswith("copy") for flag in flagged({**HONEST, **copies}))
    assert all(is_believed(copy) for copy in copies.values())


def test_losses_are_those_of_rows_and_scikit_learn() -> None:
    few = dict(list(HONEST.items())[:4])
    losses = left_out_losses(few, RIDGE)
    rows = [(FEATURES(task(k).u), np.asarray(task(k).y)[20:]) for k in range(4)]
    for k, name in enumerate(few):
        z = np.concatenate([r[0] for j, r in enumerate(rows) if j != k])
        y = np.concatenate([r[1] for j, r in enumerate(rows) if j != k])
        theirs = Ridge(alpha=RIDGE, solver="svd").fit(z, y[:, 0])
        expected = float(((theirs.predict(rows[k][0]) - rows[k][1][:, 0]) ** 2).mean())
        assert losses[name] == pytest.approx(expected, rel=1e-4)


def test_few_or_empty_clients_flag_no_one() -> None:
    assert flagged({}) == ()
    assert flagged({"a": GOOD}) == ()
    four = {**dict(list(HONEST.items())[:3]), "mallory": of(20 * Y)}
    assert flagged(four) == ()
    empty = RidgeStatistics.zero(FEATURES.n_features, 1, FEATURES.fingerprint)
    assert "none" not in left_out_losses({**HONEST, "none": empty}, RIDGE)


def test_alike_losses_do_not_make_a_small_difference_stand_out() -> None:
    scores = robust_scores(np.array([0.0, 0.0, 0.0, 0.0, 0.01]))
    assert scores.max() < 1
    assert robust_scores(np.array([0.0, 0.0, 0.0, 0.0, 5.0])).max() > 4


def test_a_run_reports_flags_and_keeps_the_flagged_client() -> None:
    clients = {f"client-{k:02d}": [task(k)] for k in range(8)}
    clients["client-03"] = [Recording(VICTIM.u, -Y)]
    result = run_locally(Plan(algorithm=FederatedRidge(features=FEATURES, ridge=RIDGE)), clients)
    assert [flag.client for flag in result.state.flags] == ["client-03"]
    assert result.records[0].n_used == 8
    assert result.state.total is not None
    assert result.state.total.n_rows == 8 * 180
    alone = FederatedRidge(features=FEATURES, ridge=RIDGE, store_per_client=False)
    assert run_locally(Plan(algorithm=alone), clients).state.flags == ()


def test_a_client_beyond_the_reach_of_its_units_leaves_the_round() -> None:
    algorithm = FederatedRidge(features=FEATURES, ridge=RIDGE)
    with pytest.raises(UploadError, match="mean square of feature"):
        algorithm.read_update(
            replace(GOOD, gram=9 * GOOD.gram).parts(), RoundContext(0, (), client="x")
        )
