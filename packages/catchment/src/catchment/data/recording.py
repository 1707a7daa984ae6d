"""One recorded sequence, the unit in which data enters the library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catchment.arrays import LARGEST, Array, as_matrix, as_numbers, frozen, refuse_nonfinite


@dataclass(frozen=True, eq=False)
class Recording:
    """One sequence: inputs (T, I), and targets per step (T, K), per sequence (K,), or none.

    Missing values are NaN. A class is a one-hot row; `labeled` makes it. `per_step` says whether
    every step has its own target row. If it is not given, a matrix, and a list of numbers as long
    as the sequence, is a target per step; without targets it is None. To change a sequence use
    `dataclasses.replace`, which keeps it: a one-hot row may happen to be as long as the sequence.
    To take some of its steps use `part`, which cuts everything that belongs to a step.

    `times` (T,) are seconds, finite and increasing, where they are known: resampling and windows
    of a length in seconds need them. `epoch` is their time 0 in seconds since 1 January 1970 by the
    recording's own clock, where dates are known: a calendar needs it. `channels` are the names of
    the inputs, by themselves those of a data frame's columns, and `classes` those of the columns of
    one-hot targets, where they have any.

    A recording that comes in segments has a `name`. `first_step` says where in it this segment
    begins, and `goes_on` that more is to come; the segment without it is the last. `part` keeps
    all three.

    >>> s = Recording([0.0, 1.0, 2.0], y=[1.0, 2.0, 3.0])
    >>> s.u.shape, s.y.shape
    ((3, 1), (3, 1))
    >>> Recording.labeled([[0.1, 0.2], [0.3, 0.4]], label="run", classes=("sit", "walk", "run")).y
    array([0., 0., 1.])
    >>> timed = Recording([[0.1], [0.2], [0.4]], times=[0.0, 0.5, 1.0], channels=["load"])
    >>> timed.part(1, 3).times, timed.channels
    (array([0.5, 1. ]), ('load',))
    >>> early = Recording([0.0, 1.0, 2.0], name="ward 3").part(0, 2)
    >>> early.name, early.first_step, early.goes_on
    ('ward 3', 0, True)
    """

    u: Array
    y: Array | None = None
    weight: float = 1.0
    per_step: bool | None = None
    times: Array | None = None
    channels: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    name: str = ""
    first_step: int = 0
    goes_on: bool = False
    epoch: float | None = None

    def __post_init__(self) -> None:
        columns = tuple(getattr(self.u, "columns", ()))  # of a data frame
        if self.channels is None and columns and all(isinstance(k, str) for k in columns):
            object.__setattr__(self, "channels", columns)
        u = as_matrix(self.u, "inputs")
        if len(u) == 0:
            raise ValueError("the recording has no steps; leave empty recordings out")
        refuse_nonfinite(u, "inputs", missing=True)
        object.__setattr__(self, "u", frozen(u.view()))
        if self.y is None:
            object.__setattr__(self, "per_step", None)
        else:
            y = _targets(self.y, len(u), self.per_step)
            object.__setattr__(self, "y", frozen(y.view()))
            object.__setattr__(self, "per_step", y.ndim == 2)
        if type(self.weight) is not float:
            weight = as_numbers(self.weight, "weight")
            if weight.ndim:
                raise ValueError(f"weight has shape {weight.shape}; pass one number for all steps")
            object.__setattr__(self, "weight", float(weight))
        if not 0 <= self.weight <= LARGEST:
            raise ValueError(f"weight is {self.weight}; pass a finite number that is not negative")
        if self.times is not None:
            object.__setattr__(self, "times", frozen(_times(self.times, len(u)).view()))
        if self.epoch is not None:
            epoch = as_numbers(self.epoch, "epoch")
            if epoch.ndim or not np.isfinite(epoch):
                raise ValueError(
                    f"epoch is {self.epoch!r}; pass one number of seconds since 1 January 1970"
                )
            object.__setattr__(self, "epoch", None if self.times is None else float(epoch))
        if self.channels is not None:
            object.__setattr__(self, "channels", _channels(self.channels, u.shape[1]))
        if self.classes is not None:
            names = None if self.y is None else tuple(map(str, self.classes))
            if self.y is not None and len(set(names or ())) != self.y.shape[-1]:
                raise ValueError(
                    f"{len(set(names or ()))} different classes are named for {self.y.shape[-1]} "
                    "columns of targets; name each column once"
                )
            object.__setattr__(self, "classes", names)
        if self.first_step < 0 or not (self.name or (self.first_step == 0 and not self.goes_on)):
            raise ValueError(
                f"first_step is {self.first_step} and goes_on is {self.goes_on} of a recording "
                f"named {self.name!r}; name a recording that comes in segments, and count its "
                "steps from 0"
            )

    @classmethod
    def labeled(
        cls,
        u: Any,
        label: int | str,
        classes: int | Sequence[str],
        *,
        per_step: bool = False,
        weight: float = 1.0,
    ) -> Recording:
        """Return a recording whose target is the one-hot row of its class.

        Parameters
        ----------
        label
            A number, or one of the names.
        classes
            How many there are, or their names.
        """
        names = None if isinstance(classes, int) else tuple(map(str, classes))
        n = classes if isinstance(classes, int) else len(classes)
        if isinstance(label, str):
            if names is None or label not in names:
                known = f"0..{n - 1}" if names is None else ", ".join(names)
                raise ValueError(f"there is no class {label!r}; the classes are {known}")
            label = names.index(label)
        if not 0 <= label < n:
            raise ValueError(f"label {label} is outside 0..{n - 1}")
        y = np.zeros((len(as_matrix(u, "inputs")), n) if per_step else n)
        y[..., label] = 1.0
        return cls(u, y, weight, per_step, classes=names)

    def part(self, start: int, stop: int) -> Recording:
        """Return steps `start` to `stop` - 1; a target per sequence, weight and names stay.

        Nothing is copied.

        >>> Recording([0.0, 1.0, 2.0], y=[5.0, 6.0, 7.0]).part(1, 3).y.ravel().tolist()
        [6.0, 7.0]
        """
        if not 0 <= start < stop <= len(self.u):
            raise ValueError(
                f"there are no steps {start} to {stop - 1} in a recording of {len(self.u)}; "
                "pass 0 <= start < stop, and stop at most the number of steps"
            )
        y = self.y
        return cut(self, start, stop, y if y is None or not self.per_step else y[start:stop])

    def among(self, classes: Sequence[str]) -> Recording:
        """Return the recording with its one-hot targets in the columns of these classes.

        A recording without named classes stays as it is.

        >>> Recording.labeled([0.0], "run", ("walk", "run")).among(("run", "sit", "walk")).y
        array([1., 0., 0.])
        """
        names = tuple(classes)
        if self.y is None or self.classes is None or self.classes == names:
            return self
        unknown = [name for name in self.classes if name not in names]
        if unknown:
            raise ValueError(
                f"the recording has the class {unknown[0]!r}, which is not among {names}; pass "
                "classes with the names of all"
            )
        y = np.zeros((*self.y.shape[:-1], len(names)))
        y[np.isnan(self.y).any(axis=-1)] = np.nan
        y[..., [names.index(name) for name in self.classes]] = self.y
        return replace(self, y=y, classes=names)

    @property
    def n_steps(self) -> int:
        return len(self.u)

    @property
    def n_inputs(self) -> int:
        return int(self.u.shape[1])


def cut(recording: Recording, start: int, stop: int, y: Array | None) -> Recording:
    """Return steps of a recording with targets that belong to them, all of which is trusted.

    A recording may have a hundred thousand windows; its arrays have passed their checks once.
    """
    times = None if recording.times is None else recording.times[start:stop]
    own = recording.u[start:stop], y, times, recording.channels, recording.classes
    made = trusted(*own, epoch=recording.epoch, weight=recording.weight)
    if recording.name:
        goes_on = recording.goes_on or stop < len(recording.u)
        place = {"name": recording.name, "first_step": recording.first_step + start}
        made.__dict__.update(place, goes_on=goes_on)
    return made


def trusted(
    u: Array,
    y: Array | None,
    times: Array | None,
    channels: tuple[str, ...] | None,
    classes: tuple[str, ...] | None,
    epoch: float | None = None,
    weight: float = 1.0,
) -> Recording:
    """Return a recording of arrays that have passed all checks, with many others at once."""
    made = object.__new__(Recording)
    made.__dict__.update(
        u=u,
        y=y,
        weight=weight,
        per_step=None if y is None else y.ndim == 2,
        times=times,
        channels=channels,
        classes=None if y is None else classes,
        epoch=epoch,
    )
    return made


def _targets(value: Any, n_steps: int, per_step: bool | None) -> Array:
    y = as_numbers(value, "targets")
    if y.ndim == 0:
        y = y[None]
    elif y.ndim == 1 and len(y) == n_steps and per_step is not False:
        y = y[:, None]
    # So many values are probably one per step, some of which are missing.
    near = n_steps >= 16 and 0 < abs(len(y) - n_steps) <= max(3, n_steps // 10)
    if y.ndim == 1 and per_step is None and near:
        raise ValueError(
            f"targets have {len(y)} values for {n_steps} steps; pass one for each step, or "
            f"per_step=False if they are {len(y)} targets of the whole recording"
        )
    wrong_rank = per_step is not None and y.ndim != 1 + per_step
    if wrong_rank or y.ndim > 2 or (y.ndim == 2 and len(y) != n_steps):
        raise ValueError(
            f"targets have shape {y.shape} for {n_steps} steps; "
            f"pass ({n_steps}, K) for a target per step or (K,) for one per recording"
        )
    refuse_nonfinite(y, "targets", missing=True)
    return y


def _times(value: Any, n_steps: int) -> Array:
    if np.asarray(value).dtype.kind in "mM":
        raise ValueError(
            "times are dates or durations; pass seconds, such as "
            "(t - t[0]) / np.timedelta64(1, 's')"
        )
    times = as_numbers(value, "times")
    if times.shape != (n_steps,):
        raise ValueError(
            f"times have shape {times.shape} for {n_steps} steps; pass one number of seconds for "
            "each step"
        )
    if not np.isfinite(times).all():
        step = int(np.flatnonzero(~np.isfinite(times))[0])
        raise ValueError(f"the time of step {step} is {times[step]}; pass finite seconds")
    late = np.flatnonzero(times[1:] <= times[:-1])
    if len(late):
        step = int(late[0]) + 1
        raise ValueError(
            f"times do not increase at step {step}, from {times[step - 1]} to {times[step]}; "
            "sort the steps by time and keep one step per time"
        )
    return times


def _channels(value: Any, n_inputs: int) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value)
    if len(names) != n_inputs or not all(isinstance(name, str) for name in names):
        raise ValueError(f"channels are {names} for {n_inputs} inputs; pass one name for each")
    if len(set(names)) != len(names):
        raise ValueError(f"channels are {names}; two of them have one name, so rename one")
    return names


def refuse_mixed_channels(recordings: Sequence[Recording]) -> None:
    """Raise ValueError unless all recordings have as many channels as the first, and one order.

    Recordings without names must have the right number of inputs.

    >>> x = [Recording([[0.1, 0.2]], channels=names) for names in (("x", "y"), ("y", "x"))]
    >>> refuse_mixed_channels(x)
    Traceback (most recent call last):
    ValueError: recording 1 has the channels y, x where x, y are expected; pass them in this order
    """
    names: tuple[str, ...] | None = None
    for number, recording in enumerate(recordings):
        own = recording.channels
        if recording.n_inputs != recordings[0].n_inputs:
            raise ValueError(
                f"recording {number} has {recording.n_inputs} channels, recording 0 has "
                f"{recordings[0].n_inputs}; pass recordings of the same channels"
            )
        names = own if names is None else names
        if own is not None and own != names:
            what = "them" if sorted(own) == sorted(names or ()) else "these channels,"
            raise ValueError(
                f"recording {number} has the channels {', '.join(own)} where "
                f"{', '.join(names or ())} are expected; pass {what} in this order"
            )
