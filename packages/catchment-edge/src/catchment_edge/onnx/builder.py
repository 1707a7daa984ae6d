"""A graph under way: its nodes, its constants, and graphs within it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from catchment_edge.onnx.values import INT64, OPSET, Array, Operand, Value

IR_VERSION = 8
LARGE = 64  # numbers from which a constant is worth a shorter form

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
            self.kept[key] = self._stored(array)
        return self.kept[key]

    def _stored(self, array: Array) -> Value:
        if array.dtype == np.float64 and array.size >= LARGE:
            shorter = array.astype(np.float32)
            if np.array_equal(shorter, array):
                kind = helper.np_dtype_to_tensor_dtype(array.dtype)
                return self._made("Cast", self._filled(shorter), array.dtype, to=kind)
        return self._filled(array)

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
        return values[0] if len(values) == 1 else self.op("FeatureUnion", *values, axis=axis)

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

    def when(self, condition: Value, one: Callable[[], Value], rank: int = 2) -> Value:
        """Return a value that is computed only where a condition holds, and else zeros.

        Parameters
        ----------
        rank
            Its axes; the zeros have one element on each, so nobody should look at them.
        """
        branches = []
        for branch in (one, lambda: self.zeros(*[1] * rank)):
            with self.scope() as nodes:
                found = self.op("Identity", branch())
            given = [described(found, [None] * rank)]
            branches.append(helper.make_graph(nodes, self.fresh("branch"), [], given))
        return self.op(
            "If", condition, result=found.dtype, then_branch=branches[0], else_branch=branches[1]
        )


def described(
    value: Value, shape: Sequence[int | str | None] | None, name: str | None = None
) -> onnx.ValueInfoProto:
    """Return what a graph says of an input or output: name, type, and shape if it is known."""
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name or value.name, kind, shape)
