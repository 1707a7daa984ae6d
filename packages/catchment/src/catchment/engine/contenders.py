"""One call that trains every contender on the same clients and tests them on the same data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import reduce
from operator import add
from typing import Any, Literal

from catchment.data.preprocessing import Preprocessing
from catchment.engine.local import Source, Workers, data_of, run_locally
from catchment.features.base import FeatureMap
from catchment.federation.client import REFUSED
from catchment.federation.measure.baselines import (
    Comparison,
    Dummy,
    Outcome,
    Row,
    season_of,
)
from catchment.federation.measure.evaluation import Evaluation, Score, Scores
from catchment.federation.plan import Plan
from catchment.federation.rows import Rows
from catchment.parallel import ordered_map
from catchment.readout.accumulation import accumulate
from catchment.readout.predictor import Predictor
from catchment.readout.ridge_choice import chosen_readout
from catchment.readout.statistics import Readout

Clients = Mapping[str, Source]
Contender = Callable[[Clients, Clients], Outcome]
AnyPlan = Plan[Any, Any, Any]
SEASON_OF = 8  # clients by whose series a season is found


def compare(
    contenders: Mapping[str, AnyPlan | Dummy | Contender],
    train: Clients,
    test: Clients,
    *,
    threads: int | None = None,
    workers: int | Workers | None = None,
    began: Callable[[str], None] | None = None,
) -> Comparison:
    """Return what each contender scores on the test clients, and what it costs.

    Parameters
    ----------
    contenders
        By name: a plan, whose model is tested; a `Dummy`, which learns nothing; or a function of
        training and test clients, such as `centralized` and `local_only` return.
    train, test
        Clients by name. The same client may be in both, with other data.
    threads
        All cores if None; results do not depend on it.
    workers
        Processes for many clients; this one alone if None or 1.
    began
        Called with the name of each contender before it starts.

    >>> import numpy as np
    >>> from catchment import FederatedRidge, Plan, Reservoir, Recording
    >>> from catchment.features import EchoState
    >>> from catchment.federation.measure.baselines import autoregression
    >>> u = np.sin(np.arange(200) / 5) + np.sin(np.arange(200) / 3)
    >>> data = {"a": [Recording(u[:90], u[1:91])], "b": [Recording(u[90:-1], u[91:])]}
    >>> features = EchoState.of(Reservoir(units=30), washout=20)
    >>> plan = Plan(algorithm=FederatedRidge(features=features, ridge=1e-8))
    >>> contenders = {"ridge": plan, "line": autoregression(1, lags=2, washout=20)}
    >>> compare(contenders, data, data).best.name
    'ridge'
    """
    rows, outcomes = [], []
    for name, contender in contenders.items():
        if began:
            began(name)
        start = time.perf_counter()
        outcome = _outcome(contender, train, test, threads=threads, workers=workers)
        rows.append(Row.of(name, outcome, time.perf_counter() - start))
        outcomes.append(outcome)
    return Comparison(tuple(rows), tuple(outcomes))


def _outcome(
    contender: AnyPlan | Dummy | Contender, train: Clients, test: Clients, **how: Any
) -> Outcome:
    if isinstance(contender, Dummy):
        scores = run_locally(Plan(algorithm=contender), test, **how).state
        return Outcome(scores, note="nothing is learned")
    if not isinstance(contender, Plan):
        return contender(train, test)
    result = run_locally(contender, train, **how)
    evaluation = Plan(algorithm=Evaluation(model_under_test=result.model))
    return Outcome(run_locally(evaluation, test, **how).state, result.records, result.model)


def centralized(plan: AnyPlan, *, threads: int | None = None) -> Contender:
    """Return the contender that runs a plan on one client who holds everybody's data."""

    def alone(train: Clients, test: Clients) -> Outcome:
        everything = {"all": [one for name in sorted(train) for one in data_of(train[name])()]}
        outcome = _outcome(plan, everything, test, threads=threads)
        return Outcome(outcome.scores, (), outcome.model, "all data in one place")

    return alone


def local_only(
    features: FeatureMap,
    *,
    ridge: float | Literal["gcv"] = "gcv",
    classes: tuple[str, ...] | None = None,
    threads: int | None = None,
) -> Contender:
    """Return the contender in which every training client has only its own data.

    Each client's model is tested on that client's own test data where there are any, else on all
    test data. The scores are by model: the worst is the client who is worst off alone. Who cannot
    learn from its data, or be tested on them, is left out.
    """

    def contend(train: Clients, test: Clients) -> Outcome:
        def alone(name: str) -> Readout | None:
            known, divided = classes is not None, features.standardize
            try:
                own = accumulate(features, data_of(train[name])(), threads=1)
                return chosen_readout(own, ridge, classes=known, standardize=divided)[1]
            except REFUSED:
                return None

        def tried(name: str) -> dict[str, Score]:
            try:
                z, y = Rows.of(features, data_of(test[name])()).pair
            except REFUSED:
                return {}
            own = [name] if name in readouts else list(readouts)
            return {one: Score.of(y, readouts[one](z), classes=bool(classes)) for one in own}

        made = zip(sorted(train), ordered_map(alone, sorted(train), threads=threads), strict=True)
        readouts = {name: one for name, one in made if one is not None}
        found: dict[str, Score] = {}
        for scores in ordered_map(tried, sorted(test), threads=threads):
            found |= {one: found[one] + s if one in found else s for one, s in scores.items()}
        by_model = dict(sorted(found.items()))
        total = reduce(add, by_model.values()) if by_model else None
        return Outcome(Scores(total, by_model), note=f"{len(readouts)} models, nothing is sent")

    return contend


def season_of_clients(preprocessing: Preprocessing, clients: Clients) -> int | None:
    """Return the season of what is forecast, in steps, by the series of some clients."""
    series = []
    for name in sorted(clients)[:SEASON_OF]:
        try:
            held = list(data_of(clients[name])())
        except Exception:  # whatever it is, the run names the client with the reason
            continue
        for one in held:
            series.append(one.u[:, preprocessing.predicted_of(one.channels or one.n_inputs)])
    return season_of(series)


def naive_scores(model: Predictor, clients: Clients) -> dict[str, Score]:
    """Return how the last value, and that of a season before, do where a model forecasts.

    Nothing for models of anything else than inputs ahead in time. The season is that of the same
    recordings.
    """
    prepare = model.preprocessing
    if prepare.horizon is None or prepare.window is not None:
        return {}
    told: Any = {"horizon": prepare.horizon, "washout": model.washout}
    dummies = {"last value": Dummy(how="persistence", **told)}
    if season := season_of_clients(prepare, clients):
        dummies[f"seasonal naive ({season})"] = Dummy(how="seasonal", season=season, **told)
    plans = {name: Plan(algorithm=one, preprocessing=prepare) for name, one in dummies.items()}
    found = {name: run_locally(plan, clients).state.total for name, plan in plans.items()}
    return {name: total for name, total in found.items() if total is not None}
