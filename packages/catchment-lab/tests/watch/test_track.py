"""Runs in MLflow, written and read back by the library itself."""

from __future__ import annotations

import builtins
import sys
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from catchment.cli import app
from catchment.errors import FederationError, MissingExtraError
from catchment.federation import read_run
from tests.watch.runs import conduct

PLAN = """
title = "Wearables, tracked"
[data]
source = "wearables"
users = 6
windows_per_user = 12
steps = 32
[features]
units = 10
[learn]
algorithm = "ridge"
"""


@pytest.fixture(scope="module")
def mlflow() -> Any:
    """MLflow, which warns of what is deprecated in libraries that it uses."""
    pytest.importorskip("sqlalchemy", reason='pip install "catchment-lab[track]" to run this')
    pytest.importorskip("alembic", reason='pip install "catchment-lab[track]" to run this')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(
            "mlflow", reason='pip install "catchment-lab[track]" to run this'
        )


@pytest.fixture(scope="module")
def store(mlflow: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A store of MLflow in a file of its own; files of runs go beside it. It takes long to make."""
    place = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patched.chdir(place)
        patched.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{place / 'mlflow.db'}")
        yield mlflow.MlflowClient()


@pytest.mark.slow
def test_a_run_is_read_back(store: Any, tmp_path: Path) -> None:
    from catchment_lab.watch import log_run

    folder = tmp_path / "noisy"
    conduct(folder, lambda: None, rounds=3, rude="ann <b>", noisy=True)
    run, number = read_run(folder), log_run(folder)
    found = store.get_run(number)
    assert found.info.status == "FINISHED"
    assert found.info.run_name == run.facts["title"]
    plan = tomllib.loads((folder / "plan.toml").read_text())
    assert found.data.params["learn.algorithm"] == plan["learn"]["algorithm"] == "gradient"
    assert found.data.params["run.rounds"] == "3"
    assert found.data.params["protect.0.epsilon"] == "2.0"
    assert found.data.params["learn.optimiser.learning_rate"] == "0.02"
    assert found.data.metrics["score/accuracy"] == run.scores[""]["accuracy"]
    worst = min(values["accuracy"] for name, values in run.scores.items() if name)
    assert found.data.metrics["worst client/accuracy"] == worst
    assert found.data.metrics["training/epsilon"] == 2.0
    assert found.data.metrics["training/clients refused"] == 1
    history = store.get_metric_history(number, "training/weight norm")
    told = [(one.round, one.figures["weight norm"]) for one in run.rounds["training"]]
    assert sorted((one.step, one.value) for one in history) == told
    files = {one.path for one in store.list_artifacts(number)}
    assert files == {"model.safetensors", "plan.toml", "report.html"}
    kept = Path(store.download_artifacts(number, "model.safetensors", str(tmp_path)))
    assert kept.read_bytes() == (folder / "model.safetensors").read_bytes()
    assert log_run(folder) == number
    known = store.search_runs([found.info.experiment_id], "params.`learn.algorithm` = 'gradient'")
    assert len(known) == 1


@pytest.mark.slow
def test_the_command_tracks(store: Any, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    words = ["run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "a"), "--track", "mlflow"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    (number,) = (line.split()[1] for line in done.stderr.splitlines() if line.startswith("mlflow:"))
    assert store.get_run(number).data.tags["catchment.engine"] == "local"
    assert CliRunner().invoke(app, [*words, "--force", "--track", "nothing"]).exit_code == 2


def test_a_store_that_cannot_be_had_does_not_lose_the_run(
    mlflow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from catchment_lab.watch import log_run

    folder = tmp_path / "run"
    conduct(folder, lambda: None, rounds=2)
    with pytest.raises(FederationError, match=r"kept in .*run, log it later with"):
        log_run(folder, tracking_uri=f"file:{tmp_path / 'mlruns'}")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'mlruns'}")
    (tmp_path / "plan.toml").write_text(PLAN)
    words = ["run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "a"), "--track", "mlflow"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "warning: MLflow did not take the run" in done.stderr
    assert "exact federated" in done.stdout


def test_without_the_library_it_is_said_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object, **named: object) -> object:
        if name.startswith("mlflow"):
            raise ImportError(name)
        return real(name, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "catchment_lab.watch.track", raising=False)
    monkeypatch.delattr("catchment_lab.watch.log_run", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    (tmp_path / "plan.toml").write_text(PLAN)
    done = CliRunner().invoke(app, ["run", "plan.toml", "--track", "mlflow"])
    assert isinstance(done.exception, MissingExtraError)
    assert 'pip install "catchment-lab[track]"' in str(done.exception)
    assert not (tmp_path / "runs").exists()
