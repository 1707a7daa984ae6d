"""What happens to raw recordings before the map, as one value that a model carries with it.

In this order: the channels are compared, the steps brought to one rate, targets ahead in time
taken (in raw units), inputs that are known ahead and the calendar put beside the channels, gaps
filled, channels scaled, and windows cut. `apply` does it for training
and evaluation, `inputs` for prediction; both give the same inputs to the bit.

Only the scale is fitted to data. Its moments add (`catchment.data.scaling`), so many owners fit
one scale by one sum, and `fitted` puts its numbers in.

What a later segment of a recording needs of earlier ones is kept: the last value of each channel,
with which a gap is filled, and raw steps that wait, for inputs ahead in time, for the first value
of a channel, or for the rest of their window. All else is done with and forgotten.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from catchment.arrays import Array, Booleans, PositiveFloat, PositiveInt, check_fields
from catchment.data.recording import Recording, refuse_mixed_channels
from catchment.data.scaling import Moments, Scaler
from catchment.data.steps import (
    COLUMNS,
    Calendar,
    Channels,
    Policy,
    WindowLabel,
    calendar_columns,
    calendar_names,
    channel_numbers,
    checked_channels,
    checked_horizons,
    count_steps,
    cut_windows,
    duration,
    fill_recording,
    inputs_ahead,
    resample,
)
from catchment.errors import nearest

Scale = Literal["none", "recording", "own", "federated"]
CHUNK = 512  # recordings prepared together, where there may be any number
_RECORDING: Callable[[Prepared], Recording] = attrgetter("recording")


@dataclass(frozen=True, eq=False)
class Prepared:
    """Inputs ready for the map, and which steps of which raw recording they are.

    `source` is the number of the raw recording and `start` the first step in it, counted at the
    rate of the preparation if it has one; `silent` (T,) are steps for which no channel had a value.

    >>> halves = Preprocessing(scale="none", window=2)
    >>> first, second = halves.inputs([Recording([1.0, 2.0, 3.0, 4.0])])
    >>> second.u.ravel().tolist(), second.source, second.start, second.seconds
    ([3.0, 4.0], 0, 2, None)
    """

    recording: Recording
    source: int
    start: int
    silent: Booleans = field(default_factory=lambda: np.zeros(0, dtype=bool), repr=False)

    @property
    def u(self) -> Array:
        """Inputs (T, I)."""
        return self.recording.u

    @property
    def seconds(self) -> float | None:
        """Time of the first step, as the raw recording counts it; None if it has no times."""
        times = self.recording.times
        return None if times is None else float(times[0])


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """What happens to raw recordings before the map.

    Parameters
    ----------
    gaps
        What replaces missing inputs: "hold", the last value of the channel, or the first before it;
        "interpolate", a line between the neighboring values; "restart" leaves such steps out, so
        that a reservoir starts from zero after them, and segments share the weight of a target per
        recording by length; "error" refuses them. A channel without any value becomes zero.
    rate
        Steps per second to which recordings with times are brought; None leaves the steps alone.
    window
        Length of the windows that recordings are cut into, in steps or as "5s", "500ms", "1min" or
        "1h"; None leaves them whole. A duration counts steps of the rate, or of a recording's own
        median interval if there is none. What is left at the end of a recording is dropped, and
        with it recordings shorter than a window.
    step
        From the start of a window to that of the next, as `window`; if not given, windows follow
        on each other.
    label
        How a window gets its target from targets per step: that of the "last" step; of classes
        that of the "majority" (the first of several); of numbers their "mean". Missing ones do not
        count in the last two. A target per recording goes to all its windows, with its weight.
    horizon
        Where recordings have no targets: predict the inputs this many steps ahead, in raw units.
        Several numbers make a target of each.
    predicted
        Names or numbers of the channels that a horizon predicts; all that are not `known` if not
        given.
    known
        Names or numbers of channels that are known ahead, such as a price list: their values at
        every horizon become further inputs. Rows at the end of a recording that have a value of
        no other channel are the future; past the last of them its value stands.
    calendar
        Any of "hour", "weekday" and "season": further inputs that say when a step is, four of
        each; see `catchment.data.steps`. Recordings need times that are dates.
    scale
        "none"; "recording", each recording by its own moments; "own", by the moments of the
        recordings that are handed in together, those of one client; "federated", by moments of all
        training clients, which are to be fitted; or a `Scaler`, the fitted numbers.

    >>> preprocessing = Preprocessing(gaps="interpolate", rate=2, window="1s", scale="none")
    >>> raw = Recording([1.0, np.nan, 3.0], y=[0.0, 1.0, 2.0], times=[0.0, 0.5, 1.5])
    >>> [(part.u.ravel().tolist(), part.y.tolist()) for part in preprocessing.apply([raw])]
    [([1.0, 1.6666666666666665], [1.0]), ([2.333333333333333, 3.0], [2.0])]
    """

    gaps: Policy = "hold"
    rate: PositiveFloat | None = None
    window: PositiveInt | str | None = None
    step: PositiveInt | str | None = None
    label: WindowLabel = "last"
    horizon: PositiveInt | tuple[PositiveInt, ...] | None = None
    predicted: Channels | None = None
    known: Channels = ()
    calendar: tuple[Calendar, ...] = ()
    scale: Scale | Scaler = "federated"

    def __post_init__(self) -> None:
        kinds = (self.calendar,) if isinstance(self.calendar, str) else self.calendar
        object.__setattr__(self, "calendar", tuple(dict.fromkeys(kinds)))
        check_fields(self)
        if self.rate is not None:
            object.__setattr__(self, "rate", float(self.rate))
        if self.horizon is not None:
            object.__setattr__(self, "horizon", checked_horizons(self.horizon))
        for name, given in (("predicted", self.predicted), ("known", self.known)):
            if given is not None and given not in ((), []):
                ahead = self.horizon is not None
                object.__setattr__(self, name, checked_channels(name, given, ahead=ahead))
        object.__setattr__(self, "known", tuple(self.known))
        for one in set(self.known).intersection(self.predicted or ()):
            raise ValueError(f"{one!r} is both predicted and known ahead; name it once")
        if self.label == "majority" and self.horizon is not None:
            raise ValueError(
                'label is "majority" and horizon is set, but inputs ahead in time are numbers; '
                'pass label="last" or "mean"'
            )
        for name, length in (("window", self.window), ("step", self.step)):
            if isinstance(length, str):
                count_steps(name, length, 1 / (self.rate or math.inf))
            elif length is not None:
                object.__setattr__(self, name, int(length))
        if self.step is not None and self.window is None:
            raise ValueError(f"step is {self.step!r} without a window; pass a window too")

    @property
    def horizons(self) -> tuple[int, ...]:
        """Steps ahead that are predicted, one or several; none without a horizon.

        >>> Preprocessing(horizon=3).horizons, Preprocessing(horizon=[1, 24]).horizons
        ((3,), (1, 24))
        """
        if self.horizon is None:
            return ()
        return (self.horizon,) if isinstance(self.horizon, int) else self.horizon

    def predicted_of(self, channels: Sequence[str] | int) -> list[int]:
        """Return the numbers of the channels that a horizon predicts, of these or of so many.

        >>> Preprocessing(horizon=1, known=("price",)).predicted_of(("load", "price", "wind"))
        [0, 2]
        """
        known = channel_numbers("known", self.known, channels)
        if self.predicted is not None:
            return channel_numbers("predicted", self.predicted, channels)
        n = channels if isinstance(channels, int) else len(channels)
        left = [k for k in range(n) if k not in known]
        if not left:
            raise ValueError(
                f"all {n} channels are known beforehand, and none is left to predict; leave one "
                "out of known"
            )
        return left

    def targets_ahead(self, recording: Recording, u: Array, name: str) -> Array:
        """Return the targets (T, K) that a horizon makes of inputs u (T, I) of a recording."""
        if recording.y is not None:
            raise ValueError(
                f"{name} has targets, and a horizon of {self.horizon} steps asks for inputs ahead "
                "in time instead; leave out the targets or the horizon"
            )
        predicted = self.predicted_of(recording.channels or recording.n_inputs)
        return inputs_ahead(u[:, predicted], self.horizons)

    def n_targets(self, channels: Sequence[str] | int) -> int:
        """Return how many targets a horizon makes of recordings of these channels."""
        return len(self.horizons) * len(self.predicted_of(channels))

    def n_present(self, recording: Recording) -> int:
        """Return how many steps are not in the future; all, where nothing is known ahead.

        >>> raw = Recording([[1.0, 5.0], [2.0, 6.0], [np.nan, 7.0]], channels=("load", "price"))
        >>> Preprocessing(horizon=1, known=("price",)).n_present(raw)
        2
        """
        if not self.known:
            return recording.n_steps
        known = channel_numbers("known", self.known, recording.channels or recording.n_inputs)
        others = np.isnan(np.delete(recording.u, known, axis=1))
        present = np.flatnonzero(~np.logical_and.reduce(others, axis=1))
        if not len(present):
            raise ValueError(
                "a recording has values of no channel but those known beforehand; leave it out, or "
                "take one of them out of known"
            )
        return int(present[-1]) + 1

    @property
    def looks_around(self) -> bool:
        """Whether inputs of a map are more than the channels: known ahead, or a calendar."""
        return bool(self.known or self.calendar)

    def n_inputs(self, n_channels: int) -> int:
        """Return how many inputs a map gets of recordings of this many channels.

        >>> Preprocessing(horizon=(1, 24), known=[1], calendar=("hour",)).n_inputs(2)
        8
        """
        ahead = len(self.horizons) * len(self.known) if self.known else 0
        return n_channels + ahead + COLUMNS * len(self.calendar)

    @property
    def is_fitted(self) -> bool:
        """Whether there is nothing left to fit, so that recordings can be prepared."""
        return isinstance(self.scale, Scaler) or self.scale != "federated"

    @property
    def by_duration(self) -> bool:
        """Whether windows are cut by seconds, and not by steps."""
        return isinstance(self.window, str) or isinstance(self.step, str)

    def moments(self, recordings: Iterable[Recording]) -> Moments:
        """Return what one client tells for fitting: the moments of its inputs before scaling.

        >>> Preprocessing().moments([Recording([1.0, np.nan, 3.0])]).mean
        array([1.66666667])
        """
        return Moments.of(self.before_scaling(recordings))

    def fitted(self, scaler: Scaler | Moments) -> Preprocessing:
        """Return the preparation with the numbers of a scale that was to be fitted.

        Parameters
        ----------
        scaler
            The scaler, or the summed moments of the training clients.

        >>> preprocessing = Preprocessing()
        >>> ready = preprocessing.fitted(preprocessing.moments([Recording([1.0, 3.0])]))
        >>> ready.apply([Recording([1.0, 5.0])])[0].u.ravel().tolist()
        [-1.0, 3.0]
        """
        if self.scale in ("none", "recording", "own"):
            raise ValueError(
                f'scale is "{self.scale}", which has nothing to fit; pass scale="federated"'
            )
        numbers = Scaler.from_moments(scaler) if isinstance(scaler, Moments) else scaler
        return replace(self, scale=numbers)

    def before_scaling(self, recordings: Iterable[Recording]) -> list[Recording]:
        """Return what the moments of a scale are taken of: inputs without gaps, at the rate.

        A channel without any value in a recording stays missing, so that it does not count.

        >>> held = Preprocessing(gaps="hold").before_scaling([Recording([1.0, np.nan])])[0]
        >>> held.u.ravel().tolist()
        [1.0, 1.0]
        """
        return list(map(_RECORDING, self._without_gaps(list(recordings), alone=True)))

    def apply(self, recordings: Iterable[Recording]) -> list[Recording]:
        """Return prepared recordings with their targets, for training and evaluation.

        `RAW` returns the same objects. Nothing is left out for want of a target: where it is
        missing it is NaN, and the statistics pass over it.

        >>> forecast = Preprocessing(horizon=1, scale="none").apply([Recording([1.0, 2.0, 3.0])])[0]
        >>> forecast.u.ravel().tolist(), forecast.y.ravel().tolist()
        ([1.0, 2.0, 3.0], [2.0, 3.0, nan])
        """
        if self == RAW:
            return list(recordings)
        return list(map(_RECORDING, self._prepared(recordings, targets=True)))

    def stream(self, recordings: Iterable[Recording]) -> Iterable[Recording]:
        """Yield what `apply` returns, one raw recording after another, for clients of any size.

        Only a scale of their "own" needs all recordings at once; `RAW` hands them on as they are.

        >>> preprocessing = Preprocessing(scale="none", window=2)
        >>> [part.n_steps for part in preprocessing.stream([Recording([0.0] * 5)])]
        [2, 2]
        """
        if self == RAW:
            return recordings
        chunk = CHUNK if isinstance(self.scale, Scaler) or self.scale != "own" else None
        return map(_RECORDING, self._prepared(recordings, targets=True, chunk=chunk))

    def inputs(self, recordings: Iterable[Recording]) -> list[Prepared]:
        """Return prepared inputs for prediction, each with its place in the raw recordings.

        >>> timed = Recording([1.0, 3.0], times=[5.0, 6.0])
        >>> ready = Preprocessing(scale="own", window=1).inputs([timed])
        >>> [(segment.u.ravel().tolist(), segment.start, segment.seconds) for segment in ready]
        [([-1.0], 0, 5.0), ([1.0], 1, 6.0)]
        """
        if self == RAW:
            return [
                Prepared(one if one.y is None else replace(one, y=None), source, 0)
                for source, one in enumerate(recordings)
            ]
        return list(self._prepared(recordings))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that could change a prediction, in hexadecimal.

        Two ways to say one thing, such as "1s" and "1000ms", have one fingerprint.
        """
        facts = {"prepare": 1, **self.settings()}
        for name in ("window", "step"):
            length = facts[name]
            if isinstance(length, str) and self.rate is not None:
                facts[name] = count_steps(name, length, 1 / self.rate)
            elif isinstance(length, str):
                facts[name] = {"seconds": duration(name, length)}
        if self.step is None:
            facts["step"] = facts["window"]
        if self.window is None:
            facts["label"] = None
        if isinstance(self.scale, Scaler):  # no minus zeros, which scale alike
            facts["scale"]["mean"] = (self.scale.mean + 0.0).tolist()
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain JSON values; `from_settings` reads them back exactly.

        >>> Preprocessing(window="5s").settings()["window"]
        '5s'
        """
        beside = ("predicted", "known", "calendar")  # as far as there are any
        settings: dict[str, Any] = {}
        for name in ("gaps", "rate", "window", "step", "label", "horizon", "scale", *beside):
            value = getattr(self, name)
            if isinstance(value, Scaler):
                value = {"mean": value.mean.tolist(), "scale": value.scale.tolist()}
            if value or name not in beside:
                settings[name] = list(value) if isinstance(value, tuple) else value
        return settings

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Preprocessing:
        """Return the preparation of some settings; those that are not there have their defaults.

        >>> Preprocessing.from_settings(RAW.settings()) == RAW
        True
        """
        known = cls.__dataclass_fields__
        for name in settings:
            if name not in known:
                raise ValueError(f"preprocessing has no setting {name!r}; {nearest(name, known)}")
        scale = settings.get("scale", cls.scale)
        if isinstance(scale, Mapping):
            if set(scale) != {"mean", "scale"}:
                raise ValueError(
                    f"scale has the keys {sorted(scale)}; pass lists of numbers mean and scale"
                )
            scale = Scaler(np.array(scale["mean"], float), np.array(scale["scale"], float))
        return cls(**{**settings, "scale": scale})

    def _prepared(
        self, recordings: Iterable[Recording], *, targets: bool = False, chunk: int | None = None
    ) -> Iterator[Prepared]:
        """Yield what is left of recordings, a chunk of which is prepared together, or all."""
        many, n_found, longest = iter(recordings), 0, 0
        while raw := list(islice(many, chunk)):
            for segment in self._scaled(self._without_gaps(raw, targets=targets)):
                longest = max(longest, segment.recording.n_steps)
                cuts: Iterable[tuple[int, Recording]] = [(0, segment.recording)]
                if self.window is not None:
                    lengths = self._lengths(raw[segment.source], segment.source)
                    cuts = cut_windows(segment.recording, *lengths, self.label, segment.source)
                for start, one in cuts:
                    n_found += 1
                    silent = segment.silent[start : start + one.n_steps]
                    if not silent.all():
                        yield Prepared(one, segment.source, segment.start + start, silent)
        if n_found or not (longest or chunk):
            return
        if self.window is None:
            raise ValueError("nothing is left of the recordings; pass some with steps and targets")
        told = f", the longest has {longest} steps" if longest else ""
        raise ValueError(
            f"no recording is as long as a window of {self.window!r}{told}; pass a shorter window "
            "or longer recordings"
        )

    def _without_gaps(
        self, raw: list[Recording], *, targets: bool = False, alone: bool = False
    ) -> list[Prepared]:
        """Return segments without gaps, not scaled; channels alone, or all inputs of the map."""
        refuse_mixed_channels(raw)
        segments = []
        for source, recording in enumerate(raw):
            steady = recording
            if not targets and recording.y is not None:
                steady = replace(recording, y=None)
            if self.rate is not None:
                steady = resample(steady, self.rate)
            silent: Booleans = np.logical_and.reduce(np.isnan(steady.u), axis=1)
            if self.gaps != "error" and silent.size and silent.all():
                continue
            if targets and self.horizon is not None:
                y = self.targets_ahead(steady, steady.u, f"recording {source}")
                steady = replace(steady, y=y, per_step=True)
            if self.known or self.calendar:
                steady = self._looking_around(steady, source, alone=alone)
            for start, segment in fill_recording(steady, self.gaps, source, silent=np.nan):
                # Segments share a recording's weight, windows do not.
                if self.window is not None and segment.weight != recording.weight:
                    segment = replace(segment, weight=recording.weight)
                segments.append(Prepared(segment, source, start, silent[start:]))
        if raw and not segments:
            other = ', or choose another gap policy than "restart"' * (self.gaps == "restart")
            raise ValueError(
                f"every step of {len(raw)} recordings lacks an input; leave out recordings and "
                f"channels without values{other}"
            )
        return segments

    def _looking_around(self, recording: Recording, number: int, *, alone: bool) -> Recording:
        """Return the steps before the future, with all inputs unless the channels stay alone."""
        u, names = recording.u, recording.channels
        known = channel_numbers("known", self.known, names or recording.n_inputs)
        part = recording.part(0, self.n_present(recording))
        if alone:
            return part
        columns = [u]
        for h in self.horizons if known else ():
            # Past the end the last value stands.
            columns.append(u[np.minimum(np.arange(len(u)) + h, len(u) - 1)][:, known])
        if self.calendar:
            columns.append(calendar_columns(recording, self.calendar, number))
        if names is not None:
            ahead = [f"{names[k]} +{h}" for h in self.horizons for k in known]
            names = (*names, *ahead, *calendar_names(self.calendar))
        return replace(part, u=np.hstack(columns)[: part.n_steps], channels=names)

    def _scaled(self, segments: list[Prepared]) -> list[Prepared]:
        """Return segments with scaled inputs, and zeros, which drive nothing, for silent ones."""
        if not self.is_fitted:
            raise ValueError(
                'the scale is "federated" and not fitted yet; fit it with '
                "preprocessing.fitted(moments), where moments are the sum of "
                'preprocessing.moments(...) over training clients, or pass scale="own"'
            )
        scaler, scaled = self.scale if isinstance(self.scale, Scaler) else None, []
        if scaler is None and self.scale == "recording":  # also where gaps leave several segments
            each, by_source = replace(self, scale="own"), groupby(segments, attrgetter("source"))
            return [one for _, same in by_source for one in each._scaled(list(same))]
        if segments and (scaler is None or self.known or self.calendar) and self.scale != "none":
            scaler = self._scaler(segments)
        for segment in segments:
            raw = segment.recording.u
            u = raw if scaler is None else scaler(raw)
            silent = np.isnan(u[0])  # other gaps are filled by now
            if silent.any():
                u = np.where(silent, 0.0, u)
            if u is not raw:
                segment = replace(segment, recording=replace(segment.recording, u=u))
            scaled.append(segment)
        return scaled

    def _scaler(self, segments: list[Prepared]) -> Scaler:
        """Return what scales the channels and what is known ahead, but not the calendar."""
        first = segments[0].recording
        n = first.n_inputs - self.n_inputs(0)
        if isinstance(self.scale, Scaler):
            scaler = self.scale
        else:
            scaler = Scaler.from_moments(Moments.of([segment.u[:, :n] for segment in segments]))
        if not self.looks_around or len(scaler.mean) != n:
            return scaler
        channels = n if first.channels is None else first.channels[:n]
        known = channel_numbers("known", self.known, channels)
        parts = []
        for numbers, plain in ((scaler.mean, 0.0), (scaler.scale, 1.0)):
            ahead = np.tile(numbers[known], len(self.horizons))
            around = np.full(COLUMNS * len(self.calendar), plain)
            parts.append(np.concatenate([numbers, ahead, around]))
        return Scaler(*parts)

    def _lengths(self, recording: Recording, number: int) -> tuple[int, int]:
        """Return the window and the step of a raw recording, in steps at the rate."""
        interval = None if self.rate is None else 1 / self.rate
        if interval is None and recording.times is not None and self.by_duration:
            if recording.n_steps == 1:
                return 2, 1  # a single step tells no interval, and is no window of a duration
            interval = float(np.median(np.diff(recording.times)))
        lengths = []
        for name, length in (("window", self.window), ("step", self.step or self.window)):
            if isinstance(length, str):
                if interval is None:
                    raise ValueError(
                        f"{name} is {length!r}, but recording {number} has no times; name its time "
                        f"column, or pass the {name} in steps"
                    )
                length = count_steps(name, length, interval)
            lengths.append(length or recording.n_steps)
        return lengths[0], lengths[1]


RAW = Preprocessing(gaps="error", scale="none")
"""Changes nothing: what a bare map gets."""


@dataclass(frozen=True, eq=False)
class Waiting:
    """Raw steps that wait: inputs (k, I), targets (k, K) if every step has its own.

    `last` (I,) are the values of the channels before them, NaN where there was none. `skip` are
    steps, from the first that waits on, that lie between two windows.
    """

    u: Array
    y: Array
    last: Array
    skip: int = 0

    @classmethod
    def at_first(cls, segment: Recording) -> Waiting:
        """Return what waits before a recording's first step: nothing."""
        n_targets = segment.y.shape[-1] if segment.y is not None and segment.per_step else 0
        n = segment.n_inputs
        return cls(np.empty((0, n)), np.empty((0, n_targets)), np.full(n, np.nan))


