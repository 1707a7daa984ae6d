"""Trained models, everything from a raw recording to a prediction, and how one owner trains one.

A `Model` predicts numbers or classes. Of `PersonalModels` some clients have a readout (personal
readouts) or a map (reservoirs that are only nearly the same) of their own, chosen by name;
preparation, channels and classes are common to all. An `OpenSetModel` may answer "unknown": it is a
classifier, and how far from its classes is too far.

Classification is ridge regression on one-hot targets (Bacciu et al., IJCNN 2021). Its scores
estimate class probabilities but are not confined to them. Without calibration, probabilities are
the scores' nearest point on the simplex. With it they are softmax(scores / temperature), the
temperature fitted by maximum likelihood on held-out recordings (Guo et al., ICML 2017) whose labels
are smoothed by one count per class (as in Platt 1999), so that it stays finite when every held-out
recording is classified rightly.

One owner learns by the steps that a federation of one client takes, without any message: the scale
is fitted, the statistics are summed and the readout is solved by the functions that clients and
server use, so the result is theirs to the bit; mistakes in the data are plain errors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catchment.arrays import Array, Integers, PositiveFloat, check_type, frozen
from catchment.data.preprocessing import Preprocessing
from catchment.data.recording import Recording
from catchment.errors import FingerprintError, IntegrityError
from catchment.features.base import handed
from catchment.features.pipeline import Pipeline, as_pipeline, refuse_large
from catchment.features.recipes import AutoMap, FeatureMap, label_of
from catchment.readout.accumulation import accumulate, device_for, statistics_name, torch_form
from catchment.readout.heads import KnownClasses
from catchment.readout.intervals import Counts, Intervals
from catchment.readout.predictor import New, Predictor
from catchment.readout.ridge_choice import RidgeChoice, chosen_readout
from catchment.readout.solve import scale_of, solve_readout
from catchment.readout.statistics import Readout, RidgeStatistics, diagonal, same_features
from catchment.readout.storage import (
    Own,
    Stored,
    before_of,
    load,
    map_of,
    readout_of,
    statistics_of,
    stored_before,
    stored_map,
    stored_readout,
    stored_statistics,
    typed,
)
from catchment.wire import Message

if TYPE_CHECKING:
    from catchment.readout.adapt import SelfTraining

log = logging.getLogger(__name__)

UNKNOWN = "unknown"
BELIEVABLE = 6.0  # standard deviations from the mean target
_KNOWN = ("means", "factors", "rows", "scale")  # of an open set's normal models


@dataclass(frozen=True, eq=False)
class Model(Predictor):
    """Preparation, feature map and readout: raw recordings in, predictions out.

    Parameters
    ----------
    before
        Everything before the readout, a `Pipeline`. A bare feature map prepares nothing.
    readout
        Map from feature rows (n, F) to outputs (n, K).
    classes
        Names of the K outputs if they are classes, else None.
    statistics
        What the readout was solved from, if it is to be updated later. They tell about the training
        data: drop them with `replace(model, statistics=None)` before giving a model away.
    temperature
        Softness of the class probabilities, as fitted by `calibrated`.
    channels
        Names of the input channels, in their order, if they are known.
    target_range
        (2, K) lowest and highest output that a closed loop may feed back.
    deviation
        (K,) root mean squared error that the choice of the ridge found on rows left out.
    columns
        How files name what is no channel: columns of "time", "recording", "client" and "target".
    intervals
        Errors that were counted on clients without a part in the training, by `calibrate`.
    adaptable
        Whether the file carries the statistics in as few bits as they need, for `adapt`.

    >>> from catchment import EchoState, Recording
    >>> u = np.sin(np.arange(300) / 5)
    >>> features = EchoState(30, seed=1, washout=20).build(1, per_step=True)
    >>> model = train(features, [Recording(u[:-1], u[1:])])
    >>> model.predict(u[:40]).shape
    (20, 1)
    """

    before: Pipeline | FeatureMap
    readout: Readout
    classes: tuple[str, ...] | None = None
    statistics: RidgeStatistics | None = None
    temperature: float | None = None
    channels: tuple[str, ...] | None = None
    target_range: Array | None = None
    deviation: Array | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    intervals: Intervals | None = None
    adaptable: bool = False

    def __post_init__(self) -> None:
        features, K = self.features, self.n_outputs
        check_type(self.temperature, PositiveFloat | None, "temperature")
        if len(self.readout.weights) != features.n_features:
            raise ValueError(
                f"the readout takes {len(self.readout.weights)} features, these features have "
                f"{features.n_features}; use the features it was trained on"
            )
        for name in ("classes", "channels"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else tuple(map(str, given)))
        if self.classes is not None and len(set(self.classes)) != K:
            raise ValueError(
                f"{len(set(self.classes))} different classes are named for {K} outputs; name each "
                "output once"
            )
        if self.channels is not None:
            n, given = len(self.channels), self.preprocessing.n_inputs(len(self.channels))
            if features.n_inputs not in (None, given):
                raise ValueError(
                    f"{n} channels are named, which make {given} inputs; the map takes "
                    f"{features.n_inputs}"
                )
        if (sums := self.statistics) is not None:
            if sums.fingerprint and not same_features(sums.fingerprint, features.fingerprint):
                raise FingerprintError(
                    "the statistics come from other features than the model's; "
                    "accumulate them with the same features"
                )
            if sums.cross.shape != self.readout.weights.shape:
                raise ValueError(
                    f"the statistics have {sums.cross.shape} features and targets, the readout "
                    f"{self.readout.weights.shape}; solve the readout from them"
                )
        for name, shape in (("target_range", (2, K)), ("deviation", (K,))):
            if getattr(self, name) is None:
                continue
            held = np.array(getattr(self, name), dtype=np.float64)
            rising = held if name == "target_range" else np.stack([np.zeros(held.shape), held])
            if held.shape != shape or not (np.diff(rising, axis=0) >= 0).all():
                raise ValueError(
                    f"{name} is {held.tolist()}; pass shape {shape}, the lowest first, and "
                    "no deviation below 0"
                )
            object.__setattr__(self, name, frozen(held))
        if self.intervals is not None and self.intervals.n_outputs != K:
            raise ValueError(
                f"the intervals are of {self.intervals.n_outputs} outputs, the model has {K}; "
                "calibrate this model"
            )

    n_outputs: ClassVar[int] = handed("readout.n_outputs")

    def outputs_of(
        self, prepared: Sequence[Recording], client: str = "", *, device: str | None = None
    ) -> list[Array]:
        """Return the readout's outputs (rows, K) of each prepared recording."""
        inputs = list(map(attrgetter("u"), prepared))
        place = device_for(self.features, device)
        if place is None:
            return list(map(self.readout, self.features.rows(inputs)))
        found: list[Array] = torch_form().outputs_on(place, self.features, self.readout, inputs)
        return found

    def probabilities(self, scores: Array) -> Array:
        """Return the class probabilities (n, K) of rows of scores."""
        if self.temperature is None:
            return simplex_projection(scores)
        return softmax(scores / self.temperature)

    def classify(self, new: New, *, device: str | None = None) -> list[str]:
        """Return the name of the class of each recording."""
        scores = self.scores(new, device=device)
        return list(map((self.classes or ()).__getitem__, scores.argmax(axis=1)))

    def forecast(
        self,
        past: Recording | ArrayLike,
        horizon: int,
        *,
        limit: ArrayLike | Literal["training"] | None = "training",
    ) -> Array:
        """Return the next values (horizon, K) after a raw recording, in closed loop.

        The loop is held within the range of the training targets, and warns where it would leave
        it; `limit=None` lets it go. `catchment.readout.forecasting.forecast` has the details.
        """
        from catchment.readout.forecasting import forecast

        return forecast(self, past, horizon, limit=limit)

    def adapt(self, new: New, rule: SelfTraining | None = None) -> Model:
        """Return the model after it has learned from its owner's raw recordings, without labels.

        It takes a model of classes that has its statistics, as `federate` leaves them with
        `adaptable=True`. The new one has them too: with more recordings, adapt anew on all.

        Parameters
        ----------
        new
            Of one person or machine, the more the better; targets are not looked at.
        rule
            How rows are kept and weighed (`catchment.readout.SelfTraining`).

        >>> from catchment import federate
        >>> from catchment.data import synthetic_wearables
        >>> people = synthetic_wearables(4, 0, windows_per_user=30)
        >>> new = people.pop("user-000")
        >>> model = federate("default", people, adaptable=True).model
        >>> model.adapt(new).predict(new[0]) in model.classes
        True
        """
        from catchment.readout.adapt import adapted, rows_of

        return adapted(self, rows_of(self, new), rule)[0]

    def stored(self) -> Stored:
        """Return what a file holds of the model."""
        facts, tensors = stored_before(self)
        tensors |= stored_readout(self.readout)
        facts |= {"temperature": self.temperature, "statistics": None}
        for name in ("target_range", "deviation"):
            if getattr(self, name) is not None:
                tensors[name] = getattr(self, name)
        if self.statistics is not None and self.adaptable:
            facts["adaptable"] = True
            tensors["sums"] = np.frombuffer(self.statistics.parts().to_bytes(), dtype=np.uint8)
        elif self.statistics is not None:
            facts["statistics"], sums = stored_statistics(self.statistics, "statistics.")
            tensors |= sums
        if self.intervals is not None:
            errors = self.intervals.errors
            facts["intervals"] = {"cuts": list(self.intervals.cuts), "weight": errors.weight}
            tensors |= {"intervals.counts": errors.counts}
            tensors |= {"intervals.edges": np.array(errors.edges)}
        return Stored("model", facts, tensors)

    def calibrated(self, held_out: Sequence[Recording]) -> Model:
        """Return the model with the temperature that makes held-out labels most likely.

        Parameters
        ----------
        held_out
            Raw recordings with one-hot targets (K,) that took no part in training. Those whose
            target is missing are left out.
        """
        known, labels = [], []
        for k, recording in enumerate(held_out):
            y = recording.y
            if y is None or y.shape != (self.n_outputs,):
                raise ValueError(
                    f"held-out recording {k} has no target of shape ({self.n_outputs},); "
                    "use Recording.labeled"
                )
            if not np.isnan(y).any():
                known.append(recording)
                labels.append(int(y.argmax()))
        if not known:
            raise ValueError("there are no held-out recordings with a target; pass at least one")
        return replace(self, temperature=fitted_temperature(self.scores(known), np.array(labels)))


