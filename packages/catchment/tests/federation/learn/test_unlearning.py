"""Being forgotten is never having been there; joining late is having been there from the start."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.data import Recording, contiguous, narma
from catchment.engine import run_locally
from catchment.errors import FederationError, FingerprintError, IntegrityError, UploadError
from catchment.features import EchoState, Reservoir
from catchment.federation import Plan, segment
from catchment.federation.learn import (
    Certificate,
    FederatedRidge,
    RidgeState,
    unlearn,
    unlearn_rows,
)
from catchment.readout import RidgeStatistics, accumulate
from tests.federation.runs.own_map import Waves

FEATURES = EchoState.of(Reservoir(units=12, inputs=1, seed=1), washout=8)
SERIES = contiguous(narma(500, seed=3), 5)
RIDGE = FederatedRidge(features=FEATURES, ridge=1e-2)


def run(algorithm: FederatedRidge, clients: Any, rounds: int = 1) -> RidgeState:
    return run_locally(Plan(algorithm=algorithm, rounds=rounds), clients).state


def without(name: str) -> dict[str, Any]:
    return {other: part for other, part in SERIES.items() if other != name}


def same_model(a: RidgeState, b: RidgeState, tolerance: float = 1e-9) -> None:
    assert a.total is not None
    assert b.total is not None
    assert a.readout is not None
    assert b.readout is not None
    assert a.total.n_rows == b.total.n_rows
    np.testing.assert_allclose(a.total.gram, b.total.gram, rtol=1e-12, atol=1e-12)
    scale = np.abs(b.readout.weights).max()
    np.testing.assert_allclose(a.readout.weights, b.readout.weights, atol=tolerance * scale)


@pytest.mark.parametrize("ridge", [1e-2, "leave-one-client-out", "gcv"])
def test_the_model_without_a_client_is_the_retrained_one_byte_for_byte(ridge: Any) -> None:
    algorithm = replace(RIDGE, ridge=ridge)
    unlearned = unlearn(algorithm, run(algorithm, SERIES), "client-003")
    retrained = run(algorithm, without("client-003"))
    kept = algorithm.save_state(unlearned.state).to_bytes()
    assert kept == algorithm.save_state(retrained).to_bytes()
    assert unlearned.state.readout is not None
    assert retrained.readout is not None
    assert unlearned.state.readout.weights.tobytes() == retrained.readout.weights.tobytes()
    assert unlearned.certificate.how == "summed-anew"


def test_the_certificate_names_what_went_and_both_sums() -> None:
    before = run(RIDGE, SERIES)
    unlearned = unlearn(RIDGE, before, "client-003")
    certificate = unlearned.certificate
    assert before.total is not None
    assert unlearned.state.total is not None
    assert certificate.confirms(before.total, unlearned.state.total)
    assert not certificate.confirms(before.total, before.total)
    assert certificate.client == "client-003"
    assert certificate.n_rows == 92
    assert certificate.removed == certificate.hash_of(accumulate(FEATURES, SERIES["client-003"]))
    assert certificate.fingerprint == FEATURES.fingerprint
    retrained = run(RIDGE, without("client-003")).total
    assert retrained is not None
    assert certificate.after == certificate.hash_of(retrained)
    assert Certificate.from_json(certificate.to_json()) == certificate


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"client": "a"}'])
def test_a_damaged_certificate_is_refused(text: str) -> None:
    with pytest.raises(IntegrityError, match="certificate"):
        Certificate.from_json(text)


def test_a_sum_without_clients_forgets_what_is_sent_again() -> None:
    algorithm = replace(RIDGE, store_per_client=False)
    state = run(algorithm, SERIES)
    with pytest.raises(FederationError, match="send its statistics again"):
        unlearn(algorithm, state, "client-003")
    again = accumulate(FEATURES, SERIES["client-003"])
    unlearned = unlearn_rows(algorithm, state, "client-003", again)
    same_model(unlearned.state, run(algorithm, without("client-003")))
    assert unlearned.certificate.how == "subtracted"


@settings(max_examples=10)
@given(cut=st.floats(0.1, 0.9))
def test_a_period_is_forgotten_as_if_it_had_not_been_recorded(cut: float) -> None:
    state = run(RIDGE, SERIES)
    period = list(segment(SERIES["client-001"], 0.0, cut, washout=8))
    rest = list(segment(SERIES["client-001"], cut, 1.0, washout=8))
    rows = accumulate(FEATURES, period)
    unlearned = unlearn_rows(RIDGE, state, "client-001", rows, what="its first days")
    same_model(unlearned.state, run(RIDGE, {**SERIES, "client-001": rest}))
    assert unlearned.certificate.what == "its first days"
    assert unlearned.certificate.n_rows == rows.n_rows
    left = unlearned.state.by_client["client-001"]
    assert left.n_rows == accumulate(FEATURES, rest).n_rows


def test_all_rows_of_a_client_forgotten_leave_no_client() -> None:
    state = run(RIDGE, SERIES)
    rows = accumulate(FEATURES, SERIES["client-001"])
    unlearned = unlearn_rows(RIDGE, state, "client-001", rows)
    assert "client-001" not in unlearned.state.by_client
    same_model(unlearned.state, run(RIDGE, without("client-001")))


def test_who_was_never_there_cannot_be_forgotten() -> None:
    state = run(RIDGE, SERIES)
    rows = accumulate(FEATURES, SERIES["client-001"])
    with pytest.raises(FederationError, match="no client 'nobody'"):
        unlearn(RIDGE, state, "nobody")
    with pytest.raises(FederationError, match="no client 'nobody'"):
        unlearn_rows(RIDGE, state, "nobody", rows)
    with pytest.raises(FederationError, match="nothing has been learned"):
        unlearn(RIDGE, RidgeState(), "client-001")
    with pytest.raises(FederationError, match="nothing has been learned"):
        unlearn_rows(RIDGE, RidgeState(), "client-001", rows)


def test_rows_that_were_never_there_cannot_be_forgotten() -> None:
    state = run(RIDGE, SERIES)
    forged = [replace(s, u=30 * s.u) for s in segment(SERIES["client-001"], 0.0, 0.5, washout=8)]
    with pytest.raises(UploadError) as caught:
        unlearn_rows(RIDGE, state, "client-001", accumulate(FEATURES, forged))
    assert caught.value.code == "moments"
    many = accumulate(FEATURES, [s for part in SERIES.values() for s in part])
    with pytest.raises(ValueError, match="subtract only statistics that were added"):
        unlearn_rows(RIDGE, state, "client-001", many)
    with pytest.raises(FingerprintError):
        unlearn_rows(RIDGE, state, "client-001", RidgeStatistics.zero(13, 1, "other"))


def test_the_last_client_cannot_be_forgotten() -> None:
    state = run(RIDGE, {"a": SERIES["client-001"]})
    with pytest.raises(FederationError, match="only client"):
        unlearn(RIDGE, state, "a")


def test_a_late_client_is_there_as_if_from_the_start() -> None:
    straight = run(RIDGE, SERIES)
    late = {"client-004": SERIES["client-004"]}
    plan = Plan(algorithm=RIDGE)
    for earlier in (
        run(RIDGE, without("client-004")),
        unlearn(RIDGE, straight, "client-004").state,
    ):
        joined = run_locally(plan, late, onto=earlier).state
        assert RIDGE.save_state(joined).to_bytes() == RIDGE.save_state(straight).to_bytes()
        assert joined.readout is not None
        assert straight.readout is not None
        assert joined.readout.weights.tobytes() == straight.readout.weights.tobytes()


def in_fixed_point(
    bits: int, classes: bool, seed: int, n_clients: int
) -> tuple[FederatedRidge, dict[str, list[Recording]]]:
    """Return a ridge whose statistics are integers, and clients of one to four recordings."""
    rng = np.random.default_rng(seed)
    algorithm = FederatedRidge(
        features=Waves(2, 2, bits), ridge=0.1, classes=("a", "b") if classes else None
    )

    def recording(k: int) -> Recording:
        u = rng.normal(size=(7, 2))
        return Recording.labeled(u, k % 2, 2) if classes else Recording(u, rng.normal(size=2))

    return algorithm, {
        f"client-{c}": [recording(k) for k in range(1 + int(rng.integers(4)))]
        for c in range(n_clients)
    }


@settings(max_examples=25)
@given(
    bits=st.sampled_from([6, 8, 20, 24]),
    classes=st.booleans(),
    seed=st.integers(0, 2**20),
    n_clients=st.integers(2, 6),
    data=st.data(),
)
def test_in_fixed_point_unlearning_is_an_equality_of_hashes(
    bits: int, classes: bool, seed: int, n_clients: int, data: st.DataObject
) -> None:
    algorithm, clients = in_fixed_point(bits, classes, seed, n_clients)
    gone = data.draw(st.sampled_from(sorted(clients)))
    before = run(algorithm, clients)
    unlearned = unlearn(algorithm, before, gone)
    certificate, after = unlearned.certificate, unlearned.state.total
    assert before.total is not None
    assert after is not None
    assert certificate.how == "equality"
    order = data.draw(st.permutations(sorted(set(clients) - {gone})))
    parts = [accumulate(algorithm.features, clients[name]) for name in order]
    again = sum(parts[1:], parts[0])
    assert again == after
    assert again.digest() == after.digest() == certificate.after
    assert certificate.confirms(before.total, again, accumulate(algorithm.features, clients[gone]))
    assert not certificate.confirms(before.total, again, parts[0])
    assert after + before.by_client[gone] == before.total


def test_in_fixed_point_a_server_that_keeps_only_the_sum_forgets_to_the_last_bit() -> None:
    algorithm, clients = in_fixed_point(8, True, 1, 4)
    apart = replace(algorithm, store_per_client=False)
    rows = accumulate(algorithm.features, clients["client-2"])
    unlearned = unlearn_rows(apart, run(apart, clients), "client-2", rows)
    rest = {name: held for name, held in clients.items() if name != "client-2"}
    retrained = run(apart, rest)
    assert unlearned.certificate.how == "equality"
    assert unlearned.state.total == retrained.total
    assert unlearned.state.readout is not None
    assert retrained.readout is not None
    assert (unlearned.state.readout.weights == retrained.readout.weights).all()


def test_certificates_of_earlier_versions_are_read() -> None:
    state = run(RIDGE, SERIES)
    certificate = unlearn(RIDGE, state, "client-003").certificate
    told = json.loads(certificate.to_json())
    del told["check"]
    assert Certificate.from_json(json.dumps(told)) == certificate
    assert certificate.check == ""
    for field, value in {"how": "guessed", "n_rows": "92", "before": 3}.items():
        with pytest.raises(IntegrityError, match="certificate"):
            Certificate.from_json(json.dumps({**told, field: value}))