def check_continuable(preprocessing: Preprocessing) -> None:
    """Raise ValueError if a recording in segments cannot be prepared as one in one piece.

    >>> check_continuable(Preprocessing(gaps="interpolate"))
    Traceback (most recent call last):
    ValueError: gaps is 'interpolate', ... pass gaps="hold" or "error"
    """
    if preprocessing.rate is not None:
        raise ValueError(
            f"rate is {preprocessing.rate:g}, and a recording in segments is not brought to "
            "another rate; do so before it is handed in, and leave out the rate"
        )
    if preprocessing.gaps not in ("hold", "error"):
        raise ValueError(
            f"gaps is {preprocessing.gaps!r}, which looks at steps that are not there yet in a "
            'recording that goes on; pass gaps="hold" or "error"'
        )
    if preprocessing.scale in ("recording", "own"):
        raise ValueError(
            f'scale is "{preprocessing.scale}", which every new segment would change; pass '
            'scale="federated" or "none"'
        )
    if preprocessing.looks_around:
        raise ValueError(
            "known and calendar put inputs beside the channels, which segments do not have yet; "
            "leave them out, or hand in whole recordings"
        )
    if preprocessing.by_duration:
        raise ValueError(
            f"window is {preprocessing.window!r} and step is {preprocessing.step!r}; in a "
            "recording that goes on pass numbers of steps"
        )


