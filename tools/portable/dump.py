"""Maps and sequences on a grid as the C form reads them, and the integers it answers with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Integers

MAP, ARGUMENTS = 0x314D4743, 0x31414743
POOLS = (None, "last", "mean", "mean_std", "max")


@dataclass(frozen=True, eq=False)
class IntegerRows:
    """A sparse matrix of whole numbers, row after row."""

    starts: Integers  # (n_rows + 1,)
    columns: Integers  # (nnz,)
    values: Integers  # (nnz,)

    @classmethod
    def from_dense(cls, matrix: Integers) -> IntegerRows:
        rows, columns = np.nonzero(matrix)
        starts = np.searchsorted(rows, np.arange(len(matrix) + 1))
        return cls(starts, columns, matrix[rows, columns])


@dataclass(frozen=True, eq=False)
class IntegerLayer:
    """One layer of N units: every weight a whole number of 2^-weight_digits."""

    weight_digits: int
    recurrent: IntegerRows  # (N, N)
    input: IntegerRows  # (N, I)
    bias: Integers  # (N,)
    leak: Integers  # (N,) of the map's leak_digits
    activation: Integers  # (N,) index into ACTIVATIONS

    @property
    def n_units(self) -> int:
        return len(self.bias)


@dataclass(frozen=True, eq=False)
class IntegerMap:
    """An echo-state map on a grid, in whole numbers."""

    digits: int
    leak_digits: int
    n_inputs: int
    layers: tuple[IntegerLayer, ...]
    feature_bits: int
    feature_digits: Integers  # (features of one step,)
    cut: tuple[int, int] = (0, 0)
    bias: bool = False
    input: bool = True
    state: bool = True
    pool: str | None = None
    segments: int = 1
    washout: int = 0

    @property
    def n_units(self) -> int:
        return sum(layer.n_units for layer in self.layers)

    @property
    def n_features(self) -> int:
        base = self.bias + self.input * self.n_inputs + self.state * self.n_units
        return base * self.segments * (2 if self.pool == "mean_std" else 1)

    def n_rows(self, n_steps: int) -> int:
        return n_steps - self.washout if self.pool is None else 1


@dataclass(frozen=True, eq=False)
class IntegerSequence:
    """Inputs (T, I), whole numbers of the map's digits, and whole targets (rows, K)."""

    u: Integers
    y: Integers


@dataclass(frozen=True, eq=False)
class Answer:
    """What the C form makes of a dump: states and rows of each sequence, and sums over all rows."""

    states: list[Integers]
    rows: list[Integers]
    n_rows: int
    feature_sum: Integers
    target_sum: Integers
    gram: Integers  # upper triangle, row after row
    cross: Integers
    target_gram: Integers


def dumped_map(map_: IntegerMap, sequences: Sequence[IntegerSequence]) -> bytes:
    """Return the dump of a map, sequences and targets: little-endian words of 32 bits."""
    top = max((int(np.abs(sequence.y).max(initial=0)) for sequence in sequences), default=0)
    numbers: list[object] = [MAP, map_.digits, map_.leak_digits, map_.n_inputs, len(map_.layers)]
    numbers += [*map_.cut, map_.bias, map_.input, map_.state, POOLS.index(map_.pool)]
    numbers += [map_.segments, map_.washout, map_.feature_bits]
    for layer in map_.layers:
        numbers += [layer.n_units, layer.weight_digits]
        for rows in (layer.recurrent, layer.input):
            numbers += [rows.starts, rows.columns, rows.values]
        numbers += [layer.bias, layer.leak, layer.activation]
    n_targets = sequences[0].y.shape[1]
    numbers += [map_.feature_digits, n_targets, top.bit_length(), len(sequences)]
    for sequence in sequences:
        numbers += [len(sequence.u), sequence.u, sequence.y]
    return _words(numbers)


def dumped_arguments(activation: int, p: Integers, p_digits: int, digits: int) -> bytes:
    """Return the dump of arguments p 2^-p_digits of an activation on a grid of these digits."""
    halves = np.stack([p & 0xFFFFFFFF, p >> 32], axis=1)
    return _words([ARGUMENTS, activation, p_digits, digits, len(p), halves], unsigned=True)


def read_answer(output: bytes, map_: IntegerMap, sequences: Sequence[IntegerSequence]) -> Answer:
    """Return what the C form wrote about a dump; ValueError if it is not as long as it must be."""
    numbers = _Numbers(read_integers(output))
    F, K = map_.n_features, sequences[0].y.shape[1]
    states, rows = [], []
    for sequence in sequences:
        T = len(sequence.u)
        states.append(numbers.take(T, map_.n_units))
        rows.append(numbers.take(map_.n_rows(T), F))
    answer = Answer(
        states,
        rows,
        int(numbers.take(1)[0]),
        numbers.take(F),
        numbers.take(K),
        numbers.take(F * (F + 1) // 2),
        numbers.take(F, K),
        numbers.take(K * (K + 1) // 2),
    )
    numbers.finish()
    return answer


def read_integers(output: bytes) -> Integers:
    """Return the integers that the C form wrote.

    >>> read_integers(bytes([255] * 8 + [2] + [0] * 7))
    array([-1,  2])
    """
    return np.frombuffer(output, dtype="<i8").astype(np.int64)


class _Numbers:
    """Integers that are taken one shape after another."""

    def __init__(self, numbers: Integers) -> None:
        self._numbers, self._at = numbers, 0

    def take(self, *shape: int) -> Integers:
        size = int(np.prod(shape))
        taken = self._numbers[self._at : self._at + size]
        self._at += size
        return taken.reshape(shape)

    def finish(self) -> None:
        if self._at != len(self._numbers):
            raise ValueError(
                f"the program wrote {len(self._numbers)} integers, expected {self._at}; "
                "it belongs to another version of the dump"
            )


def _words(numbers: Sequence[object], *, unsigned: bool = False) -> bytes:
    parts: list[NDArray[np.int64]] = [np.asarray(part, np.int64).reshape(-1) for part in numbers]
    words = np.concatenate(parts)
    most = 2**32 if unsigned else 2**31
    if len(words) and (words.max() >= most or words.min() < -(2**31)):
        raise ValueError(
            f"a number needs more than 32 bits: {words[np.abs(words).argmax()]}; "
            "take a coarser grid, or smaller targets"
        )
    return (words & 0xFFFFFFFF).astype("<u4").tobytes()
