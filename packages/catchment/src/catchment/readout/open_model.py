"""A model that may answer "unknown": a classifier, and how far from its classes is too far.

How far a row of features is from every class: each class's normal model, from sums.

The squared Mahalanobis distance of z from class k, divided by the number of features,

    d_k(z) = (z - m_k)' S_k^-1 (z - m_k) / F,

with the mean m_k of the class and a covariance shrunk to a multiple of the identity. One covariance
for all classes, that of rows around the mean of their class, is known from the plain sums of
one-hot targets (`catchment.readout.heads`). A covariance for each class needs sums by class.

The distance from the nearest class tells what is no known class at all (Lee et al., NeurIPS 2018);
a classifier's own scores only compare the classes that it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Literal

import numpy as np
from scipy.linalg import solve_triangular

from catchment.arrays import Array
from catchment.data.prepare import Prepare
from catchment.data.recording import Recording
from catchment.features.pipeline import Pipeline, as_recordings
from catchment.readout.heads import Gaussian, class_covariance, class_means, covariance_factor
from catchment.readout.model import Model, model_of
from catchment.readout.predictor import New, Predictor
from catchment.readout.solve import feature_scale, rescaled
from catchment.readout.statistics import RidgeStatistics
from catchment.readout.storage import Own, Stored, typed

Shrinkage = float | Literal["oas"]


@dataclass(frozen=True, eq=False)
class KnownClasses:
    """A normal model of every class: its mean, and a covariance of its own or everybody's.

    Parameters
    ----------
    means
        (F, K) of the scaled features.
    factors
        (1 or K, F, F) lower Cholesky factors of the covariances, one for all classes or one each.
    rows
        (K,) behind each class; one without any is infinitely far.
    scale
        (F,) by which features are divided first.

    >>> z = np.array([[0.0], [2.0], [5.0], [7.0]])
    >>> y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> known = KnownClasses.of(RidgeStatistics.from_states(z, y), shrinkage=0.0)
    >>> known.distances(np.array([[1.0], [9.0]]))
    array([[ 0., 25.],
           [64.,  9.]])
    """

    means: Array
    factors: Array
    rows: Array
    scale: Array

    @classmethod
    def of(
        cls,
        sums: RidgeStatistics | Mapping[int, RidgeStatistics],
        *,
        shrinkage: Shrinkage = "oas",
        standardise: bool = False,
    ) -> KnownClasses:
        """Return the normal models that sums of one-hot targets tell.

        Parameters
        ----------
        sums
            Of all rows: every class then has the covariance within classes. Or of each class by
            its number: every class has its own.
        shrinkage
            How far a covariance is moved to a multiple of the identity, from 0 to 1; or "oas", as
            `Gaussian` has it.
        standardise
            Whether features are divided by their spread over all rows first.
        """
        every = [sums] if isinstance(sums, RidgeStatistics) else [sums[k] for k in sorted(sums)]
        total = reduce(add, every)
        scale = feature_scale(total) if standardise else np.ones(total.n_features)
        rows, means = class_means(rescaled(total, scale))
        head = Gaussian(shrinkage=shrinkage)
        factors = []
        for one in every:
            # Of the shrunk covariance around class means.
            factor = np.eye(len(scale))
            if one.n_rows:
                S = class_covariance(rescaled(one, scale))
                share, added = head.strength(S, one.weight)
                factor = covariance_factor((1 - share) * S + added * factor)
            factors.append(factor)
        return cls(means, np.stack(factors), np.asarray(rows), scale)

    def distances(self, z: Array) -> Array:
        """Return how far rows of features (n, F) are from each class, (n, K)."""
        found = np.full((len(z), len(self.rows)), np.inf)
        for k in np.flatnonzero(self.rows > 0):
            away = (z / self.scale - self.means[:, k]).T
            L = self.factors[k if len(self.factors) > 1 else 0]
            found[:, k] = (solve_triangular(L, away, lower=True) ** 2).sum(axis=0) / len(L)
        return found

    def nearest(self, z: Array) -> Array:
        """Return how far rows of features (n, F) are from the class that is nearest, (n,)."""
        return np.asarray(self.distances(z).min(axis=1))


KIND = "open"
UNKNOWN = "unknown"
ARRAYS = ("means", "factors", "rows", "scale")


@dataclass(frozen=True, eq=False)
class OpenModel(Predictor):
    """A classifier with one more answer, "unknown", for what is far from all of its classes.

    Among its own classes it decides as the model does. It is a value of its own and no readout, so
    that it saves and predicts as a model but is not exported to other languages.

    Parameters
    ----------
    model
        The classifier.
    known
        A normal model of each of its classes.
    threshold
        Distance from the nearest class above which a row is unknown.

    >>> from catchment import EchoState, Recording, federate, tell_unknown
    >>> rng = np.random.default_rng(0)
    >>> def wave(pace): return np.sin(np.arange(60) * pace) + 0.1 * rng.normal(size=60)
    >>> paces = {"slow": 0.2, "fast": 0.6}
    >>> def held(): return [Recording.labelled(wave(p), n, paces) for n, p in paces.items()] * 1
    >>> clients = {name: [one for _ in range(15) for one in held()] for name in ("ann", "bob")}
    >>> model = tell_unknown(federate(EchoState(20), clients), clients)
    >>> [model.predict(wave(pace)) for pace in (0.2, 0.6, 1.7)]
    ['slow', 'fast', 'unknown']
    """

    model: Model
    known: KnownClasses
    threshold: float

    def __post_init__(self) -> None:
        if self.model.classes is None or UNKNOWN in self.model.classes:
            raise ValueError(
                f"the model has the classes {self.model.classes}; it needs some, none of them "
                f"called {UNKNOWN!r}"
            )
        if not 0 < self.threshold < np.inf:
            raise ValueError(f"threshold is {self.threshold}; pass a finite number above 0")

    @property
    def classes(self) -> tuple[str, ...]:
        """Those of the model, and "unknown" after them."""
        return (*(self.model.classes or ()), UNKNOWN)

    @property
    def pipeline(self) -> Pipeline:
        return self.model.pipeline

    @property
    def channels(self) -> tuple[str, ...] | None:
        return self.model.channels

    @property
    def columns(self) -> Mapping[str, str]:
        return self.model.columns

    def novelty(self, new: New) -> list[Array]:
        """Return for each raw recording how far its rows (n,) are from the nearest class.

        1 is the threshold: what is above it is unknown.
        """
        found: list[list[Array]] = [[] for _ in as_recordings(new)]
        pieces = self.prepare.inputs(as_recordings(new))
        rows = self.features.rows([piece.recording.u for piece in pieces])
        for piece, z in zip(pieces, rows, strict=True):
            found[piece.source].append(self.known.nearest(z) / self.threshold)
        return [np.concatenate(parts) if parts else np.zeros(0) for parts in found]

    def outputs_of(
        self, prepared: Sequence[Recording], client: str = "", *, device: str | None = None
    ) -> list[Array]:
        """Return the model's scores, and one for "unknown": the highest where a row is too far."""
        found = []
        for z in self.features.rows([one.u for one in prepared]):
            y = self.model.readout(z)
            above = self.known.nearest(z) / self.threshold - 1.0
            # Infinitely far is no number for a table, and no further than far enough.
            found.append(np.column_stack([y, y.max(axis=1) + np.minimum(above, 1e6)]))
        return found

    def probabilities(self, scores: Array) -> Array:
        """Return the model's probabilities of known rows (n, K + 1); an unknown one is just that.

        Whether a row is known is a decision by its distance, so "unknown" has 0 or 1.
        """
        known = self.model.probabilities(scores[:, :-1])
        unknown = (scores.argmax(axis=1) == len(known.T)).astype(np.float64)
        return np.column_stack([known * (1 - unknown)[:, None], unknown])

    def prepared_by(self, prepare: Prepare, channels: Sequence[str] | None = None) -> OpenModel:
        return replace(self, model=self.model.prepared_by(prepare, channels))

    def read_from(self, columns: Mapping[str, str]) -> OpenModel:
        return replace(self, model=self.model.read_from(columns))

    def stored(self) -> Stored:
        held = self.model.stored()
        arrays = {f"known.{name}": getattr(self.known, name) for name in ARRAYS}
        return Stored(KIND, {**held.facts, "threshold": self.threshold}, {**held.tensors, **arrays})


def open_model_of(held: Stored, use: Own = ()) -> OpenModel:
    """Return the model that a file holds."""
    arrays = (typed(held.tensors, f"known.{name}", np.float64) for name in ARRAYS)
    return OpenModel(model_of(held, use), KnownClasses(*arrays), float(held.facts["threshold"]))
