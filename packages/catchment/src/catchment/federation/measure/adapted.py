"""Does a model that learns its owner without labels do better there? Each client scores both.

A client adapts the model that it was given to its own recordings, whose targets that does not look
at, and compares both models with the targets (`Evaluation(adapted=True)`): two scores leave it.
"""

from __future__ import annotations

from dataclasses import replace

from catchment.errors import FederationError, IntegrityError
from catchment.federation.algorithm import Data
from catchment.federation.learn.candidates import Race
from catchment.federation.learn.sums import RidgeState
from catchment.federation.measure.baselines import ADAPTED_ROW, Outcome, Row
from catchment.federation.measure.evaluation import AdaptedCounts, Score, Scores, evaluate
from catchment.readout.adapt import adaptable
from catchment.readout.model import Model
from catchment.readout.predictor import Predictor
from catchment.readout.statistics import RidgeStatistics, StatisticsSet

LOSS = 0.01  # of accuracy: who loses more is counted


def scored_adapted(model: Predictor, data: Data, score: Score) -> Score:
    """Return a client's score together with that of the model adapted to its raw recordings."""
    if not isinstance(model, Model) or score.counts is None:
        raise IntegrityError("this client was given no model that adapts")
    recordings = list(data())
    after = evaluate(model.adapt(recordings), lambda: recordings).counts
    assert after is not None
    lost = after.accuracy - score.counts.accuracy < -LOSS
    return replace(score, adapted=AdaptedCounts(after, int(lost)))


def with_sums(model: Predictor, state: object) -> Model:
    """Return a trained model that carries the sums its readout was solved from."""
    total: RidgeStatistics | None = None
    match state:
        case RidgeState():
            total = state.total
        case Race(best=int(best), total=StatisticsSet(members=members)):
            total = members[best]
    if not isinstance(model, Model) or total is None:
        raise FederationError(
            f"{type(state).__name__} keeps no sum of statistics to adapt with; leave out adapt"
        )
    return adaptable(model, total)


def adapted_row(scores: Scores) -> Row | None:
    """Return the adapted models as a row of a comparison; None unless clients scored both."""
    total = scores.total
    if total is None or total.adapted is None:
        return None
    whole = replace(total, counts=total.adapted.counts)
    after, gains = dict[str, Score](), list[float]()
    for name, one in scores.by_client.items():
        if one.adapted is not None and one.errors.n:
            after[name] = replace(one, counts=one.adapted.counts)
            gains.append(100 * (after[name].value - one.value))
    of, worst = (f" of {len(gains)}", f", {min(gains):+.1f} at worst") if gains else ("", "")
    gain = 100 * (whole.value - total.value)
    note = f"{gain:+.1f} points; {total.adapted.lost}{of} lose more than one{worst}"
    return Row.of(ADAPTED_ROW, Outcome(Scores(whole, after), note=note), 0.0)
