"""From a recipe to weights, the same bits everywhere.

Only `prepare` solves for an eigenvalue, which it rounds to few enough bits that every machine finds
the same. A prepared recipe is built by multiplication with the scale it carries, and the result
must have the fingerprint it carries.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, frozen
from catchment.errors import FinerRadiusWarning, FingerprintError
from catchment.features.echo_state.advance import programs_on_grid
from catchment.features.echo_state.random_words import (
    Purpose,
    distinct,
    geometric,
    log_uniform,
    permutation,
    uniform,
)
from catchment.features.echo_state.recipe import Layer, Mixture, Recipe, Spread
from catchment.features.echo_state.segments import found_cut
from catchment.features.echo_state.spectral import RADIUS_BITS, common_radius, rounded_radius
from catchment.features.echo_state.topology import Wiring, known_radius, raw_matrix
from catchment.features.echo_state.weights import ACTIVATIONS, LayerWeights, SparseRows
from catchment.features.echo_state.whole_weights import DEFAULT_RANGE

_one_at_a_time = Lock()


def build(recipe: Recipe) -> tuple[LayerWeights, ...]:
    """Return the weights of each layer.

    A recipe that is not prepared is prepared first; a prepared one is checked against its
    fingerprint.

    >>> (layer,) = build(Recipe(units=4, topology="ring", spectral_radius=0.5))
    >>> layer.W.values
    array([0.5, 0.5, 0.5, 0.5])
    """
    recipe = recipe.prepared()
    layers = _weights(recipe)
    found = fingerprint(layers, recipe.grid, recipe.input_range, recipe.cut)
    if found != recipe.fingerprint:
        clear = "scale and fingerprint" if recipe.grid is None else "scale, fingerprint and cut"
        raise FingerprintError(
            f"the recipe says fingerprint {recipe.fingerprint}, its weights have {found}; if you "
            f"changed a setting, clear {clear} and call prepared(), otherwise get the recipe "
            "again from its sender"
        )
    return layers


def fingerprint(
    layers: Sequence[LayerWeights],
    grid: int | None = None,
    input_range: float = DEFAULT_RANGE,
    cut: tuple[int, int] | None = None,
) -> str:
    """Return the SHA-256, in hexadecimal, of all numbers of all layers, and of a grid.

    >>> len(fingerprint(build(Recipe(units=4, topology="ring"))))
    64
    """
    sha = hashlib.sha256(b"".join(layer.digest() for layer in layers))
    if grid is not None:
        sha.update(json.dumps(["grid", grid, input_range, cut]).encode())
    return sha.hexdigest()


def prepare(recipe: Recipe) -> Recipe:
    """Return the recipe with its scales and fingerprint; many callers of one recipe cost one.

    >>> prepare(Recipe(units=4, topology="ring", spectral_radius=0.5)).scale
    (0.5,)
    """
    # Without the lock, clients that start together would each solve for the same eigenvalue.
    with _one_at_a_time:
        return _prepared(recipe)


@lru_cache(maxsize=256)
def _prepared(recipe: Recipe) -> Recipe:
    scale = tuple(_scale(layer) for layer in recipe.layers)
    # Any fingerprint and cut would do here: they are replaced by those of the weights.
    cut = None if recipe.grid is None else (0, 0)
    draft = replace(recipe, scale=scale, fingerprint="0" * 64, cut=cut)
    layers = _weights(draft)
    if recipe.grid is not None:
        cut = found_cut(programs_on_grid(layers, recipe.grid, recipe.input_range))
    return replace(
        draft, cut=cut, fingerprint=fingerprint(layers, recipe.grid, recipe.input_range, cut)
    )


def _scale(layer: Layer) -> float:
    """Return the factor that gives the raw recurrent matrix its spectral radius."""
    if layer.wiring.topology == "delay_line":
        return layer.spectral_radius
    radius, finer = _raw_radius(layer.wiring)
    if finer:
        warnings.warn(
            f"the spectral radius of layer {layer.wiring.layer} as drawn, {radius!r}, lies within "
            f"1e-9 of the middle between two numbers of {RADIUS_BITS} bits; {RADIUS_BITS + 1} are "
            "kept, on every machine, and nothing is to be done",
            FinerRadiusWarning,
            stacklevel=2,
        )
    if radius > 0.0:
        return layer.spectral_radius / radius
    wiring = layer.wiring
    nothing_asked = wiring.density == 0.0 or (wiring.density is None and wiring.connections == 0)
    if nothing_asked or layer.spectral_radius == 0.0:
        return 0.0
    raise ValueError(
        f"layer {wiring.layer} was drawn without any cycle, so no scale gives it spectral "
        f"radius {layer.spectral_radius}; use more connections or another seed"
    )


@lru_cache(maxsize=1024)
def _raw_radius(wiring: Wiring) -> tuple[float, bool]:
    """Return the radius of the raw matrix and whether it has one bit more than others.

    A search over scales and leaks needs it only once.
    """
    known = known_radius(wiring)
    if known is None:
        return common_radius(raw_matrix(wiring))
    return rounded_radius(Fraction(known))


def _weights(recipe: Recipe) -> tuple[LayerWeights, ...]:
    return tuple(
        _layer_weights(layer, scale)
        for layer, scale in zip(recipe.layers, recipe.scale or (), strict=True)
    )


def _layer_weights(layer: Layer, scale: float) -> LayerWeights:
    N = layer.units
    rng = layer.wiring.words(Purpose.BIAS)
    return LayerWeights(
        W=raw_matrix(layer.wiring).times(scale),
        W_in=_input_matrix(layer),
        bias=frozen(uniform(rng, N, -layer.bias_scaling, layer.bias_scaling)),
        leak=frozen(_leak(layer)),
        gain=frozen(np.full(N, layer.gain)),
        shift=frozen(np.full(N, layer.shift)),
        activation=_activation(layer),
    )


def _input_matrix(layer: Layer) -> SparseRows:
    N, k = layer.units, layer.input_connections
    columns = distinct(layer.wiring.words(Purpose.INPUT_PLACES), N, k, layer.inputs)
    rng = layer.wiring.words(Purpose.INPUT_VALUES)
    return SparseRows(
        starts=np.arange(N + 1, dtype=np.int64) * k,
        columns=columns.ravel().astype(np.uint32),
        values=uniform(rng, N * k, -layer.input_scaling, layer.input_scaling),
        n_columns=layer.inputs,
    )


def _leak(layer: Layer) -> Array:
    N, leak = layer.units, layer.leak_rate
    if not isinstance(leak, Spread):
        return np.full(N, leak)
    rng = layer.wiring.words(Purpose.LEAK)
    if leak.kind == "uniform":
        return uniform(rng, N, leak.low, leak.high)
    if leak.kind == "log_uniform":
        return log_uniform(rng, N, leak.low, leak.high)
    if leak.kind == "tail":
        n_quick = round(0.75 * N)
        return np.append(np.full(n_quick, leak.high), geometric(N - n_quick, leak.low, leak.high))
    fraction = np.arange(N) / max(1, N - 1)
    return np.clip(leak.low + (leak.high - leak.low) * fraction, leak.low, leak.high)


def _activation(layer: Layer) -> NDArray[np.uint8]:
    N, activation = layer.units, layer.activation
    if not isinstance(activation, Mixture):
        return np.full(N, ACTIVATIONS.index(activation), dtype=np.uint8)
    names, fractions = zip(*activation.parts, strict=True)
    # Largest remainders: whole numbers of units that sum to N and follow the fractions.
    share = np.array(fractions) * N
    counts = np.floor(share).astype(np.int64)
    order = np.argsort(counts - share, kind="stable")
    counts[order[: N - int(counts.sum())]] += 1
    codes = np.array([ACTIVATIONS.index(name) for name in names], dtype=np.uint8)
    placed = np.empty(N, dtype=np.uint8)
    placed[permutation(layer.wiring.words(Purpose.ACTIVATION), N)] = np.repeat(codes, counts)
    return placed
