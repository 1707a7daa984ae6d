"""A plan file carried out in this process: scaling, training, evaluation, and baselines beside it.

Every stage is a plan of its own in the one loop, kept in the run's folder as it goes.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from catchment.arrays import Array
from catchment.data.sequence import Sequence as Recorded
from catchment.engine.compare import (
    Contender,
    centralised,
    compare,
    guess,
    local_only,
    trained,
)
from catchment.engine.local import data_of, fit
from catchment.errors import FederationError
from catchment.federation.averaging import ReadoutAveraging
from catchment.federation.baselines import Guess, autoregression, mean_target
from catchment.federation.candidates import Race
from catchment.federation.comparison import Comparison, Outcome, Row
from catchment.federation.ensemble import ReservoirEnsemble
from catchment.federation.evaluation import Evaluation, Score, Scores
from catchment.federation.input_scaling import FederatedScaling
from catchment.federation.loop import Result
from catchment.federation.personal_evaluation import PersonalEvaluation
from catchment.federation.plan import Plan
from catchment.federation.ridge import FederatedRidge, RidgeState
from catchment.federation.runs import Run, read_run
from catchment.federation.store import MODEL, Cell, Store
from catchment.plans.data import PlanData
from catchment.plans.file import PlanFile
from catchment.readout.model import Model
from catchment.readout.selection import RidgeChoice

Watch = Callable[[str, int, int, int], None]
SHOWN_STEPS = 300


@dataclass(frozen=True, eq=False)
class Finished:
    """A run that is over: its folder as a reader sees it, its model and scores."""

    run: Run
    model: Model
    scores: Scores


def run_plan(
    file: PlanFile,
    folder: str | Path,
    *,
    data: Path | None = None,
    resume: bool = False,
    threads: int | None = None,
    watch: Watch | None = None,
) -> Finished:
    """Run a plan file and return what came of it; the folder keeps everything.

    Parameters
    ----------
    file
        The plan.
    folder
        Where the run is kept.
    data
        Directory of public data sets; the usual ones if not given.
    resume
        Whether to go on with a run that the folder holds.
    watch
        Called with (stage, round, clients done, clients asked).
    """
    held = file.load_data(data)
    plan = file.build(len(held.channels), held.classes)
    with Store(folder, fingerprint=file.fingerprint, plan=file.text, resume=resume) as store:
        begun = {"started": _now(), "title": file.title or _title(file)}
        store.write_facts(begun if not resume else {})
        stages = Stages(store, threads, watch)
        held = stages.scaled(held, file.sharing.scaling)
        result = stages.fit("training", plan, held.train)
        if result.model is None:
            raise FederationError(
                f"{file.algorithm['name']} makes no single model; use it from Python"
            )
        store.save_model(result.model)
        scores = stages.fit(
            "evaluation", Plan(algorithm=Evaluation(model_under_test=result.model)), held.test
        ).state
        write_scores(store, scores, held.classes)
        write_rows(store, result.state)
        write_path(store, result.state, held.classes)
        write_forecast(store, result.model, scores, held)
        store.write_facts(_facts(file, plan, held, result, scores))
        beside = contenders(file, plan, held, result, threads)

        def began(name: str) -> None:
            if watch:
                watch(f"for comparison: {name}", 0, 0, 0)

        compared = compare(beside, held.train, held.test, began=began)
        write_comparison(store, _with_own(compared, own_row(file, result, scores)))
        store.write_facts({"finished": _now(), "model_sha256": _sha256(store.folder / MODEL)})
    return Finished(read_run(folder), result.model, scores)


@dataclass(frozen=True, eq=False)
class Stages:
    """Plans run one after the other into one folder."""

    store: Store
    threads: int | None = None
    watch: Watch | None = None

    def fit(self, stage: str, plan: Plan[Any, Any], clients: Mapping[str, Any]) -> Result[Any]:
        """Run a stage, or what is left of it."""

        def watch(round_: int, done: int, asked: int) -> None:
            if self.watch:
                self.watch(stage, round_, done, asked)

        keeper = self.store.keeper(stage, plan)
        return fit(plan, clients, threads=self.threads, keeper=keeper, watch=watch)

    def scaled(self, held: PlanData, scaling: str) -> PlanData:
        """Return the data scaled, after a round of its own if all clients share one scaler."""
        if scaling != "federated":
            return held.scaled(scaling)
        algorithm = FederatedScaling(channels=len(held.channels))
        scaler = algorithm.scaler(self.fit("scaling", Plan(algorithm=algorithm), held.train).state)
        known = {"mean": scaler.mean.tolist(), "scale": scaler.scale.tolist()}
        self.store.write_facts({"scaler": json.dumps(known)})
        return held.scaled(scaling, scaler)


def own_row(file: PlanFile, result: Result[Any], scores: Scores) -> Row:
    """Return the plan's own row of the comparison."""
    seconds = sum(record.seconds for record in result.records)
    return Row.of(label(file), Outcome(scores, result.records), seconds)


