"""A run in MLflow: parameters of the plan, figures per round, scores, and the files that matter.

A run's folder is logged once it is over, whatever engine carried it. Where to is the user's choice,
by MLFLOW_TRACKING_URI or by MLflow's own default, a file in the working directory. The report has
the names of clients; think of that before a folder is logged to a server of others.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catchment.errors import FederationError, MissingExtraError
from catchment.federation import read_run
from catchment.federation.runs import MODEL, PLAN, Run, bounds_of

# MLflow tells its makers how it is used unless somebody says no, or says that they may.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
try:
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient
except ImportError as error:
    raise MissingExtraError("track", of="catchment-lab", needed_for="logging to MLflow") from error
# Which MLflow looks for only when it opens a file of runs: after the run, that is too late.
if find_spec("alembic") is None or find_spec("sqlalchemy") is None:
    raise MissingExtraError("track", of="catchment-lab", needed_for="logging to MLflow")

if TYPE_CHECKING:
    from mlflow.entities import Run as MlflowRun

EXPERIMENT = "catchment"
KNOWN_BY = "catchment.run"
MOST_TEXT = 500  # letters of a parameter that every store of MLflow keeps
BATCH = 500  # metrics in one request; MLflow takes 1000


def log_run(
    folder: str | Path, *, tracking_uri: str | None = None, experiment: str = EXPERIMENT
) -> str:
    """Log a run's folder to MLflow and return the id that the run has there.

    A run that was logged before is not logged again.

    Parameters
    ----------
    folder
        Of a run, best of a finished one.
    tracking_uri
        Where MLflow keeps runs, such as sqlite:///mlflow.db or http://127.0.0.1:5000; by default
        what MLFLOW_TRACKING_URI says, or else MLflow's own choice.
    experiment
        Name of MLflow's experiment, made if it is not there.
    """
    run = read_run(folder)
    with _said_plainly(folder):
        client = MlflowClient(tracking_uri=tracking_uri)
        place = _experiment(client, experiment)
        identity = _identity(run)
        for known in client.search_runs([place], f"tags.`{KNOWN_BY}` = '{identity}'"):
            return str(known.info.run_id)
        name = run.facts.get("title", run.folder.name)
        started = _milliseconds(run.facts.get("started", ""))
        made: MlflowRun = client.create_run(
            place, start_time=started, run_name=name, tags={KNOWN_BY: identity}
        )
        run_id = str(made.info.run_id)
        _log(client, run_id, run, started)
        return run_id


@contextmanager
def _said_plainly(folder: str | Path) -> Iterator[None]:
    """Turn MLflow's errors into one sentence that says that the run is not lost."""
    try:
        yield
    except MlflowException as error:
        said = " ".join(str(error).split())
        raise FederationError(
            f"MLflow did not take the run: {said}; the run itself is kept in {folder}, log it "
            f"later with catchment_lab.watch.log_run({str(folder)!r})"
        ) from error


def _experiment(client: MlflowClient, name: str) -> str:
    found = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if found is None else found.experiment_id)


def _identity(run: Run) -> str:
    """Return what tells this run from others, also of the same plan."""
    facts = run.facts
    sealed = facts.get("ledger_sha256", "")
    return f"{facts.get('fingerprint', '')[:32]} {facts.get('started', '')} {sealed[:16]}"


def _log(client: MlflowClient, run_id: str, run: Run, started: int) -> None:
    parameters = [Param(name, value) for name, value in parameters_of(run).items()]
    tags = [RunTag(f"catchment.{name}", value) for name, value in _tags(run).items()]
    client.log_batch(run_id, params=parameters[:100], tags=tags)
    for k in range(100, len(parameters), 100):
        client.log_batch(run_id, params=parameters[k : k + 100])
    metrics = list(metrics_of(run, started))
    for k in range(0, len(metrics), BATCH):
        client.log_batch(run_id, metrics=metrics[k : k + BATCH])
    for path in (run.folder / MODEL, run.folder / PLAN):
        if path.is_file():
            client.log_artifact(run_id, str(path))
    _log_report(client, run_id, run)
    finished = "finished" in run.facts
    client.set_terminated(
        run_id,
        status="FINISHED" if finished else "KILLED",
        end_time=_milliseconds(run.facts.get("finished", "")),
    )


def _log_report(client: MlflowClient, run_id: str, run: Run) -> None:
    from catchment.report import write_report

    if "finished" in run.facts:
        with tempfile.TemporaryDirectory() as place:
            client.log_artifact(
                run_id, str(write_report([run.folder], Path(place) / "report.html"))
            )


def parameters_of(run: Run) -> dict[str, str]:
    """Return the plan's settings by their names with dots between, as they are written."""
    path = run.folder / PLAN
    if not path.is_file():
        return {}
    plan = tomllib.loads(path.read_text(encoding="utf-8"))
    return {key_of(name): _text(value) for name, value in flat(plan) if value != ""}


def flat(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values inside tables, and lists of tables, by their names with dots between.

    >>> dict(flat({"run": {"rounds": 3}, "protect": [{"name": "noise"}], "s": [1, 2]}))
    {'run.rounds': 3, 'protect.0.name': 'noise', 's': [1, 2]}
    """
    if isinstance(value, Mapping):
        inside: Sequence[tuple[object, object]] = list(value.items())
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        inside = list(enumerate(value))
    else:
        yield name, value
        return
    for key, one in inside:
        yield from flat(one, f"{name}.{key}" if name else str(key))


def metrics_of(run: Run, started: int) -> Iterator[Metric]:
    """Yield the figures of every round, and the scores of all rows and of the worst client."""
    at = started
    for stage, records in run.rounds.items():
        for record in records:
            at += round(1000 * record.seconds)
            named = {
                "clients asked": record.n_asked,
                "clients used": record.n_used,
                "clients refused": len(record.refused),
                "bytes up": record.bytes_up,
                "bytes down": record.bytes_down,
                "seconds": record.seconds,
                **record.figures,
            }
            yield from _metrics(stage, named, at, record.round)
    yield from _metrics("score", run.scores.get("", {}), at, 0)
    known = [one[run.metric] for name, one in run.scores.items() if name and run.metric in one]
    if known:
        worst = min(known) if run.metric == "accuracy" else max(known)
        yield from _metrics("worst client", {run.metric: worst}, at, 0)
    for bound in bounds_of(run):
        yield from _metrics(bound.stage, {"epsilon": bound.epsilon}, at, 0)


def _metrics(where: str, named: Mapping[str, float], at: int, step: int) -> Iterator[Metric]:
    for name, value in named.items():
        if math.isfinite(value):
            yield Metric(key_of(f"{where}/{name}"), float(value), at, step)


def key_of(name: str) -> str:
    """Return a name as MLflow allows it.

    >>> key_of("training/error (mean) of a+b")
    'training/error _mean_ of a_b'
    """
    return re.sub(r"[^\w\-./ ]", "_", name)[:250]


def _text(value: object) -> str:
    return str(value)[:MOST_TEXT]


def _tags(run: Run) -> dict[str, str]:
    names = ("catchment", "engine", "algorithm", "source", "model_sha256", "plan_fingerprint")
    return {name: _text(run.facts[name]) for name in names if run.facts.get(name)}


def _milliseconds(time_of_day: str) -> int:
    """Return a time of a run's facts in milliseconds since 1970; of none, the time now."""
    moment: Any = datetime.fromisoformat(time_of_day).timestamp() if time_of_day else time.time()
    return int(1000 * moment)
