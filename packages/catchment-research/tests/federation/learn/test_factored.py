"""Federated QR factors: the readout of pooled rows, in Python, in plan files, and resumed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment import Array, EchoState, Pipeline, Preprocessing, Recording, evaluate, federate
from catchment.data import contiguous, mackey_glass, narma
from catchment.engine import run_locally
from catchment.errors import FederationError
from catchment.federation import (
    Float32,
    LowRankUpload,
    Plan,
    Result,
    RunFolder,
    messages_of,
    read_run,
)
from catchment.federation.learn import FederatedRidge
from catchment.federation.measure import ContributionBound
from catchment.federation.runs import MODEL, in_words, unlearn_from_run
from catchment.plans import parse_plan, read_plan, run_plan
from catchment.privacy import Clip, GaussianNoise, SecureAggregation, generate_keys
from catchment.readout import Model, load_model
from catchment_research.factors import FactoredRidge

pytestmark = pytest.mark.processor

FEATURES = EchoState(12, washout=5, bits=None).build(1, per_step=True)
RAW = Preprocessing(scale="none")


def clients(n: int = 5, steps: int = 500) -> dict[str, list[Recording]]:
    return contiguous(narma(steps, seed=2), n)


def pooled(held: Mapping[str, list[Recording]]) -> tuple[Array, Array]:
    rows = [FEATURES.rows([one.u])[0] for part in held.values() for one in part]
    targets = [one.y[5:] for part in held.values() for one in part if one.y is not None]
    return np.concatenate(rows), np.concatenate(targets)


def by_numpy(z: Array, y: Array, ridge: float) -> Array:
    means, F = (z.mean(axis=0), y.mean(axis=0)), z.shape[1]
    A = np.vstack([z - means[0], np.sqrt(ridge) * np.eye(F)])
    b = np.vstack([y - means[1], np.zeros((F, y.shape[1]))])
    return np.asarray((z - means[0]) @ np.linalg.lstsq(A, b, rcond=None)[0] + means[1])


def trained(held: Mapping[str, Any], **settings: Any) -> Result[Any, Model]:
    algorithm = FactoredRidge(features=FEATURES, **settings)
    return run_locally(Plan(algorithm=algorithm), dict(held), threads=1)


@pytest.mark.parametrize("settings", [{}, {"store_per_client": False}])
def test_the_readout_is_that_of_pooled_rows(settings: dict[str, Any]) -> None:
    held = clients()
    done = trained(held, ridge=1e-9, **settings)
    z, y = pooled(held)
    np.testing.assert_allclose(done.model.readout(z), by_numpy(z, y, 1e-9), atol=1e-9)
    assert done.state.total.n_rows == len(z)
    kept = settings.get("store_per_client", True)
    assert set(done.state.by_client) == (set(held) if kept else set())


@pytest.mark.parametrize("standardize", [True, False])
def test_it_chooses_the_ridge_of_the_sums_where_both_can(standardize: bool) -> None:
    held = clients()
    rng = np.random.default_rng(0)
    noisy = {
        name: [
            replace(one, y=one.y + 0.3 * rng.normal(size=one.y.shape))
            for one in part
            if one.y is not None
        ]
        for name, part in held.items()
    }
    ours = trained(noisy, standardize=standardize)
    sums = FederatedRidge(features=FEATURES, standardize=standardize)
    theirs: Result[Any, Model] = run_locally(Plan(algorithm=sums), noisy, threads=1)
    assert ours.state.choice.best == pytest.approx(theirs.state.choice.best, rel=3)
    z, _ = pooled(noisy)
    np.testing.assert_allclose(ours.model.readout(z), theirs.model.readout(z), atol=2e-2)
    assert ours.model.target_range == pytest.approx(theirs.model.target_range)


@pytest.mark.parametrize("ridge", ["leave-one-client-out", "gcv", "auto", 0.1])
def test_every_way_to_choose_a_ridge(ridge: Any) -> None:
    done = trained(clients(n=6), ridge=ridge)
    assert done.model.readout.n_features == 13
    assert (done.state.choice is None) == (ridge == 0.1)
    assert "rows" in done.records[0].figures


def test_workers_and_threads_do_not_show() -> None:
    held = clients(n=7)
    one = trained(held, ridge="leave-one-client-out")
    plan = Plan(algorithm=FactoredRidge(features=FEATURES, ridge="leave-one-client-out"))
    many: list[dict[str, Any]] = [{"threads": 3}, {"workers": 2}]
    for more in many:
        other: Result[Any, Model] = run_locally(plan, held, **more)
        assert other.state.total == one.state.total
        np.testing.assert_array_equal(other.model.readout.weights, one.model.readout.weights)


def test_a_client_is_left_out_by_merging_the_others_and_never_by_subtraction(
    tmp_path: Path,
) -> None:
    held = clients()
    algorithm = FactoredRidge(features=FEATURES, ridge=1e-3)
    plan, gone = Plan(algorithm=algorithm), sorted(held)[1]
    with RunFolder(tmp_path / "run") as store:
        done: Result[Any, Model]
        done = run_locally(plan, held, threads=1, keeper=store.keeper("training", plan))
        store.save_model(done.model)
    rest = {name: part for name, part in held.items() if name != gone}
    never: Result[Any, Model] = run_locally(plan, rest, threads=1)
    found = unlearn_from_run(tmp_path / "run", gone, done.model)
    assert found.certificate.how == "summed-anew"
    assert found.certificate.confirms(
        done.state.total, never.state.total, done.state.by_client[gone]
    )
    assert isinstance(found.model, Model)
    np.testing.assert_array_equal(found.model.readout.weights, never.model.readout.weights)
    with pytest.raises(FederationError, match="no client 'nobody'"):
        unlearn_from_run(tmp_path / "run", "nobody", done.model)


def hidden() -> SecureAggregation:
    return SecureAggregation(generate_keys(["a", "b", "c"]))


@pytest.mark.parametrize(
    "protection",
    [Float32(), LowRankUpload(), ContributionBound(limit=1.0), "noise", "secure"],
    ids=str,
)
def test_no_protection_goes_with_factors_and_each_refusal_says_what_to_use(protection: Any) -> None:
    if protection == "noise":
        protection = GaussianNoise(epsilon=1.0, delta=1e-5, clip=Clip(bound=1.0))
    if protection == "secure":
        protection = hidden()
    with pytest.raises(ValueError, match="use upload='statistics'"):
        Plan(algorithm=FactoredRidge(features=FEATURES, ridge=0.1), protections=(protection,))


def test_settings_that_are_about_sums_are_refused() -> None:
    with pytest.raises(ValueError, match="use upload='statistics'"):
        federate(EchoState(5), clients(), upload=FactoredRidge, protections=(Float32(),))
    with pytest.raises(ValueError, match="leaves no sum of statistics"):
        federate(EchoState(5), clients(), upload=FactoredRidge, row_stride=2)
    with pytest.raises(ValueError, match="no setting 'forgetting'"):
        parse_plan(
            '[data]\nsource = "wearables"\n[learn]\nalgorithm = "factors"\nforgetting = 0.5\n'
        )
    for settings in ({"ridge": "best"}, {"store_per_client": "no"}):
        with pytest.raises(ValueError, match="give"):
            FactoredRidge(features=FEATURES, **settings)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs store_per_client"):
        FactoredRidge(features=FEATURES, ridge="leave-one-client-out", store_per_client=False)
    with pytest.raises(FederationError, match="needs 2 or more"):
        trained({"a": clients()[sorted(clients())[0]]}, ridge="leave-one-client-out")


def test_federate_takes_them_by_one_argument_and_says_so() -> None:
    held = contiguous(series(), 4)
    run = federate(Pipeline(RAW, EchoState(40, washout=50, bits=None)), held, upload=FactoredRidge)
    sums = federate(
        Pipeline(RAW, EchoState(40, washout=50, bits=None)), held, upload="statistics", ridge=1e-6
    )
    assert run.upload == "clients send what FactoredRidge asks of them"
    assert run.records[0].bytes_up == pytest.approx(sums.records[0].bytes_up, rel=0.01)
    assert "ridge-factors" in run.explain()
    assert "all that sums tell" in run.explain()
    ours, theirs = (evaluate(one.model, held).total for one in (run, sums))
    assert ours is not None
    assert theirs is not None
    assert ours.value < 0.5 * theirs.value
    with pytest.raises(FederationError, match="keeps no sum of statistics"):
        run.statistics  # noqa: B018


def series(n: int = 1000) -> Recording:
    x = mackey_glass(n + 3)
    return Recording(x[:-3], x[3:])


PLAN = """
title = "five owners"
[data]
files = "owners/*.csv"
inputs = ["x"]
test = 0.2
test_of = "steps"
[preprocessing]
horizon = 3
scale = "none"
[features]
units = 40
washout = 50
bits = "none"
[learn]
algorithm = "factors"
[run]
baselines = []
"""


def owners(folder: Path) -> Path:
    (folder / "owners").mkdir()
    x = mackey_glass(1900).ravel()
    for k in range(5):
        part = x[300 * k : 300 * k + 330]
        (folder / "owners" / f"o{k}.csv").write_text("x\n" + "\n".join(map(repr, part.tolist())))
    (folder / "new.csv").write_text("x\n" + "\n".join(map(repr, x[1700:].tolist())))
    plan = folder / "plan.toml"
    plan.write_text(PLAN)
    return plan


def test_a_plan_file_trains_by_factors_and_another_process_predicts(tmp_path: Path) -> None:
    plan = owners(tmp_path)
    done = run_plan(read_plan(plan), tmp_path / "run")
    model = load_model(tmp_path / "run" / MODEL)
    assert done.scores is not None
    assert done.scores.total is not None
    assert done.scores.total.value < 0.02
    purposes = {one.purpose for one in messages_of(tmp_path / "run", "o1")}
    assert "ridge-factors" in purposes
    run = read_run(tmp_path / "run")
    assert "fewer than five rows per feature" not in in_words(run, [])
    code = "import sys; from catchment.cli import main; sys.exit(main())"
    told = subprocess.run(
        [sys.executable, "-c", code, "predict", str(tmp_path / "run"), str(tmp_path / "new.csv")],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = told.stdout.strip().splitlines()
    last = float(lines[-1].split(",")[3])
    u = np.loadtxt(tmp_path / "new.csv", skiprows=1)[:, None]
    assert last == pytest.approx(float(model.predict(u)[-1, 0]), abs=1e-4)
