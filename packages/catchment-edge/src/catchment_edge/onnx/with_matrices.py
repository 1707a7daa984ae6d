"""Maps of few operations as nodes: norm, delays, random features, projections."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import numpy as np

from catchment.features import (
    DIGITS,
    FARTHEST,
    LARGEST_RELU,
    LIMIT,
    NVAR,
    R_DELAY,
    R_SINE,
    RANGE,
    TOP,
    TURN,
    VALUE_DIGITS,
    RandomFourierFeatures,
    RandomProjection,
)
from catchment_edge.onnx.activations import grid_sin, rounded
from catchment_edge.onnx.values import Value


def inputs_with_norm(u: Value, channels: int) -> Value:
    """Return inputs (.., I) and their length, less its usual size, as one channel more."""
    unit = 2.0**DIGITS
    x = (u.clip(-RANGE, RANGE) * unit).rint()
    usual = math.isqrt(channels << 2 * DIGITS)
    length = (x * x).sum(axis=-1, keep=True).sqrt().floor() - float(usual)
    return u.builder.concat([u, length / unit], axis=-1)


def delayed(settings: NVAR, u: Value) -> list[Value]:
    """Return each delay's inputs (B, T, I), the present ones first; zeros before the first step."""
    reach = (settings.delays - 1) * settings.stride
    x = delay_inputs(u)
    if reach == 0:
        return [x]
    assert settings.n_inputs is not None
    padded = u.builder.concat([u.builder.zeros(u.length(0), reach, settings.n_inputs), x], axis=1)
    T = u.length(1)
    shifts = [reach - d * settings.stride for d in range(settings.delays)]
    return [padded.part(shift, T + shift, axis=1) for shift in shifts]


def delay_inputs(u: Value) -> Value:
    cut = u.clip(-LIMIT, LIMIT)
    return rounded(cut, R_DELAY) if u.builder.exact else cut


def monomials(settings: NVAR, x: Value) -> Value:
    """Return a constant, delayed inputs x (.., n) and their products."""
    assert settings.n_inputs is not None
    n = settings.delays * settings.n_inputs
    parts = [x.take([0], axis=-1) * 0.0 + 1.0, x]
    if settings.order > 1:
        i, j = np.array(list(combinations_with_replacement(range(n), 2))).T
        parts.append(x.take(i, axis=-1) * x.take(j, axis=-1))
    if settings.order > 2:
        i, j, k = np.array(list(combinations_with_replacement(range(n), 3))).T
        pair = x.take(i, axis=-1) * x.take(j, axis=-1)
        pair = rounded(pair, R_DELAY) if x.builder.exact else pair
        parts.append(pair * x.take(k, axis=-1))
    return x.builder.concat(parts, axis=-1)


def random_features(settings: RandomFourierFeatures, x: Value) -> Value:
    """Return the cosines or rectifiers of rows (.., F)."""
    W, phases = settings._weights
    unit = 2.0**VALUE_DIGITS
    cut = (x.clip(-FARTHEST, FARTHEST) * unit).rint() / unit
    values = cut @ W
    if settings.activation == "relu":
        return values.clip(0.0, LARGEST_RELU)
    v = values + (phases + 0.25)
    v = v - v.rint()
    return grid_sin(v * TURN, R_SINE, TOP) if x.builder.exact else (v * TURN).apply("Sin")


def mixed_into_few(settings: RandomProjection, z: Value) -> Value:
    """Return the signed sums of features (.., F) that the projection keeps."""
    flips, kept = settings._drawn
    F = len(flips)
    crossings = np.bitwise_count(np.arange(F)[:, None] & kept[None, :])
    H = np.where(crossings % 2, -1.0, 1.0)
    sums = z @ (flips[:, None] * H)
    # A vector: onnxruntime takes a single number into the product before it, and as a float32.
    return (sums / np.full(len(kept), math.sqrt(F))).clip(-settings.bound, settings.bound)
