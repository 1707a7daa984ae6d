"""What a run's folder keeps to be drawn, where the clients are in this process."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence

import numpy as np

from catchment.arrays import Array
from catchment.data.recording import Recording
from catchment.engine.local import data_of
from catchment.errors import CatchmentError
from catchment.federation.measure.evaluation import Scores
from catchment.federation.runs.drawn import draw
from catchment.federation.runs.write import Store
from catchment.plans.data import PlanData
from catchment.plans.sources import Clients
from catchment.readout.answers import output_names
from catchment.readout.predictor import Predictor

SHOWN_STEPS = 300

log = logging.getLogger(__name__)


def write_forecast(store: Store, model: Predictor, scores: Scores, held: PlanData) -> None:
    """Keep a stretch of the worst test client's targets and predictions, to be drawn.

    The data are in this process; where clients are elsewhere this would stay with them. These
    targets are as they are: a client that trains under noise is none of those that are tested.
    """
    if model.classes is not None or not model.per_step or not scores.by_client:
        return
    client, _ = scores.worst()
    if client not in held.test:
        return
    y, guessed = _predicted(model, list(data_of(held.test[client])()), client)
    store.insert(
        "forecast",
        [
            (client, step, name, float(y[step, k]), float(guessed[step, k]))
            for step in range(min(SHOWN_STEPS, len(y)))
            for k, name in enumerate(output_names(model))
        ],
        replace=True,
    )


def write_drawn(
    store: Store,
    model_of: Callable[[str], Predictor],
    scores: Scores,
    tested: Clients,
    channels: Sequence[str],
) -> None:
    """Keep some signals of the test clients served best and worst, with what was predicted.

    They are raw, which is more than any client sent. A plan that hides its clients keeps none.
    What goes wrong here is told and does not end a run that is done.

    Parameters
    ----------
    model_of
        The model that a client was tested with, which has not seen what it is tested on.
    tested
        What the clients were tested on.
    channels
        What the channels are called.
    """
    drawn = []
    for name in dict.fromkeys(best_and_worst(scores)):
        if name not in tested:
            continue
        try:
            recordings = list(data_of(tested[name])())
            drawn.append(draw(model_of(name), recordings, name, channels=channels).to_dict())
        except (CatchmentError, ValueError, ArithmeticError) as error:
            log.info("signals of %s are not drawn: %s", name, error)
    store.write_facts({"drawn": json.dumps(drawn)})


def best_and_worst(scores: Scores) -> tuple[str, ...]:
    """Return the clients with the best and the worst score; nobody where no score is defined.

    >>> best_and_worst(Scores())
    ()
    """
    values = {name: one.value for name, one in sorted(scores.by_client.items())}
    known = [name for name, value in values.items() if not np.isnan(value)]
    if not known:
        return ()
    ends = min(known, key=values.__getitem__), max(known, key=values.__getitem__)
    more_is_better = any(one.counts is not None for one in scores.by_client.values())
    return ends[::-1] if more_is_better else ends


def _predicted(model: Predictor, recordings: list[Recording], client: str) -> tuple[Array, Array]:
    """Return targets and predictions (n, K) of the first recording, where the target is known."""
    first = model.prepare.apply(recordings)[0]
    assert first.y is not None
    y, guessed = first.y[model.washout :], model.outputs_of([first], client)[0]
    known = ~np.isnan(y).any(axis=1)
    return y[known], guessed[known]
