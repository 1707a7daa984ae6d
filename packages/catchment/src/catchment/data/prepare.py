"""What happens to raw recordings before the map, as one value that a model carries with it.

In this order: the channels are compared, the steps brought to one rate, targets ahead in time
taken (in raw units), inputs that are known ahead and the calendar put beside the channels, gaps
filled, channels scaled, and windows cut. `apply` does it for training
and evaluation, `inputs` for prediction; both give the same inputs to the bit.

Only the scale is fitted to data. Its moments add (`catchment.data.scaling`), so many owners fit
one scale by one sum, and `fitted` puts its numbers in.

Prepare a recording that comes in stretches, without the steps that came before.

What a later stretch needs of earlier ones is kept: the last value of each channel, with which a gap
is filled, and raw steps that wait, for inputs ahead in time, for the first value of a channel, or
for the rest of their window. All else is done with and forgotten.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import islice
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np

from catchment.arrays import Array
from catchment.data.ahead import (
    COLUMNS,
    Ahead,
    Calendar,
    Channels,
    calendar_columns,
    calendar_names,
    checked_channels,
    checked_horizons,
    extended,
    inputs_ahead,
    present,
)
from catchment.data.recording import Recording, refuse_mixed_channels
from catchment.data.scaling import Moments, Scaler
from catchment.data.steps import (
    Policy,
    WindowLabel,
    count_steps,
    cut_windows,
    duration,
    fill_recording,
    resample,
)

Scale = Literal["none", "own", "federated"]
CHUNK = 512  # recordings prepared together, where there may be any number


@dataclass(frozen=True, eq=False)
class Prepared:
    """Inputs ready for the map, and which steps of which raw recording they are.

    `source` is the number of the raw recording and `start` the first step in it, counted at the
    rate of the preparation if it has one.

    >>> first, second = Prepare(scale="none", window=2).inputs([Recording([1.0, 2.0, 3.0, 4.0])])
    >>> second.u.ravel().tolist(), second.source, second.start, second.seconds
    ([3.0, 4.0], 0, 2, None)
    """

    recording: Recording
    source: int
    start: int

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
class Prepare:
    """What happens to raw recordings before the map.

    Parameters
    ----------
    gaps
        What replaces missing inputs: "hold", "interpolate", "restart" or, to refuse them, "error";
        see `catchment.data.steps.fill_gaps`.
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
        each; see `catchment.data.ahead`. Recordings need times that are dates.
    scale
        "none"; "own", by the moments of the recordings that are handed in together, those of one
        client; "federated", by moments of all training clients, which are to be fitted; or a
        `Scaler`, the fitted numbers.

    >>> prepare = Prepare(gaps="interpolate", rate=2, window="1s", scale="none")
    >>> raw = Recording([1.0, np.nan, 3.0], y=[0.0, 1.0, 2.0], times=[0.0, 0.5, 1.5])
    >>> [(part.u.ravel().tolist(), part.y.tolist()) for part in prepare.apply([raw])]
    [([1.0, 1.6666666666666665], [1.0]), ([2.333333333333333, 3.0], [2.0])]
    """

    gaps: Policy = "hold"
    rate: float | None = None
    window: int | str | None = None
    step: int | str | None = None
    label: WindowLabel = "last"
    horizon: int | tuple[int, ...] | None = None
    predicted: Channels | None = None
    known: Channels = ()
    calendar: tuple[Calendar, ...] = ()
    scale: Scale | Scaler = "federated"

    def __post_init__(self) -> None:
        _refuse_other("gaps", self.gaps, get_args(Policy))
        _refuse_other("label", self.label, get_args(WindowLabel))
        if not isinstance(self.scale, Scaler):
            _refuse_other("scale", self.scale, get_args(Scale))
        if self.rate is not None:
            object.__setattr__(self, "rate", _checked_rate(self.rate))
        self._check_ahead()
        for name, length in (("window", self.window), ("step", self.step)):
            if length is not None and not isinstance(length, str):
                object.__setattr__(self, name, _checked_steps(name, length))
            elif length is not None and self.rate is not None:
                count_steps(name, length, 1 / self.rate)
            elif length is not None:
                duration(name, length)
        if self.step is not None and self.window is None:
            raise ValueError(f"step is {self.step!r} without a window; pass a window too")
        if self.label == "majority" and self.horizon is not None:
            raise ValueError(
                'label is "majority" and horizon is set, but inputs ahead in time are numbers; '
                'pass label="last" or "mean"'
            )

    def _check_ahead(self) -> None:
        if self.horizon is not None:
            object.__setattr__(self, "horizon", checked_horizons(self.horizon))
        for name in ("predicted", "known"):
            given = getattr(self, name)
            if given is None or given in ((), []):
                continue
            if self.horizon is None:
                raise ValueError(f"{name} is {given!r} without a horizon; pass a horizon too")
            object.__setattr__(self, name, checked_channels(name, given))
        object.__setattr__(self, "known", tuple(self.known))
        both = [one for one in self.known if one in (self.predicted or ())]
        if both:
            raise ValueError(f"{both[0]!r} is both predicted and known ahead; name it once")
        kinds = (self.calendar,) if isinstance(self.calendar, str) else tuple(self.calendar)
        for kind in kinds:
            _refuse_other("calendar", kind, get_args(Calendar))
        object.__setattr__(self, "calendar", tuple(dict.fromkeys(kinds)))

    @property
    def horizons(self) -> tuple[int, ...]:
        """Steps ahead that are predicted, one or several; none without a horizon.

        >>> Prepare(horizon=3).horizons, Prepare(horizon=[1, 24]).horizons
        ((3,), (1, 24))
        """
        if self.horizon is None:
            return ()
        return (self.horizon,) if isinstance(self.horizon, int) else self.horizon

    @cached_property
    def ahead(self) -> Ahead:
        """What is predicted and what is known ahead in time."""
        return Ahead(self.horizons, self.predicted, self.known)

    @property
    def looks_around(self) -> bool:
        """Whether inputs of a map are more than the channels: known ahead, or a calendar."""
        return bool(self.known or self.calendar)

    def n_inputs(self, n_channels: int) -> int:
        """Return how many inputs a map gets of recordings of this many channels.

        >>> Prepare(horizon=(1, 24), known=[1], calendar=("hour",)).n_inputs(2)
        8
        """
        return n_channels + len(self.horizons) * len(self.known) + COLUMNS * len(self.calendar)

    @property
    def is_fitted(self) -> bool:
        """Whether there is nothing left to fit, so that recordings can be prepared."""
        return self.scale != "federated"

    def moments(self, recordings: Iterable[Recording]) -> Moments:
        """Return what one client tells for fitting: the moments of its inputs before scaling.

        >>> Prepare().moments([Recording([1.0, np.nan, 3.0])]).mean
        array([1.66666667])
        """
        return Moments.of(self.before_scaling(recordings))

    def fitted(self, scaler: Scaler | Moments) -> Prepare:
        """Return the preparation with the numbers of a scale that was to be fitted.

        Parameters
        ----------
        scaler
            The scaler, or the summed moments of the training clients.

        >>> prepare = Prepare()
        >>> ready = prepare.fitted(prepare.moments([Recording([1.0, 3.0])]))
        >>> ready.apply([Recording([1.0, 5.0])])[0].u.ravel().tolist()
        [-1.0, 3.0]
        """
        if self.scale in ("none", "own"):
            raise ValueError(
                f'scale is "{self.scale}", which has nothing to fit; pass scale="federated"'
            )
        numbers = Scaler.from_moments(scaler) if isinstance(scaler, Moments) else scaler
        return replace(self, scale=numbers)

    def before_scaling(self, recordings: Iterable[Recording]) -> list[Recording]:
        """Return what the moments of a scale are taken of: inputs without gaps, at the rate.

        A channel without any value in a recording stays missing, so that it does not count.

        >>> Prepare(gaps="hold").before_scaling([Recording([1.0, np.nan])])[0].u.ravel().tolist()
        [1.0, 1.0]
        """
        raw = _without_targets(recordings)
        return [piece.recording for piece in self._without_gaps(raw, alone=True)]

    def apply(self, recordings: Iterable[Recording]) -> list[Recording]:
        """Return prepared recordings with their targets, for training and evaluation.

        `RAW` returns the same objects. Nothing is left out for want of a target: where it is
        missing it is NaN, and the statistics pass over it.

        >>> forecast = Prepare(horizon=1, scale="none").apply([Recording([1.0, 2.0, 3.0])])[0]
        >>> forecast.u.ravel().tolist(), forecast.y.ravel().tolist()
        ([1.0, 2.0, 3.0], [2.0, 3.0, nan])
        """
        raw = list(recordings)
        if self._changes_nothing:
            return raw
        return [piece.recording for piece in self._prepared(raw, targets=True)]

    def stream(self, recordings: Iterable[Recording]) -> Iterable[Recording]:
        """Yield what `apply` returns, one raw recording after another, for clients of any size.

        Only a scale of their "own" needs all recordings at once; `RAW` hands them on as they are.

        >>> prepare = Prepare(scale="none", window=2)
        >>> [part.n_steps for part in prepare.stream([Recording([0.0] * 5)])]
        [2, 2]
        """
        if self._changes_nothing:
            return recordings
        if self.scale == "own":
            return self.apply(recordings)
        return self._streamed(recordings)

    def _streamed(self, recordings: Iterable[Recording]) -> Iterator[Recording]:
        found = False
        many = iter(recordings)
        while raw := list(islice(many, CHUNK)):
            pieces = self._windows(raw, self._scaled(self._without_gaps(raw, targets=True)))
            found = found or bool(pieces)
            yield from (piece.recording for piece in pieces)
        if not found:
            raise self._too_short(())

    def inputs(self, recordings: Iterable[Recording]) -> list[Prepared]:
        """Return prepared inputs for prediction, each with its place in the raw recordings.

        >>> ready = Prepare(scale="own", window=1).inputs([Recording([1.0, 3.0], times=[5.0, 6.0])])
        >>> [(piece.u.ravel().tolist(), piece.start, piece.seconds) for piece in ready]
        [([-1.0], 0, 5.0), ([1.0], 1, 6.0)]
        """
        raw = _without_targets(recordings)
        if self._changes_nothing:
            return [Prepared(recording, source, 0) for source, recording in enumerate(raw)]
        return self._prepared(raw)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that could change a prediction, in hexadecimal.

        Two ways to say one thing, such as "1s" and "1000ms", have one fingerprint.
        """
        window, step = (self._canonical(name) for name in ("window", "step"))
        scale = self.scale
        if isinstance(scale, Scaler):
            scale = replace(scale, mean=scale.mean + 0.0)  # no minus zeros, which scale alike
        facts = {
            "prepare": 1,
            "gaps": self.gaps,
            "rate": self.rate,
            "window": window,
            "step": window if step is None else step,
            "label": None if window is None else self.label,
            "horizon": _listed(self.horizon),
            "scale": _scale_settings(scale),
            **self._beside(),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain JSON values; `from_settings` reads them back exactly.

        >>> Prepare(window="5s").settings()["window"]
        '5s'
        """
        beside = ("predicted", "known", "calendar")
        settings = {f.name: self.__dict__[f.name] for f in fields(self) if f.name not in beside}
        settings["horizon"] = _listed(self.horizon)
        return {**settings, "scale": _scale_settings(self.scale), **self._beside()}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Prepare:
        """Return the preparation of some settings; those that are not there have their defaults.

        >>> Prepare.from_settings(RAW.settings()) == RAW
        True
        """
        known = [field.name for field in fields(cls)]
        for name in settings:
            if name not in known:
                raise ValueError(
                    f"a preparation has no setting {name!r}; there are {', '.join(known)}"
                )
        scale = settings.get("scale", cls.scale)
        if isinstance(scale, Mapping):
            if set(scale) != {"mean", "scale"}:
                raise ValueError(
                    f"scale has the keys {sorted(scale)}; pass lists of numbers mean and scale"
                )
            scale = Scaler(np.array(scale["mean"], float), np.array(scale["scale"], float))
        return cls(**{**settings, "scale": scale})

    def _beside(self) -> dict[str, Any]:
        """Return the settings of what lies around the channels, as far as there are any."""
        given = {"predicted": self.predicted, "known": self.known, "calendar": self.calendar}
        return {name: list(value) for name, value in given.items() if value}

    @property
    def _changes_nothing(self) -> bool:
        # Missing inputs are then refused by the map, which looks for them anyway.
        alone = self.rate is None and self.window is None and self.horizon is None
        alone = alone and not self.calendar
        return alone and self.gaps == "error" and self.scale == "none"

    def _canonical(self, name: str) -> Any:
        length = self.window if name == "window" else self.step
        if not isinstance(length, str):
            return length
        if self.rate is not None:
            return count_steps(name, length, 1 / self.rate)
        return {"seconds": duration(name, length)}

    def _prepared(self, raw: list[Recording], *, targets: bool = False) -> list[Prepared]:
        pieces = self._scaled(self._without_gaps(raw, targets=targets))
        windows = self._windows(raw, pieces)
        if raw and not windows:
            raise self._too_short(pieces)
        return windows

    def _windows(self, raw: Sequence[Recording], pieces: list[Prepared]) -> list[Prepared]:
        if self.window is None:
            return pieces
        lengths = [self._lengths(recording, number) for number, recording in enumerate(raw)]
        return [
            Prepared(window, piece.source, piece.start + start)
            for piece in pieces
            for start, window in cut_windows(
                piece.recording, *lengths[piece.source], self.label, number=piece.source
            )
        ]

    def _too_short(self, pieces: Sequence[Prepared]) -> ValueError:
        if self.window is None:
            return ValueError("nothing is left of the recordings; pass some with steps and targets")
        longest = max((piece.recording.n_steps for piece in pieces), default=0)
        told = f", the longest has {longest} steps" if longest else ""
        return ValueError(
            f"no recording is as long as a window of {self.window!r}{told}; pass a shorter window "
            "or longer recordings"
        )

    def _without_gaps(
        self, raw: list[Recording], *, targets: bool = False, alone: bool = False
    ) -> list[Prepared]:
        """Return pieces without gaps, not scaled; channels alone, or with all inputs of the map."""
        refuse_mixed_channels(raw)
        pieces = []
        for source, recording in enumerate(raw):
            steady = recording if self.rate is None else resample(recording, self.rate)
            if targets and self.horizon is not None:
                steady = self._with_inputs_ahead(steady, source)
            steady = present(steady, self.ahead) if alone else self._all_inputs(steady, source)
            filled, _ = fill_recording(steady, self.gaps, source, silent=np.nan)
            for start, piece in filled:
                # Pieces share a recording's weight, windows do not.
                if self.window is not None and piece.weight != recording.weight:
                    piece = replace(piece, weight=recording.weight)
                pieces.append(Prepared(piece, source, start))
        if raw and not pieces:
            raise ValueError(
                f"every step of {len(raw)} recordings lacks an input; choose another gap policy "
                'than "restart", or leave out the channel that is missing'
            )
        return pieces

    def _with_inputs_ahead(self, recording: Recording, number: int) -> Recording:
        if recording.y is not None:
            raise ValueError(
                f"recording {number} has targets, and a horizon of {self.horizon} steps asks for "
                "inputs ahead in time instead; leave out the targets or the horizon"
            )
        return replace(recording, y=self.ahead.targets(recording), per_step=True)

    def _all_inputs(self, recording: Recording, number: int) -> Recording:
        """Return a recording with what is known ahead and the calendar beside its channels."""
        if not self.looks_around:
            return recording
        columns, names = [], list(calendar_names(self.calendar))
        if self.known:
            columns.append(self.ahead.inputs(recording))
            names = [*self.ahead.names(recording.channels or ()), *names]
        if self.calendar:
            columns.append(calendar_columns(recording, self.calendar, number))
        return extended(recording, np.hstack(columns), names, self.ahead.n_present(recording))

    def _scaled(self, pieces: list[Prepared]) -> list[Prepared]:
        if self.scale == "federated":
            raise ValueError(
                'the scale is "federated" and not fitted yet; fit it with '
                "prepare.fitted(moments), where moments are the sum of prepare.moments(...) over "
                'training clients, or pass scale="own"'
            )
        own = [piece.recording for piece in pieces]
        if self.scale != "none" and own:
            scaler = self._own_scale(own) if isinstance(self.scale, str) else self.scale
            own = self._widened(scaler, own[0]).apply(own)
        return [
            replace(piece, recording=_without_silence(recording))
            for piece, recording in zip(pieces, own, strict=True)
        ]

    def _own_scale(self, pieces: list[Recording]) -> Scaler:
        """Return the scale of the channels of pieces that may have further inputs."""
        n = self._n_channels(pieces[0])
        if n == pieces[0].n_inputs:
            return Scaler.fit(pieces)
        return Scaler.fit([replace(one, u=one.u[:, :n], channels=None) for one in pieces])

    def _n_channels(self, prepared: Recording) -> int:
        return prepared.n_inputs - self.n_inputs(0)

    def _widened(self, scaler: Scaler, prepared: Recording) -> Scaler:
        """Return a scale of channels that also scales what is known ahead, not the calendar."""
        n = self._n_channels(prepared)
        if n == prepared.n_inputs or len(scaler.mean) != n:
            return scaler
        channels = n if prepared.channels is None else prepared.channels[:n]
        known, n_calendar = self.ahead.known_of(channels), COLUMNS * len(self.calendar)
        parts = [
            [numbers, np.tile(numbers[known], len(self.horizons)), np.full(n_calendar, plain)]
            for numbers, plain in ((scaler.mean, 0.0), (scaler.scale, 1.0))
        ]
        return Scaler(*(np.concatenate(one) for one in parts))

    def _lengths(self, recording: Recording, number: int) -> tuple[int, int]:
        """Return the window and the step of a raw recording, in steps at the rate."""
        interval = None if self.rate is None else 1 / self.rate
        by_duration = isinstance(self.window, str) or isinstance(self.step, str)
        if interval is None and recording.times is not None and by_duration:
            if recording.n_steps == 1:
                return 2, 1  # a single step tells no interval, and is no window of a duration
            interval = float(np.median(np.diff(recording.times)))

        def in_steps(name: str, length: int | str | None) -> int | None:
            if not isinstance(length, str):
                return length
            if interval is None:
                raise ValueError(
                    f"{name} is {length!r}, but recording {number} has no times; name its time "
                    f"column, or pass the {name} in steps"
                )
            return count_steps(name, length, interval)

        window = in_steps("window", self.window) or recording.n_steps
        return window, in_steps("step", self.step) or window


def _without_targets(recordings: Iterable[Recording]) -> list[Recording]:
    return [one if one.y is None else replace(one, y=None) for one in recordings]


def _without_silence(recording: Recording) -> Recording:
    """Return the recording with zeros, which drive nothing, for channels without any value."""
    silent = np.isnan(recording.u[0])  # other gaps are filled by now
    if not silent.any():
        return recording
    return replace(recording, u=np.where(silent, 0.0, recording.u))


def _listed(horizon: int | tuple[int, ...] | None) -> int | list[int] | None:
    return list(horizon) if isinstance(horizon, tuple) else horizon


def _scale_settings(scale: Scale | Scaler) -> Any:
    if not isinstance(scale, Scaler):
        return scale
    return {"mean": scale.mean.tolist(), "scale": scale.scale.tolist()}


def _checked_steps(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} is {value!r}; pass a whole number of steps, 1 or more")
    return int(value)


def _checked_rate(value: Any) -> float:
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not (number and 0 < float(value) < math.inf):
        raise ValueError(f"rate is {value!r}; pass a positive number of steps per second")
    return float(value)


def _refuse_other(name: str, value: Any, allowed: Sequence[str]) -> None:
    if not (isinstance(value, str) and value in allowed):
        raise ValueError(f"{name} is {value!r}; pass one of {', '.join(allowed)}")


RAW = Prepare(gaps="error", scale="none")
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
    def at_first(cls, stretch: Recording) -> Waiting:
        """Return what waits before a recording's first step: nothing."""
        n_targets = stretch.y.shape[-1] if stretch.y is not None and stretch.per_step else 0
        n = stretch.n_inputs
        return cls(np.empty((0, n)), np.empty((0, n_targets)), np.full(n, np.nan))


def check_continuable(prepare: Prepare) -> None:
    """Raise ValueError if a recording in stretches cannot be prepared as one in one piece.

    >>> check_continuable(Prepare(gaps="interpolate"))
    Traceback (most recent call last):
    ValueError: gaps is 'interpolate', ... pass gaps="hold" or "error"
    """
    if prepare.rate is not None:
        raise ValueError(
            f"rate is {prepare.rate:g}, and a recording in stretches is not brought to another "
            "rate; do so before it is handed in, and leave out the rate"
        )
    if prepare.gaps not in ("hold", "error"):
        raise ValueError(
            f"gaps is {prepare.gaps!r}, which looks at steps that are not there yet in a recording "
            'that goes on; pass gaps="hold" or "error"'
        )
    if prepare.scale == "own":
        raise ValueError(
            'scale is "own", which every new stretch would change; pass scale="federated" or "none"'
        )
    if prepare.looks_around:
        raise ValueError(
            "known and calendar put inputs beside the channels, which stretches do not have yet; "
            "leave them out, or hand in whole recordings"
        )
    if isinstance(prepare.window, str) or isinstance(prepare.step, str):
        raise ValueError(
            f"window is {prepare.window!r} and step is {prepare.step!r}; in a recording that goes "
            "on pass numbers of steps"
        )


def prepared_stretch(
    prepare: Prepare, stretch: Recording, waiting: Waiting, *, ends: bool
) -> tuple[list[Recording], Waiting]:
    """Return what is ready of a recording with its next steps, and what waits.

    What is ready are whole windows, or, where recordings are not cut, the next steps as one piece.

    Parameters
    ----------
    stretch
        The next steps; of a recording that ends it may be what waits already.
    waiting
        What earlier stretches have left.
    ends
        Whether nothing follows.

    >>> prepare = Prepare(window=2, scale="none")
    >>> early = Recording([1.0, 2.0, 3.0], [[0.0]] * 3)
    >>> windows, waiting = prepared_stretch(prepare, early, Waiting.at_first(early), ends=False)
    >>> [window.u.ravel().tolist() for window in windows], waiting.u.ravel().tolist()
    ([[1.0, 2.0]], [3.0])
    """
    u = np.concatenate([waiting.u, stretch.u])
    y, n_ready = _targets(prepare, stretch, waiting, u, ends)
    filled = _filled(prepare, u, waiting.last, ends)
    if filled is None:
        return [], Waiting(u, _rows(y, 0), waiting.last, waiting.skip)
    whole = replace(
        stretch, u=filled, y=y, times=None, name="", first_step=0, goes_on=False, per_step=None
    )
    if stretch.per_step is False:
        whole = replace(whole, y=stretch.y, per_step=False)
    ready, following = _pieces(prepare, whole, n_ready, waiting.skip)
    done = min(following, len(u))
    last = _last_values(u[:done], waiting.last)
    return ready, Waiting(u[done:], _rows(y, done), last, following - done)


def _targets(
    prepare: Prepare, stretch: Recording, waiting: Waiting, u: Array, ends: bool
) -> tuple[Array | None, int]:
    """Return the targets (k, K) of raw steps u, None if they have none, and how many are known."""
    if prepare.horizon is None:
        if stretch.y is None or not stretch.per_step:
            return None, len(u)
        return np.concatenate([waiting.y, stretch.y]), len(u)
    if stretch.y is not None:
        raise ValueError(
            f"a recording has targets, and a horizon of {prepare.horizon} steps asks for inputs "
            "ahead in time instead; leave out the targets or the horizon"
        )
    columns = prepare.ahead.predicted_of(stretch.channels or stretch.n_inputs)
    y = inputs_ahead(u[:, columns], prepare.horizons)
    return y, len(u) if ends else max(0, len(u) - max(prepare.horizons))


def _filled(prepare: Prepare, u: Array, last: Array, ends: bool) -> Array | None:
    """Return inputs without gaps, scaled; None while a channel waits for its first value."""
    alone = replace(prepare, window=None, step=None, horizon=None, predicted=None)
    if prepare.gaps == "error":
        return alone.apply([Recording(u)])[0].u
    led = np.vstack([last, u])
    if not ends and np.isnan(led).all(axis=0).any():
        return None
    return alone.apply([Recording(led)])[0].u[1:]


def _pieces(
    prepare: Prepare, whole: Recording, n_ready: int, skip: int
) -> tuple[list[Recording], int]:
    """Return the pieces that are ready, and the first step that is needed after them."""
    window = prepare.window
    if window is None:
        return ([whole.part(0, n_ready)] if n_ready else []), n_ready
    step = prepare.step or window
    assert isinstance(window, int)  # `check_continuable` has refused durations
    assert isinstance(step, int)
    if n_ready < skip + window:
        return [], skip
    part = whole.part(skip, n_ready)
    windows = [piece for _, piece in cut_windows(part, window, step, prepare.label)]
    return windows, skip + step * len(windows)


def _last_values(u: Array, last: Array) -> Array:
    """Return the last value (I,) of each channel that is known, those before u if none is."""
    found = last.copy()
    for channel in range(u.shape[1]):
        known = np.flatnonzero(~np.isnan(u[:, channel]))
        if len(known):
            found[channel] = u[known[-1], channel]
    return found


def _rows(y: Array | None, first: int) -> Array:
    return np.empty((0, 0)) if y is None else y[first:]
