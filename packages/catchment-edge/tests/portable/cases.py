"""Maps and sequences that all machines are given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

import numpy as np
from numpy.random import Generator

from catchment import Integers
from catchment.features import digits_after_point
from catchment.features.echo_state import ACTIVATIONS
from catchment_edge.c import sparse
from tools.portable.dump import IntegerLayer, IntegerMap, IntegerRows, IntegerSequence

ARGUMENT_DIGITS = ((13, 8), (27, 12), (30, 15), (40, 20), (44, 24))  # of p, of the grid
RANGE = 8  # largest input
LINEAR = tuple(ACTIVATIONS.index(name) for name in ("relu", "identity"))


def arguments(p_digits: int, seed: int = 0) -> Integers:
    """Return arguments p of all sizes, with those on both sides of every limit."""
    rng = np.random.default_rng([p_digits, seed])
    sizes = [2.0**exponent for exponent in range(-8, 5)] + [10.0, 20.0, 64.0, 200.0]
    top = min(2**53 - 1, 300 << p_digits)
    random = np.concatenate([rng.uniform(-size, size, 400) for size in sizes])
    edges = [int(edge * 2**p_digits) + k for edge in (0, 8, 10, 20, 64) for k in range(-3, 4)]
    p = np.concatenate([np.rint(random * 2.0**p_digits).astype(np.int64), edges, [-top, top]])
    return np.asarray(np.clip(p, -top, top), dtype=np.int64)


class Settings(TypedDict, total=False):
    """Settings of a map that have defaults."""

    cut: tuple[int, int]
    bias: bool
    input: bool
    pool: str
    segments: int
    washout: int


def drawn_map(
    rng: Generator, bits: int, feature_bits: int, codes: tuple[int, ...], settings: Settings
) -> IntegerMap:
    """Return a map of two layers, 12 and 7 units, with random weights."""
    digits, n_inputs = min(bits, 20), 3
    layers = tuple(
        IntegerLayer(
            digits,
            IntegerRows(*sparse(_weights(rng, (N, N), digits, 0.4))),
            IntegerRows(*sparse(_weights(rng, (N, I), digits, 0.7))),
            _weights(rng, (N,), digits, 1.0),
            rng.integers(1 << (digits - 3), (1 << digits) + 1, N),
            rng.choice(codes, N).astype(np.int64),
        )
        for N, I in ((12, n_inputs), (7, 12))
    )
    bounds = [np.ones(int(settings.get("bias", False)))]
    bounds.append(np.full(n_inputs * settings.get("input", True), float(RANGE)))
    bounds += [np.where(np.isin(layer.activation, LINEAR), 8.0, 1.0) for layer in layers]
    places = digits_after_point(np.concatenate(bounds), feature_bits)
    return IntegerMap(bits, digits, n_inputs, layers, feature_bits, places, **settings)


def _weights(rng: Generator, shape: tuple[int, ...], digits: int, share: float) -> Integers:
    drawn = rng.uniform(-0.9, 0.9, shape) * (rng.random(shape) < share)
    return np.asarray(np.rint(drawn * 2.0**digits), dtype=np.int64)


def drawn_sequences(rng: Generator, map_: IntegerMap) -> list[IntegerSequence]:
    """Return sequences, two of them silent and loud, with the targets of three classes."""
    found = []
    for longest, loudness in ((90, 1.0), (60, 0.0), (70, 0.1), (400, 100.0)):
        T = int(rng.integers(30, longest))
        values = np.clip(rng.normal(size=(T, map_.n_inputs)) * loudness, -RANGE, RANGE)
        u = np.rint(np.ldexp(values, map_.digits)).astype(np.int64)
        labels = rng.integers(0, 3, map_.n_rows(T))
        found.append(IntegerSequence(u, np.eye(3, dtype=np.int64)[labels]))
    return found


def cases() -> Iterator[tuple[str, IntegerMap, list[IntegerSequence]]]:
    """Yield maps of every pool, grid and kind of unit, with sequences."""
    everything, bounded = (0, 1, 2, 3, 4), (0, 1, 3)
    settings: dict[str, tuple[int, int, tuple[int, ...], Settings]] = {
        "steps": (20, 8, everything, {"bias": True, "washout": 7}),
        "steps-cut": (24, 24, everything, {"cut": (20, 11)}),
        "words": (15, 8, bounded, {"input": False, "cut": (16, 8)}),
        "words-mean_std": (15, 8, bounded, {"pool": "mean_std", "segments": 3, "washout": 2}),
        "last": (8, 4, everything, {"pool": "last", "segments": 2}),
        "mean": (24, 24, everything, {"pool": "mean", "bias": True, "segments": 2}),
        "mean_std": (24, 24, everything, {"pool": "mean_std", "bias": True}),
        "mean_std-coarse": (20, 6, everything, {"pool": "mean_std", "cut": (25, 30)}),
        "max": (12, 12, everything, {"pool": "max", "input": False}),
    }
    for number, (name, (bits, feature_bits, codes, others)) in enumerate(settings.items()):
        rng = np.random.default_rng([14, number])
        map_ = drawn_map(rng, bits, feature_bits, codes, others)
        yield name, map_, drawn_sequences(rng, map_)