def model_of(held: Stored, use: Own = ()) -> Model:
    """Return the model that a file holds."""
    facts, tensors, intervals = held.facts, held.tensors, None
    before, once, sums = before_of(held, use), facts["map"]["facts"], facts["statistics"]
    if sums is not None and once.get("class") == "thinned":  # a map then, that named its statistics
        name = statistics_name(before["before"].features, row_stride=once["settings"]["every"])
        sums = {**sums, "fingerprint": name}
    if (known := facts.get("intervals")) is not None:
        edges = tuple(typed(tensors, "intervals.edges", np.float64).tolist())
        errors = Counts(tensors["intervals.counts"], edges, float(known["weight"]))
        intervals = Intervals(errors, tuple(known["cuts"]))
    statistics, packed = None, facts.get("adaptable") is True
    if packed:
        content = typed(tensors, "sums", np.uint8).tobytes()
        statistics = RidgeStatistics.from_message(Message.from_bytes(content))
    elif sums is not None:
        statistics = statistics_of(sums, tensors, "statistics.")
    return Model(
        readout=readout_of(tensors),
        statistics=statistics,
        adaptable=packed,
        temperature=facts["temperature"],
        target_range=tensors.get("target_range"),
        deviation=tensors.get("deviation"),
        intervals=intervals,
        **before,
    )


