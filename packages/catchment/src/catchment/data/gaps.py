"""What to do with missing inputs; missing targets need nothing, their rows leave the statistics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Literal, get_args

import numpy as np

from catchment.arrays import Array, Booleans
from catchment.data.recording import Recording

Policy = Literal["error", "hold", "interpolate", "restart"]


@dataclass(frozen=True, kw_only=True)
class GapReport:
    """How much was missing and what was done about it; reports of several clients add.

    >>> both = GapReport(gap_rows=2) + GapReport(gap_rows=1, restarts=1)
    >>> both.gap_rows, both.restarts
    (3, 1)
    """

    gap_rows: int = 0  # steps with a missing input
    values_filled: int = 0  # missing inputs replaced by a number
    silent_channels: int = 0  # channels without any value in a sequence, replaced by zeros
    rows_removed: int = 0  # steps left out by "restart"
    restarts: int = 0  # additional starts of a state, by "restart"
    sequences_removed: int = 0  # sequences of which "restart" left nothing
    target_rows_missing: int = 0  # rows kept here that the statistics drop for their target

    def __add__(self, other: GapReport) -> GapReport:
        return GapReport(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )


def fill_gaps(
    recordings: Iterable[Recording], policy: Policy = "error"
) -> tuple[list[Recording], GapReport]:
    """Return recordings without missing inputs, and counts of what was missing.

    Parameters
    ----------
    policy
        "error" raises at the first missing input.
        "hold" repeats the last value of the channel; before the first value, that one.
        "interpolate" draws a line between the neighbouring values; at the ends it holds.
        "restart" leaves out every step with a missing input, so that a reservoir starts from zero
        after it. A target per step goes with its step. A target per sequence goes to every piece,
        and the pieces share the sequence's weight by length.
        For "hold" and "interpolate" a channel without any value becomes zero, which adds nothing
        to a reservoir's drive.

    >>> u = np.array([[1.0], [np.nan], [3.0]])
    >>> filled, report = fill_gaps([Recording(u)], "interpolate")
    >>> filled[0].u.ravel().tolist(), report.values_filled
    ([1.0, 2.0, 3.0], 1)
    >>> pieces, report = fill_gaps([Recording(u, y=np.array([5.0, 6.0, 7.0]))], "restart")
    >>> [piece.y.ravel().tolist() for piece in pieces], report.restarts
    ([[5.0], [7.0]], 1)
    """
    if policy not in get_args(Policy):
        raise ValueError(f"policy is {policy!r}; pass one of {', '.join(get_args(Policy))}")
    kept: list[Recording] = []
    report = GapReport()
    for number, recording in enumerate(recordings):
        pieces, found = fill_recording(recording, policy, number)
        report = report + found
        kept.extend(piece for _, piece in pieces)
    return kept, report


def fill_recording(
    recording: Recording, policy: Policy, number: int = 0, *, silent: float = 0.0
) -> tuple[list[tuple[int, Recording]], GapReport]:
    """Return (first step, piece) for each piece that is left of a recording, and the counts.

    `number` is what an error calls the recording, `silent` what "hold" and "interpolate" put in a
    channel without any value.

    >>> pieces, _ = fill_recording(Recording([1.0, np.nan, 3.0]), "restart")
    >>> [start for start, _ in pieces]
    [0, 2]
    """
    missing = np.isnan(recording.u)
    if not missing.any():
        pieces, found = [(0, recording)], GapReport()
    elif policy == "error":
        step, channel = (int(index) for index in np.argwhere(missing)[0])
        name = channel if recording.channels is None else repr(recording.channels[channel])
        raise ValueError(
            f"recording {number} has no input in channel {name} at step {step}; "
            'set gaps to "hold", "interpolate" or "restart"'
        )
    elif policy == "restart":
        pieces, found = _cut(recording, missing)
    else:
        filled, found = _filled(recording, missing, policy, silent)
        pieces = [(0, filled)]
    unknown = sum(_missing_targets(piece) for _, piece in pieces)
    return pieces, found + GapReport(target_rows_missing=unknown)


def _cut(recording: Recording, missing: Booleans) -> tuple[list[tuple[int, Recording]], GapReport]:
    gap = np.logical_or.reduce(missing, axis=1)
    edges = np.flatnonzero(np.diff(np.concatenate([[True], gap, [True]]).astype(np.int8)))
    n_kept = int((~gap).sum())
    pieces = []
    for start, stop in edges.reshape(-1, 2).tolist():
        piece = recording.part(start, stop)
        if recording.per_step is False:
            piece = replace(piece, weight=recording.weight * piece.n_steps / n_kept)
        pieces.append((start, piece))
    report = GapReport(
        gap_rows=int(gap.sum()),
        rows_removed=int(gap.sum()),
        restarts=max(0, len(pieces) - 1),
        sequences_removed=int(not pieces),
    )
    return pieces, report


def _filled(
    recording: Recording, missing: Booleans, policy: Policy, silent: float
) -> tuple[Recording, GapReport]:
    u: Array = recording.u.copy()
    steps = np.arange(len(u))
    n_silent = 0
    for channel in np.flatnonzero(missing.any(axis=0)):
        gap = missing[:, channel]
        known = np.flatnonzero(~gap)
        if len(known) == 0:
            u[:, channel] = silent
            n_silent += 1
        elif policy == "interpolate":
            u[gap, channel] = np.interp(steps[gap], known, u[known, channel])
        else:
            last = np.maximum(np.searchsorted(known, steps[gap]) - 1, 0)
            u[gap, channel] = u[known[last], channel]
    report = GapReport(
        gap_rows=int(missing.any(axis=1).sum()),
        values_filled=int(missing.sum()),
        silent_channels=n_silent,
    )
    return replace(recording, u=u), report


def _missing_targets(recording: Recording) -> int:
    if recording.y is None:
        return 0
    return int(np.isnan(np.atleast_2d(recording.y)).any(axis=1).sum())
