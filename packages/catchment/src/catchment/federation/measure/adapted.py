"""Does a model that learns its owner without labels do better there? Each client scores both.

A client takes the model that it was given, adapts it to its own recordings, whose targets it does
not look at, and compares both models with the targets. What leaves it are two scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from catchment.errors import FederationError, IntegrityError
from catchment.federation.algorithm import Algorithm, Data, Requirements, RoundContext, Tally
from catchment.federation.delivery import Place
from catchment.federation.learn.candidates import Race
from catchment.federation.learn.sums import RidgeState
from catchment.federation.measure.baselines import Outcome, Row
from catchment.federation.measure.evaluation import KEPT_APART, Score, Scores, evaluate
from catchment.readout.adapt import SelfTraining, adaptable, adapted
from catchment.readout.model import Model
from catchment.readout.predictor import Predictor
from catchment.readout.statistics import RidgeStatistics, StatisticsSet
from catchment.wire import Fact, Kind, Message, Structure, Summable

ADAPTED_ROW = "adapted, no labels"
LOSS = 0.01  # of accuracy: who loses more is counted


@dataclass(frozen=True, eq=False)
class ScorePair(Summable):
    """Scores on the same rows of a model as it was given, and adapted to them."""

    KIND: ClassVar[Kind] = Kind(
        "score-pair",
        "sums of errors of the model on the client's test data, as given and adapted to them",
        (
            "how well both do on this client, and whether adapting was any better",
            "how many test rows it has and, for classes, how many of each",
        ),
    )

    before: Score
    after: Score

    @property
    def gain(self) -> float:
        """By how much accuracy is higher once the model is adapted."""
        return self.after.value - self.before.value

    def checked(self) -> ScorePair:
        """Return self; UploadError if no data can have such scores."""
        self.before.checked()
        self.after.checked()
        return self


@dataclass(frozen=True, eq=False)
class ScorePairs(Structure):
    """The pair of all rows together, and of each client by itself."""

    total: ScorePair | None = None
    by_client: Mapping[str, ScorePair] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AdaptedEvaluation(Algorithm[ScorePairs, Tally[ScorePair], ScorePairs]):
    """The model as it was given against the one that each client adapts to its own recordings.

    The server learns both scores of each client, and neither its readout nor its rows.

    Parameters
    ----------
    sha256, place
        Of the file of the model that clients were given, and where they keep it.
    rule
        How rows are kept and weighed.
    """

    sha256: str = field(metadata={"local": True})
    place: Place = field(metadata={"local": True})
    rule: SelfTraining = field(default_factory=SelfTraining)
    store_per_client: bool = True

    def identity(self) -> dict[str, Fact]:
        """Return what the model that was given is known by in a plan."""
        return {"AdaptedEvaluation": f"{self.sha256} {self.rule} {self.store_per_client}"}

    @property
    def requirements(self) -> Requirements:
        return Requirements(each_client=KEPT_APART if self.store_per_client else "")

    def start(self) -> ScorePairs:
        return ScorePairs()

    def client_update(self, received: Message, data: Data, context: RoundContext) -> ScorePair:
        model = self.place.model(self.sha256)
        if not isinstance(model, Model):
            raise IntegrityError("this client was given no model that adapts")
        recordings = list(data())
        found = adapted(model, recordings, self.rule)
        before, after = (evaluate(one, lambda: recordings) for one in (model, found.model))
        return ScorePair(before, after)

    def read_update(self, parts: Message, context: RoundContext) -> Tally[ScorePair]:
        update = ScorePair.from_message(parts).checked()
        return Tally.of(update, context.client if self.store_per_client else "")

    def server_update(
        self, state: ScorePairs, total: Tally[ScorePair], context: RoundContext
    ) -> ScorePairs:
        return ScorePairs(total.total, total.by_client)

    def result(self, state: ScorePairs) -> ScorePairs:
        return state

    def figures(self, state: ScorePairs) -> dict[str, float]:
        return {} if state.total is None else {"gain": state.total.gain}


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


def row_of(found: ScorePairs, seconds: float = 0.0) -> Row:
    """Return the adapted models as a row of a comparison, with who gained and who lost."""
    gains = sorted(one.gain for one in found.by_client.values())
    assert found.total is not None
    lost = sum(gain < -LOSS for gain in gains)
    note = (
        f"{100 * found.total.gain:+.1f} points; {lost} of {len(gains)} lose more than one, "
        f"{100 * gains[0]:+.1f} at worst"
    )
    own = {name: one.after for name, one in found.by_client.items()}
    return Row.of(ADAPTED_ROW, Outcome(Scores(found.total.after, own), note=note), seconds)
