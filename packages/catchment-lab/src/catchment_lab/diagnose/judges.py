"""The model that one person is judged by: one that has not learned from what it is tested on.

The run's own model has not seen its test clients. For somebody who trained it their statistics are
taken off the sum, which is the model of a run without them. That is so only if nothing else was
fitted with them: a scale of the channels that was is enough to hide a turned sensor or another
unit. Then, and where nothing but a sum was kept or the algorithm does not add, a model is trained
again: of the other folds, which is the one that the run's own score is of, or of all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from catchment.errors import FederationError
from catchment.federation import read_run
from catchment.federation.runs import SETTLED, unlearn_from_run
from catchment.plans import Beside, PlanData, PlanFile
from catchment.readout import Predictor

HOW = {
    "equality": "an equality in whole numbers",
    "summed-anew": "the others' were summed anew",
    "subtracted": "exact but for rounding",
}


@dataclass(frozen=True, eq=False)
class Judge:
    """A model, which one it is in words, and whether it prepares as the run's own does."""

    model: Predictor
    how: str
    prepares_alike: bool = True


def saved_judge(client: str, model: Predictor, held: PlanData | None) -> Judge | None:
    """Return the run's own model where it may judge a client; None if it learned from them."""
    if held is not None and client in held.whole:
        later = client in held.train
        seen = "on later data of theirs than it learned from" if later else f"never seen {client}"
        return Judge(model, f"by the run's model, {seen if later else f'which has {seen}'}")
    if held is None or client not in held.train:
        return Judge(model, f"by the run's model, which was trained without {client}")
    return None


def without(folder: Path, client: str, model: Predictor) -> Judge | None:
    """Return the run's model without a client, by subtraction; None if that cannot be had.

    It cannot where something else is still fitted with the client, such as the scale.
    """
    if any(stage.name in SETTLED for stage in read_run(folder).stages):
        return None
    try:
        found = unlearn_from_run(folder, client, model)
    except FederationError:
        return None
    told = found.certificate
    how = (
        f"by the run's model without {client}, left out by subtraction: the statistics of "
        f"{told.n_rows} rows were taken off the sum ({HOW[told.how]})"
    )
    return Judge(found.model, how)


def trained_without(
    file: PlanFile, held: PlanData, client: str, threads: int | None = None
) -> Judge:
    """Return a model trained again without a client, in the clear: on the other folds, if any."""
    beside, left_out = Beside(file, held, threads), [client]
    how = "by a model trained again on the other {} clients"
    if file.sharing.test == "folds":
        left_out = next(fold for fold in beside.folds if client in fold)
        how = "by the model of the other folds, {} clients, trained again"
    others = {name: source for name, source in held.train.items() if name not in left_out}
    model = beside.trained_on(others).read_from(dict(held.about.columns))
    return Judge(model, how.format(len(others)), prepares_alike=False)
