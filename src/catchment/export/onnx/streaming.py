"""A model one step at a time: a sample and states in, scores and states out.

Recordings need not be kept. After T steps the scores are those of the form that sees T steps at
once; only before a channel's first value, which a stream cannot look forward to, it is taken as
zero after scaling.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from catchment.export.onnx.file import Named, Source, answers, assembled
from catchment.export.onnx.memory import NEXT, Memory
from catchment.export.onnx.outputs import scores_of
from catchment.export.onnx.preparation import scaled, usable
from catchment.export.onnx.steps import Now, step_rows
from catchment.export.onnx.values import BOOL, Builder, Value

SAMPLE, READY, CLOCK = "sample", "ready", "step"


def streaming_graph(source: Source, real: np.dtype[Any], opset: int) -> onnx.ModelProto:
    """Return the graph of one step."""
    window, stride = _windows(source)
    builder = Builder(real, opset)
    memory = Memory(builder)
    sample = Value(builder, SAMPLE, real)
    t = memory.recall(CLOCK, [], lasting=True, whole=True)
    if window is not None:
        t = builder.where(t >= stride, 0, t)
        memory.going = (t > 0).cast(np.int64)
    memory.keep(CLOCK, t + 1)
    u, poison = prepared(source, sample.reshape(1, 1, source.channels), memory)
    z = step_rows(source.model.features, Now(u, t, source.channels, window, memory))
    scores = scores_of(source.model, z) + poison.unsqueeze(1)
    ready = is_ready(source, t, window)
    states: list[Named] = [
        (name, value, memory.shapes[name]) for name, value in memory.before.items()
    ]
    new: list[Named] = [
        (name + NEXT, value, memory.shapes[name]) for name, value in memory.after.items()
    ]
    outputs = [(name, value, _one_row(shape)) for name, value, shape in answers(source, scores)]
    return assembled(
        builder,
        source,
        [(SAMPLE, sample, [source.channels]), *states],
        [*outputs, (READY, ready, []), *new],
        {"states": memory.shapes},
    )


def _one_row(shape: Any) -> list[int | str]:
    return [1, *shape[1:]]


def _windows(source: Source) -> tuple[int | None, int]:
    """Return the window and the steps from one to the next; ValueError if they overlap."""
    window, stride = source.prepare.window, source.prepare.step
    assert not isinstance(window, str)
    assert not isinstance(stride, str)
    if window is None:
        return None, 0
    stride = stride or window
    if stride < window:
        raise ValueError(
            f"windows of {window} steps begin every {stride}, so each step belongs to several; "
            "export without streaming, or train with windows that follow on each other"
        )
    return window, stride


def prepared(source: Source, x: Value, memory: Memory) -> tuple[Value, Value]:
    """Return a sample (1, 1, I) as inputs (1, I), gaps held and scaled; and NaN once refused."""
    prepare, I, builder = source.prepare, source.channels, memory.builder
    if prepare.gaps == "interpolate":
        raise ValueError(
            'gaps is "interpolate", which needs the value after a gap; export without streaming, '
            'or train with gaps="hold"'
        )
    x, refused = usable(x, prepare)
    u = x.squeeze(0)
    if prepare.gaps == "hold":
        held, known = (memory.recall(name, [1, I], lasting=True) for name in ("held", "known"))
        missing = u.missing()
        u = builder.where(missing, held, u)
        memory.keep("held", u)
        known = known.at_least((~missing).cast(builder.real))
        memory.keep("known", known)
        u = builder.where(known > 0.0, scaled(u, prepare), 0.0)
    else:
        u = scaled(u, prepare)
    name = "refused"
    total = memory.recall(name, [1]) + refused.missing().cast(builder.real)
    memory.keep(name, total)
    return u, builder.where(total > 0.0, np.nan, total * 0.0)


def is_ready(source: Source, t: Value, window: int | None) -> Value:
    """Return whether the scores of this step are a row of the model."""
    model = source.model
    if model.per_step or window is None:
        ready = ~(t < model.washout)
        return ready if window is None else ready & (t < window)
    return t.equals(window - 1).cast(BOOL)