def load_model(path: str | Path, *, use: Own = ()) -> Model:
    """Return the model of a file, as `catchment.load` does; IntegrityError for any other kind."""
    found = load(path, use=use)
    if not isinstance(found, Model):
        raise IntegrityError(f"{path} holds {found.stored().kind!r}, this reads 'model'")
    return found


@dataclass(frozen=True, eq=False)
class PersonalModels(Predictor):
    """A shared model, and for some clients a readout or a map of their own.

    Parameters
    ----------
    model
        Shared: used for every client without one of its own.
    readouts, maps
        By client name; who has only the one shares the other.

    >>> from catchment import EchoState
    >>> z = EchoState(5).build(1, per_step=True)
    >>> flat, steep = (Readout(np.full((6, 1), w), np.zeros(1)) for w in (0.0, 1.0))
    >>> models = PersonalModels(Model(z, flat), {"ann": steep})
    >>> u = np.ones((1, 1))
    >>> float(models.predict(u)[0, 0]), float(models.predict(u, client="ann")[0, 0]) > 0
    (0.0, True)
    """

    model: Model = field()
    readouts: Mapping[str, Readout] = field(default_factory=dict)
    maps: Mapping[str, FeatureMap] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for client in self.clients:
            self.of(client)  # raises now if a readout does not fit its map

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(sorted({*self.readouts, *self.maps}))

    def of(self, client: str) -> Model:
        """Return the model of one client: its own if there is one, else the shared one."""
        if client not in self.readouts and client not in self.maps:
            return self.model
        shared = self.model
        features = self.maps.get(client, shared.features)
        readout = self.readouts.get(client, shared.readout)
        before = Pipeline(shared.preprocessing, features)
        return replace(shared, before=before, readout=readout, statistics=None)

    def outputs_of(
        self, prepared: Sequence[Recording], client: str = "", *, device: str | None = None
    ) -> list[Array]:
        return self.of(client).outputs_of(prepared, device=device)

    def probabilities(self, scores: Array) -> Array:
        return self.model.probabilities(scores)

    def stored(self) -> Stored:
        shared = self.model.stored()
        tensors: dict[str, NDArray[Any]] = dict(shared.tensors)
        facts = {**shared.facts, "readouts": sorted(self.readouts), "maps": {}}
        if self.readouts:
            own = [self.readouts[name] for name in sorted(self.readouts)]
            tensors["own.weights"] = np.stack([readout.weights for readout in own])
            tensors["own.intercept"] = np.stack([readout.intercept for readout in own])
            # (M,) of all, or (M, K) where outputs have ridges of their own.
            ridges = [np.asarray(readout.ridge, dtype=np.float64) for readout in own]
            width = (self.n_outputs,) if any(map(np.ndim, ridges)) else ()
            tensors["own.ridge"] = np.stack([np.broadcast_to(one, width) for one in ridges])
        for k, (name, features) in enumerate(sorted(self.maps.items())):
            described = stored_map(features, f"own_map.{k}")
            facts["maps"][name] = described.facts
            tensors |= described.tensors
        return Stored("personal", facts, tensors)


