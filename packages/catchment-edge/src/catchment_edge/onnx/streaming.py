"""A model one step at a time: a sample and states in, scores and states out.

Recordings need not be kept. After T steps the scores are those of the form that sees T steps at
once; only before a channel's first value, which a stream cannot look forward to, it is taken as
zero after scaling.

What a graph of one step remembers: states that come in and go out under names.

Feature maps one step at a time, with states that are carried from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import onnx

from catchment.features import (
    NVAR,
    DiagonalReservoir,
    EchoState,
    FeatureMap,
    form,
    form_maker,
)
from catchment.readout import Model
from catchment_edge.onnx import echo_state, maps
from catchment_edge.onnx.builder import INT64, Builder, Sequences, Value
from catchment_edge.onnx.file import Named, Source, answers, assembled, scaled, scores_of, usable
from catchment_edge.onnx.maps import maps_within

NEXT = "_next"


@dataclass(eq=False)
class Memory:
    """States (.., n) of a graph of one step; all of them are zeros before the first.

    `going` is 0 where a window begins, which sets states to rest, and 1 elsewhere; None if no
    window ever begins.
    """

    builder: Builder
    going: Value | None = None
    shapes: dict[str, list[int]] = field(default_factory=dict)
    before: dict[str, Value] = field(default_factory=dict)
    after: dict[str, Value] = field(default_factory=dict)

    def recall(
        self, name: str, shape: Sequence[int], *, lasting: bool = False, whole: bool = False
    ) -> Value:
        """Return a state as it came in.

        Parameters
        ----------
        lasting
            Whether it goes on from window to window.
        whole
            Whether it holds integers.
        """
        dtype: np.dtype[Any] = INT64 if whole else self.builder.real
        self.shapes[name] = list(shape)
        state = self.before[name] = Value(self.builder, name, dtype)
        if lasting or self.going is None:
            return state
        return state * self.going.cast(dtype)

    def keep(self, name: str, value: Value) -> None:
        self.after[name] = value

    def name(self, word: str) -> str:
        """Return a name that no state has yet: of two maps side by side both have states."""
        taken = [name for name in self.shapes if name.rstrip("0123456789") == word]
        return f"{word}{len(taken)}"


def sees_all(features: FeatureMap) -> bool:
    """Whether a map has to see all steps of a window together."""
    return any(
        one.segments > 1
        if isinstance(one, EchoState)
        else form_maker("onnx", one) is not None and form_maker("onnx step", one) is None
        for one in maps_within(features)
    )


@dataclass(frozen=True, eq=False)
class Now(Sequences):
    """One step: inputs (1, I) after preparation, how many steps came before, and the memory.

    `steps` is the length after which states start again, None if they never do. Rows (1, F) are
    those after this step; of pooled maps those of all steps so far.
    """

    t: Value
    memory: Memory
    form: ClassVar[str] = "onnx step"

    def after(self, z: Value, washout: int) -> Value:
        return z


@form("onnx step", EchoState)
def echo_step(features: EchoState, now: Now) -> Value:
    """Return the features of echo states, which are cut as the grid defines."""
    u = echo_state.inputs_on_grid(features, now.u)
    builder, memory = u.builder, now.memory
    L, M = features.reservoir.cut
    never = L == 0 or not builder.exact or (now.steps is not None and now.steps <= L)
    below, found = u, []
    for program in features.programs:
        layer = echo_state.Layer.of(program)
        N, name = len(layer.offset), memory.name("echo")
        if never:
            x = memory.recall(name, [1, N])
        else:
            x = restarted(memory.recall(name, [2, N]), now.t, L, M)
        below = layer.step(x, layer.drive(below))
        memory.keep(name, below)
        found.append(below.part(0, 1, axis=0))
    z = echo_state.selected(features, u, builder.concat(found, axis=-1))
    if features.pool is None:
        return echo_state.rounded_rows(features, z)
    digits = features.reservoir.bits if builder.exact else None
    exact, width = digits is not None, features.n_base
    row = running_pool(z, features.pool, features.washout, now, width=width, exact=exact)
    return echo_state.on_features_grid(features, row)


def restarted(x: Value, t: Value, L: int, M: int) -> Value:
    """Return states (2, N) before a step: of the part under way, and of the next, warming up.

    Where a part ends the second takes the first's place, and M steps before it starts from rest.
    """
    builder = x.builder
    main, ahead = x.part(0, 1, axis=0), x.part(1, 2, axis=0)
    place = t % L
    main = builder.where(place.equals(0) & (t > 0), ahead, main)
    ahead = builder.where(place.equals((L - M) % L), 0.0, ahead)
    return builder.concat([main, ahead], axis=0)


def running_pool(z: Value, pool: str, washout: int, now: Now, *, width: int, exact: bool) -> Value:
    """Return the pooled row (1, F) of all steps after the washout so far.

    Parameters
    ----------
    width
        Features of one step.
    exact
        Whether sums of features are exact, so that the mean is one division.
    """
    memory, builder = now.memory, z.builder
    if pool == "last":
        return z
    first, counts = now.t.equals(washout), ~(now.t < washout)
    n = (now.t + (1 - washout)).at_least(1).cast(builder.real)
    if pool == "max":
        return _kept(memory, "most", width, lambda most: builder.where(first, z, most.at_least(z)))
    if pool == "mean":
        added = builder.where(counts, z, 0.0)
        return _kept(memory, "sum", width, lambda total: total + added) / n
    reference = _kept(memory, "start", width, lambda start: builder.where(first, z, start))
    about = builder.where(counts, z - reference, 0.0)
    total = _kept(memory, "sum", width, lambda total: total + about)
    squares = _kept(memory, "squares", width, lambda squares: squares + about * about)
    shift = total / n
    mean = (reference * n + total) / n if exact else reference + shift
    spread = (squares / n - shift * shift).at_least(0.0).sqrt()
    return builder.concat([mean, spread], axis=-1)


def _kept(memory: Memory, word: str, width: int, change: Callable[[Value], Value]) -> Value:
    """Return a state (1, width) after its change, which is kept."""
    name = memory.name(word)
    new = change(memory.recall(name, [1, width]))
    memory.keep(name, new)
    return new


@form("onnx step", DiagonalReservoir)
def diagonal_step(settings: DiagonalReservoir, now: Now) -> Value:
    """Return the features of a diagonal reservoir."""
    drawn, memory, builder = settings.wiring, now.memory, now.u.builder
    u = maps.diagonal_inputs(now.u)
    k = drawn.eigenvalues.shape[1]
    names = [memory.name(word) for word in ("real", "imaginary")]
    modes = [memory.recall(name, [1, k]) for name in names]
    re, im = maps.next_modes(drawn, modes[0], modes[1], u @ drawn.W)
    for name, part in zip(names, (re, im), strict=True):
        memory.keep(name, part)
    parts = [u, re, im]
    if len(drawn.leak):
        p = maps.products_and_mixtures(drawn, u, re, im)
        parts.append(_kept(memory, "unit", len(drawn.leak), lambda q: maps.followed(drawn, q, p)))
    z = builder.concat(parts, axis=-1)
    if settings.pool is None:
        return z
    width = now.channels + settings.units
    return running_pool(z, settings.pool, settings.washout, now, width=width, exact=False)


@form("onnx step", NVAR)
def delay_step(settings: NVAR, now: Now) -> Value:
    """Return the monomials of the last inputs; `delay` holds them, the newest first."""
    assert settings.n_inputs is not None
    memory, builder = now.memory, now.u.builder
    reach = (settings.delays - 1) * settings.stride
    x = maps.delay_inputs(now.u)
    if reach:
        name = memory.name("delay")
        x = builder.concat([x, memory.recall(name, [reach, settings.n_inputs])], axis=0)
        memory.keep(name, x.part(0, reach, axis=0))
        x = x.take(np.arange(settings.delays) * settings.stride, axis=0).reshape(1, -1)
    return maps.monomials(settings, x)


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
        now = Now(u, timing.window, source.channels, t, memory)
        z = now.rows(source.model.features)
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
    z = builder.when(ready, lambda: given.rows(source.model.features))
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
