"""A trained detector of anomalies: raw recordings in, scores and alarms out.

A score above the threshold is an alarm. The threshold was chosen so that rows of normal recordings
are above it at a stated rate: as often on new ones, as far as they are like those it was set by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from catchment.arrays import Array, Booleans
from catchment.data.prepare import Prepare
from catchment.data.recording import Recording
from catchment.features.base import FeatureMap
from catchment.features.pipeline import Pipeline, as_pipeline
from catchment.readout.normal import NormalModel
from catchment.readout.predictor import New, Predictor, Stored, outputs_by_recording
from catchment.readout.readout import Readout
from catchment.readout.scoring import Scoring

if TYPE_CHECKING:
    from catchment.readout.detector_stream import DetectorStream

KIND = "detector"
NORMAL, ANOMALY = "normal", "anomaly"


@dataclass(frozen=True, eq=False)
class Detector:
    """Preparation, feature map, what is normal, and the score above which there is an alarm.

    Parameters
    ----------
    before
        Everything before the scores, a `Pipeline`. A bare feature map prepares nothing.
    scoring
        What is normal, and how scores of rows follow from it.
    threshold
        Rows with a score above it are alarms.
    false_alarms
        The share of normal rows that are to be above it.
    classes
        What a row without and with an alarm is called, as labels have it.
    normal_class
        Which of the two is normal.
    channels, columns
        Names of the input channels, and of the columns of files that are no channel.
    """

    before: Pipeline | FeatureMap
    scoring: Scoring
    threshold: float
    false_alarms: float = 0.01
    classes: tuple[str, ...] = (NORMAL, ANOMALY)
    normal_class: str = NORMAL
    channels: tuple[str, ...] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        readout, features = self.scoring.readout, self.features
        expected = self.scoring.normal.n_features if readout is None else readout.n_features
        if expected != features.n_features:
            raise ValueError(
                f"what is normal was found of {expected} features, these features have "
                f"{features.n_features}; use the features it was trained on"
            )
        if len(set(self.classes)) != 2 or self.normal_class not in self.classes:
            raise ValueError(
                f"the classes are {', '.join(self.classes)} and {self.normal_class!r} is normal; "
                "name two, and one of them as normal"
            )
        if not 0 <= self.threshold < np.inf:
            raise ValueError(f"threshold is {self.threshold}; pass a finite number, 0 or more")

    @cached_property
    def pipeline(self) -> Pipeline:
        """Everything before the scores."""
        return as_pipeline(self.before)

    @property
    def features(self) -> FeatureMap:
        """The feature map."""
        return self.pipeline.features

    @property
    def prepare(self) -> Prepare:
        return self.pipeline.prepare

    @property
    def n_outputs(self) -> int:
        return 2

    @property
    def n_inputs(self) -> int | None:
        return self.features.n_inputs

    @property
    def per_step(self) -> bool:
        return self.features.per_step

    @property
    def washout(self) -> int:
        """Steps at the start of each piece that have no score."""
        return self.features.washout + self.scoring.lag

    @property
    def deviation(self) -> None:
        """Not known: scores are no estimates of a target."""

    @property
    def clients(self) -> tuple[str, ...]:
        return ()

    @property
    def _anomaly(self) -> int:
        """The column of an alarm."""
        return 1 - self.classes.index(self.normal_class)

    def scores(self, new: New) -> Any:
        """Return how unusual the rows (n,) of a raw recording are; of several, a list of these.

        Rows are steps after the washout, windows, or the whole recording, as in training. 1 is
        usual, and about the mean over the recordings that it was trained on.
        """
        found = [y[:, self._anomaly] for y in outputs_by_recording(self, new)]
        return found[0] if _is_alone(new) else found

    def predict(self, new: New, client: str = "", *, device: str | None = None) -> Any:
        """Return which rows (n,) of a raw recording are alarms; of several, a list of these."""
        found = [self.alarms(y) for y in outputs_by_recording(self, new, client, device=device)]
        return found[0] if _is_alone(new) else found

    def alarms(self, outputs: Array) -> Booleans:
        """Return which rows (n,) of outputs (n, 2) are alarms."""
        return np.asarray(outputs[:, self._anomaly] > self.threshold)

    def pair_of(self, outputs: Array) -> tuple[float, float]:
        """Return the score and the threshold of one row of outputs (2,)."""
        return float(outputs[self._anomaly]), float(outputs[1 - self._anomaly])

    def outputs_of(
        self, prepared: Sequence[Recording], client: str = "", *, device: str | None = None
    ) -> list[Array]:
        """Return the threshold and the score (rows, 2) of each prepared recording's rows.

        They stand in the columns of the normal class and of the other, so that the larger one says
        which it is.
        """
        if device is not None:
            raise ValueError(f"device is {device!r}; a detector scores on the CPU, leave it out")
        found = []
        for scores in self.scoring.scores(self.features, prepared):
            outputs = np.full((len(scores), 2), self.threshold)
            outputs[:, self._anomaly] = scores
            found.append(outputs)
        return found

    def probabilities(self, scores: Array) -> Array:
        """Return the share (n, 2) of each in the sum of threshold and score; half at the threshold.

        These grow with the score and say no more than it does; they are not calibrated.
        """
        total = scores.sum(axis=1, keepdims=True)
        half = np.full(scores.shape, 0.5)
        return np.asarray(np.divide(scores, total, out=half, where=total > 0))

    def labelled(self, prepared: Recording) -> Recording:
        """Return a prepared recording with labels; one without any is taken for normal."""
        if prepared.y is not None and self.prepare.horizon is None:
            return prepared
        y = np.zeros((prepared.n_steps, 2) if self.per_step else 2)
        y[..., 1 - self._anomaly] = 1.0
        return replace(prepared, y=y, per_step=self.per_step, classes=None)

    def stream(self) -> DetectorStream:
        """Return what scores a recording as its steps come in; see `DetectorStream`."""
        from catchment.readout.detector_stream import DetectorStream

        return DetectorStream(self)

    def with_threshold(self, threshold: float) -> Detector:
        """Return the detector with another threshold, which no rate of false alarms is known of."""
        return replace(self, threshold=float(threshold), false_alarms=float("nan"))

    def prepared_by(self, prepare: Prepare, channels: Sequence[str] | None = None) -> Detector:
        """Return the detector with the preparation that its training data had."""
        known = self.channels if channels is None else tuple(channels)
        return replace(self, before=Pipeline(prepare, self.features), channels=known)

    def read_from(self, columns: Mapping[str, str]) -> Detector:
        """Return the detector with the names that files have for what is no channel."""
        return replace(self, columns=dict(columns))

    def stored(self) -> Stored:
        """Return what a file holds of the detector."""
        from catchment.readout.storage import around, stored_map, stored_readout

        described, scoring = stored_map(self.features, "map"), self.scoring
        tensors = dict(described.tensors)
        tensors |= {"normal.mean": scoring.normal.mean, "normal.packed": scoring.normal.packed}
        tensors |= {} if scoring.readout is None else stored_readout(scoring.readout)
        facts = {
            "fingerprint": self.pipeline.fingerprint,
            **around(self),
            "map": described.facts,
            "normal_class": self.normal_class,
            "shrinkage": scoring.normal.shrinkage,
            "error": scoring.readout is not None,
            "horizon": scoring.horizon,
            "average": scoring.average,
            "threshold": self.threshold,
            "false_alarms": None if np.isnan(self.false_alarms) else self.false_alarms,
        }
        return Stored(KIND, facts, tensors)

    def save(self, path: str | Path) -> Path:
        """Write the detector to a file, whole or not at all, and return its path."""
        from catchment.readout.storage import save

        return save(self, path)


def detector_of(held: Stored, use: Iterable[Callable[..., Any]] = ()) -> Detector:
    """Return the detector that a file holds."""
    from catchment.readout.storage import Around, map_of, readout_of, typed

    facts, tensors = held.facts, held.tensors
    known = Around.of(facts)
    pipeline = Pipeline(known.prepare, map_of(facts["map"], tensors, "map", use))
    if pipeline.fingerprint != facts["fingerprint"]:
        raise ValueError(
            f"the pipeline has fingerprint {pipeline.fingerprint}, the file says "
            f"{facts['fingerprint']}"
        )
    normal = NormalModel(
        typed(tensors, "normal.mean", np.float64),
        typed(tensors, "normal.packed", np.float64),
        float(facts["shrinkage"]),
    )
    readout: Readout | None = readout_of(tensors) if facts["error"] else None
    rate = facts["false_alarms"]
    return Detector(
        pipeline,
        Scoring(normal, readout, int(facts["horizon"]), int(facts["average"])),
        float(facts["threshold"]),
        float("nan") if rate is None else float(rate),
        known.classes or (),
        str(facts["normal_class"]),
        known.channels,
        known.columns,
    )


def with_labels(predictor: Predictor, prepared: list[Recording]) -> list[Recording]:
    """Return prepared recordings with what they are compared with: for a detector, labels."""
    if not isinstance(predictor, Detector):
        return prepared
    return [predictor.labelled(one) for one in prepared]


def _is_alone(new: New) -> bool:
    return isinstance(new, Recording) or (isinstance(new, np.ndarray) and new.ndim < 3)
