"""Does a readout of one's own help? Each client learns from its earlier data, tests on later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Literal

import numpy as np

from catchment.data.recording import Recording
from catchment.errors import IntegrityError
from catchment.federation.learn.personal import (
    SHARES,
    STRENGTHS,
    Path,
    Personal,
    Rows,
    blocked_rows,
    first_part,
    mixed,
    personalise,
    towards,
)
from catchment.federation.measure.evaluation import Score, evaluate
from catchment.federation.plan import Data, Turn
from catchment.federation.rows import N_BLOCKS
from catchment.federation.sums import Tally
from catchment.readout.model import Model
from catchment.readout.readout import Readout
from catchment.readout.statistics import RidgeStatistics
from catchment.wire import Parts, join, split


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of the shared and of personal readouts on the same rows, and how many differ."""

    shared: Score
    personal: Score
    n_moved: int

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(
            self.shared + other.shared,
            self.personal + other.personal,
            self.n_moved + other.n_moved,
        )

    @property
    def gain(self) -> float:
        """By how much the personal readout is better: in accuracy, or in NRMSE."""
        sign = 1.0 if self.shared.counts is not None else -1.0
        return sign * (self.personal.value - self.shared.value)

    def parts(self) -> Parts:
        moved = Parts("moved", {}, (np.array([float(self.n_moved)]),))
        return join(
            "comparison",
            {"shared": self.shared.parts(), "personal": self.personal.parts(), "moved": moved},
        )

    @classmethod
    def from_parts(cls, parts: Parts) -> Comparison:
        """Return the comparison that travelled; IntegrityError if it is malformed."""
        named = split(parts, "comparison")
        if named.keys() != {"shared", "personal", "moved"}:
            raise IntegrityError("a comparison lacks one of its parts")
        (moved,) = named["moved"].expect("moved", 1).arrays
        if moved.shape != (1,) or not 0 <= moved[0] < 2**53:
            raise IntegrityError(f"{moved} is not a number of clients")
        shared, personal = (Score.from_parts(named[name]) for name in ("shared", "personal"))
        return cls(shared, personal, int(moved[0]))


@dataclass(frozen=True, eq=False)
class Comparisons:
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
class PersonalEvaluation:
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
        washout = tested.features.washout
        earlier, later = first_part(data(), self.share, washout=washout)
        if not earlier or not later:
            raise ValueError("there is too little data to learn from one part and test on another")
        own = self.own(shared, named.get("total"), earlier)
        readouts = (shared, own.readout)
        models = [Model(tested.features, readout, tested.classes) for readout in readouts]
        scores = [evaluate(model, lambda: later) for model in models]
        return Comparison(scores[0], scores[1], int(own.step > 0))

    def own(self, shared: Readout, total: Parts | None, earlier: list[Recording]) -> Personal:
        """Return the readout that a client makes for itself from its earlier data."""
        features = self.model_under_test.features
        fingerprint = features.fingerprint
        blocks = blocked_rows(features, earlier, self.n_blocks)
        path = self._path(shared, total, blocks)
        classes = self.model_under_test.classes is not None
        return personalise(shared, blocks, path, classes=classes, fingerprint=fingerprint)

    def _path(self, shared: Readout, total: Parts | None, blocks: list[Rows]) -> Path:
        if total is None:
            return lambda own: towards(own, shared, STRENGTHS)
        everybody = RidgeStatistics.from_parts(total)
        if not self.members:
            return lambda own: mixed(everybody, own, SHARES, shared.ridge)
        fingerprint = self.model_under_test.features.fingerprint
        others = everybody - reduce(add, (block.statistics(fingerprint) for block in blocks))
        # A stretch that is left out must not come back in with everybody's statistics.
        return lambda own: mixed(others + own, own, SHARES, shared.ridge)

    def read_update(self, parts: Parts, turn: Turn) -> Tally[Comparison]:
        update = Comparison.from_parts(parts)
        return Tally(update, {turn.client: update} if self.keep_clients and turn.client else {})

    def server_update(
        self, state: Comparisons, total: Tally[Comparison], turn: Turn
    ) -> Comparisons:
        return Comparisons(total.total, total.by_client)

    def model(self, state: Comparisons) -> Model | None:
        return None

    def save_state(self, state: Comparisons) -> Parts:
        named = {f"client/{name}": value for name, value in sorted(state.by_client.items())}
        if state.total is not None:
            named["total"] = state.total
        return join("comparisons", {name: value.parts() for name, value in named.items()})

    def load_state(self, parts: Parts) -> Comparisons:
        named = {
            name: Comparison.from_parts(part) for name, part in split(parts, "comparisons").items()
        }
        total = named.pop("total", None)
        return Comparisons(total, {name.removeprefix("client/"): v for name, v in named.items()})
