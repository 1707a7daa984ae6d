"""Maps and sequences in fixed point as the C form reads them, and the integers it answers with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment import Array, Integers
from catchment.features import EchoState
from catchment.features.echo_state import MOST_WEIGHT_DIGITS, Program
from catchment.readout import TARGET_DIGITS, FixedPoint, RidgeStatistics
from catchment_edge.c import dense, sparse, whole

MAP, ARGUMENTS = 0x314D4743, 0x31414743
PIECE, PIECES = 20, 4  # digits of a piece of a target that is no class, and how many
POOLS = (None, "last", "mean", "mean_std", "max")


@dataclass(frozen=True, eq=False)
class IntegerRows:
    """A sparse matrix of integers, row after row."""

    starts: Integers  # (n_rows + 1,)
    columns: Integers  # (nnz,)
    values: Integers  # (nnz,)


@dataclass(frozen=True, eq=False)
class IntegerLayer:
    """One layer of N units: every weight an integer of 2^-weight_digits."""

    weight_digits: int
    recurrent: IntegerRows  # (N, N)
    input: IntegerRows  # (N, I)
    bias: Integers  # (N,)
    leak: Integers  # (N,) of the map's leak_digits
    activation: Integers  # (N,) index into ACTIVATIONS

    @classmethod
    def of(cls, program: Program, leak_digits: int) -> IntegerLayer:
        """Return the integers of a layer that is in fixed point."""
        matrix = whole(dense(program), program.weight_digits)
        return cls(
            program.weight_digits,
            IntegerRows(*sparse(matrix[:, : program.n_units])),
            IntegerRows(*sparse(matrix[:, program.n_units : -1])),
            matrix[:, -1],
            whole(program.leak, leak_digits),
            program.activation.astype(np.int64),
        )

    @property
    def n_units(self) -> int:
        return len(self.bias)


@dataclass(frozen=True, eq=False)
class IntegerMap:
    """An echo-state map in fixed point, in integers."""

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

    @classmethod
    def of(cls, features: EchoState) -> IntegerMap:
        """Return the integers of a map; ValueError if it or its features have no grid."""
        bits, feature_bits = features.reservoir.bits, features.feature_bits
        if not isinstance(bits, int) or not isinstance(feature_bits, int):
            raise ValueError(
                f"the reservoir's bits are {bits} and the features' {feature_bits}; the C form "
                "needs both, so set bits and feature_bits"
            )
        leak_digits = min(bits, MOST_WEIGHT_DIGITS)
        return cls(
            bits,
            leak_digits,
            features.known_inputs,
            tuple(IntegerLayer.of(program, leak_digits) for program in features.programs),
            feature_bits,
            features.feature_digits[: features.n_base],
            features.reservoir.cut,
            features.bias,
            features.input,
            features.state,
            features.pool,
            features.segments,
            features.washout,
        )

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
    """Inputs (T, I), integers of the map's digits, and whole targets (rows, K)."""

    u: Integers
    y: Integers

    @classmethod
    def of(cls, features: EchoState, u: Array, y: Integers) -> IntegerSequence:
        """Return inputs as the map takes them: cut off at its range and rounded to its grid."""
        bits = features.reservoir.bits
        if bits is None:
            raise ValueError("the reservoir has no bits; set bits")
        return cls(whole(features.checked_all([u])[0], bits), y)


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

    def statistics(self, features: EchoState, *, classes: bool = True) -> RidgeStatistics:
        """Return the sums as the library holds them; their digest is the server's, too.

        Parameters
        ----------
        classes
            Whether the targets were integers, and not the `target_pieces` of others.
        """
        sums: dict[str, Any] = {
            "target_sum": self.target_sum,
            "cross": self.cross,
            "target_gram": self.target_gram,
        }
        if not classes:
            sums = _joined(**sums)
        sums |= {"feature_sum": self.feature_sum, "gram": self.gram}
        return RidgeStatistics(
            self.n_rows,
            float(self.n_rows),
            fingerprint=features.fingerprint,
            fixed=FixedPoint.of(features, classes=classes),
            **sums,
        )


def target_pieces(y: Array) -> Integers:
    """Return numbers (n, K), rounded to 36 digits after the point, as whole targets (n, 4 K).

    A number has four pieces of 20 digits, the lowest first and only the highest below zero, so that
    sums of their products with features stay far from 63 bits.

    >>> target_pieces(np.array([[-0.5]]))
    array([[      0, 1015808, 1048575,      -1]])
    """
    numbers = [int(np.rint(np.ldexp(number, TARGET_DIGITS))) for number in y.flat]
    low = (1 << PIECE) - 1
    pieces = [[k & low, k >> PIECE & low, k >> 2 * PIECE & low, k >> 3 * PIECE] for k in numbers]
    return np.array(pieces, dtype=np.int64).reshape(len(y), -1)


def _joined(
    target_sum: Integers, cross: Integers, target_gram: Integers
) -> dict[str, NDArray[Any]]:
    """Return sums of numbers from those of their pieces, in Python's integers."""
    n = len(target_sum)
    join = np.zeros((n, n // PIECES), dtype=object)
    for k in range(n):
        join[k, k // PIECES] = 1 << PIECE * (k % PIECES)
    square = np.zeros((n, n), dtype=object)
    square[np.triu_indices(n)] = target_gram
    square += np.triu(square, 1).T
    joined = join.T @ square @ join
    return {
        "target_sum": target_sum.astype(object) @ join,
        "cross": cross.astype(object) @ join,
        "target_gram": joined[np.triu_indices(len(joined))],
    }


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
    """Return the dump of arguments p 2^-p_digits of a fixed-point activation of these digits."""
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
