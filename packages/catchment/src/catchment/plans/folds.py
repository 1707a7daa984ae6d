"""A score by folds over clients: everyone trains, and everyone is tested by a model without them.

The clients are dealt into folds; for each fold all stages up to the training are run on the others,
and the model is tested on the fold. Only somebody who holds all data can do that, so the folds are
not part of the run's ledger, and are summed in the clear whatever protects the training itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add

import numpy as np

from catchment.data.synthetic import seeded_generator
from catchment.engine.local import Workers, run_locally
from catchment.errors import TooFewClientsError
from catchment.federation.course import AnyPlan, Course, Known, conduct
from catchment.federation.limits import Limits
from catchment.federation.loop import Result
from catchment.federation.measure.evaluation import Evaluation, Score, Scores
from catchment.federation.plan import Plan
from catchment.federation.protection import Masking
from catchment.federation.runs.folds import Fold
from catchment.plans.data import PlanData
from catchment.plans.file import PlanFile
from catchment.plans.sources import Clients
from catchment.privacy.dp.noise import GaussianNoise
from catchment.readout.predictor import Predictor

FOLDS = 5
Watch = Callable[[str, int, int, int], None]
ANY = Limits(min_usable=0.0, over_median=1e9)  # a test leaves out whom it cannot test


def n_folds(file: PlanFile, held: PlanData) -> int:
    """Return how many folds a plan has: as many as it says, or as there are clients."""
    return min(file.sharing.folds or FOLDS, len(held.train))


def folds_of(names: list[str], seed: int = 0, n: int = FOLDS) -> list[list[str]]:
    """Return names dealt at random into folds, each once; no more folds than names.

    >>> [len(fold) for fold in folds_of(list("abcdefg"))]
    [2, 2, 1, 1, 1]
    """
    order = seeded_generator(seed).permutation(len(names))
    groups = np.array_split(order, min(n, len(names)))
    return [sorted(names[k] for k in group) for group in groups]


@dataclass(frozen=True, eq=False)
class Folded:
    """Scores of everybody by models of the others, and what each fold gave."""

    scores: Scores
    folds: tuple[Fold, ...]


def folded(
    file: PlanFile,
    held: PlanData,
    threads: int | None = None,
    watch: Watch | None = None,
    models: dict[str, Predictor] | None = None,
    workers: int | Workers | None = None,
) -> Folded:
    """Return how well every client is served by a model that has not seen it.

    Parameters
    ----------
    watch
        Called with (stage, round, clients done, clients asked).
    models
        Where the model that each client is tested by is put, if somebody wants them.
    """
    by_client: dict[str, Score] = {}
    made = []
    folds = folds_of(sorted(held.train), file.sharing.seed, n_folds(file, held))
    for number, fold in enumerate(folds, start=1):
        name = f"fold {number} of {len(folds)}"
        others = {name: source for name, source in held.train.items() if name not in fold}
        model = trained_on(others, file, held, threads, watch, f"{name}, ", workers)
        if models is not None:
            models |= dict.fromkeys(fold, model.predictor)
        test = {name: held.train[name] for name in fold}
        plan = Plan(algorithm=Evaluation(model_under_test=model.predictor), limits=ANY)
        seen = partial(watch, f"{name}, test") if watch else None
        try:
            result = run_locally(plan, test, threads=threads, workers=workers, watch=seen)
        except TooFewClientsError as error:
            made.append(Fold((), 0, None, None, dict.fromkeys(fold, str(error))))
            continue
        refused = {one.client: one.reason for r in result.records for one in r.refused}
        found: Scores = result.result
        scored = {name: one for name, one in found.by_client.items() if one.errors.n}
        by_client |= scored
        made.append(_fold(scored, refused))
    if not by_client:
        raise TooFewClientsError("nobody could be tested by folds; see what is said of each client")
    scores = [by_client[name] for name in sorted(by_client)]
    return Folded(Scores(reduce(add, scores), by_client), tuple(made))


def _fold(scored: Mapping[str, Score], refused: Mapping[str, str]) -> Fold:
    if not scored:
        return Fold((), 0, None, None, refused)
    total = reduce(add, (scored[name] for name in sorted(scored)))
    worst = Scores(total, scored).worst()[0]
    return Fold(tuple(sorted(scored)), total.errors.n, total.value, worst, refused)


def trained_on(
    clients: Clients,
    file: PlanFile,
    held: PlanData,
    threads: int | None = None,
    watch: Watch | None = None,
    before: str = "",
    workers: int | Workers | None = None,
) -> Result[object, object]:
    """Return what a plan makes of some of its clients, in the clear: nothing of it is released.

    Parameters
    ----------
    before
        What stands before the name of a stage for those who watch.
    """

    def run(stage: str, plan: AnyPlan, known: Known) -> Result[object, object]:
        seen = partial(watch, f"{before}{stage}") if watch else None
        return run_locally(plan, clients, threads=threads, workers=workers, watch=seen)

    return conduct(_in_the_clear(file.course(held.about, None, len(clients))), run)[1]


def _in_the_clear(course: Course) -> Course:
    plain = tuple(
        # Nothing of the folds is released but scores, so that nothing is charged for them.
        replace(one, budget=None) if isinstance(one, GaussianNoise) else one
        for one in course.protections
        if not isinstance(one, Masking)
    )
    return replace(course, protections=plain, min_clients=1)
