"""The server's half of a plan file on Flower: the stages of `catchment run`, over a network.

The run's folder is that of `catchment run`: `catchment explain` and `catchment report` read it.
What only somebody with all data could say, such as baselines and a forecast, is not in it.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from catchment.engine.flower.app import JOURNAL, Aloud, needed
from catchment.engine.flower.engine import FlowerEngine
from catchment.errors import TooFewClientsError
from catchment.federation.loop import Result, run
from catchment.federation.measure.evaluation import Scores, metrics
from catchment.federation.plan import Plan
from catchment.federation.runs.write import MODEL, Store
from catchment.plans.conductor import label, own_row, write_scaler
from catchment.plans.file import PlanFile
from catchment.plans.flower.agreement import (
    EVALUATION,
    PLASTICITY,
    SCALING,
    TRAINING,
    Agreement,
    Told,
)
from catchment.plans.results import (
    write_comparison,
    write_flags,
    write_path,
    write_rows,
    write_scores,
)
from catchment.privacy.secure_sum.server_journal import Journal

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Service:
    """Stages run one after the other over one network, into one folder."""

    agreed: Agreement
    engine: FlowerEngine
    store: Store
    journal: Journal | None

    def fit(self, stage: str, told: Told) -> tuple[Plan[Any, Any, Any], Result[Any, Any]]:
        """Run a stage, or what is left of it."""
        plan = self.agreed.plan(stage, told)
        engine = self.engine.at(stage, attachment=told.to_bytes(), fewest=needed(plan))
        keeper = Aloud(self.store.keeper(stage, plan), stage, plan.rounds)
        return plan, run(plan, engine, keeper=keeper, journal=self.journal)


def serve_plan(agreed: Agreement, engine: FlowerEngine, folder: str | Path) -> Path:
    """Run a plan file on the clients of an engine, and return the path of the model.

    Parameters
    ----------
    agreed
        The plan and what else both sides know.
    engine
        Reaches the clients.
    folder
        Where the run is kept; one that was cut short there goes on after its last finished round.
    """
    file = agreed.file
    with ExitStack() as stack:
        store = Store(folder, fingerprint=file.fingerprint, plan=file.text, resume=True)
        stack.enter_context(store)
        journal = None
        # A simulated client forgets its secrets with the simulation: its round begins anew.
        if file.is_secret and not agreed.simulated:
            journal = stack.enter_context(Journal(Path(folder) / JOURNAL))
        if "started" not in store.facts():
            title = file.title or f"{file.algorithm['name']} on {file.source}"
            store.write_facts({"started": _now(), "title": title})
        service = Service(agreed, engine, store, journal)
        told = _scaled(service, Told(agreed.training.fingerprint()))
        told = _adapted(service, told)
        plan, result = service.fit(TRAINING, told)
        path = store.save_model(result.model)
        scores = _scores(service, replace(told, model=path.read_bytes()))
        _keep(store, agreed, plan, result, scores)
    return path


def _scaled(service: Service, told: Told) -> Told:
    if service.agreed.file.sharing.scaling != "federated":
        return told
    _, result = service.fit(SCALING, told)
    write_scaler(service.store, result.result)
    return replace(told, scaler=result.result)


def _adapted(service: Service, told: Told) -> Told:
    if not service.agreed.file.plasticity:
        return told
    _, result = service.fit(PLASTICITY, told)
    return replace(told, plasticity=(result.state.gain, result.state.shift))


def _scores(service: Service, told: Told) -> Scores:
    """Return how the model does; with too few clients for a test, nothing, and the run says why."""
    try:
        _, result = service.fit(EVALUATION, told)
    except TooFewClientsError as error:
        log.warning("the model is not tested: %s", error)
        service.store.write_facts({"untested": str(error)})
        return Scores()
    scores: Scores = result.state
    return scores


def _keep(
    store: Store,
    agreed: Agreement,
    plan: Plan[Any, Any, Any],
    result: Result[Any, Any],
    scores: Scores,
) -> None:
    file, kept = agreed.file, plan.whole.kept(result.state)
    write_scores(store, scores, agreed.classes)
    write_rows(store, kept)
    write_flags(store, kept)
    write_path(store, kept, agreed.classes)
    if scores.total is not None:
        write_comparison(store, [own_row(file, result, scores)])
        store.write_facts({"metric": metrics(scores.total)[0][0]})
    store.write_facts(_facts(file, agreed, plan, result))
    digest = hashlib.sha256((store.folder / MODEL).read_bytes()).hexdigest()
    if "finished" not in store.facts():
        store.write_facts({"finished": _now(), "model_sha256": digest})
    log.info("model: %s, SHA-256 %s", (store.folder / MODEL).resolve(), digest)


def _facts(
    file: PlanFile, agreed: Agreement, plan: Plan[Any, Any, Any], result: Result[Any, Any]
) -> dict[str, str]:
    model = result.model
    return {
        "source": file.source,
        "algorithm": str(file.algorithm["name"]),
        "own_row": label(file),
        "classes": json.dumps(agreed.classes),
        "channels": json.dumps(agreed.channels),
        "train_clients": str(result.records[-1].n_asked),
        "units": str(model.features.reservoir.n_units),
        "n_features": str(model.features.n_features),
        "features_fingerprint": model.features.fingerprint,
        "plan_fingerprint": plan.fingerprint(),
        "scaling": file.sharing.scaling,
        "engine": "flower",
    }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
