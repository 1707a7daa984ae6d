"""Feature maps one step at a time, with states that are carried from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from catchment.features import (
    NVAR,
    AppendNorm,
    DiagonalReservoir,
    EchoState,
    FeatureMap,
    FeatureUnion,
    RandomFourierFeatures,
    RandomProjection,
    form,
    form_maker,
)
from catchment_edge.onnx import diagonal, echo_state, with_matrices
from catchment_edge.onnx.maps import gridded, maps_within, refused
from catchment_edge.onnx.memory import Memory
from catchment_edge.onnx.values import Value


def sees_all(features: FeatureMap) -> bool:
    """Whether a map has to see all steps of a window together."""
    return any(
        one.segments > 1
        if isinstance(one, EchoState)
        else form_maker("onnx", one) is not None and form_maker("onnx step", one) is None
        for one in maps_within(features)
    )


@dataclass(frozen=True, eq=False)
class Now:
    """One step: inputs (1, I) after preparation, how many steps came before, and the memory.

    `window` is the length after which states start again, None if they never do.
    """

    u: Value
    t: Value
    channels: int
    window: int | None
    memory: Memory


def step_rows(features: FeatureMap, now: Now) -> Value:
    """Return the features (1, F) after this step; of pooled maps those of all steps so far."""
    make = form_maker("onnx step", features)
    if make is None:
        raise refused(features)
    z: Value = make(features, now)
    done = features.feature_grid is None or features.reservoir is not None
    return z if done else gridded(features, z)


@form("onnx step", RandomFourierFeatures)
def _fourier_step(settings: RandomFourierFeatures, now: Now) -> Value:
    x = now.u if settings.map is None else step_rows(settings.map, now)
    return with_matrices.random_features(settings, x)


@form("onnx step", AppendNorm)
def _norm_step(settings: AppendNorm, now: Now) -> Value:
    u = with_matrices.inputs_with_norm(now.u, now.channels)
    within = Now(u, now.t, now.channels + 1, now.window, now.memory)
    return step_rows(settings.map, within)


@form("onnx step", RandomProjection)
def _projected_step(settings: RandomProjection, now: Now) -> Value:
    return with_matrices.mixed_into_few(settings, step_rows(settings.inner, now))


@form("onnx step", FeatureUnion)
def _concat_step(settings: FeatureUnion, now: Now) -> Value:
    return now.u.builder.concat([step_rows(one, now) for one in settings.maps], axis=-1)


@form("onnx step", EchoState)
def echo_step(features: EchoState, now: Now) -> Value:
    """Return the features of echo states, which are cut as the grid defines."""
    u = echo_state.inputs_on_grid(features, now.u)
    builder, memory = u.builder, now.memory
    L, M = features.reservoir.cut
    never = L == 0 or not builder.exact or (now.window is not None and now.window <= L)
    below, found = u, []
    for layer in echo_state.layers_of(features):
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
    digits = features.reservoir.grid if builder.exact else None
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
    u = diagonal.inputs_on_grid(now.u)
    k = drawn.eigenvalues.shape[1]
    names = [memory.name(word) for word in ("real", "imaginary")]
    modes = [memory.recall(name, [1, k]) for name in names]
    re, im = diagonal.next_modes(drawn, modes[0], modes[1], u @ drawn.W)
    for name, part in zip(names, (re, im), strict=True):
        memory.keep(name, part)
    parts = [u, re, im]
    if len(drawn.leak):
        p = diagonal.products_and_mixtures(drawn, u, re, im)
        parts.append(
            _kept(memory, "unit", len(drawn.leak), lambda q: diagonal.followed(drawn, q, p))
        )
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
    x = with_matrices.delay_inputs(now.u)
    if reach:
        name = memory.name("delay")
        x = builder.concat([x, memory.recall(name, [reach, settings.n_inputs])], axis=0)
        memory.keep(name, x.part(0, reach, axis=0))
        x = x.take(np.arange(settings.delays) * settings.stride, axis=0).reshape(1, -1)
    return with_matrices.monomials(settings, x)
