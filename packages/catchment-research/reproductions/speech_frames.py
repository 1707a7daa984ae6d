"""Spoken digits without an encoder: a word resampled to twelve frames, and what pooled data reach.

The map is linear interpolation and moments, nothing is drawn at random. scikit-learn's support
vector machine has the same rows of all training speakers in one place; how strongly it is held
back, training speakers left out decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import catchment as ct
from catchment import Array, Integers
from catchment.features import FeatureMap
from catchment_lab.datasets import Dataset

MACHINE = "mel, 12 frames and moments, SVM, pooled"
STRENGTHS = (1.0, 10.0, 100.0)
BOUND = 64.0  # of scaled inputs


@dataclass(frozen=True)
class ResampledFrames(FeatureMap):
    """Frames of a recording at as many even places, and moments of its parts.

    >>> made = ResampledFrames(1, frames=3, pieces=1)
    >>> made.rows([np.arange(5.0)[:, None]])[0].round(3).tolist()
    [[0.0, 2.0, 4.0, 2.0, 1.414]]
    """

    channels: int
    frames: int = 12
    pieces: int = 5

    standardize = True

    @property
    def n_features(self) -> int:
        return self.channels * (self.frames + 2 * self.pieces)

    @property
    def bounds(self) -> Array:
        return np.full(self.n_features, BOUND)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return the row (1, F) of each recording's inputs (T, I)."""
        return [self._row(u)[None] for u in inputs]

    def _row(self, u: Array) -> Array:
        at = np.linspace(0, len(u) - 1, self.frames)
        low = np.minimum(at.astype(int), max(len(u) - 2, 0))
        high = np.minimum(low + 1, len(u) - 1)
        part = (at - low)[:, None]
        found = [((1 - part) * u[low] + part * u[high]).ravel()]
        for k in range(self.pieces):
            own = u[k * len(u) // self.pieces : max((k + 1) * len(u) // self.pieces, 1)]
            own = own if len(own) else u[-1:]
            found += [own.mean(axis=0), own.std(axis=0)]
        return np.asarray(np.clip(np.concatenate(found), -BOUND, BOUND))


def pooled_answers(data: Dataset, speaker: str) -> tuple[int, Integers]:
    """Return how many columns there are, and which digits a speaker's clips are said to be."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    own = ct.Preprocessing(scale="own")
    n = next(iter(data.clients.values()))[0].n_inputs
    frames = ResampledFrames(n)
    held = {}
    for who, recordings in data.clients.items():
        ready = own.apply(recordings)
        z = np.concatenate(frames.rows([one.u for one in ready]))
        held[who] = z, np.array([int(np.asarray(one.y).argmax()) for one in ready])
    training = [who for who in held if who != speaker]

    def said(strength: float, inside: Sequence[str], tested: str) -> Integers:
        z, y = (np.concatenate(part) for part in zip(*(held[who] for who in inside), strict=True))
        model = make_pipeline(StandardScaler(), SVC(C=strength)).fit(z, y)
        return np.asarray(model.predict(held[tested][0]))

    def right(strength: float, inside: Sequence[str], tested: str) -> float:
        return float((said(strength, inside, tested) == held[tested][1]).mean())

    def left_out(strength: float) -> float:
        others = {who: [one for one in training if one != who] for who in training}
        return float(np.mean([right(strength, inside, who) for who, inside in others.items()]))

    best = max(STRENGTHS, key=left_out)
    return frames.n_features, said(best, training, speaker)
