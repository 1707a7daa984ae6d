"""What methods of papers share: labels and scales of recordings, and a base of their models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy as np

from catchment.data import Preprocessing, Recording, Scaler
from catchment.readout import Predictor, to_bytes


class OfRecordings(Predictor):
    """Base of predictors that give one row for a recording, after a preparation of their own."""

    preprocessing: Preprocessing
    channels: tuple[str, ...] | None
    per_step = False
    washout = 0

    def identity(self) -> str:
        """Return the SHA-256 of all that it says, in hexadecimal."""
        return hashlib.sha256(to_bytes(self)).hexdigest()

    def prepared_by(
        self, preprocessing: Preprocessing, channels: Sequence[str] | None = None
    ) -> Self:
        known = self.channels if channels is None else tuple(channels)
        return self.changed(preprocessing=preprocessing, channels=known)


def with_labels(recordings: Iterable[Recording], n_classes: int) -> list[tuple[Recording, int]]:
    """Return recordings with the class of each; those without a target are left out.

    >>> one = Recording.labeled(np.zeros((5, 2)), 1, 3)
    >>> [label for _, label in with_labels([one, one], 3)]
    [1, 1]
    """
    known = []
    for k, recording in enumerate(recordings):
        y = recording.y
        if y is None or recording.per_step or y.shape != (n_classes,):
            raise ValueError(
                f"recording {k} has no label of one of {n_classes} classes for all its steps; name "
                "the label's column, or set a window"
            )
        if not np.isnan(y).any():
            known.append((recording, int(y.argmax())))
    if not known:
        raise ValueError("no recording has a label; there is nothing to learn from")
    return known


def scale_each(clients: Mapping[str, Iterable[Recording]]) -> dict[str, list[Recording]]:
    """Return every client's sequences scaled by that client's own moments, gaps as they are.

    >>> scaled = scale_each({"a": [Recording(np.array([1.0, 3.0]))]})
    >>> scaled["a"][0].u.ravel()
    array([-1.,  1.])
    """
    held = {name: list(sequences) for name, sequences in clients.items()}
    return {name: Scaler.fit(own).apply(own) for name, own in held.items()}
