"""A18: noise cannot be seeded or repeated, and a budget once spent stays spent."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import catchment
from catchment import Array, FederatedRidge, Plan, Recording, Reservoir, federate
from catchment.errors import BudgetError, TooFewClientsError
from catchment.features import EchoState
from catchment.federation import RoundContext, Tally, WeightedSum
from catchment.federation.learn import RidgeState
from catchment.plans import parse_plan
from catchment.privacy import Budget, Clip, GaussianNoise
from catchment.privacy.dp import Clipped
from catchment.readout import Model, RidgeStatistics

FEATURES = EchoState.of(Reservoir(units=5, inputs=1, seed=1))
SOURCE = str(Path(catchment.__file__).parents[1])


def protection(**settings: object) -> GaussianNoise:
    usual: dict[str, object] = {
        "epsilon": 1.0,
        "delta": 1e-5,
        "clip": Clip(bound=2.0),
        "min_clients": 3,
        "small_cohort": True,
    }
    return GaussianNoise(**(usual | settings))  # type: ignore[arg-type]


def plan(*, rounds: int = 1, **settings: object) -> Plan[RidgeState, Tally[RidgeStatistics], Model]:
    algorithm = FederatedRidge(features=FEATURES, ridge=0.0, store_per_client=False)
    noisy = protection(releases=rounds, **settings)
    return Plan(algorithm=algorithm, protections=(noisy,), rounds=rounds, seed=1)


def clients(n: int) -> dict[str, list[Recording]]:
    u = np.sin(np.arange(40.0))
    return {f"c{k}": [Recording(u[:-1], u[1:])] for k in range(n)}


def weights(n: int = 3) -> Array:
    model = federate(plan(), clients(n)).model
    assert model is not None
    return model.readout.weights


def test_runs_of_one_seed_differ() -> None:
    np.random.seed(0)  # noqa: NPY002 - a user who believes that this helps
    first = weights()
    np.random.seed(0)  # noqa: NPY002
    assert not np.array_equal(first, weights())


def test_clients_with_the_same_data_add_different_noise() -> None:
    shared = protection(distributed=True)
    sent = []
    for client in ("ann", "ben"):
        upload = shared.on_client(
            WeightedSum.of((np.zeros(50),), 1.0), RoundContext(0, (), seed=1, client=client)
        )
        assert isinstance(upload, Clipped)
        sent.append(upload.vector)
    assert not (sent[0] == sent[1]).any()
    assert abs(float(np.corrcoef(sent[0], sent[1])[0, 1])) < 0.7


def test_processes_differ() -> None:
    code = (
        "from catchment.privacy.dp import discrete_gaussian, rounded_normal\n"
        "import numpy as np; np.random.seed(0)\n"
        "print(rounded_normal(1e9, 4).tolist(), discrete_gaussian(10**6, 4).tolist())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {SOURCE!r})\n{code}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    }
    assert len(said) == 2


def test_noise_takes_no_seed() -> None:
    with pytest.raises(TypeError, match="seed"):
        protection(seed=1)
    text = (
        '[data]\nsource = "wearables"\n[preprocessing]\nscale = "own"\n[features]\nunits = 20\n'
        "[learn]\nridge = 0.0\nstore_per_client = false\n"
        '[[protections]]\nname = "gaussian_noise"\nepsilon = 1.0\n'
        "delta = 1e-5\nclip = {bound = 5.0}\n"
    )
    parse_plan(text)
    with pytest.raises(ValueError, match="no setting 'seed'"):
        parse_plan(text + "seed = 1\n")


def test_the_noise_path_has_no_other_generator() -> None:
    for path in (Path(catchment.__file__).parent / "privacy" / "dp").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not {alias.name for alias in node.names} & {"random", "numpy.random"}
            elif isinstance(node, ast.ImportFrom):
                assert node.module not in ("random", "numpy.random")
            elif isinstance(node, ast.Attribute):
                assert node.attr not in ("random", "default_rng", "RandomState"), path


def test_a_budget_survives_and_refuses(tmp_path: Path) -> None:
    budget = Budget(path=tmp_path / "ledger.db", epsilon=1.5, delta=1e-5)
    federate(plan(budget=budget), clients(3))
    assert budget.spent("c0") == pytest.approx(1.0, abs=1e-3)
    code = (
        f"import sys; sys.path.insert(0, {SOURCE!r})\n"
        "from pathlib import Path\n"
        "from catchment.privacy import Budget\n"
        f"b = Budget(path=Path({str(budget.path)!r}), epsilon=1.5, delta=1e-5)\n"
        "print(round(b.spent(), 3), len(b.releases()))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.split() == ["1.0", "1"]
    federate(plan(budget=budget), clients(3))  # two releases of 1 cost 1.465 together
    with pytest.raises(BudgetError, match="nothing was released"):
        federate(plan(budget=budget), clients(3))
    assert len(budget.releases()) == 2


def test_too_few_survivors_release_nothing(tmp_path: Path) -> None:
    budget = Budget(path=tmp_path / "ledger.db", epsilon=5.0, delta=1e-5)
    with pytest.raises(TooFewClientsError, match="nothing was released"):
        federate(plan(budget=budget), clients(2))
    assert budget.releases() == []


def test_small_cohorts_must_be_asked_for() -> None:
    with pytest.raises(ValueError, match="small_cohort=True"):
        protection(min_clients=99, small_cohort=False)
    protection(min_clients=100, small_cohort=False)


def test_more_rounds_than_releases_are_refused() -> None:
    algorithm = FederatedRidge(features=FEATURES, ridge=0.0, store_per_client=False)
    with pytest.raises(ValueError, match="pass releases=3"):
        Plan(algorithm=algorithm, protections=(protection(releases=2),), rounds=3)
