"""A score by folds over clients: everyone trains, and everyone is tested by a model without them.

The clients are dealt into folds; for each fold all stages up to the training are run on the others,
and the model is tested on the fold. Only somebody who holds all data can do that, so the folds are
not part of the run's ledger, and are summed in the clear whatever protects the training itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from catchment.data.generators import seeded_generator
from catchment.engine.local import run_locally
from catchment.federation.course import AnyPlan, Course, Known, conduct
from catchment.federation.loop import Result
from catchment.federation.measure.evaluation import Evaluation, Score, Scores
from catchment.federation.plan import Masking, Plan
from catchment.plans.data import PlanData
from catchment.plans.file import PlanFile
from catchment.plans.sources import Clients
from catchment.privacy.dp.noise import GaussianNoise
from catchment.readout.predictor import Predictor

FOLDS = 5


def folds_of(names: list[str], seed: int = 0, n_folds: int = FOLDS) -> list[list[str]]:
    """Return names dealt at random into folds, each once; no more folds than names.

    >>> [len(fold) for fold in folds_of(list("abcdefg"))]
    [2, 2, 1, 1, 1]
    """
    order = seeded_generator(seed).permutation(len(names))
    groups = np.array_split(order, min(n_folds, len(names)))
    return [sorted(names[k] for k in group) for group in groups]


def folded(
    file: PlanFile,
    held: PlanData,
    threads: int | None = None,
    watch: Callable[[str, int, int, int], None] | None = None,
    models: dict[str, Predictor] | None = None,
) -> Scores:
    """Return how well every client is served by a model that has not seen it.

    Parameters
    ----------
    models
        Where the model that each client is tested by is put, if somebody wants them.
    """
    by_client: dict[str, Score] = {}
    folds = folds_of(sorted(held.train), file.sharing.seed)
    for number, fold in enumerate(folds, start=1):
        if watch:
            watch(f"fold {number} of {len(folds)}", 0, 0, 0)
        others = {name: source for name, source in held.train.items() if name not in fold}
        model = _trained(_in_the_clear(file.course(held.about, None, len(others))), others, threads)
        if models is not None:
            models |= dict.fromkeys(fold, model.predictor)
        test = {name: held.train[name] for name in fold}
        plan = Plan(algorithm=Evaluation(model_under_test=model.predictor))
        by_client |= run_locally(plan, test, threads=threads).result.by_client
    scores = [by_client[name] for name in sorted(by_client)]
    return Scores(reduce(add, scores), by_client)


def _trained(course: Course, clients: Clients, threads: int | None) -> Result[object, object]:
    def run(stage: str, plan: AnyPlan, known: Known) -> Result[object, object]:
        return run_locally(plan, clients, threads=threads)

    return conduct(course, run)[1]


def _in_the_clear(course: Course) -> Course:
    plain = tuple(
        # Nothing of the folds is released but scores, so that nothing is charged for them.
        replace(one, budget=None) if isinstance(one, GaussianNoise) else one
        for one in course.protections
        if not isinstance(one, Masking)
    )
    return replace(course, protections=plain, min_clients=1)