def label(file: PlanFile) -> str:
    """Return what the plan's own row is called."""
    name = str(file.algorithm["name"])
    return "exact federated" if name == "ridge" else name


def _with_own(compared: Iterable[Row], own: Row) -> list[Row]:
    """Return the rows with one's own before what takes more than a federation gives."""
    rows = list(compared)
    after = [row for row in rows if row.name in ("centralised", "personalised")]
    return [*(row for row in rows if row not in after), own, *after]


def contenders(
    file: PlanFile,
    plan: Plan[Any, Any],
    held: PlanData,
    result: Result[Any],
    threads: int | None = None,
) -> dict[str, Contender]:
    """Return the baselines that stand beside a plan, by name."""
    model = result.model
    assert model is not None
    features, classes = model.features, held.classes
    usual = ("random", "majority") if classes else ("persistence", "autoregression")
    lags = {"lags": file.run.lags, "washout": features.washout}
    horizon = held.horizon or 1
    gcv = ReadoutAveraging(features=features, ridge="gcv", classes=classes)
    ensemble = ReservoirEnsemble(features=features, classes=classes, weighting="samples")
    known: dict[str, Callable[[], Contender]] = {
        "random": lambda: guess(Guess(how="random", classes=classes)),
        "majority": lambda: trained(mean_target(features, classes=classes)),
        "mean": lambda: trained(mean_target(features)),
        "persistence": lambda: guess(
            Guess(how="persistence", horizon=horizon, washout=features.washout)
        ),
        "autoregression": lambda: trained(autoregression(len(held.channels), **lags)),
        "local": lambda: local_only(features, classes=classes, threads=threads),
        "averaging": lambda: trained(Plan(algorithm=gcv), threads=threads),
        "ensemble": lambda: trained(Plan(algorithm=ensemble), threads=threads),
        "centralised": lambda: centralised(_alone(plan, result), threads=threads),
        "personalised": lambda: _personalised(model, held, threads),
    }
    chosen = usual if file.run.baselines is None else file.run.baselines
    return {name: known[name]() for name in chosen}


def _personalised(model: Model, held: PlanData, threads: int | None) -> Contender:
    """Return the contender in which test clients adapt the shared readout to their earlier data."""
    if held.test_after == 0:
        raise ValueError("a personalised baseline needs test_after in [data]; try test_after = 0.5")
    algorithm = PersonalEvaluation(model_under_test=model, share=held.test_after)

    def contend(train: Mapping[str, Any], test: Mapping[str, Any]) -> Outcome:
        found = fit(Plan(algorithm=algorithm), held.whole, threads=threads).state
        total = found.total.personal if found.total else None
        by_client = {name: one.personal for name, one in found.by_client.items()}
        n_moved = found.total.n_moved if found.total else 0
        return Outcome(Scores(total, by_client), note=f"{n_moved} left the shared readout")

    return contend


def _alone(plan: Plan[Any, Any], result: Result[Any]) -> Plan[Any, Any]:
    """Return the plan for one who has all data: with nobody to leave out, the ridge is kept."""
    algorithm = plan.algorithm
    choice = _choice(result.state)
    if isinstance(algorithm, FederatedRidge) and choice is not None:
        algorithm = replace(algorithm, ridge=choice.best)  # type: ignore[arg-type]
    return replace(plan, algorithm=algorithm, share=1.0, min_clients=1, protections=())


def write_scores(store: Store, scores: Scores, classes: tuple[str, ...] | None) -> None:
    """Keep every client's metrics, those of all together, and the confusions."""
    rows: list[tuple[Cell, ...]] = []
    named = {"": scores.total} | dict(scores.by_client)
    for client, score in named.items():
        if score is not None:
            rows += [("evaluation", client, m, v, score.errors.n) for m, v in metrics(score)]
    store.insert("scores", rows, replace=True)
    total = scores.total
    if total is not None and total.counts is not None and classes is not None:
        counts = total.counts.confusion
        store.insert(
            "confusion",
            [
                (true, guessed, int(counts[i, j]))
                for i, true in enumerate(classes)
                for j, guessed in enumerate(classes)
            ],
            replace=True,
        )


