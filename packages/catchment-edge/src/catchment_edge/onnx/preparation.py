"""From raw samples to what the map takes: gaps, scale and windows as nodes.

The order and the numbers are those of `catchment.data.preprocessing`. What depends on clocks stays
outside: samples come at the rate that the file's metadata names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from catchment.data import Preprocessing, Scaler, count_steps
from catchment_edge.onnx.values import BOOL, INT64, Value


def without_clock(preprocessing: Preprocessing, rate: float | None = None) -> Preprocessing:
    """Return the preparation of samples that come at its rate: windows are counted in steps.

    ValueError for what a graph cannot do.

    Parameters
    ----------
    rate
        At which samples come, where the preparation does not say it.

    >>> without_clock(Preprocessing(rate=50, window="2s", scale="none")).window
    100
    """
    refuse_around(preprocessing, "a graph")
    if preprocessing.gaps == "restart":
        raise ValueError(
            'gaps is "restart", which cuts a recording into as many pieces as it has gaps, and a '
            'graph has one; train with gaps="hold" or "interpolate"'
        )
    if preprocessing.scale == "own":
        raise ValueError(
            'scale is "own", by the recordings that are handed in together, which one recording '
            'does not show; train with scale="federated"'
        )
    if not preprocessing.is_fitted:
        raise ValueError('scale is "federated" and not fitted; export a model that was trained')
    window, step = (in_steps(preprocessing, name, rate) for name in ("window", "step"))
    alone = replace(preprocessing, horizon=None, predicted=None)
    return replace(alone, rate=None, window=window, step=step)


def refuse_around(preprocessing: Preprocessing, what: str) -> None:
    """Raise ValueError if a map has inputs that only recordings with dates or a future give."""
    if preprocessing.looks_around:
        names = [name for name in ("known", "calendar") if getattr(preprocessing, name)]
        raise ValueError(
            f"the model has inputs beside its channels ({', '.join(names)}), which {what} does not "
            "make; train without them, or predict with the model itself"
        )


def in_steps(preprocessing: Preprocessing, name: str, rate: float | None) -> int | None:
    """Return the window or the step of a preparation in steps of its rate."""
    length = preprocessing.window if name == "window" else preprocessing.step
    if not isinstance(length, str):
        return length
    known = preprocessing.rate or rate
    if known is None:
        raise ValueError(
            f"{name} is {length!r}, and how many steps that is depends on the rate of the samples; "
            "say it, rate=50 or --rate 50"
        )
    return count_steps(name, length, 1 / known)


def filled(u: Value, gaps: str) -> Value:
    """Return inputs (B, T, I) with gaps filled; a channel without any value stays missing.

    The k-th known step of each channel is written down at place k. The known steps so far are then
    the place of the last one.
    """
    builder = u.builder
    known = ~u.missing()
    count = known.cast(INT64).running_sum(axis=1)
    T, shape = u.length(1), builder.op("Shape", u, result=INT64)
    steps = builder.op("Expand", builder.arange(0, T).unsqueeze(1), shape)
    spare = builder.zeros(u.length(0), T + 1, u.length(2), dtype=INT64)
    slots = builder.where(known, count - 1, T)
    places = builder.op("ScatterElements", spare, slots, steps, axis=1)
    last = places.take_along((count - 1).at_least(0), axis=1)
    before = u.take_along(last, axis=1)
    if gaps == "hold":
        return builder.where(known, u, before)
    n = count.part(-1, np.iinfo(np.int64).max, axis=1)
    following = places.take_along(count.at_most(n - 1).at_least(0), axis=1)
    after = u.take_along(following, axis=1)
    apart = following - last
    slope = (after - before) / apart.at_least(1).cast(builder.real)
    drawn = slope * (steps - last).cast(builder.real) + before
    return builder.where(known, u, builder.where(apart > 0, drawn, before))


def scaled(u: Value, preprocessing: Preprocessing) -> Value:
    """Return inputs scaled, and zeros for channels without any value."""
    if isinstance(preprocessing.scale, Scaler):
        u = (u - preprocessing.scale.mean) / preprocessing.scale.scale
    return u if preprocessing.gaps == "error" else u.builder.where(u.missing(), 0.0, u)


def windows_of(u: Value, window: int, step: int) -> Value:
    """Return the whole windows (n, window, I) of one recording (1, T, I)."""
    builder = u.builder
    one = u.squeeze(0)
    n = ((one.length(0) - window + step) / step).at_least(0)
    starts = (builder.arange(0, n) * step).unsqueeze(1)
    return one.take(starts + builder.constant(np.arange(window)), axis=0)


def usable(u: Value, preprocessing: Preprocessing) -> tuple[Value, Value]:
    """Return inputs (B, T, I) without what the model refuses, and (B,) NaN where there was some.

    What is added to scores is 0 for all other recordings. A graph cannot raise.
    """
    builder = u.builder
    bad = builder.op("IsInf", u, result=BOOL)
    if preprocessing.gaps == "error":
        bad = bad | u.missing()
    number = bad.cast(builder.real).sum(axis=-1).sum(axis=-1)
    return builder.where(bad, 0.0, u), builder.where(number > 0.0, np.nan, number * 0.0)
