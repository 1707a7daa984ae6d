"""A12: impossible uploads are rejected, implausible ones are flagged, none is dropped silently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import pytest

from catchment import Array, Reservoir
from catchment.errors import UploadError
from catchment.features import EchoState
from catchment.federation import check_statistics
from catchment.federation.measure import Flag, left_out_losses, loss_flags, robust_scores
from catchment.readout import RidgeStatistics, pack, unpack

RIDGE = 1e-2
N_HONEST = 20


@dataclass(frozen=True)
class Rows:
    z: Array
    y: Array

    def statistics(self) -> RidgeStatistics:
        return RidgeStatistics.from_states(self.z, self.y, fingerprint="f")


def flagged(by_client: Mapping[str, RidgeStatistics]) -> tuple[Flag, ...]:
    """Return the clients whose left-out loss stands out."""
    return loss_flags(left_out_losses(by_client, RIDGE))


def clients(n: int, seed: int) -> list[Rows]:
    """Return clients with one task: a non-linear memory of white noise, 60 units, 200 rows."""
    recipe = Reservoir(units=60, inputs=1, leak_rate=1.0, spectral_radius=0.9, seed=3)
    F = EchoState.of(recipe, input=False, washout=30)
    made = []
    for k in range(n):
        rng = np.random.default_rng([seed, k])
        u = rng.uniform(-0.8, 0.8, size=230)
        target = u * np.roll(u, 1) + 0.5 * np.roll(u, 2)
        y = target + 0.03 * rng.normal(size=230)
        made.append(Rows(F(u[:, None]), y[30:, None]))
    return made


def indefinite(honest: RidgeStatistics) -> RidgeStatistics:
    G = unpack(honest.gram)
    G[0, 1] = G[1, 0] = 2 * np.sqrt(G[0, 0] * G[1, 1])
    return RidgeStatistics(
        honest.n_rows,
        honest.weight,
        honest.feature_sum,
        honest.target_sum,
        pack(G),
        honest.cross,
        honest.target_gram,
        "f",
    )


def with_cross(honest: RidgeStatistics, cross: Array, factor: float = 1.0) -> RidgeStatistics:
    return RidgeStatistics(
        honest.n_rows,
        honest.weight,
        honest.feature_sum * factor,
        honest.target_sum * factor,
        honest.gram * factor,
        cross,
        honest.target_gram * factor,
        "f",
    )


@pytest.fixture(scope="module")
def honest() -> list[Rows]:
    return clients(N_HONEST, seed=0)


@pytest.fixture(scope="module")
def attacker() -> Rows:
    return clients(1, seed=99)[0]


def test_three_impossible_kinds_are_rejected(attacker: Rows) -> None:
    sent = attacker.statistics()
    check_statistics(sent, fingerprint="f", state_bound=1.0)
    impossible = {
        "bound": with_cross(sent, -1000 * sent.cross, 1000.0),
        "moments": with_cross(sent, -50 * sent.cross),
    }
    # A thousand times the moments under the old count, as a client would that keeps n.
    scaled = impossible["bound"]
    impossible["bound"] = RidgeStatistics(
        sent.n_rows,
        sent.weight,
        scaled.feature_sum,
        scaled.target_sum,
        scaled.gram,
        scaled.cross,
        scaled.target_gram,
        "f",
    )
    for code, bad in [*impossible.items(), ("moments", indefinite(sent))]:
        with pytest.raises(UploadError) as caught:
            check_statistics(bad, fingerprint="f", state_bound=1.0)
        assert caught.value.code == code


def poisoned(kind: str, rows: Rows) -> RidgeStatistics:
    rng = np.random.default_rng(1)
    y = {
        "targets times 20": 20 * rows.y,
        "targets flipped": -rows.y,
        "random targets": rng.permutation(rows.y),
    }[kind]
    return Rows(rows.z, y).statistics()


@pytest.mark.parametrize("kind", ["targets times 20", "targets flipped", "random targets"])
def test_three_plausible_kinds_are_flagged_and_nobody_else(
    kind: str, honest: list[Rows], attacker: Rows
) -> None:
    bad = poisoned(kind, attacker)
    check_statistics(bad, fingerprint="f", state_bound=1.0)
    by_client = {f"h{k:02d}": rows.statistics() for k, rows in enumerate(honest)} | {"bad": bad}
    found = flagged(by_client)
    assert [flag.client for flag in found] == ["bad"]
    assert found[0].z > 4
    assert len(by_client) == N_HONEST + 1  # reported, not dropped


def test_no_honest_client_is_flagged(honest: list[Rows]) -> None:
    assert flagged({f"h{k:02d}": rows.statistics() for k, rows in enumerate(honest)}) == ()


def test_copies_of_an_upload_are_for_identities_to_catch(honest: list[Rows]) -> None:
    """The score is blind to twenty copies of one client: a limit that is stated, and measured."""
    by_client = {f"h{k:02d}": rows.statistics() for k, rows in enumerate(honest)}
    copies = {f"copy{k:02d}": by_client["h00"] for k in range(N_HONEST)}
    assert [f.client for f in flagged(by_client | copies) if f.client.startswith("copy")] == []


def test_losses_are_those_of_explicit_residuals(honest: list[Rows]) -> None:
    few = honest[:6]
    by_client = {f"h{k}": rows.statistics() for k, rows in enumerate(few)}
    losses = left_out_losses(by_client, RIDGE)
    for k, rows in enumerate(few):
        rest = [other.statistics() for j, other in enumerate(few) if j != k]
        readout = reduce(add, rest).solve(RIDGE)
        expected = float(np.mean((readout(rows.z) - rows.y) ** 2))
        assert losses[f"h{k}"] == pytest.approx(expected, rel=1e-6)
    scores = robust_scores(np.log(list(losses.values())))
    assert np.median(scores) == pytest.approx(0.0, abs=1e-12)
