"""What a model does on one person's recordings: row by row, changed, and with their own readout."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from catchment import Array, Integers
from catchment.data import Prepare, Recording
from catchment.errors import CatchmentError
from catchment.federation import Rows, first_part, targets_of
from catchment.federation.learn import own_path, personalise
from catchment.federation.measure import Score, evaluate
from catchment.readout import (
    ClassCounts,
    ErrorSums,
    Model,
    Predictor,
    Readout,
    chosen_readout,
)
from catchment_lab.diagnose.personal_rows import own_readout_of_rows
from catchment_lab.diagnose.reasons import PersonalTrial, Tried
from catchment_lab.diagnose.repairs import Repair

MOST_TRIED = 300  # recordings on which changes are tried, evenly spread
SHARE = 0.5  # of a person's recordings that a readout of their own learns from


@dataclass(frozen=True, eq=False)
class RowByRow:
    """Targets and outputs (n, K) of a person's rows, and the raw recording (n,) each is of."""

    y: Array
    outputs: Array
    source: Integers
    classes: tuple[str, ...] | None

    @property
    def score(self) -> Score:
        counts = ClassCounts.of_scores(self.y, self.outputs) if self.classes else None
        return Score(ErrorSums.of(self.y, self.outputs), counts)

    def badness(self) -> dict[int, float]:
        """Return how bad each raw recording is: share of wrong rows, or root mean squared error.

        Of those equally wrong the one that is further off comes first, by a hair.
        """
        if self.classes:
            wrong = (self.y.argmax(axis=1) != self.outputs.argmax(axis=1)).astype(np.float64)
            true = np.take_along_axis(self.outputs, self.y.argmax(axis=1)[:, None], axis=1)[:, 0]
            each = wrong + 1e-3 * np.clip(self.outputs.max(axis=1) - true, 0.0, 10.0)
            return {int(k): float(each[self.source == k].mean()) for k in np.unique(self.source)}
        each = ((self.y - self.outputs) ** 2).mean(axis=1)
        return {
            int(k): float(np.sqrt(each[self.source == k].mean())) for k in np.unique(self.source)
        }

    def wrong_by_recording(self) -> list[tuple[int, int, int]]:
        """Return the number of each raw recording, its wrong rows, and all of its rows."""
        if not self.classes:
            return []
        wrong = self.y.argmax(axis=1) != self.outputs.argmax(axis=1)
        return [
            (int(k), int(wrong[self.source == k].sum()), int((self.source == k).sum()))
            for k in np.unique(self.source)
        ]


def row_by_row(model: Predictor, raw: Sequence[Recording], client: str = "") -> RowByRow:
    """Return what a model says of each row of raw recordings whose target is known.

    >>> from catchment import EchoState, fit
    >>> waves = [np.sin(np.arange(60) / (3 + k % 2)) for k in range(10)]
    >>> data = [Recording.labelled(u, k % 2, ("fast", "slow")) for k, u in enumerate(waves)]
    >>> row_by_row(fit(EchoState(30), data), data[:3]).source
    array([0, 1, 2])
    """
    among = [one if model.classes is None else one.among(model.classes) for one in raw]
    with unheard():
        whole = list(map(model.labelled, model.prepare.apply(among)))
        places = model.prepare.inputs(among)
        outputs = model.outputs_of(whole, client)
    washout = model.washout if model.per_step else None
    targets = [
        targets_of(one, len(rows), washout, k)
        for k, (one, rows) in enumerate(zip(whole, outputs, strict=True))
    ]
    sizes = [len(rows) for rows in outputs]
    source = np.repeat([piece.source for piece in places], sizes)
    y, said = np.concatenate(targets), np.concatenate(outputs)
    known = ~np.isnan(y).any(axis=1)
    return RowByRow(y[known], said[known], source[known], model.classes)


def tried(
    model: Predictor, raw: Sequence[Recording], changes: Iterable[Repair], client: str = ""
) -> Iterator[Tried]:
    """Yield what a model does on changed recordings; a change that does not fit is left out."""
    places = np.unique(np.linspace(0, len(raw) - 1, min(MOST_TRIED, len(raw))).round().astype(int))
    some = [raw[k] for k in places]
    before = row_by_row(model, some, client).score.value
    for one in changes:
        try:
            after = row_by_row(model, [one.change(r) for r in some], client).score
        except (CatchmentError, ValueError):
            continue
        yield Tried(one.fault, one.words, one.action, before, after.value, after.errors.n)


def personal_trial(model: Model, raw: Sequence[Recording]) -> PersonalTrial | None:
    """Return what a readout of their own gives on later recordings; None with too few of them.

    It is the shared readout continued on the earlier half of their recordings; beside it stands
    one that has learned from that half alone. Both use its labels, as the shared one does not.
    """
    among = [one if model.classes is None else one.among(model.classes) for one in raw]
    with unheard():
        try:
            earlier, later = halves(model.prepare, among, washout=model.washout)
            rows = Rows.of(model.features, earlier)
            own = _own(model, rows)
            scores = [
                evaluate(Model(model.features, one, model.classes), lambda: later)
                for one in (model.readout, own)
            ]
        except (CatchmentError, ValueError):
            return None
        shared, theirs = (one.value for one in scores)
        alone = _alone(model, rows, later)
    n = scores[0].errors.n
    return PersonalTrial(shared, theirs, alone, len(rows), n) if n else None


def _own(model: Model, rows: Rows) -> Readout:
    """Return the shared readout continued on rows, as a client makes it."""
    blocks, classes = rows.blocks(), model.classes is not None
    divided = model.features.standardise
    if len(rows) < model.features.n_features:
        few = own_readout_of_rows(model.readout, blocks, classes=classes, standardise=divided)
        return few.readout
    path = own_path(model.readout, blocks, standardise=divided)
    return personalise(model.readout, blocks, path, classes=classes).readout


def _alone(model: Model, rows: Rows, later: list[Recording]) -> float:
    try:
        _, readout = chosen_readout(
            rows.statistics(),
            "gcv",
            classes=model.classes is not None,
            standardise=model.features.standardise,
        )
        made: Readout = readout
        return evaluate(Model(model.features, made, model.classes), lambda: later).value
    except (CatchmentError, ValueError):
        return math.nan


def halves(
    prepare: Prepare, raw: Sequence[Recording], share: float = SHARE, *, washout: int = 0
) -> tuple[list[Recording], list[Recording]]:
    """Return prepared recordings, the earlier ones and the later ones of each class.

    Whole raw recordings are parted where each has one target, so that windows that overlap are on
    one side; a series with a target per step is cut.
    """
    whole = all(one.y is not None and not one.per_step for one in raw)
    if whole and prepare.scale != "own":
        earlier, later = first_part(raw, share)
        if earlier and later:
            return prepare.apply(earlier), prepare.apply(later)
    return first_part(prepare.apply(raw), share, washout=washout)


@contextmanager
def unheard() -> Iterator[None]:
    """Let nothing warn: recordings that are odd or changed lie beyond what a map expects."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