def metrics(score: Score) -> list[tuple[str, float]]:
    """Return a score's metrics by name, the leading one first."""
    if score.counts is not None:
        c = score.counts
        named = {"balanced accuracy": c.balanced_accuracy, "macro F1": c.macro_f1}
        return [("accuracy", c.accuracy), *named.items()]
    e = score.errors
    return [("NRMSE", e.nrmse), ("RMSE", e.rmse), ("MAE", e.mae), ("R2", e.r2)]


def write_rows(store: Store, state: object) -> None:
    """Keep how many rows are behind each client's statistics, where the server knows them."""
    match state:
        case RidgeState():
            rows = [(name, s.n_rows) for name, s in state.by_client.items()]
            store.insert("clients", rows, replace=True)
        case Race():
            first = {name: next(iter(s.members.values())) for name, s in state.by_client.items()}
            store.insert("clients", [(n, s.n_rows) for n, s in first.items()], replace=True)


def write_path(store: Store, state: object, classes: tuple[str, ...] | None) -> None:
    """Keep the errors along the path of ridges, if the algorithm chose one."""
    choice = _choice(state)
    if choice is None:
        return
    K = choice.errors.shape[1]
    names = classes or tuple(f"output {k}" for k in range(K))
    best = np.atleast_1d(choice.best)
    store.insert(
        "ridge_path",
        [
            (float(ridge), name, float(error) if np.isfinite(error) else None, int(ridge in best))
            for ridge, errors in zip(choice.ridges, choice.errors, strict=True)
            for name, error in zip(names, errors, strict=True)
        ],
        replace=True,
    )


def _choice(state: object) -> RidgeChoice | None:
    match state:
        case RidgeState() | Race():
            return state.choice
    return None


def write_forecast(store: Store, model: Model, scores: Scores, held: PlanData) -> None:
    """Keep a stretch of the worst test client's targets and predictions, to be drawn.

    The data are in this process; where clients are elsewhere this would stay with them.
    """
    if held.classes is not None or not model.features.per_step or not scores.by_client:
        return
    client, _ = scores.worst()
    y, guessed = _predicted(model, list(data_of(held.test[client])()))
    names = [f"output {k}" for k in range(y.shape[1])]
    store.insert(
        "forecast",
        [
            (client, step, name, float(y[step, k]), float(guessed[step, k]))
            for step in range(min(SHOWN_STEPS, len(y)))
            for k, name in enumerate(names)
        ],
        replace=True,
    )


def _predicted(model: Model, sequences: list[Recorded]) -> tuple[Array, Array]:
    """Return targets and predictions (n, K) of the first sequence, where the target is known."""
    first = sequences[0]
    assert first.y is not None
    y, guessed = first.y[model.features.washout :], model.predict(first.u)
    known = ~np.isnan(y).any(axis=1)
    return y[known], guessed[known]


def write_comparison(store: Store, rows: list[Row]) -> None:
    """Keep a comparison's rows in the order in which they are shown."""
    store.insert(
        "comparison",
        [
            (
                k,
                row.name,
                row.metric,
                row.score,
                row.worst_client,
                row.worst,
                row.spread,
                row.bytes_up,
                row.bytes_down,
                row.rounds,
                row.seconds,
                row.note,
            )
            for k, row in enumerate(rows)
        ],
        replace=True,
    )


def _facts(
    file: PlanFile, plan: Plan[Any, Any], held: PlanData, result: Result[Any], scores: Scores
) -> dict[str, str]:
    model, total = result.model, scores.total
    assert model is not None
    assert total is not None
    return {
        "source": file.source,
        "algorithm": str(file.algorithm["name"]),
        "own_row": label(file),
        "metric": metrics(total)[0][0],
        "classes": json.dumps(held.classes),
        "channels": json.dumps(held.channels),
        "train_clients": str(len(held.train)),
        "test_clients": str(len(held.test)),
        "units": str(model.features.reservoir.n_units),
        "n_features": str(model.features.n_features),
        "features_fingerprint": model.features.fingerprint,
        "plan_fingerprint": plan.fingerprint(),
        "scaling": file.sharing.scaling,
    }


def _title(file: PlanFile) -> str:
    return f"{file.algorithm['name']} on {file.source}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


__all__ = ["Comparison", "Finished", "Stages", "contenders", "run_plan"]
