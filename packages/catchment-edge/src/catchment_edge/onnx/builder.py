"""A graph under way: arrays that are computed later, written as numpy writes those of now.

A `Value` is the name of an array and its type. An operation with it appends a node to the graph of
its `Builder` and returns the name of the result. Numbers and arrays that are met become constants
of the same type, so `x * 2.0 + bias` reads as it would in numpy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import DTypeLike, NDArray
from onnx import helper, numpy_helper

from catchment import Integers
from catchment.features import FeatureMap, form_maker, name_of

OPSET = 13  # the first in which all that is used here takes float64: CumSum, Clip, Where, IsNaN
REDUCED_BY_INPUT = 18  # the opset from which ReduceMax takes its axes as an input
BOOL, INT64 = np.dtype(np.bool_), np.dtype(np.int64)

Array = NDArray[Any]
IR_VERSION = 8
LARGE = 64  # numbers from which a constant is worth a shorter form


def _with(kind: str, *, swapped: bool = False) -> Callable[[Value, Operand], Value]:
    """Return an operation with another value or number, of the same type."""
    return lambda self, other: self.builder.op(
        kind, *((other, self) if swapped else (self, other)), dtype=self.dtype
    )


def _compared(kind: str) -> Callable[[Value, Operand], Value]:
    return lambda self, other: self.builder.op(kind, self, other, dtype=self.dtype, result=BOOL)


def _each(kind: str, result: np.dtype[Any] | None = None) -> Callable[[Value], Value]:
    """Return a function of every number."""
    return lambda self: self.builder.op(kind, self, result=result)


@dataclass(frozen=True, eq=False)
class Value:
    """An array of the graph. Integers are divided toward zero, and rounded with ties to even."""

    builder: Builder
    name: str
    dtype: np.dtype[Any]

    __add__ = __radd__ = _with("Add")
    __sub__, __rsub__ = _with("Sub"), _with("Sub", swapped=True)
    __mul__ = __rmul__ = _with("Mul")
    __truediv__, __mod__, __matmul__ = _with("Div"), _with("Mod"), _with("MatMul")
    __and__, __or__ = _with("And"), _with("Or")
    at_most, at_least = _with("Min"), _with("Max")
    __lt__, __gt__ = _compared("Less"), _compared("Greater")
    __ge__, equals = _compared("GreaterOrEqual"), _compared("Equal")
    __neg__, __invert__ = _each("Neg"), _each("Not")
    rint, floor, size, sqrt = _each("Round"), _each("Floor"), _each("Abs"), _each("Sqrt")
    missing = _each("IsNaN", BOOL)

    def apply(self, kind: str) -> Value:
        """Return a function of every number, such as "Tanh"."""
        return self.builder.op(kind, self)

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

    def max(self, axis: int) -> Value:
        if self.builder.opset >= REDUCED_BY_INPUT:
            axes = self.builder.constant(np.array([axis]))
            return self.builder.op("ReduceMax", self, axes, keepdims=0)
        return self.builder.op("ReduceMax", self, axes=[axis], keepdims=0)

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


Body = Callable[[list[Value], list[Value]], tuple[list[Value], list[Value]]]


@dataclass(eq=False)
class Builder:
    """A graph under way; `real` is the type of its fractions, float64 or float32."""

    real: np.dtype[Any]
    opset: int = OPSET
    ir_version: int = IR_VERSION
    scopes: list[list[onnx.NodeProto]] = field(default_factory=lambda: [[]])
    head: list[onnx.NodeProto] = field(default_factory=list)  # makes constants of shorter ones
    kept: dict[bytes, Value] = field(default_factory=dict)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    n_names: int = 0

    @property
    def exact(self) -> bool:
        """Whether sums of numbers in fixed point are exact, as they are in float64."""
        return self.real == np.float64

    def fresh(self, word: str) -> str:
        self.n_names += 1
        return f"{word}_{self.n_names}"

    def op(
        self,
        kind: str,
        *inputs: Operand,
        dtype: np.dtype[Any] | None = None,
        result: np.dtype[Any] | None = None,
        **settings: Any,
    ) -> Value:
        """Return the result of one node.

        Parameters
        ----------
        dtype
            Type of inputs that are no values yet; that of the first if not given.
        result
            Type of the result; that of the inputs if not given.
        """
        known = dtype or next(one.dtype for one in inputs if isinstance(one, Value))
        return self.ops(kind, *inputs, dtype=known, results=(result or known,), **settings)[0]

    def ops(
        self,
        kind: str,
        *inputs: Operand,
        results: Sequence[np.dtype[Any]],
        dtype: np.dtype[Any] | None = None,
        **settings: Any,
    ) -> list[Value]:
        """Return the results of one node that has several."""
        values = [self.value(one, dtype or self.real) for one in inputs]
        names = [self.fresh(kind.lower()) for _ in results]
        node = helper.make_node(kind, [one.name for one in values], names, **settings)
        self.scopes[-1].append(node)
        return [Value(self, name, one) for name, one in zip(names, results, strict=True)]

    def value(self, one: Operand, dtype: np.dtype[Any]) -> Value:
        if isinstance(one, Value):
            return one
        return self.constant(np.asarray(one).astype(dtype))

    def constant(self, array: Array) -> Value:
        """Return an array that is part of the file; equal ones are kept once.

        Fractions of half as many digits are kept as such, and matrices of mostly zeros by what else
        is in them: both become what they are when the file is loaded.
        """
        array = np.asarray(array)
        content = array.astype(np.str_).tobytes() if array.dtype.kind in "OU" else array.tobytes()
        told = f"{array.dtype}{array.shape}".encode()
        key = hashlib.sha256(told + content).digest()
        if key not in self.kept:
            large = array.dtype == np.float64 and array.size >= LARGE
            shorter = array.astype(np.float32) if large else array
            if large and np.array_equal(shorter, array):
                kind = helper.np_dtype_to_tensor_dtype(array.dtype)
                self.kept[key] = self._made("Cast", self._filled(shorter), array.dtype, to=kind)
            else:
                self.kept[key] = self._filled(array)
        return self.kept[key]

    def _filled(self, array: Array) -> Value:
        share = np.count_nonzero(array) / max(1, array.size) if array.dtype.kind == "f" else 1.0
        if array.size < LARGE or share > 0.5:
            return self._initializer(array)
        places = np.flatnonzero(array).astype(np.int32)
        zero = numpy_helper.from_array(np.zeros(1, dtype=array.dtype))
        size = self._initializer(np.array([array.size]))
        empty = self._made("ConstantOfShape", size, array.dtype, value=zero)
        filled = self._made(
            "ScatterElements",
            empty,
            array.dtype,
            self._initializer(places),
            self._initializer(array.ravel()[places]),
            axis=0,
        )
        shape = self._initializer(np.array(array.shape))
        return self._made("Reshape", filled, array.dtype, shape)

    def _made(
        self, kind: str, first: Value, dtype: np.dtype[Any], *others: Value, **settings: Any
    ) -> Value:
        name = self.fresh("constant")
        inputs = [one.name for one in (first, *others)]
        self.head.append(helper.make_node(kind, inputs, [name], **settings))
        return Value(self, name, dtype)

    def _initializer(self, array: Array) -> Value:
        name = self.fresh("constant")
        held = array.astype(object) if array.dtype.kind == "U" else np.ascontiguousarray(array)
        self.initializers.append(numpy_helper.from_array(held.reshape(array.shape), name))
        return Value(self, name, array.dtype)

    def vector(self, entries: Sequence[Value | int]) -> Value:
        """Return integers (n,), some of them known only later."""
        fixed = [one for one in entries if not isinstance(one, Value)]
        if len(fixed) == len(entries):
            return self.constant(np.array(fixed, dtype=np.int64))
        one = self.constant(np.array([1]))
        parts = [self.op("Reshape", self.value(entry, INT64), one) for entry in entries]
        return self.concat(parts, axis=0)

    def where(self, condition: Value, one: Operand, other: Operand) -> Value:
        known = next((v.dtype for v in (one, other) if isinstance(v, Value)), self.real)
        return self.op("Where", condition, one, other, dtype=known)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        return values[0] if len(values) == 1 else self.op("Concat", *values, axis=axis)

    def arange(self, first: Value | int, last: Value | int) -> Value:
        """Return the integers first to last - 1."""
        if not isinstance(first, Value) and not isinstance(last, Value):
            return self.constant(np.arange(first, last))
        return self.op("Range", first, last, 1, dtype=INT64)

    def zeros(self, *sizes: Value | int, dtype: np.dtype[Any] | None = None) -> Value:
        """Return zeros of a shape that may be known only later."""
        zero = np.zeros((1,) * len(sizes), dtype=dtype or self.real)
        return self.op("Expand", self.constant(zero), self.vector(sizes))

    @contextmanager
    def scope(self) -> Iterator[list[onnx.NodeProto]]:
        """Collect the nodes of a graph within this one."""
        nodes: list[onnx.NodeProto] = []
        self.scopes.append(nodes)
        try:
            yield nodes
        finally:
            self.scopes.pop()

    def scan(
        self, body: Body, states: Sequence[Value], inputs: Sequence[Value], *, rank: int = 2
    ) -> tuple[list[Value], list[Value]]:
        """Return the last states, and what every step gave, stacked along a first axis.

        Parameters
        ----------
        body
            Takes the states and one entry of the first axis of each input; returns new states and
            what is kept.
        rank
            Axes of what it returns.
        """
        with self.scope() as nodes:
            x = [Value(self, self.fresh("state"), one.dtype) for one in states]
            u = [Value(self, self.fresh("step"), one.dtype) for one in inputs]
            new, kept = body(x, u)
            out = [self.op("Identity", one) for one in (*new, *kept)]
        # onnxruntime asks for the number of axes of what a body returns.
        taken = [described(one, None) for one in (*x, *u)]
        given = [described(one, [None] * rank) for one in out]
        found = self.ops(
            "Scan",
            *states,
            *inputs,
            results=[one.dtype for one in out],
            body=helper.make_graph(nodes, self.fresh("body"), taken, given),
            num_scan_inputs=len(inputs),
        )
        return found[: len(states)], found[len(states) :]

    def over_time(
        self, body: Body, states: Sequence[Value], inputs: Sequence[Value]
    ) -> tuple[list[Value], list[Value]]:
        """Return what `scan` does over the steps of inputs (B, T, n), stacked (B, T, n).

        Axes change places here, because some runtimes scan over first axes alone.
        """
        states, kept = self.scan(body, states, [one.transpose(1, 0, 2) for one in inputs])
        return states, [one.transpose(1, 0, 2) for one in kept]


def described(
    value: Value, shape: Sequence[int | str | None] | None, name: str | None = None
) -> onnx.ValueInfoProto:
    """Return what a graph says of an input or output: name, type, and shape if it is known."""
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name or value.name, kind, shape)


@dataclass(frozen=True, eq=False)
class Sequences:
    """Inputs (B, T, I) after preparation; `steps` is T where the file says it."""

    u: Value
    steps: int | None
    channels: int

    def rows(self, features: FeatureMap) -> Value:
        """Return the feature rows of a map: (B, T - washout, F), or (B, F) if one row each."""
        make = form_maker("onnx", features)
        if make is None:
            raise ValueError(
                f"{name_of(features)} is a map of one's own, whose code no graph knows; export a "
                "model with a map of the library"
            )
        z: Value = make(features, self)
        if features.feature_bits is None or features.reservoir is not None:
            return z
        return in_fixed_point(z, features.feature_digits, features.feature_bits)

    def after(self, z: Value, washout: int) -> Value:
        """Return the rows (B, T - washout, F) after the washout."""
        if washout == 0:
            return z
        return z.part(washout, self.u.length(1) if self.steps is None else self.steps, axis=1)

    def known_steps(self, features: FeatureMap) -> int:
        """Return T for a map that is laid out for it; ValueError if it is not known."""
        if self.steps is None:
            raise ValueError(
                f"{type(features).__name__} is laid out for recordings of one length, and the "
                "model cuts no windows; pass the length, steps=128 or --steps 128"
            )
        return self.steps


def in_fixed_point(z: Value, digits: Integers, bits: int) -> Value:
    """Return features (.., F) rounded to fixed point and clipped where it ends."""
    unit = np.ldexp(1.0, digits)
    return (z * unit).rint().clip(-(2.0**bits), 2.0**bits) / unit
