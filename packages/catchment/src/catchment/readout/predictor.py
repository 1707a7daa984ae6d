"""What predicts from raw recordings, whatever it is made of.

A `Model` is the usual one. Models by client, networks and prompts are others; commands, storage and
evaluation know them all by this protocol, and prepare recordings as it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from catchment.arrays import Array
from catchment.data.prepare import Prepare, Prepared
from catchment.data.recording import Recording
from catchment.features.pipeline import as_recordings

New = Recording | Array | Sequence[Recording | Array]


@dataclass(frozen=True, eq=False)
class Stored:
    """What a file holds of a predictor: its kind, plain facts, and arrays by name."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@runtime_checkable
class Predictor(Protocol):
    """Whatever predicts from raw recordings: a model, models by client, a network, a prompt."""

    @property
    def prepare(self) -> Prepare:
        """What happens to a raw recording first."""

    @property
    def channels(self) -> tuple[str, ...] | None:
        """Names of the input channels, in their order, if they are known."""

    @property
    def n_inputs(self) -> int | None:
        """Channels that it takes; None if any number will do."""

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the outputs if they are classes."""

    @property
    def n_outputs(self) -> int:
        """Columns K of its outputs."""

    @property
    def columns(self) -> Mapping[str, str]:
        """How files name what is no channel."""

    @property
    def per_step(self) -> bool:
        """Whether every step after the washout gives a row; else there is one per piece."""

    @property
    def washout(self) -> int:
        """Steps at the start of each piece that give no row."""

    @property
    def deviation(self) -> Array | None:
        """(K,) root mean squared error on rows left out, where it is known."""

    @property
    def clients(self) -> tuple[str, ...]:
        """Clients for whom it has something of their own; for all others it is the shared one."""

    def outputs_of(
        self, prepared: Sequence[Recording], client: str = "", *, device: str | None = None
    ) -> list[Array]:
        """Return the outputs (rows, K) of each prepared recording of a client."""

    def probabilities(self, scores: Array) -> Array:
        """Return the class probabilities (n, K) of rows of outputs."""

    def predict(self, new: New, client: str = "", *, device: str | None = None) -> Any:
        """Return what it says of raw recordings: numbers, or names of classes."""

    def prepared_by(self, prepare: Prepare, channels: Sequence[str] | None = None) -> Self:
        """Return it with the preparation that its training data had, and their channels."""

    def read_from(self, columns: Mapping[str, str]) -> Self:
        """Return it with the names that files have for what is no channel."""

    def stored(self) -> Stored:
        """Return what a file holds of it."""

    def save(self, path: str | Path) -> Path:
        """Write it to a file, whole or not at all, and return its path."""


def pieces_of(
    predictor: Predictor,
    recordings: Sequence[Recording],
    client: str = "",
    *,
    device: str | None = None,
) -> list[tuple[Prepared, Array]]:
    """Return every prepared piece of a client's raw recordings with its outputs (rows, K).

    A piece is a window, a stretch between gaps, or the whole recording.

    >>> from catchment import EchoState, Prepare, Pipeline, fit
    >>> wave = Recording(np.sin(np.arange(60.0)))
    >>> model = fit(Pipeline(Prepare(horizon=1), EchoState(10)), [wave])
    >>> [(piece.start, y.shape) for piece, y in pieces_of(model, [wave])]
    [(0, (60, 1))]
    """
    for k, recording in enumerate(recordings):
        check_channels(predictor, recording, k)
    pieces = predictor.prepare.inputs(recordings)
    outputs = predictor.outputs_of([piece.recording for piece in pieces], client, device=device)
    return list(zip(pieces, outputs, strict=True))


def outputs_by_recording(
    predictor: Predictor, new: New, client: str = "", *, device: str | None = None
) -> list[Array]:
    """Return the outputs (rows, K) of each raw recording, those of its pieces joined."""
    recordings = as_recordings(new)
    found: list[list[Array]] = [[] for _ in recordings]
    for piece, y in pieces_of(predictor, recordings, client, device=device):
        found[piece.source].append(y)
    none = np.zeros((0, predictor.n_outputs))
    return [np.concatenate(parts) if parts else none for parts in found]


def predictions(
    predictor: Predictor, new: New, client: str = "", *, device: str | None = None
) -> Any:
    """Return what a predictor says of raw recordings: numbers, or names of classes.

    Of one recording or array (T, I): outputs (rows, K), or for classes one name per row, and
    just the name where there is one row. Of several recordings: a list of these.
    """
    alone = isinstance(new, Recording) or (isinstance(new, np.ndarray) and new.ndim < 3)
    outputs = outputs_by_recording(predictor, new, client, device=device)
    found = [_said(predictor, y) for y in outputs]
    return found[0] if alone else found


def _said(predictor: Predictor, outputs: Array) -> Any:
    if predictor.classes is None:
        return outputs
    names = [predictor.classes[k] for k in outputs.argmax(axis=1)]
    prepare = predictor.prepare
    single = not predictor.per_step and prepare.window is None and len(names) == 1
    return names[0] if single else names


def check_channels(predictor: Predictor, recording: Recording, k: int) -> None:
    """Raise ValueError, naming the channels, if a recording has others than those trained on."""
    expected = predictor.channels
    if recording.channels is not None and expected not in (None, recording.channels):
        raise ValueError(
            f"recording {k} has the channels {', '.join(recording.channels)}, the model was "
            f"trained on {', '.join(expected or ())}; pass these, in this order"
        )
    n_inputs = predictor.n_inputs if expected is None else len(expected)
    if expected is None and n_inputs is not None:
        n_inputs -= predictor.prepare.n_inputs(0)
    if n_inputs not in (None, recording.n_inputs):
        named = f" ({', '.join(expected)})" if expected else ""
        raise ValueError(
            f"recording {k} has {recording.n_inputs} channels, the model was trained on "
            f"{n_inputs}{named}; pass an array of shape (T, {n_inputs})"
        )


def interval_around(
    outputs: Array, deviation: Array | None, coverage: float = 0.9
) -> tuple[Array, Array]:
    """Return lower and upper ends, (n, K) each, around outputs (n, K) of new rows.

    They hold a new target with this probability if errors on new data are normal and as large as
    on the rows that were left out when the deviation (K,) was found.

    >>> low, high = interval_around(np.zeros((1, 1)), np.ones(1), 0.95)
    >>> high.round(2)
    array([[1.96]])
    """
    if deviation is None:
        raise ValueError(
            "the model does not know its error on new data; let the ridge be chosen, or use "
            "catchment.readout.uncertainty"
        )
    if not 0 < coverage < 1:
        raise ValueError(f"coverage is {coverage}; pass a probability between 0 and 1")
    half = float(ndtri((1.0 + coverage) / 2.0)) * deviation
    return outputs - half, outputs + half
