"""Arrays that are computed later, in an ONNX graph, written as numpy writes those of now.

A `Value` is the name of an array and its type. An operation with it appends a node to the graph of
its `Builder` and returns the name of the result. Numbers and arrays that are met become constants
of the same type, so `x * 2.0 + bias` reads as it would in numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from onnx import helper

if TYPE_CHECKING:
    from catchment_edge.onnx.builder import Builder

OPSET = 13  # the first in which all that is used here takes float64: CumSum, Clip, Where, IsNaN
REDUCED_BY_INPUT = 18  # the opset from which ReduceMax takes its axes as an input
BOOL, INT64 = np.dtype(np.bool_), np.dtype(np.int64)

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Value:
    """An array of the graph."""

    builder: Builder
    name: str
    dtype: np.dtype[Any]

    def _with(self, kind: str, other: Operand, *, swapped: bool = False) -> Value:
        pair = (other, self) if swapped else (self, other)
        return self.builder.op(kind, *pair, dtype=self.dtype)

    def _compared(self, kind: str, other: Operand) -> Value:
        return self.builder.op(kind, self, other, dtype=self.dtype, result=BOOL)

    def __add__(self, other: Operand) -> Value:
        return self._with("Add", other)

    def __sub__(self, other: Operand) -> Value:
        return self._with("Sub", other)

    def __rsub__(self, other: Operand) -> Value:
        return self._with("Sub", other, swapped=True)

    def __mul__(self, other: Operand) -> Value:
        return self._with("Mul", other)

    def __truediv__(self, other: Operand) -> Value:
        """Return quotients; of integers rounded towards zero."""
        return self._with("Div", other)

    def __mod__(self, other: Operand) -> Value:
        return self._with("Mod", other)

    def __matmul__(self, other: Operand) -> Value:
        return self._with("MatMul", other)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Value:
        return self.builder.op("Neg", self)

    def __lt__(self, other: Operand) -> Value:  # type: ignore[misc]  # arrays compare, too
        return self._compared("Less", other)

    def __gt__(self, other: Operand) -> Value:  # type: ignore[misc]
        return self._compared("Greater", other)

    def __ge__(self, other: Operand) -> Value:
        return self._compared("GreaterOrEqual", other)

    def equals(self, other: Operand) -> Value:
        return self._compared("Equal", other)

    def __and__(self, other: Value) -> Value:
        return self._with("And", other)

    def __or__(self, other: Value) -> Value:
        return self._with("Or", other)

    def __invert__(self) -> Value:
        return self.builder.op("Not", self)

    def apply(self, kind: str) -> Value:
        """Return a function of every number, such as "Tanh"."""
        return self.builder.op(kind, self)

    def rint(self) -> Value:
        """Return the nearest integers, ties to even."""
        return self.apply("Round")

    def floor(self) -> Value:
        return self.apply("Floor")

    def size(self) -> Value:
        """Return absolute values."""
        return self.apply("Abs")

    def sqrt(self) -> Value:
        return self.apply("Sqrt")

    def missing(self) -> Value:
        return self.builder.op("IsNaN", self, result=BOOL)

    def at_most(self, limit: Operand) -> Value:
        return self._with("Min", limit)

    def at_least(self, limit: Operand) -> Value:
        return self._with("Max", limit)

    def clip(self, low: float, high: float) -> Value:
        return self.at_least(low).at_most(high)

    def cast(self, dtype: DTypeLike) -> Value:
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self
        kind = helper.np_dtype_to_tensor_dtype(wanted)
        return self.builder.op("Cast", self, result=wanted, to=kind)

    def sum(self, axis: int, *, keep: bool = False) -> Value:
        axes = self.builder.constant(np.array([axis]))
        return self.builder.op("ReduceSum", self, axes, keepdims=int(keep))

    def max(self, axis: int, *, keep: bool = False) -> Value:
        if self.builder.opset >= REDUCED_BY_INPUT:
            axes = self.builder.constant(np.array([axis]))
            return self.builder.op("ReduceMax", self, axes, keepdims=int(keep))
        return self.builder.op("ReduceMax", self, axes=[axis], keepdims=int(keep))

    def place_of_max(self, axis: int) -> Value:
        """Return the place of the largest number, the first of equals."""
        return self.builder.op("ArgMax", self, result=INT64, axis=axis, keepdims=0)

    def place_of_min(self, axis: int) -> Value:
        return self.builder.op("ArgMin", self, result=INT64, axis=axis, keepdims=0)

    def running_sum(self, axis: int) -> Value:
        return self.builder.op("CumSum", self, self.builder.constant(np.array(axis)))

    def sorted(self, n: int, axis: int, *, largest: bool) -> Value:
        """Return the n smallest or largest numbers along an axis, in order."""
        count = self.builder.constant(np.array([n]))
        found, _ = self.builder.ops(
            "TopK", self, count, results=(self.dtype, INT64), axis=axis, largest=int(largest)
        )
        return found

    def take(self, places: Value | int | Sequence[int] | Array, axis: int) -> Value:
        """Return the entries at places of an axis, as numpy.take does; of one, without the axis."""
        where = places if isinstance(places, Value) else np.asarray(places, dtype=np.int64)
        return self.builder.op("Gather", self, self.builder.value(where, INT64), axis=axis)

    def take_along(self, places: Value, axis: int) -> Value:
        return self.builder.op("GatherElements", self, places, axis=axis)

    def part(self, first: Value | int, last: Value | int, axis: int) -> Value:
        """Return entries first to last - 1 of an axis."""
        ends = [self.builder.vector([end]) for end in (first, last)]
        axes = self.builder.constant(np.array([axis]))
        return self.builder.op("Slice", self, *ends, axes)

    def reshape(self, *sizes: Value | int) -> Value:
        return self.builder.op("Reshape", self, self.builder.vector(sizes))

    def transpose(self, *axes: int) -> Value:
        return self.builder.op("Transpose", self, perm=list(axes))

    def unsqueeze(self, axis: int) -> Value:
        return self.builder.op("Unsqueeze", self, self.builder.constant(np.array([axis])))

    def squeeze(self, axis: int) -> Value:
        return self.builder.op("Squeeze", self, self.builder.constant(np.array([axis])))

    def length(self, axis: int) -> Value:
        """Return the size of an axis, an integer."""
        shape = self.builder.op("Shape", self, result=INT64)
        return self.builder.op("Gather", shape, self.builder.constant(np.array(axis)), axis=0)


Operand = Value | float | int | Array
