"""A classifier that learns its new owner without a label: self-training on sums.

A person whom nobody trained on wears the sensor. The model names their windows; those that it names
most clearly are then counted as if they had been labeled so, and the readout is solved again, a few
times. Nothing is uploaded. With G and C of the training, ridge r and feature rows Z (n, F):

    repeat:  S = scores of Z;  a = argmax of each row;  margin = best minus second best score
             keep, of every class named, the share of its rows with the largest margin
             W = (G + r I + sum w z z')^-1 (C + sum w z onehot(a)')   over the kept rows

Rows of a class weigh the same whether it came once or all day: w is such that they count together
as a share of a mean training class, and one row as no more than `most` training rows. Without that
balance the class of most windows draws the others to itself; and keeping only clear rows is what
teaches anything at all, because rows added with their own outputs change no ridge readout. (So
there is no such rule for numbers, which have no margin.) Pseudo-labels are as old as Scudder 1965;
what is new here is that they are exact sums, of which one more round, or forgetting, is made.

Between the iterations the system is solved in float64; the readout that is kept is solved from
integers like any other where the features lie in fixed point: weights are counted in 1/1024.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
from annotated_types import Gt

from catchment.arrays import Array, Factor, Integers, NonNegativeInt, PositiveInt, check_fields
from catchment.features.pipeline import as_recordings
from catchment.readout.solve import rescaled, scale_of, solve_readout
from catchment.readout.statistics import Readout, RidgeStatistics

if TYPE_CHECKING:
    from catchment.readout.model import Model
    from catchment.readout.predictor import New

UNIT = 1024  # weights are integers over this
CLOSE = 1e-6  # of the largest moment: what a readout leaves of the sums it was solved from
TELLS = (
    "the sums of everybody's training rows: how many of each class there are, the mean features of "
    "each class, and, with the model of others but one, the sums of that one"
)


@dataclass(frozen=True, kw_only=True)
class SelfTraining:
    """How a readout learns from rows that it has named itself.

    Parameters
    ----------
    share
        Of the rows named as a class, those with the largest margin that are kept.
    weight
        What the kept rows of a class count together, as a share of a mean training class.
    most
        What one row counts at most, in training rows.
    enough
        Rows are trusted in full from so many on; fewer count in proportion, so that the first
        minutes change little.
    iterations
        How often rows are named, kept and solved with.
    renamed
        With fewer rows named otherwise than before, the readout stays as it was; with 0 never.

    >>> SelfTraining(share=0.0)
    Traceback (most recent call last):
    ValueError: share is 0.0; ...
    """

    share: Factor = 0.9
    weight: Annotated[float, Gt(0)] = 0.1
    most: Annotated[float, Gt(0)] = 20.0
    enough: PositiveInt = 100
    iterations: PositiveInt = 5
    renamed: NonNegativeInt = 2

    def __post_init__(self) -> None:
        check_fields(self)

    def kept(self, scores: Array, rows_per_class: float) -> tuple[Integers, Integers, Array]:
        """Return which rows (k,) are kept, their classes (k,), and how many 1/1024 each counts.

        Parameters
        ----------
        scores
            (n, K) of the rows.
        rows_per_class
            Training rows of a mean class.

        >>> scores = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
        >>> SelfTraining(share=0.5, enough=3).kept(scores, 100.0)
        (array([0, 2]), array([0, 1]), array([10240., 10240.]))
        """
        label = scores.argmax(axis=1)
        best = np.partition(scores, -2, axis=1)[:, -2:]
        margin = best[:, 1] - best[:, 0]
        kept: list[Integers] = []
        for one in np.unique(label):
            rows = np.flatnonzero(label == one)
            clear = np.argsort(-margin[rows], kind="stable")
            kept.append(rows[clear[: int(np.ceil(self.share * len(rows)))]])
        chosen = np.sort(np.concatenate(kept)) if kept else np.zeros(0, dtype=np.intp)
        counts = np.bincount(label[chosen], minlength=scores.shape[1])[label[chosen]]
        weight = np.minimum(self.most, self.weight * rows_per_class / np.maximum(counts, 1))
        weight *= min(1.0, len(scores) / self.enough)
        return chosen, label[chosen], np.maximum(np.rint(UNIT * weight), 1.0)


@dataclass(frozen=True, eq=False)
class SelfTrained:
    """What self-training made of rows: the readout, and which rows counted as what."""

    readout: Readout
    before: Integers  # (n,) class of each row by the readout that came
    after: Integers  # (n,) by the new one
    kept: Integers  # (k,) rows that counted in the last iteration...
    label: Integers  # (k,) ...and as what

    @property
    def n_renamed(self) -> int:
        """Rows that the new readout names otherwise."""
        return int((self.before != self.after).sum())


def self_train(
    statistics: RidgeStatistics,
    readout: Readout,
    z: Array,
    rule: SelfTraining | None = None,
    *,
    standardize: bool = False,
) -> SelfTrained:
    """Return the readout that has learned from feature rows (n, F) without labels.

    Parameters
    ----------
    statistics
        What the readout was solved from.
    readout
        What names the rows first: that of the statistics, or an adapted one.
    standardize
        Whether the ridge acts on features divided by their training spread.

    >>> z = np.array([[0.0], [0.2], [1.0], [1.2]])
    >>> s = RidgeStatistics.from_states(z, np.eye(2)[[0, 0, 1, 1]])
    >>> found = self_train(s, solve_readout(s, 0.1), z[:0])
    >>> bool((found.readout.weights == solve_readout(s, 0.1).weights).all())
    True
    """
    how, intercept = rule or SelfTraining(), bool(readout.intercept.any())
    scale = scale_of(statistics, standardize)
    scores = readout(z)
    before = scores.argmax(axis=1)
    per_class = statistics.weight / max(statistics.n_targets, 1)
    if not len(z):
        return SelfTrained(readout, before, before, before, before)
    exact, rough = statistics.scaled(UNIT), statistics.floats.scaled(UNIT)
    ridge, name = UNIT * readout.ridge, statistics.fingerprint
    for one in [rough] * (how.iterations - 1) + [exact]:
        kept, label, weight = how.kept(scores, per_class)
        y, fixed = np.eye(statistics.n_targets)[label], one.fixed
        own = RidgeStatistics.from_states(z[kept], y, weight=weight, fingerprint=name, fixed=fixed)
        made = solve_readout(one + own, ridge, intercept=intercept, scale=scale)
        scores = made(z)
    after = scores.argmax(axis=1)
    if (after != before).sum() < how.renamed:
        return SelfTrained(readout, before, before, kept[:0], label[:0])
    return SelfTrained(replace(made, ridge=readout.ridge), before, after, kept, label)


def adapted(model: Model, z: Array, rule: SelfTraining | None = None) -> tuple[Model, SelfTrained]:
    """Return a model that has learned from its owner's feature rows (n, F), and what of them.

    `Model.adapt` takes raw recordings, of which `rows_of` makes rows.
    """
    how = {"standardize": model.features.standardize}
    found = self_train(needed(model)[0], model.readout, z, rule, **how)
    return replace(model, readout=found.readout), found


def rows_of(model: Model, new: New) -> Array:
    """Return the feature rows (n, F) of raw recordings."""
    recordings = as_recordings(new)
    for k, recording in enumerate(recordings):
        model.check_channels(recording, k)
        if np.isnan(recording.u).all():
            raise ValueError(f"recording {k} has no value in any channel; leave it out")
    rows = model.pipeline.rows(recordings)
    return np.concatenate([np.zeros((0, model.features.n_features)), *rows])


def needed(model: Model) -> tuple[RidgeStatistics, tuple[str, ...]]:
    """Return the statistics and the classes of a model; ValueError if it cannot adapt."""
    if model.classes is None:
        raise ValueError(
            "the model predicts numbers, and its own outputs teach it nothing: adding them changes "
            "no readout; adapt takes a model of classes"
        )
    if model.statistics is None:
        raise ValueError(
            "the model carries no sums to adapt with; train it with adaptable=True, or with "
            "adapt = true in [run]"
        )
    return model.statistics, model.classes


def refuse_adapting(classes: object, *, noisy: bool = False, another: bool = False) -> None:
    """Raise ValueError if a training would leave a model that cannot adapt.

    Parameters
    ----------
    classes
        Names of the classes, None if numbers are predicted.
    noisy
        Whether noise bounds what leaves clients.
    another
        Whether another head or algorithm than a ridge makes the readout.
    """
    reason = ""
    if classes is None:
        reason = "numbers are predicted, and a model's own outputs teach it nothing"
    elif noisy:
        reason = "noise is to bound what the sums tell, and the model would carry them to everybody"
    elif another:
        reason = "only a ridge leaves the sums that its readout was solved from"
    if reason:
        raise ValueError(f"the model cannot adapt: {reason}; leave out adapt, or what is at odds")


def adaptable(model: Model, statistics: RidgeStatistics) -> Model:
    """Return a model whose file carries, packed, the sums that its readout was solved from.

    ValueError if the readout is not theirs: another head's, or solved under noise.

    >>> from catchment import federate
    >>> from catchment.data import synthetic_wearables
    >>> people = synthetic_wearables(3, 0, windows_per_user=30)
    >>> model = federate("default", people, adaptable=True).model
    >>> adaptable(replace(model, adaptable=False), model.statistics).adaptable
    True
    """
    made = replace(model, statistics=statistics, adaptable=True)
    needed(made)
    readout, scale = model.readout, scale_of(statistics, model.features.standardize)
    G, C = rescaled(statistics.floats, scale).moments(intercept=bool(readout.intercept.any()))
    W = readout.weights if scale is None else readout.weights * scale[:, None]
    left = np.abs(G @ W + readout.ridge * W - C).max(initial=0.0)
    if not left <= CLOSE * np.abs(C).max(initial=0.0):
        raise ValueError(
            "the readout was not solved from these sums by ridge regression (another head, another "
            "standardize, or noise), and adapt would solve another one; leave out adapt"
        )
    return made


@dataclass(frozen=True, eq=False, kw_only=True)
class OnlineAdaptation:
    """A model that goes on learning its owner as windows come, and forgets the oldest of them.

    Parameters
    ----------
    base
        The model as it was delivered, with its sums.
    length
        Only so many of the last rows count.
    z
        (n, F) feature rows so far.

    >>> from catchment import federate
    >>> from catchment.data import synthetic_wearables
    >>> people = synthetic_wearables(4, 0, windows_per_user=30)
    >>> new = people.pop("user-000")
    >>> model = federate("default", people, adaptable=True).model
    >>> online = OnlineAdaptation(base=model)
    >>> for one in new[:3]:
    ...     online = online.update([one])
    >>> len(online.z), online.model.predict(new[3]) in model.classes
    (3, True)
    """

    base: Model
    rule: SelfTraining = field(default_factory=SelfTraining)
    length: PositiveInt = 2000
    z: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        check_fields(self)
        needed(self.base)

    def update(self, new: New) -> OnlineAdaptation:
        """Return the state after further raw recordings, oldest first."""
        z = rows_of(self.base, new)
        return replace(self, z=np.concatenate([self.z, z] if self.z.size else [z])[-self.length :])

    @property
    def model(self) -> Model:
        """The model adapted to the rows that count now."""
        return adapted(self.base, self.z, self.rule)[0] if self.z.size else self.base


def described(model: Model) -> str:
    """Return in one sentence what a model's file carries for adapting, its bytes and what it tells.

    >>> from catchment import federate
    >>> from catchment.data import synthetic_wearables
    >>> people = synthetic_wearables(3, 0, windows_per_user=30)
    >>> model = federate("default", people, adaptable=True).model
    >>> print(described(model))
    adaptable: carries ... bytes, ...
    """
    size = len(needed(model)[0].parts().to_bytes())
    return f"adaptable: carries {size:,} bytes, {TELLS}"