def personal_models_of(held: Stored, use: Own = ()) -> PersonalModels:
    """Return the models that a file holds."""
    facts, tensors = held.facts, held.tensors
    names = list(facts["readouts"])
    readouts: dict[str, Readout] = {}
    if names:
        weights, intercepts, ridges = (
            typed(tensors, f"own.{name}", np.float64) for name in ("weights", "intercept", "ridge")
        )
        for name, W, b, ridge in zip(names, weights, intercepts, ridges, strict=True):
            readouts[name] = Readout(W, b, ridge)
    maps = {
        name: map_of(facts["maps"][name], tensors, f"own_map.{k}", use)
        for k, name in enumerate(sorted(facts["maps"]))
    }
    return PersonalModels(model_of(held, use), readouts, maps)


@dataclass(frozen=True, eq=False)
class OpenSetModel(Predictor):
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

    >>> from catchment import EchoState, Recording, federate, reject_unknown
    >>> rng = np.random.default_rng(0)
    >>> def wave(pace): return np.sin(np.arange(60) * pace) + 0.1 * rng.normal(size=60)
    >>> paces = {"slow": 0.2, "fast": 0.6}
    >>> def held(): return [Recording.labeled(wave(p), n, paces) for n, p in paces.items()]
    >>> clients = {name: [one for _ in range(15) for one in held()] for name in ("ann", "bob")}
    >>> model = reject_unknown(federate(EchoState(20), clients), clients)
    >>> [model.predict(wave(pace)) for pace in (0.2, 0.6, 1.7)]
    ['slow', 'fast', 'unknown']
    """

    other_class: ClassVar[str | None] = UNKNOWN

    model: Model = field()
    known: KnownClasses
    threshold: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_type(self.threshold, PositiveFloat, "threshold")
        if self.model.classes is None or UNKNOWN in self.model.classes:
            raise ValueError(
                f"the model has the classes {self.model.classes}; it needs some, none of them "
                f"called {UNKNOWN!r}"
            )
        object.__setattr__(self, "classes", (*self.model.classes, UNKNOWN))

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

    def stored(self) -> Stored:
        held = self.model.stored()
        arrays = {f"known.{name}": getattr(self.known, name) for name in _KNOWN}
        return Stored(
            "open", {**held.facts, "threshold": self.threshold}, {**held.tensors, **arrays}
        )


def open_model_of(held: Stored, use: Own = ()) -> OpenSetModel:
    """Return the model that a file holds."""
    arrays = (typed(held.tensors, f"known.{name}", np.float64) for name in _KNOWN)
    return OpenSetModel(model_of(held, use), KnownClasses(*arrays), float(held.facts["threshold"]))


def simplex_projection(scores: Array) -> Array:
    """Return the nearest rows (n, K) that are not negative and sum to 1.

    >>> simplex_projection(np.array([[0.75, 0.5, -0.25]]))
    array([[0.625, 0.375, 0.   ]])
    """
    K = scores.shape[1]
    ordered = -np.sort(-scores, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, K + 1)
    kept = (ordered > excess).sum(axis=1)
    threshold = np.take_along_axis(excess, kept[:, None] - 1, axis=1)
    return np.asarray(np.maximum(scores - threshold, 0.0))


def softmax(scores: Array) -> Array:
    """Return exp(scores) (n, K) divided by the sum of each row.

    >>> softmax(np.array([[1000.0, 1000.0]]))
    array([[0.5, 0.5]])
    """
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def fitted_temperature(scores: Array, labels: Integers, weight: Array | None = None) -> float:
    """Return the temperature under which softmax(scores / temperature) makes the labels likeliest.

    Parameters
    ----------
    scores
        (n, K) class scores of held-out rows.
    labels
        (n,) numbers of their classes.
    weight
        (n,) how many rows each stands for; ones if not given.

    >>> scores = np.array([[0.6, 0.4], [0.4, 0.6], [0.7, 0.3], [0.3, 0.7]] * 50)
    >>> 0.0 < fitted_temperature(scores, np.array([0, 1, 0, 1] * 50)) < 0.1
    True
    """
    K = scores.shape[1]
    rows = np.ones(len(scores)) if weight is None else weight
    n = rows.sum()
    target = np.full(scores.shape, 1.0 / (n + K))
    target[np.arange(len(scores)), labels] = (n + 1.0) / (n + K)
    weighted = scores * rows[:, None]
    aimed = float((target * weighted).sum())
    low, high = 1e-6, 1e6
    for _ in range(80):
        middle = float(np.sqrt(low * high))
        # The likelihood is concave in 1/temperature; its slope is this difference.
        too_sharp = float((softmax(scores / middle) * weighted).sum()) > aimed
        low, high = (middle, high) if too_sharp else (low, middle)
    return float(np.sqrt(low * high))


def train(
    pipeline: Pipeline | FeatureMap,
    recordings: Iterable[Recording],
    ridge: float = 1e-6,
    *,
    classes: Sequence[str] | None = None,
) -> Model:
    """Return the model that predicts the recordings' targets at a given ridge, with its statistics.

    `catchment.fit` chooses map, ridge and classes by the data; this does what it is told.

    Parameters
    ----------
    pipeline
        A fitted preparation and a built map, or the map alone.
    recordings
        Raw, with targets; one-hot rows if there are classes.
    ridge
        One number.
    classes
        Names of the K targets if they are classes.

    >>> from catchment import EchoState
    >>> features = EchoState(30, seed=1).build(1, per_step=False)
    >>> waves = [np.sin(np.arange(60) / (3 + k % 2)) for k in range(10)]
    >>> data = [Recording.labeled(u, k % 2, 2) for k, u in enumerate(waves)]
    >>> train(features, data, classes=("fast", "slow")).classify(waves[:3])
    ['fast', 'slow', 'fast']
    """
    known = as_pipeline(pipeline)
    prepared = known.preprocessing.apply(recordings)
    statistics = accumulate(known.features, prepared, classes=classes is not None)
    scale = scale_of(statistics, known.features.standardize)
    readout = solve_readout(statistics, ridge, scale=scale)
    names = None if classes is None else tuple(classes)
    return Model(known, readout, names, statistics, target_range=target_range(statistics))


def solved_model(
    before: Pipeline | FeatureMap,
    statistics: RidgeStatistics,
    readout: Readout,
    choice: RidgeChoice | None = None,
    *,
    classes: tuple[str, ...] | None = None,
    channels: tuple[str, ...] | None = None,
) -> Model:
    """Return the model of a readout, with what its sums tell: the range of targets, and the error.

    Parameters
    ----------
    statistics
        What the readout was solved from; the model does not keep them.
    choice
        How its ridge was chosen, which tells the error on new rows.

    >>> from catchment import EchoState
    >>> from catchment.readout.ridge_choice import chosen_readout
    >>> features = EchoState(5).build(1, per_step=True)
    >>> s = accumulate(features, [Recording(np.arange(9.0), np.arange(9.0) % 2)])
    >>> choice, readout = chosen_readout(s, "gcv")
    >>> solved_model(features, s, readout, choice).target_range.ravel().round(1)
    array([-2.5,  3.4])
    """
    return Model(
        before,
        readout,
        classes,
        channels=channels,
        target_range=None if classes is not None else target_range(statistics),
        deviation=None if choice is None or classes is not None else choice.deviation,
    )


def target_range(statistics: RidgeStatistics) -> Array | None:
    """Return the lowest and the highest output (2, K) that training targets make believable.

    Sums know no extremes, so these are means plus and minus a few standard deviations; None if
    there are no rows.

    >>> z = np.array([[0.0], [0.0]])
    >>> target_range(RidgeStatistics.from_states(z, np.array([[1.0], [3.0]]))).ravel()
    array([-4.,  8.])
    """
    if not statistics.weight > 0:
        return None
    statistics = statistics.floats
    mean = statistics.target_sum / statistics.weight
    squares = diagonal(statistics.target_gram) / statistics.weight
    spread = BELIEVABLE * np.sqrt(np.maximum(squares - mean**2, 0.0))
    return np.array([mean - spread, mean + spread])


def fitted_pipeline(
    pipeline: Pipeline, recordings: Sequence[Recording], *, classes: bool = False
) -> Pipeline:
    """Return the pipeline with its map built and its scale fitted to raw recordings with targets.

    Parameters
    ----------
    classes
        Whether the targets are classes, or numbers.

    >>> from catchment import EchoState
    >>> one = Recording([1.0, 3.0], [0.0])
    >>> ready = fitted_pipeline(Pipeline(Preprocessing(), EchoState(5)), [one])
    >>> ready.preprocessing.scale.mean, ready.features.per_step
    (array([2.]), False)
    """
    if not recordings:
        raise ValueError("there are no recordings; pass at least one")
    first, preprocessing = recordings[0], pipeline.preprocessing
    per_step = has_target_per_step(preprocessing, first)
    n_inputs = preprocessing.n_inputs(first.n_inputs)
    refuse_large(pipeline.known_map, n_inputs, per_step=per_step, classes=classes)
    built = pipeline.built(first.n_inputs, per_step=per_step, classes=classes)
    if preprocessing.is_fitted:
        return built
    return Pipeline(preprocessing.fitted(preprocessing.moments(recordings)), built.map)


def learn(
    pipeline: Pipeline,
    recordings: Sequence[Recording],
    *,
    ridge: float | Literal["gcv"] = "gcv",
    classes: tuple[str, ...] | None = None,
    threads: int | None = None,
) -> Model:
    """Return what one owner learns from raw recordings with targets.

    Parameters
    ----------
    pipeline
        Built and fitted here if it is not yet. Of an `AutoMap` the candidate with the least score
        of generalized cross-validation is taken.

    >>> import numpy as np
    >>> from catchment import EchoState
    >>> u = np.sin(np.arange(200) / 5)
    >>> pipeline = Pipeline(Preprocessing(), EchoState(20))
    >>> learn(pipeline, [Recording(u[:-1], u[1:])]).readout.ridge < 1e-3
    True
    """
    described, preprocessing = pipeline.known_map, pipeline.preprocessing
    among: Sequence[FeatureMap] = [described]
    if isinstance(described, AutoMap) and recordings:
        if ridge != "gcv":
            raise ValueError("map 'auto' is chosen by 'gcv'; leave out ridge, or name a map")
        per_step = has_target_per_step(preprocessing, recordings[0])
        n_inputs = preprocessing.n_inputs(recordings[0].n_inputs)
        ahead = preprocessing.horizon is not None
        among = described.candidates(n_inputs, per_step=per_step, ahead=ahead)
    found: list[tuple[float, Model]] = []
    for one in among:
        known = pipeline if one is described else Pipeline(preprocessing, one)
        ready = fitted_pipeline(known, recordings, classes=classes is not None)
        features, prepared = ready.features, ready.preprocessing.stream(recordings)
        total = accumulate(features, prepared, threads=threads, classes=classes is not None)
        choice, readout = chosen_readout(
            total, ridge, classes=classes is not None, standardize=features.standardize
        )
        names, score = recordings[0].channels, 0.0
        model = solved_model(ready, total, readout, choice, classes=classes, channels=names)
        if choice is not None:
            score = float(choice.errors.sum(axis=1).min())
        found.append((score, model))
    best = min(found, key=itemgetter(0))[1]
    if found[1:]:
        tried = "; ".join(label_of(model.features) for _, model in found)
        log.info("map chosen: %s, of %s", label_of(best.features), tried)
    return best


def has_target_per_step(preprocessing: Preprocessing, recording: Recording) -> bool:
    """Whether prepared recordings have a target for every step, or one for all.

    >>> has_target_per_step(Preprocessing(window=10), Recording([0.0, 1.0], [0.0, 1.0]))
    False
    """
    return preprocessing.window is None and bool(preprocessing.horizon or recording.per_step)
