"""What is measured beside a plan, on the same clients: guesses, going it alone, all data in one.

Baselines see data that are prepared as the plan's are, so that they differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from catchment.data.prepare import RAW
from catchment.engine.contenders import Contender, centralised, compare, guess, local_only, trained
from catchment.engine.local import Workers, run_locally
from catchment.features.base import FeatureMap, name_of
from catchment.features.echo_state.echo_state import EchoStateMap
from catchment.federation.learn.averaging import ReadoutAveraging
from catchment.federation.learn.ensemble import ReservoirEnsemble
from catchment.federation.loop import Result, model_of
from catchment.federation.measure.baselines import Guess, autoregression, mean_target
from catchment.federation.measure.comparison import Outcome, Row
from catchment.federation.measure.evaluation import Scores
from catchment.federation.measure.personal_evaluation import PersonalEvaluation
from catchment.federation.plan import Plan
from catchment.plans.data import PlanData
from catchment.plans.file import PlanFile
from catchment.plans.normal import NAME as NORMAL_PLAN
from catchment.readout.predictor import Predictor

AnyPlan = Plan[Any, Any, Any]


def compared(
    file: PlanFile,
    plan: AnyPlan,
    held: PlanData,
    result: Result[Any, Any],
    model: Predictor,
    features: FeatureMap,
    threads: int | None = None,
    watch: Callable[[str, int, int, int], None] | None = None,
    workers: int | Workers | None = None,
) -> list[Row]:
    """Train and test what stands beside the plan; it is not part of the run's ledger.

    Beside a plan with protections each row says that it has none of them.
    """

    def began(name: str) -> None:
        if watch:
            watch(f"for comparison: {name}", 0, 0, 0)

    beside = contenders(file, plan, held, result, model, features, threads, workers)
    ready = held.prepared(model.prepare)
    if not beside:
        return []
    rows = list(compare(beside, ready.train, ready.test, began=began))
    return [_outside(row) for row in rows] if file.protect else rows


def _outside(row: Row) -> Row:
    """Return a row that says under which conditions it was made."""
    told = "from raw data, outside the federation and its protections"
    return replace(row, note=f"{row.note}; {told}" if row.note else told)


def contenders(
    file: PlanFile,
    plan: AnyPlan,
    held: PlanData,
    result: Result[Any, Any],
    model: Predictor,
    features: FeatureMap,
    threads: int | None = None,
    workers: int | Workers | None = None,
) -> dict[str, Contender]:
    """Return the baselines that stand beside a plan, by name; they take prepared data."""
    classes = held.about.classes
    forecast = ("persistence", "autoregression") if features.per_step else ("mean",)
    usual: tuple[str, ...] = ("random", "majority") if classes else forecast
    if file.algorithm == NORMAL_PLAN and not classes:
        usual = ()  # nothing is known that a guess could be compared with
    lags = {"lags": file.run.lags, "washout": features.washout}
    horizon = file.prepare.horizon or 1
    n_inputs = file.prepare.n_inputs(len(held.about.channels))
    gcv = ReadoutAveraging(features=features, ridge="gcv", classes=classes)
    training = partial(trained, threads=threads, workers=workers)
    guessing = partial(guess, workers=workers)
    known: dict[str, Callable[[], Contender]] = {
        "random": lambda: guessing(Guess(how="random", classes=classes)),
        "majority": lambda: training(mean_target(features, classes=classes)),
        "mean": lambda: training(mean_target(features)),
        "persistence": lambda: guessing(
            Guess(how="persistence", horizon=horizon, washout=features.washout)
        ),
        "autoregression": lambda: training(autoregression(n_inputs, **lags)),
        "local": lambda: local_only(features, classes=classes, threads=threads, workers=workers),
        "averaging": lambda: training(Plan(algorithm=gcv)),
        "ensemble": lambda: training(Plan(algorithm=_ensemble(features, classes))),
        "centralised": lambda: centralised(_alone(plan, result), threads=threads),
        "personalised": lambda: _personalised(model, held, threads, workers),
    }
    chosen = usual if file.run.baselines is None else file.run.baselines
    return {name: known[name]() for name in chosen}


def _ensemble(features: FeatureMap, classes: tuple[str, ...] | None) -> ReservoirEnsemble:
    if not isinstance(features, EchoStateMap):
        raise ValueError(
            'the baseline "ensemble" gives every client a reservoir of its own, and '
            f"{name_of(features)} has none; leave it out of baselines"
        )
    return ReservoirEnsemble(features=features, classes=classes, weighting="samples")


def _personalised(
    model: Predictor, held: PlanData, threads: int | None, workers: int | Workers | None
) -> Contender:
    """Return the contender in which test clients adapt the shared readout to their earlier data."""
    shared = model_of(model)
    if shared is None:
        raise ValueError(
            'the baseline "personalised" adapts a shared readout, and there is none here; leave it '
            "out of baselines"
        )
    algorithm = PersonalEvaluation(model_under_test=shared, share=held.test_after)

    def contend(train: Mapping[str, Any], test: Mapping[str, Any]) -> Outcome:
        found = run_locally(
            Plan(algorithm=algorithm), held.whole, threads=threads, workers=workers
        ).state
        total = found.total.personal if found.total else None
        by_client = {name: one.personal for name, one in found.by_client.items()}
        n_moved = found.total.n_moved if found.total else 0
        return Outcome(Scores(total, by_client), note=f"{n_moved} left the shared readout")

    return contend


def _alone(plan: AnyPlan, result: Result[Any, Any]) -> AnyPlan:
    """Return the plan for one who has all data: with nobody to leave out, the ridge is kept."""
    algorithm = plan.algorithm.alone(result.state)
    return replace(plan, algorithm=algorithm, share=1.0, min_clients=1, protections=(), prepare=RAW)
