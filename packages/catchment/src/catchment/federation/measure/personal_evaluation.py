"""Does a readout of one's own help? Each client learns from its earlier data, tests on later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from catchment.data.recording import Recording
from catchment.errors import IntegrityError
from catchment.federation.algorithm import Algorithm, Data, Needs, Turn
from catchment.federation.learn.personal import Personal, own_readout
from catchment.federation.measure.evaluation import KEPT_APART, Score, evaluate
from catchment.federation.rows import N_BLOCKS, first_part
from catchment.federation.sums import Tally
from catchment.readout.model import Model
from catchment.readout.statistics import Readout, RidgeStatistics
from catchment.wire import Kind, Parts, Structure, Summable, join, split


@dataclass(frozen=True, eq=False)
class Comparison(Summable):
    """Scores of the shared and of personal readouts on the same rows, and how many differ."""

    KIND: ClassVar[Kind] = Kind(
        "comparison",
        "sums of errors of the shared and of the client's own readout on its later data",
        (
            "how well both do on this client, and whether its own was any better",
            "how many test rows it has and, for classes, how many of each",
        ),
    )

    shared: Score
    personal: Score
    n_moved: int

    @property
    def gain(self) -> float:
        """By how much the personal readout is better: in accuracy, or in NRMSE."""
        sign = 1.0 if self.shared.counts is not None else -1.0
        return sign * (self.personal.value - self.shared.value)

    def checked(self) -> Comparison:
        """Return self; UploadError if no data can have such scores."""
        self.shared.checked()
        self.personal.checked()
        return self


@dataclass(frozen=True, eq=False)
class Comparisons(Structure):
    """The comparison of all rows together, and of each client by itself."""

    total: Comparison | None = None
    by_client: Mapping[str, Comparison] = field(default_factory=dict)

    def worst(self) -> tuple[str, float]:
        """Return the client whose own readout helps it least, and the gain, below 0 if it harms."""
        if not self.by_client:
            raise ValueError("no client is kept apart; compare with keep_clients=True")
        gains = {name: value.gain for name, value in sorted(self.by_client.items())}
        name = min(gains, key=gains.__getitem__)
        return name, gains[name]


@dataclass(frozen=True, kw_only=True)
class PersonalEvaluation(Algorithm[Comparisons, Tally[Comparison], Comparisons]):
    """The shared readout against one of each client's own, on the client's later data.

    The server learns both scores of each client, not its readout.

    Parameters
    ----------
    model_under_test
        The shared model; with its statistics, and solved with one ridge, for "mixed".
    method
        "towards": ridge towards the shared readout; "mixed": everybody's statistics and one's own.
    share
        Fraction of each client's data, from its start, that it may learn from.
    members
        Whether that part of these clients is in the shared model already.
    """

    model_under_test: Model
    method: Literal["towards", "mixed"] = "towards"
    share: float = 0.5
    members: bool = False
    n_blocks: int = N_BLOCKS
    keep_clients: bool = True

    def __post_init__(self) -> None:
        if self.method not in ("towards", "mixed"):
            raise ValueError(f"method is {self.method!r}; use 'towards' or 'mixed'")
        if self.method == "mixed" and self.model_under_test.statistics is None:
            raise ValueError("mixing needs the shared model's statistics; pass a model with them")
        if not 0 < self.share < 1:
            raise ValueError(f"share is {self.share}; pass a fraction between 0 and 1")
        if self.n_blocks < 2:
            raise ValueError(f"n_blocks is {self.n_blocks}; leaving one out needs at least 2")

    @property
    def needs(self) -> Needs:
        return Needs(each_client=KEPT_APART if self.keep_clients else "")

    def start(self) -> Comparisons:
        return Comparisons()

    def broadcast(self, state: Comparisons, turn: Turn) -> Parts:
        shared = self.model_under_test
        named = {"readout": shared.readout.parts()}
        if self.method == "mixed" and shared.statistics is not None:
            named["total"] = shared.statistics.parts()
        return join("shared", named)

    def client_update(self, received: Parts, data: Data, turn: Turn) -> Comparison:
        tested = self.model_under_test
        named = split(received, "shared")
        if named.keys() != {"readout", *(["total"] if self.method == "mixed" else [])}:
            raise IntegrityError("the server did not send what the plan's method needs")
        shared = Readout.from_parts(named["readout"])
        prepared = tested.prepare.apply(data())
        earlier, later = first_part(prepared, self.share, washout=tested.washout)
        if not earlier or not later:
            raise ValueError("there is too little data to learn from one part and test on another")
        own = self.own(shared, named.get("total"), earlier)
        readouts = (shared, own.readout)
        models = [Model(tested.features, readout, tested.classes) for readout in readouts]
        scores = [evaluate(model, lambda: later) for model in models]
        return Comparison(scores[0], scores[1], int(own.step > 0))

    def own(self, shared: Readout, total: Parts | None, earlier: list[Recording]) -> Personal:
        """Return the readout that a client makes for itself from its earlier data."""
        return own_readout(
            self.model_under_test.features,
            shared,
            earlier,
            total=None if total is None else RidgeStatistics.from_parts(total),
            member=self.members,
            classes=self.model_under_test.classes is not None,
            n_blocks=self.n_blocks,
        )

    def read_update(self, parts: Parts, turn: Turn) -> Tally[Comparison]:
        update = Comparison.from_parts(parts).checked()
        return Tally.of(update, turn.client if self.keep_clients else "")

    def server_update(
        self, state: Comparisons, total: Tally[Comparison], turn: Turn
    ) -> Comparisons:
        return Comparisons(total.total, total.by_client)

    def result(self, state: Comparisons) -> Comparisons:
        return state

    def figures(self, state: Comparisons) -> dict[str, float]:
        return {} if state.total is None else {"gain": state.total.gain}
