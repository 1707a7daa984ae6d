"""What predicts from raw recordings, whatever it is made of.

A `Model` is the usual one. Models by client, detectors, networks and prompts are others; commands,
storage and evaluation know them all by this base class, and prepare recordings as it says.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from statistics import NormalDist
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from catchment.arrays import Array, Probability, check_type
from catchment.data.preprocessing import Prepared, Preprocessing
from catchment.data.recording import Recording
from catchment.features.base import FeatureMap, handed
from catchment.features.pipeline import Pipeline, as_pipeline, as_recordings, is_alone
from catchment.readout import storage
from catchment.readout.intervals import Intervals
from catchment.readout.storage import Stored

if TYPE_CHECKING:
    from catchment.readout.model import Model

New = Recording | Array | Sequence[Recording | Array]
NO_ROW = (
    "recording {} gives no row: no channel has a value, or it is shorter than a window or washout; "
    "leave it out"
)


class Predictor(ABC):
    """Whatever predicts from raw recordings: a model, models by client, a network, a prompt.

    What is `before` its outputs is a pipeline, of which most is known; what has a `model` inside
    takes it, and all names, from there. `outputs_of`, `probabilities` and `stored` are its own;
    everything else has a default.
    """

    before: Pipeline | FeatureMap
    model: Model | None = None
    channels: tuple[str, ...] | None = None  # names of the inputs, in their order, if known
    columns: Mapping[str, str] = MappingProxyType({})  # how files name what is no channel
    classes: tuple[str, ...] | None = None  # names of the outputs if they are classes
    deviation: Array | None = None  # (K,) root mean squared error on rows left out, where known
    intervals: Intervals | None = None  # errors on clients without a part in it, if counted
    judged_by: ClassVar[tuple[str, ...]] = ("probability",)  # columns beside the name of a class
    needs_labels: ClassVar[bool] = True  # whether files without labels cannot be compared with it
    other_class: ClassVar[str | None] = None  # what it calls recordings of no class that it knows

    def __post_init__(self) -> None:
        if self.model is not None:
            for name in ("before", "channels", "columns", "classes", "deviation", "intervals"):
                object.__setattr__(self, name, getattr(self.model, name))

    @cached_property
    def pipeline(self) -> Pipeline:
        """Everything before what was learned."""
        return as_pipeline(self.before)

    features: FeatureMap = handed("pipeline.features")
    preprocessing: Preprocessing = handed("pipeline.preprocessing")  # of a raw recording, first
    per_step: bool = handed("features.per_step")  # whether every step gives a row, or a segment
    n_inputs = handed("features.n_inputs")  # channels that it takes; None if any number will do

    @property
    def washout(self) -> int:
        """Steps at the start of each segment that give no row."""
        return self.features.washout

    @property
    def n_outputs(self) -> int:
        """Columns K of its outputs."""
        if self.model is None or self.classes is not None:
            return len(self.classes or ())
        return self.model.n_outputs

    @property
    def clients(self) -> tuple[str, ...]:
        """Clients for whom it has something of their own; for all others it is the shared one."""
        return ()

    @abstractmethod
    def outputs_of(
        self, prepared: Sequence[Recording], client: str = "", *, device: str | None = None
    ) -> list[Array]:
        """Return the outputs (rows, K) of each prepared recording of a client."""

    @abstractmethod
    def probabilities(self, scores: Array) -> Array:
        """Return the class probabilities (n, K) of rows of outputs."""

    @abstractmethod
    def stored(self) -> Stored:
        """Return what a file holds of it."""

    save = storage.save

    def labeled(self, prepared: Recording) -> Recording:
        """Return a prepared recording with what its outputs are compared with."""
        return prepared

    def predict(self, new: New, client: str = "", *, device: str | None = None) -> Any:
        """Return what it says of raw recordings: numbers, or names of classes.

        Of one recording or array (T, I): outputs (rows, K), or for classes one name per row, and
        just the name where there is one row. Rows are steps after the washout, windows, or the
        whole recording, as in training. Of several recordings: a list of these.

        `device` is "cuda" to predict on a GPU, where several recordings run side by side; outputs
        agree with the CPU's to 1e-9. If None, what CATCHMENT_DEVICE names for a map in fixed point.
        """
        found = self.outputs(new, client, device=device)
        for k, y in enumerate(found):
            if not len(y):
                warnings.warn(NO_ROW.format(k), stacklevel=2)
            found[k] = self.said(y)
        return found[0] if is_alone(new) else found

    def said(self, outputs: Array) -> Any:
        """Return what rows of outputs (n, K) of a recording say: themselves, or names."""
        if self.classes is None:
            return outputs
        names = list(map(self.classes.__getitem__, outputs.argmax(axis=1)))
        single = not self.per_step and self.preprocessing.window is None and len(names) == 1
        return names[0] if single else names

    def judged(self, outputs: Array) -> list[float]:
        """Return what a table has in the columns `judged_by`, of one row of outputs (K,)."""
        return [round(float(self.probabilities(outputs[None])[0, outputs.argmax()]), 4)]

    def predict_proba(self, new: New, client: str = "", *, device: str | None = None) -> Array:
        """Return one row of class probabilities (n, K) per recording; each row sums to 1."""
        return self.probabilities(self.scores(new, client, device=device))

    def scores(self, new: New, client: str = "", *, device: str | None = None) -> Array:
        """Return one row of class scores (n, K) per recording, the mean over its rows."""
        if self.classes is None:
            raise ValueError("the model predicts numbers; name its classes to classify with it")
        found = self.outputs(new, client, device=device)
        for k, y in enumerate(found):
            if not len(y):
                raise ValueError(NO_ROW.format(k))
        return np.array([y.mean(axis=0) for y in found]).reshape(len(found), self.n_outputs)

    def predict_interval(
        self, new: New, client: str = "", *, coverage: float = 0.9, device: str | None = None
    ) -> Any:
        """Return lower and upper ends, (rows, K) each, around the outputs of a raw recording.

        Of several recordings a list of these; `interval` says what the ends hold.
        """
        found = [self.interval(y, coverage) for y in self.outputs(new, client, device=device)]
        return found[0] if is_alone(new) else found

    def outputs(self, new: New, client: str = "", *, device: str | None = None) -> list[Array]:
        """Return the outputs (rows, K) of each raw recording, those of its segments joined."""
        recordings = as_recordings(new)
        found: list[list[Array]] = []
        for _ in recordings:
            found.append([np.zeros((0, self.n_outputs))])
        for segment, y in self.segments(recordings, client, device=device):
            found[segment.source].append(y)
        return list(map(np.concatenate, found))

    def segments(
        self, recordings: Sequence[Recording], client: str = "", *, device: str | None = None
    ) -> list[tuple[Prepared, Array]]:
        """Return every prepared segment of a client's raw recordings with its outputs (rows, K).

        A segment is a window, the steps between two gaps, or the whole recording.

        >>> from catchment import EchoState, Preprocessing, Pipeline, fit
        >>> wave = Recording(np.sin(np.arange(60.0)))
        >>> model = fit(Pipeline(Preprocessing(horizon=1), EchoState(10)), [wave])
        >>> [(segment.start, y.shape) for segment, y in model.segments([wave])]
        [(0, (60, 1))]
        """
        for k, recording in enumerate(recordings):
            self.check_channels(recording, k)
        segments = self.preprocessing.inputs(recordings)
        prepared = list(map(attrgetter("recording"), segments))
        return list(zip(segments, self.outputs_of(prepared, client, device=device), strict=True))

    def interval(self, outputs: Array, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return lower and upper ends, (n, K) each, around outputs (n, K) of new rows.

        Of a calibrated model they hold a new target with this probability if its error is
        exchangeable with those counted (`catchment.readout.intervals`). Else they do so if errors
        on new data are normal and as large as on the rows left out when the ridge was chosen.
        """
        if self.intervals is not None:
            return self.intervals.around(outputs, coverage)
        if self.deviation is None:
            raise ValueError(
                "the model does not know its error on new data; let the ridge be chosen, or use "
                "catchment.calibrate"
            )
        check_type(coverage, Probability, "coverage")
        half = NormalDist().inv_cdf((1.0 + coverage) / 2.0) * self.deviation
        return outputs - half, outputs + half

    def prepared_by(
        self, preprocessing: Preprocessing, channels: Sequence[str] | None = None
    ) -> Self:
        """Return it with the preparation that its training data had, and their channels."""
        known = self.channels if channels is None else tuple(channels)
        return self.changed(before=Pipeline(preprocessing, self.features), channels=known)

    def read_from(self, columns: Mapping[str, str]) -> Self:
        """Return it with the names that files have for what is no channel."""
        return self.changed(columns=dict(columns))

    def changed(self, **fields: Any) -> Self:
        """Return it with other fields of the model: its own, or of the one inside."""
        this: Any = self
        if self.model is not None:
            fields = {"model": self.model.changed(**fields)}
        return cast(Self, replace(this, **fields))

    def check_channels(self, recording: Recording, k: int) -> None:
        """Raise ValueError, naming the channels, if a recording has others than in training."""
        expected = self.channels
        if recording.channels is not None and expected not in (None, recording.channels):
            raise ValueError(
                f"recording {k} has the channels {', '.join(recording.channels)}, the model was "
                f"trained on {', '.join(expected or ())}; pass these, in this order"
            )
        n_inputs = self.n_inputs if expected is None else len(expected)
        if expected is None and n_inputs is not None:
            n_inputs -= self.preprocessing.n_inputs(0)
        if n_inputs not in (None, recording.n_inputs):
            named = f" ({', '.join(expected)})" if expected else ""
            raise ValueError(
                f"recording {k} has {recording.n_inputs} channels, the model was trained on "
                f"{n_inputs}{named}; pass an array of shape (T, {n_inputs})"
            )


def rounded(value: float) -> float:
    """Return a number as a table shows it: six significant digits.

    >>> rounded(0.123456789)
    0.123457
    """
    return float(f"{value:.6g}") if np.isfinite(value) else value
