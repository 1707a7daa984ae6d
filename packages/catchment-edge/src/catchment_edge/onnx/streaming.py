"""A model one step at a time: a sample and states in, scores and states out.

Recordings need not be kept. After T steps the scores are those of the form that sees T steps at
once; only before a channel's first value, which a stream cannot look forward to, it is taken as
zero after scaling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from catchment.readout import Model
from catchment_edge.onnx.builder import Builder
from catchment_edge.onnx.file import Named, Source, answers, assembled
from catchment_edge.onnx.maps import map_rows
from catchment_edge.onnx.memory import NEXT, Memory
from catchment_edge.onnx.outputs import scores_of
from catchment_edge.onnx.preparation import scaled, usable
from catchment_edge.onnx.sequences import Sequences
from catchment_edge.onnx.steps import Now, sees_all, step_rows
from catchment_edge.onnx.values import Value

SAMPLE, READY, CLOCK = "sample", "ready", "step"


@dataclass(frozen=True)
class Timing:
    """Which steps end a row: windows of so many steps, and the steps from one to the next.

    `kept` says that the inputs of a window are remembered, because windows overlap or the map sees
    all of a window at once.
    """

    window: int | None
    stride: int
    kept: bool

    @classmethod
    def of(cls, source: Source) -> Timing:
        model, window, stride = source.model, source.preprocessing.window, source.preprocessing.step
        assert not isinstance(window, str)
        assert not isinstance(stride, str)
        at_once = sees_all(model.features)
        if window is None and at_once:
            window = source.steps
        if window is None:
            if at_once:
                raise ValueError(
                    "the map sees a recording's steps all at once, and how many there are is not "
                    "known; pass steps=128 or --steps 128, or train with windows"
                )
            return cls(None, 0, kept=False)
        stride = stride or window
        if stride < window and model.per_step:
            raise ValueError(
                f"windows of {window} steps begin every {stride}, so a step has several rows; "
                "export without streaming, or train with windows that follow on each other"
            )
        return cls(window, stride, kept=at_once or stride < window)

    def ready(self, t: Value, model: Model) -> Value:
        """Return whether the scores after the step that t steps came before are a row."""
        if self.kept:
            assert self.window is not None
            late = t - (self.window - 1)
            return ~(late < 0) & (late % self.stride).equals(0)
        if model.per_step or self.window is None:
            after = ~(t < model.washout)
            return after if self.window is None else after & (t < self.window)
        return t.equals(self.window - 1)


def streaming_graph(source: Source, real: np.dtype[Any], opset: int) -> onnx.ModelProto:
    """Return the graph of one step."""
    timing = Timing.of(source)
    builder = Builder(real, opset)
    memory = Memory(builder)
    sample = Value(builder, SAMPLE, real)
    t = memory.recall(CLOCK, [], lasting=True, whole=True)
    if timing.window is not None and not timing.kept:
        t = builder.where(t >= timing.stride, 0, t)
        memory.going = (t > 0).cast(np.int64)
    memory.keep(CLOCK, t + 1)
    u, poison = prepared(source, sample.reshape(1, 1, source.channels), memory)
    ready = timing.ready(t, source.model)
    if timing.kept:
        z = kept_rows(source, timing, u, ready, memory)
    else:
        now = Now(u, t, source.channels, timing.window, memory)
        z = step_rows(source.model.features, now)
    scores = scores_of(source.model, z) + poison.unsqueeze(1)
    answered = [(name, value, [1, *shape[1:]]) for name, value, shape in answers(source, scores)]
    return assembled(
        builder,
        source,
        [(SAMPLE, sample, [source.channels]), *_named(memory.before, memory)],
        [*answered, (READY, ready, []), *_named(memory.after, memory, NEXT)],
        {"states": memory.shapes},
    )


def _named(states: Mapping[str, Value], memory: Memory, suffix: str = "") -> list[Named]:
    return [(name + suffix, value, memory.shapes[name]) for name, value in states.items()]


def kept_rows(source: Source, timing: Timing, u: Value, ready: Value, memory: Memory) -> Value:
    """Return the features (1, F) of the last window of inputs, computed where it is a row."""
    builder, F = memory.builder, source.model.features.n_features
    assert timing.window is not None
    if timing.window > 1:
        past = memory.recall("inputs", [timing.window - 1, source.channels])
        u = builder.concat([past, u], axis=0)
        memory.keep("inputs", u.part(1, timing.window, axis=0))
    given = Sequences(u.unsqueeze(0), timing.window, source.channels)
    z = builder.when(ready, lambda: map_rows(source.model.features, given))
    return builder.op("Expand", z, builder.vector([1, F]))


def prepared(source: Source, x: Value, memory: Memory) -> tuple[Value, Value]:
    """Return a sample (1, 1, I) as inputs (1, I), gaps held and scaled; and NaN once refused."""
    preprocessing, I, builder = source.preprocessing, source.channels, memory.builder
    if preprocessing.gaps == "interpolate":
        raise ValueError(
            'gaps is "interpolate", which needs the value after a gap; export without streaming, '
            'or train with gaps="hold"'
        )
    x, refused = usable(x, preprocessing)
    u = x.squeeze(0)
    if preprocessing.gaps == "hold":
        held, known = (memory.recall(name, [1, I], lasting=True) for name in ("held", "known"))
        missing = u.missing()
        u = builder.where(missing, held, u)
        memory.keep("held", u)
        known = known.at_least((~missing).cast(builder.real))
        memory.keep("known", known)
        u = builder.where(known > 0.0, scaled(u, preprocessing), 0.0)
    else:
        u = scaled(u, preprocessing)
    name = "refused"
    total = memory.recall(name, [1], lasting=True) + refused.missing().cast(builder.real)
    memory.keep(name, total)
    return u, builder.where(total > 0.0, np.nan, total * 0.0)
