"""Whatever predicts is saved, loaded in another process, and evaluated in the same way."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment
from catchment import EchoState, Plan, Preprocessing, Recording, save
from catchment.data import Scaler
from catchment.engine import run_locally
from catchment.errors import FederationError, IntegrityError
from catchment.federation import RoundContext
from catchment.federation.learn import (
    FederatedRidge,
    FederatedScaling,
    PersonalReadouts,
    own_readout,
)
from catchment.federation.measure import Evaluation
from catchment.readout import Model, PersonalModels, Predictor, load_model
from catchment_research.learn import AlignedRidge, ReservoirEnsemble, StackedEnsemble, Stacking

PREPARE = Preprocessing(gaps="hold", scale=Scaler(np.array([2.0]), np.array([3.0])))


def recording(client: int, n: int = 150) -> Recording:
    """Return a wave far from zero, with a gap; what is to be predicted depends on the client."""
    t = np.arange(n)
    u = 2.0 + 3.0 * np.sin(t / (4 + client))
    y = (client + 1.0) * np.roll(u, 1)
    u[20] = np.nan
    return Recording(u, y, channels=("load",))


PEOPLE = {f"p{k}": [recording(k)] for k in range(3)}


@cache
def step_map() -> EchoState:
    made = EchoState(12, seed=2, washout=5).build(1, per_step=True)
    assert isinstance(made, EchoState)
    return made


RIDGE = FederatedRidge(features=step_map(), ridge=1e-3)
ENSEMBLE = ReservoirEnsemble(features=step_map(), ridge=1e-3)
KINDS: dict[str, tuple[Any, int]] = {
    "ridge": (RIDGE, 1),
    "ensemble": (ENSEMBLE, 1),
    "stacking": (StackedEnsemble(ensemble=ENSEMBLE), 2),
    "aligned": (AlignedRidge(ridge=RIDGE, alpha=0.5), 1),
    "personal": (PersonalReadouts(ridge=RIDGE), 2),
    "other": (PersonalReadouts(ridge=RIDGE, n_blocks=3), 2),
}


@cache
def trained(kind: str) -> Predictor:
    algorithm, rounds = KINDS[kind]
    plan = Plan(algorithm=algorithm, rounds=rounds, preprocessing=PREPARE, channels=("load",))
    return run_locally(plan, PEOPLE).predictor


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_file_says_the_same_to_the_bit_in_another_process(
    kind: str, tmp_path: Path
) -> None:
    made = trained(kind).read_from({"time": "t"})
    path = made.save(tmp_path / "model.safetensors")
    np.save(tmp_path / "u.npy", recording(1).u)
    code = (
        "import sys, numpy as np, catchment\n"
        "model = catchment.load(sys.argv[1])\n"
        "assert model.columns == {'time': 't'} and model.channels == ('load',)\n"
        "u = np.load(sys.argv[2])\n"
        "print(model.predict(u, client='p1').tobytes().hex())\n"
        "print(model.predict(u, client='stranger').tobytes().hex())\n"
    )
    there = subprocess.run(
        [sys.executable, "-c", code, str(path), str(tmp_path / "u.npy")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    u = recording(1).u
    assert there == [made.predict(u, client=c).tobytes().hex() for c in ("p1", "stranger")]
    assert path.read_bytes() == save(catchment.load(path), tmp_path / "again").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_prepares_raw_recordings_as_the_model_says(kind: str) -> None:
    made = trained(kind)
    assert isinstance(made, Predictor)
    scores = catchment.evaluate(made, PEOPLE)
    for name, (raw,) in PEOPLE.items():
        guess, y = made.predict(raw, client=name), raw.y
        assert y is not None
        expected = np.sqrt(((guess - y[5:]) ** 2).mean()) / y[5:].std()
        assert scores.by_client[name].value == pytest.approx(expected, rel=1e-9)


def test_a_readout_of_ones_own_is_chosen_by_the_clients_name_and_does_better() -> None:
    own, shared = trained("personal"), trained("ridge")
    assert own.clients == ("p0", "p1", "p2")
    ours, theirs = (catchment.evaluate(model, PEOPLE) for model in (own, shared))
    assert all(ours.by_client[name].value < theirs.by_client[name].value for name in PEOPLE)
    assert ours.total is not None
    assert theirs.total is not None
    assert ours.total.value < 0.5 * theirs.total.value
    np.testing.assert_array_equal(
        own.predict(recording(1), client="stranger"), shared.predict(recording(1))
    )


def test_personal_readouts_are_those_that_each_client_would_make_from_the_shared_one() -> None:
    own, shared = trained("personal"), trained("ridge")
    assert isinstance(own, PersonalModels)
    assert isinstance(shared, Model)
    for name, raw in PEOPLE.items():
        expected = own_readout(step_map(), shared.readout, PREPARE.apply(raw)).readout
        np.testing.assert_array_equal(own.readouts[name].weights, expected.weights)


def test_a_stacked_ensemble_in_two_rounds_is_stacking_after_the_ensemble() -> None:
    first = run_locally(Plan(algorithm=ENSEMBLE, preprocessing=PREPARE), PEOPLE).result
    second = run_locally(
        Plan(algorithm=Stacking(ensemble=first), preprocessing=PREPARE), PEOPLE
    ).result
    u = recording(2)
    np.testing.assert_allclose(
        trained("stacking").predict(u), second.model.predict(Recording(u.u)), rtol=1e-12
    )


def test_aligned_reservoirs_are_used_by_their_owners() -> None:
    made = trained("aligned")
    assert isinstance(made, PersonalModels)
    assert set(made.maps) == set(PEOPLE)
    maps = {made.of(name).features.fingerprint for name in PEOPLE}
    assert len(maps) == 3
    assert made.of("stranger").features.fingerprint == step_map().fingerprint


def test_results_that_predict_nothing_from_recordings_say_so() -> None:
    plan = Plan(algorithm=FederatedScaling(channels=1))
    with pytest.raises(FederationError, match="predicts nothing from recordings"):
        _ = run_locally(plan, PEOPLE).predictor


def test_a_file_of_an_unknown_kind_or_for_another_loader_is_refused(tmp_path: Path) -> None:
    path = trained("personal").save(tmp_path / "p")
    with pytest.raises(IntegrityError, match="holds 'personal', this reads 'model'"):
        load_model(path)


def test_evaluation_refuses_a_client_that_was_given_another_model() -> None:
    plan = Plan(algorithm=Evaluation(model_under_test=trained("personal")))
    other = Evaluation(model_under_test=trained("other"))
    context = RoundContext(0, ("p0",), client="p0")
    sent = plan.algorithm.broadcast(plan.algorithm.start(), context)
    with pytest.raises(IntegrityError, match="another model"):
        other.client_update(sent, lambda: PEOPLE["p0"], context)


def test_channels_in_another_order_are_an_error_that_names_them() -> None:
    with pytest.raises(ValueError, match="has the channels wind, the model was trained on load"):
        trained("personal").predict(Recording(np.ones((1, 1)), channels=("wind",)))
