"""Plans whose model adapts without labels, and plans in which some clients have none.

What adapting does is measured where all clients are in this process: each that is tested adapts the
model it was given, or that of the other folds, to its own recordings and scores both.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from catchment.engine.local import run_locally
from catchment.federation.checks import Limits
from catchment.federation.delivery import InMemory, sha256_of
from catchment.federation.measure.adapted import (
    ADAPTED_ROW,
    AdaptedEvaluation,
    ScorePair,
    ScorePairs,
    row_of,
)
from catchment.federation.measure.baselines import Row
from catchment.federation.plan import Plan
from catchment.federation.runs.folder import RunFolder
from catchment.plans.data import PlanData
from catchment.readout.adapt import described, refuse_adapting
from catchment.readout.model import Model
from catchment.readout.predictor import Predictor
from catchment.readout.storage import to_bytes

if TYPE_CHECKING:
    from catchment.plans.file import PlanFile

ANY = Limits(min_usable=0.0, over_median=1e9)  # a test leaves out whom it cannot test
log = logging.getLogger(__name__)


def check_adapting(file: PlanFile, classes: tuple[str, ...] | None) -> None:
    """Raise ValueError if the training leaves no sums, or rows without labels no names."""
    ridge = file.algorithm in ("ridge", "candidates")
    if file.run.adapt:
        another = not ridge or "head" in file.learn
        refuse_adapting(classes, noisy=file.is_noisy, another=another)
        if file.carries:
            raise ValueError('adapt is of one training; leave it out with increments = "new"')
    if not file.origin.some_labels:
        return
    several = bool(file.candidates) or file.map_name == "auto"
    asks = file.is_secret and file.learn.get("ridge") == "leave-one-client-out"
    if not ridge or several or asks or file.is_noisy or file.run.rounds is not None:
        raise ValueError(
            'labels = "some" is for a ridge on one map, without gaussian_noise, with the rounds '
            'that it needs, and with secure_aggregation for ridge = "gcv" or a number; leave out '
            "what is at odds"
        )


def adapted_rows(
    file: PlanFile,
    store: RunFolder,
    held: PlanData,
    models: Mapping[str, Predictor],
    model: Predictor,
) -> list[Row]:
    """Return how tested clients do once each has adapted its model; nothing if nobody asks.

    Parameters
    ----------
    models
        By client: the model of the other folds; `model` for everybody if there are none.
    """
    if not file.run.adapt or "finished" in store.facts():
        return []
    began, found = time.perf_counter(), dict[str, ScorePair]()
    tested = held.train if models else held.test
    each = {id(one): one for one in models.values()} or {id(model): model}
    for one in each.values():
        place = InMemory(to_bytes(one), one)
        algorithm = AdaptedEvaluation(sha256=sha256_of(place.content), place=place)
        own = {name: tested[name] for name in tested if models.get(name, model) is one}
        done = run_locally(Plan(algorithm=algorithm, limits=ANY), own)
        known = done.result.by_client.items()
        found.update({name: pair for name, pair in known if pair.before.errors.n})
    total = reduce(add, (found[name] for name in sorted(found)))
    row = row_of(ScorePairs(total, found), time.perf_counter() - began)
    carried = described(model) if isinstance(model, Model) else ""
    store.write_facts({"adapted": row.note, "adaptable": carried})
    log.info("%s: %s; %s", ADAPTED_ROW, row.note, carried)
    return [row]