def prepared_segment(
    preprocessing: Preprocessing, segment: Recording, waiting: Waiting, *, ends: bool
) -> tuple[list[Recording], Waiting]:
    """Return what is ready of a recording with its next steps, and what waits.

    What is ready are whole windows, or, where recordings are not cut, the next steps as one piece.

    Parameters
    ----------
    segment
        The next steps; of a recording that ends it may be what waits already.
    waiting
        What earlier segments have left.
    ends
        Whether nothing follows.

    >>> preprocessing = Preprocessing(window=2, scale="none")
    >>> early = Recording([1.0, 2.0, 3.0], [[0.0]] * 3)
    >>> begin = Waiting.at_first(early)
    >>> windows, waiting = prepared_segment(preprocessing, early, begin, ends=False)
    >>> [window.u.ravel().tolist() for window in windows], waiting.u.ravel().tolist()
    ([[1.0, 2.0]], [3.0])
    """
    u = np.concatenate([waiting.u, segment.u])
    y, n_ready = None, len(u)  # targets of all these steps, and how many are known
    if preprocessing.horizon is not None:
        y = preprocessing.targets_ahead(segment, u, "a recording")
        n_ready -= 0 if ends else min(len(u), max(preprocessing.horizons))
    elif segment.per_step and segment.y is not None:
        y = np.concatenate([waiting.y, segment.y])
    own = np.empty((0, 0)) if y is None else y
    # A gap is filled with the value before it, and all waits for the first value of a channel.
    led = u if preprocessing.gaps == "error" else np.vstack([waiting.last, u])
    if preprocessing.gaps != "error" and not ends and np.isnan(led).all(axis=0).any():
        return [], Waiting(u, own, waiting.last, waiting.skip)
    alone = replace(preprocessing, window=None, step=None, horizon=None, predicted=None)
    filled = alone.apply([Recording(led)])[0].u[len(led) - len(u) :]
    whole = replace(
        segment, u=filled, y=y, times=None, name="", first_step=0, goes_on=False, per_step=None
    )
    if segment.per_step is False:
        whole = replace(whole, y=segment.y, per_step=False)
    window, step, ready, following = preprocessing.window, preprocessing.step, [], n_ready
    if window is None:
        ready = [whole.part(0, n_ready)] if n_ready else []
    else:
        following, silent = waiting.skip, np.isnan(u).all(axis=1)
        if n_ready >= waiting.skip + int(window):  # `check_continuable` has refused durations
            part = whole.part(waiting.skip, n_ready)
            for _, one in cut_windows(part, int(window), int(step or window), preprocessing.label):
                if not silent[following : following + int(window)].all():
                    ready.append(one)
                following += int(step or window)
    done = min(following, len(u))
    last = waiting.last.copy()
    for channel, values in enumerate(u[:done].T):
        known = values[~np.isnan(values)]
        last[channel] = known[-1] if len(known) else last[channel]
    return ready, Waiting(u[done:], own[done:], last, following - done)
