"""Predictions on a device are those of the CPU: of one recording, and of many clients together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import getmodule
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch", reason="needs torch")

from catchment import Array, EchoState, Recording, Reservoir, evaluate, fit
from catchment.cli import app
from catchment.features import FeatureMap
from catchment.federation import Plan
from catchment.federation.measure import Evaluation
from catchment.readout import VARIABLE, Model, PersonalModels, Readout, device_for, refuse_device
from catchment_gpu.readout import device_rows
from tests.features.echo_state.devices import DEVICES, one_thread  # noqa: F401  # a fixture

RNG = np.random.default_rng(2)
LENGTHS = (40, 61, 25, 300)


def features(pool: str | None, *, bits: int | None = 12, washout: int = 7) -> EchoState:
    built = EchoState(20, seed=1, bits=bits and 20, washout=washout, pool=pool).build(  # type: ignore[arg-type]
        2, per_step=pool is None
    )
    assert isinstance(built, EchoState)
    return built


def model(pool: str | None, *, bits: int | None = 12) -> Model:
    known = features(pool, bits=bits)
    return Model(known, Readout(RNG.normal(size=(known.n_features, 3)), RNG.normal(size=3)))


def inputs() -> list[Array]:
    return [RNG.normal(size=(n, 2)) for n in LENGTHS]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pool", [None, "mean_std", "last"])
def test_outputs_are_those_of_the_cpu(pool: str | None, device: str) -> None:
    made, us = model(pool), inputs()
    here, there = made.outputs(us), made.outputs(us, device=device)
    for k, (y, other) in enumerate(zip(here, there, strict=True)):
        by_hand = made.features.rows([us[k]])[0] @ made.readout.weights + made.readout.intercept
        np.testing.assert_allclose(other, by_hand, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(other, y, rtol=1e-9, atol=1e-9)
    alone = made.predict(us[3], device=device)
    np.testing.assert_allclose(alone, there[3], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_of_long_recordings_that_are_cut_are_the_same_bits(device: str) -> None:
    W, W_in = RNG.uniform(-0.3, 0.3, (20, 20)), RNG.uniform(-0.5, 0.5, (20, 2))
    network = Reservoir.from_matrices(W, W_in, bits=20, cut=(64, 30))
    known = EchoState.of(network, washout=5, feature_bits=12)
    us = inputs()
    for z, other in zip(known.rows(us), device_rows(device, known, us), strict=True):
        np.testing.assert_array_equal(z, other)
        assert other.flags.c_contiguous


def test_more_recordings_than_are_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getmodule(device_rows), "DEVICE_SEQUENCES", 3)
    made, us = model("mean_std"), inputs()
    for y, other in zip(made.outputs(us), made.outputs(us, device="cpu"), strict=True):
        np.testing.assert_allclose(other, y, rtol=1e-9, atol=1e-9)


@dataclass(frozen=True)
class Largest(FeatureMap):
    """A map of a user's own, which no device knows."""

    n_features = 1
    bounds = np.full(1, 8.0)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return [np.abs(u).max()[None, None] for u in inputs]


def test_a_map_without_a_form_is_computed_here() -> None:
    made = Model(Largest(), Readout(np.ones((1, 1)), np.zeros(1)))
    for y, other in zip(made.outputs(inputs()), made.outputs(inputs(), device="cpu"), strict=True):
        assert y.shape == other.shape == (1, 1)
    np.testing.assert_array_equal(
        made.predict(np.full((4, 2), 3.0), device="cpu"), made.predict(np.full((4, 2), 3.0))
    )


def test_the_environment_names_the_device_of_a_map_in_fixed_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "nowhere")
    assert device_for(features(None), None) == "nowhere"
    with pytest.raises(ValueError, match="device is 'nowhere'"):
        model("last").predict(inputs())
    assert device_for(features(None, bits=None), None) is None
    assert device_for(features(None, bits=None), "cpu") == "cpu"
    monkeypatch.delenv(VARIABLE)
    assert device_for(features(None), None) is None


def test_what_has_no_form_refuses_a_device() -> None:
    with pytest.raises(ValueError, match="'cuda', and a network predicts on the CPU"):
        refuse_device("cuda", "a network")


def clients(n_clients: int) -> dict[str, list[Recording]]:
    waves = [np.sin(np.arange(30 + k) / (3 + k % 2)) for k in range(2 * n_clients)]
    data = [Recording.labeled(u, k % 2, ("fast", "slow")) for k, u in enumerate(waves)]
    return {f"c{k}": data[2 * k : 2 * k + 2] for k in range(n_clients)}


@pytest.mark.parametrize("device", DEVICES)
def test_scores_of_clients_served_together_are_those_of_each(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getmodule(Evaluation), "GROUP", 5)
    monkeypatch.setattr(getmodule(Evaluation), "STEPS", 200)  # some three clients
    people = clients(8)
    made = fit(EchoState(20), [one for each in people.values() for one in each])
    here, there = evaluate(made, people), evaluate(made, people, device=device)
    assert list(here.by_client) == list(there.by_client)
    for name, score in here.by_client.items():
        other = there.by_client[name]
        assert score.counts is not None
        assert other.counts is not None
        np.testing.assert_array_equal(score.counts.confusion, other.counts.confusion)
        np.testing.assert_allclose(
            other.errors.squared_error, score.errors.squared_error, rtol=1e-8, atol=1e-12
        )


def test_a_client_without_recordings_is_refused_alone() -> None:
    people = clients(4)
    made = fit(EchoState(20), [one for each in people.values() for one in each])
    with pytest.warns(UserWarning, match="empty"):
        scores = evaluate(made, people | {"empty": []}, device="cpu")
    assert sorted(scores.by_client) == ["c0", "c1", "c2", "c3"]


def test_models_by_client_are_evaluated_with_their_own() -> None:
    people = clients(3)
    shared = fit(EchoState(20), [one for each in people.values() for one in each])
    wrong = Readout(-shared.readout.weights, -shared.readout.intercept)
    models = PersonalModels(shared, {"c1": wrong})
    scores = evaluate(models, people, device="cpu")
    assert scores.by_client["c1"].value < scores.by_client["c0"].value


def test_the_device_is_no_part_of_a_plan() -> None:
    made = model("last")
    plans = [
        Plan(algorithm=Evaluation(model_under_test=made, device=device)) for device in (None, "cpu")
    ]
    assert plans[0].fingerprint() == plans[1].fingerprint()


def test_commands_take_a_device(tmp_path: Path) -> None:
    data = [one for each in clients(4).values() for one in each]
    made = fit(EchoState(20), data)
    made = made.prepared_by(made.preprocessing, ["u"])
    path, file = made.save(tmp_path / "model.catchment"), tmp_path / "one.csv"
    file.write_text("\n".join(["u", *(str(value) for value in data[0].u[:, 0])]))
    run, said = CliRunner().invoke, []
    for device in ([], ["--device", "cpu"]):
        done = run(app, ["predict", str(path), str(file), *device])
        assert done.exit_code == 0, done.output
        said.append(done.output)
    assert said[0] == said[1]
    bad = run(app, ["predict", str(path), str(file), "--device", "toaster"])
    assert "device is 'toaster'" in str(bad.exception)
