"""Which axis is time: said by the caller, or by data that can be read in one way only.

aeon and sktime hold sequences as (channels, steps), this library and most of the rest as (steps,
channels). An array (n, a, b) says neither, and the wrong reading gives a model of noise without an
error: so nothing is guessed. Sequences are read without a word where the last axis has length 1,
where lengths differ along one axis only, where a target per step fits one axis only, or where a
fitted estimator knows how many channels there are. A list of equal arrays has steps first, as
recordings have, if these are more than the channels: aeon uses lists for unequal lengths only.
Everything else is refused with both calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from catchment.sklearn.inputs import Inputs, several

Layout = Literal["auto", "time_first", "channels_first"]
Found = Literal["time_first", "channels_first"]


def checked_layout(layout: str) -> Layout:
    """Return the layout; ValueError if there is none of this name.

    >>> checked_layout("auto")
    'auto'
    """
    if layout not in ("auto", "time_first", "channels_first"):
        raise ValueError(
            f"layout is {layout!r}; pass time_first for (n, time, channels), channels_first for "
            "(n, channels, time), or auto"
        )
    return layout  # type: ignore[return-value]  # compared with the names above


def found_layout(
    X: Inputs,
    layout: str = "auto",
    *,
    steps: Sequence[int] | None = None,
    channels: int | None = None,
) -> Found | None:
    """Return how the sequences of X lie; None where X has no sequences with two axes.

    Parameters
    ----------
    X
        A matrix, an array (n, a, b), or a list of arrays.
    layout
        What the caller says; "auto" leaves it to the data.
    steps
        (n,) length of each sequence's targets, where every step has one.
    channels
        How many channels an estimator was fitted on.

    >>> found_layout(np.zeros((5, 40, 1)))
    'time_first'
    >>> found_layout([np.zeros((3, 40)), np.zeros((3, 50))])
    'channels_first'
    >>> found_layout(np.zeros((5, 3, 40)))
    Traceback (most recent call last):
    ValueError: X holds sequences of shape (3, 40), which may be 3 steps of 40 channels or 3 ...
    """
    said = checked_layout(layout)
    if not several(X, pooled=True):
        return None
    # A frame has a row for each step, whoever made it.
    framed = all(type(u).__module__.split(".")[0] in ("pandas", "polars") for u in X)  # type: ignore[union-attr]
    shapes = [np.shape(u) for u in X]  # type: ignore[union-attr]
    if any(len(shape) != 2 for shape in shapes):
        return None  # sequences of one channel, or a mistake that reading will name
    if said != "auto":
        return said
    if framed or all(shape[1] == 1 for shape in shapes):
        return "time_first"
    possible: list[Found] = []
    if _may_be(shapes, 0, steps, channels):
        possible.append("time_first")
    if _may_be(shapes, 1, steps, channels):
        possible.append("channels_first")
    if len(possible) == 1:
        return possible[0]
    stacked = isinstance(X, np.ndarray) and X.ndim == 3
    if possible and (stacked or any(a <= b for a, b in shapes)):
        raise ValueError(_both(shapes[0]))
    return "time_first"  # a list as of recordings; or neither fits, and reading it will say why


def time_first(X: Inputs, found: Found | None) -> Inputs:
    """Return X with time before channels.

    >>> time_first(np.zeros((5, 3, 40)), "channels_first").shape
    (5, 40, 3)
    """
    if found != "channels_first":
        return X
    if isinstance(X, np.ndarray) and X.ndim == 3:
        return X.transpose(0, 2, 1)
    return [np.asarray(u).T for u in X]  # type: ignore[union-attr]


def _may_be(
    shapes: Sequence[tuple[int, ...]],
    time: int,
    steps: Sequence[int] | None,
    channels: int | None,
) -> bool:
    """Whether this axis can be time: the other one is equal in all, and what is known fits."""
    widths = {shape[1 - time] for shape in shapes}
    if len(widths) > 1 or (channels is not None and widths != {channels}):
        return False
    return steps is None or [shape[time] for shape in shapes] == list(steps)


def _both(shape: tuple[int, ...]) -> str:
    a, b = shape
    return (
        f"X holds sequences of shape {shape}, which may be {a} steps of {b} channels or {a} "
        f'channels of {b} steps; pass layout="time_first" for the first, or '
        'layout="channels_first" for the second, as aeon and sktime have them'
    )


def steps_of(y: Any) -> list[int] | None:
    """Return the length of each sequence's targets; None where there is one target each.

    >>> steps_of([[0, 1], [1, 0, 1]]), steps_of(["a", "b"])
    ([2, 3], None)
    """
    if y is None or np.isscalar(y):
        return None
    parts = [np.shape(part) for part in y]
    if not all(parts):
        return None
    lengths = [shape[0] for shape in parts]
    return lengths if max(lengths, default=0) > 1 else None  # a column has one target each
