"""A reservoir: the frozen network that turns inputs into states, the same bits everywhere.

Only `preprocessing` solves for an eigenvalue, which it rounds to few enough bits that every machine
finds the same. A prepared recipe is built by multiplication with the scale it carries, and the
result must have the fingerprint it carries.

In fixed point of b digits states and inputs are k 2^-b. A layer's weights, gain folded in, are
rounded to w binary digits after the point: as many as min(b, 20) bits hold, and few enough that the
sum of a row, sum |k_weight| 2^b bound(what it multiplies), stays below 2^53. Then every product and
every sum of a step is exact in float64, in whatever order it is done, and the drive of a unit is
one definite number. Leak rates a have min(b, 20) digits and are one step at least, so (1 - a) x + a
y is exact too before it is rounded to b digits.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catchment.arrays import Array, Integers, aligned, as_matrix, frozen, refuse_nonfinite
from catchment.errors import FinerRadiusWarning, FingerprintError
from catchment.features.base import OR_WIDER, warn_of_clipping
from catchment.features.echo_state.recipe import (
    Layer,
    Mixture,
    Recipe,
    Spread,
    cut_of,
    grid_digits,
    power_of_two,
)
from catchment.features.echo_state.run import advance, found_cut, inputs_on_grid
from catchment.features.echo_state.weights import (
    ACTIVATIONS,
    DEFAULT_RANGE,
    MOST_WEIGHT_DIGITS,
    RADIUS_BITS,
    ROUND,
    LayerWeights,
    Purpose,
    SparseRows,
    Wiring,
    common_radius,
    distinct,
    geometric,
    known_radius,
    log_uniform,
    permutation,
    raw_matrix,
    rounded,
    rounded_radius,
    state_bounds,
    uniform,
)


def weight_digits(rows: Integers, values: Array, bounds: Array, bits: int) -> int:
    """Return the digits w after the point of a layer's weights.

    Parameters
    ----------
    rows
        (nnz,) unit that each weight drives.
    bounds
        (nnz,) largest absolute value of what each weight multiplies.
    bits
        Binary digits of the states.

    >>> weight_digits(np.zeros(2, int), np.array([0.4, 3.0]), np.ones(2), 15)
    13
    """
    wanted = min(bits, MOST_WEIGHT_DIGITS)
    fraction, exponent = np.frexp(np.abs(values).max(initial=0.0))
    w = wanted - max(0, int(exponent) - int(fraction == 0.5))
    while True:
        k = np.abs(np.rint(np.ldexp(values, w)))
        sums = np.bincount(rows, weights=k * bounds, minlength=1)
        if k.max(initial=0.0) < 2.0**wanted and sums.max() < 2.0 ** (53 - bits):
            return w
        w -= 1


DENSE_FROM = 0.25  # density from which a dense product beats the sparse rows...
DENSE_UNITS = 300  # ...when there are at least this many units to fill a matrix product


@dataclass(frozen=True, eq=False)
class Program:
    """One layer as the kernels want it: sparse (or dense) rows over [x; u; 1], gain folded in.

    In fixed point `bits` are the digits of its states and `weight_digits` those of its values.
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.uint32]
    values: NDArray[np.floating[Any]]
    leak: NDArray[np.floating[Any]]
    activation: NDArray[np.uint8]
    n_inputs: int
    uniform: bool
    dense: NDArray[np.floating[Any]] | None
    bits: int | None = None
    weight_digits: int = 0

    @classmethod
    def of(
        cls,
        layer: LayerWeights,
        dtype: type[np.floating[Any]] = np.float64,
        *,
        bits: int | None = None,
        input_bounds: Array | None = None,
    ) -> Program:
        """Return the program of a layer.

        Parameters
        ----------
        bits
            Digits of its grid, if it is on one.
        input_bounds
            (I,) largest absolute value of each input, in fixed point.
        """
        N, I = layer.n_units, layer.n_inputs
        rows = np.concatenate([layer.W.rows(), layer.W_in.rows(), np.arange(N)])
        columns = np.concatenate(
            [
                layer.W.columns.astype(np.int64),
                layer.W_in.columns.astype(np.int64) + N,
                np.full(N, N + I),
            ]
        )
        offset = layer.gain * layer.bias + layer.shift
        values = np.concatenate(
            [
                layer.W.values * layer.gain[layer.W.rows()],
                layer.W_in.values * layer.gain[layer.W_in.rows()],
                offset,
            ]
        )
        leak, w = layer.leak, 0
        if bits is not None:
            inputs = np.ones(I) if input_bounds is None else input_bounds
            bounds = np.concatenate([state_bounds(layer.activation), inputs, np.ones(1)])
            w = weight_digits(rows, values, bounds[columns], bits)
            digits = min(bits, MOST_WEIGHT_DIGITS)
            values, leak = rounded(values, w), np.maximum(rounded(leak, digits), 2.0**-digits)
        order = np.argsort(rows, kind="stable")
        starts = np.zeros(N + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=N), out=starts[1:])
        dense = None
        if layer.W.density >= DENSE_FROM:
            dense = aligned((N, N + I + 1), dtype)
            dense[:] = 0
            dense[rows, columns] = values
        return cls(
            starts,
            columns[order].astype(np.uint32),
            values[order].astype(dtype),
            leak.astype(dtype),
            layer.activation,
            I,
            len(set(leak)) == 1 and len(set(layer.activation)) == 1,
            dense,
            bits,
            w,
        )

    @property
    def n_units(self) -> int:
        return len(self.leak)

    @property
    def grid(self) -> tuple[()] | tuple[float, float]:
        """Rounder and largest number below 1 of states in fixed point, as the kernels want them."""
        return () if self.bits is None else (math.ldexp(ROUND, -self.bits), 1 - 0.5**self.bits)

    @property
    def by_matrix(self) -> bool:
        """Whether a step of many lanes is best done as one dense matrix product."""
        return self.dense is not None and self.n_units >= DENSE_UNITS


def programs_on_grid(
    layers: Sequence[LayerWeights], bits: int, input_range: float
) -> tuple[Program, ...]:
    """Return the programs of layers whose states have this many digits after the point."""
    programs, bounds = [], np.full(layers[0].n_inputs, input_range)
    for layer in layers:
        programs.append(Program.of(layer, bits=bits, input_bounds=bounds))
        bounds = state_bounds(layer.activation)
    return tuple(programs)


def fingerprint(
    layers: Sequence[LayerWeights],
    grid: int | None = None,
    input_range: float = DEFAULT_RANGE,
    cut: tuple[int, int] | None = None,
) -> str:
    """Return the SHA-256, in hexadecimal, of all numbers of all layers, and of a grid.

    >>> len(fingerprint(Reservoir.from_recipe(Recipe(units=4, topology="ring")).layers))
    64
    """
    sha = hashlib.sha256(b"".join(layer.digest() for layer in layers))
    if grid is not None:
        sha.update(json.dumps(["grid", grid, input_range, cut]).encode())
    return sha.hexdigest()


@lru_cache(maxsize=256)
def prepared(recipe: Recipe) -> Recipe:
    """Return the recipe with its scales and fingerprint."""
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
        activation=unit_activations(layer),
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


def unit_activations(layer: Layer) -> NDArray[np.uint8]:
    N, activation = layer.units, layer.activation
    if not isinstance(activation, Mixture):
        return np.full(N, ACTIVATIONS.index(activation), dtype=np.uint8)
    names, fractions = zip(*activation.parts, strict=True)
    # Largest remainders: integers of units that sum to N and follow the fractions.
    share = np.array(fractions) * N
    counts = np.floor(share).astype(np.int64)
    order = np.argsort(counts - share, kind="stable")
    counts[order[: N - int(counts.sum())]] += 1
    codes = np.array([ACTIVATIONS.index(name) for name in names], dtype=np.uint8)
    placed = np.empty(N, dtype=np.uint8)
    placed[permutation(layer.wiring.words(Purpose.ACTIVATION), N)] = np.repeat(codes, counts)
    return placed


@dataclass(frozen=True, eq=False)
class Reservoir:
    """One or more layers of fixed weights; layer l is driven by the states of layer l - 1.

    A reservoir has no memory between calls: every sequence starts from zero unless `x0` is given.

    >>> reservoir = Reservoir.from_recipe(Recipe(units=50, inputs=1, leak_rate=0.3, seed=1))
    >>> reservoir.states([0.1, 0.5, -0.2]).shape
    (3, 50)
    """

    layers: tuple[LayerWeights, ...]
    recipe: Recipe | None = None
    adapted_from: Recipe | None = None  # gains and shifts have changed since
    grid: int | None = None  # digits of the states; None for float64
    input_range: float = DEFAULT_RANGE  # at which inputs are cut off, in fixed point
    known_cut: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        grid_digits(self.grid, "grid")
        power_of_two(self.input_range, "input_range")
        if not self.layers:
            raise ValueError("a reservoir needs at least one layer")
        for below, above in zip(self.layers, self.layers[1:], strict=False):
            if above.n_inputs != below.n_units:
                raise ValueError(
                    f"a layer of {above.n_inputs} inputs stands on one of {below.n_units} units; "
                    "each layer's inputs are the states of the layer below"
                )

    @classmethod
    def from_recipe(cls, recipe: Recipe) -> Reservoir:
        """Return the reservoir of a recipe, checked against its fingerprint if it has one.

        >>> recipe = Recipe(units=4, topology="ring", spectral_radius=0.5)
        >>> Reservoir.from_recipe(recipe).layers[0].W.values
        array([0.5, 0.5, 0.5, 0.5])
        """
        prepared = recipe.prepared()
        layers = _weights(prepared)
        found = fingerprint(layers, prepared.grid, prepared.input_range, prepared.cut)
        if found != prepared.fingerprint:
            clear = "scale and fingerprint" if recipe.grid is None else "scale, fingerprint and cut"
            raise FingerprintError(
                f"the recipe says fingerprint {prepared.fingerprint}, its weights have {found}; if "
                f"you changed a setting, clear {clear} and call prepared(), otherwise get the "
                "recipe again from its sender"
            )
        return cls(
            layers,
            prepared,
            grid=prepared.grid,
            input_range=prepared.input_range,
            known_cut=prepared.cut,
        )

    @classmethod
    def from_matrices(
        cls,
        W: ArrayLike,
        W_in: ArrayLike,
        *,
        bias: ArrayLike | None = None,
        leak_rate: ArrayLike = 1.0,
        activation: str | Sequence[str] = "tanh",
        grid: int | None = None,
        input_range: float = DEFAULT_RANGE,
        cut: tuple[int, int] | None = None,
    ) -> Reservoir:
        """Return a one-layer reservoir with the given matrices.

        Parameters
        ----------
        W
            (N, N) recurrent weights.
        W_in
            (N, I) input weights.
        bias
            (N,) added to the drive; zeros if not given.
        leak_rate
            One number or (N,), above 0 and at most 1.
        activation
            One name, or one per unit.
        grid, input_range, cut
            As in `Recipe`; the cut is found if it is not given.

        >>> Reservoir.from_matrices([[0.5]], [[1.0]]).states([1.0, 0.0]).round(3).ravel()
        array([0.762, 0.363])
        """
        recurrent, drive = as_matrix(W, "W"), as_matrix(W_in, "W_in")
        N = len(recurrent)
        names = [activation] * N if isinstance(activation, str) else list(activation)
        unknown = sorted(set(names) - set(ACTIVATIONS))
        if unknown:
            raise ValueError(
                f"activation {unknown[0]!r} is unknown; use one of {', '.join(ACTIVATIONS)}"
            )
        leak = np.array(np.broadcast_to(np.asarray(leak_rate, dtype=np.float64), (N,)))
        if not ((leak > 0) & (leak <= 1)).all():
            raise ValueError("leak rates must be above 0 and at most 1")
        b = np.zeros(N) if bias is None else np.array(bias, dtype=np.float64).reshape(-1)
        for array, name in ((recurrent, "W"), (drive, "W_in"), (b, "bias")):
            refuse_nonfinite(array, name)
        layer = LayerWeights(
            SparseRows.from_dense(recurrent),
            SparseRows.from_dense(drive),
            b,
            leak,
            np.ones(N),
            np.zeros(N),
            np.array([ACTIVATIONS.index(name) for name in names], dtype=np.uint8),
        )
        known = None if cut is None else cut_of(cut, "cut")
        return cls((layer,), grid=grid, input_range=input_range, known_cut=known)

    @property
    def n_units(self) -> int:
        """Units of all layers together."""
        return sum(layer.n_units for layer in self.layers)

    @property
    def n_inputs(self) -> int:
        return self.layers[0].n_inputs

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of every weight and of the grid, in hexadecimal."""
        if self.grid is None:
            return fingerprint(self.layers)
        return fingerprint(self.layers, self.grid, self.input_range, self.cut)

    @cached_property
    def cut(self) -> tuple[int, int]:
        """Length and warm-up of the parts into which a grid cuts a sequence; (0, 0) for none.

        It is the recipe's; without a recipe, or after plasticity, it is found when first needed.
        """
        if self.grid is None:
            return 0, 0
        return self.known_cut or found_cut(self.programs())

    @property
    def state_bounds(self) -> Array:
        """Largest absolute value (N,) of each unit's states; infinite where there is none."""
        activation = np.concatenate([layer.activation for layer in self.layers])
        return state_bounds(activation, on_grid=self.grid is not None)

    def programs(self, dtype: type[np.floating[Any]] = np.float64) -> tuple[Program, ...]:
        """Return the layers in the form that the kernels run."""
        if self.grid is not None and dtype is np.float32:
            raise ValueError(
                f"the reservoir has a grid of {self.grid} digits, which float32 does not hold; use "
                "float64, or no grid"
            )
        if dtype not in self._programs:
            if self.grid is None:
                self._programs[dtype] = tuple(Program.of(layer, dtype) for layer in self.layers)
            else:
                on_grid = programs_on_grid(self.layers, self.grid, self.input_range)
                self._programs[dtype] = on_grid
        return self._programs[dtype]

    @cached_property
    def _programs(self) -> dict[type[np.floating[Any]], tuple[Program, ...]]:
        return {}

    def states(self, u: ArrayLike, x0: Array | None = None) -> Array:
        """Return the states (T, N) that the inputs drive the reservoir through.

        Parameters
        ----------
        u
            (T, I) inputs.
        x0
            (N,) state of all layers before the first input; zeros if not given. With a state the
            sequence is never cut.
        """
        inputs = self.checked(u)
        if x0 is None:
            return self.run([inputs])[0]
        start = np.asarray(x0, dtype=np.float64)
        if start.shape != (self.n_units,):
            raise ValueError(f"x0 has shape {start.shape}, expected ({self.n_units},)")
        if self.grid is not None:
            if not (np.abs(start) <= self.state_bounds).all():
                raise ValueError(
                    f"x0 reaches {np.abs(start).max():g}, and a state on the grid lies within 1, "
                    "or 8 for relu and identity; pass a state that the reservoir can have"
                )
            start = rounded(start, self.grid)
        xs = np.empty((len(inputs), self.n_units))
        for block in advance(self.programs(), [inputs], x0=start[:, None]):
            xs[block.start : block.stop] = block.rows[-self.n_units :, :, 0].T
        return xs

    def run(self, inputs: Sequence[ArrayLike], *, threads: int | None = None) -> list[Array]:
        """Return the states (T_k, N) of each sequence, every one started from zero."""
        from catchment.features.echo_state.echo_state import EchoState

        return EchoState.of(self, input=False).rows(inputs, threads=threads)

    def checked(self, u: ArrayLike, name: str = "inputs") -> Array:
        """Return inputs (T, I) as float64; raise if they do not fit or are not finite.

        With a grid they are cut off at its range and rounded to it.
        """
        return self.checked_all([u], name)[0]

    def checked_all(self, inputs: Sequence[ArrayLike], name: str = "sequence {}") -> list[Array]:
        """Return what `checked` does for each sequence, with one warning for all of them."""
        us = []
        for k, given in enumerate(inputs):
            u, called = as_matrix(given, name.format(k)), name.format(k)
            if u.shape[1] != self.n_inputs:
                raise ValueError(
                    f"{called} has {u.shape[1]} columns, the reservoir was built for "
                    f"{self.n_inputs}; pass an array of shape (T, {self.n_inputs})"
                )
            if len(u) == 0:
                raise ValueError(f"{called} has no steps; leave empty sequences out")
            refuse_nonfinite(u, called)
            us.append(u)
        if self.grid is None or not us:
            return us
        # Together, because very many short sequences would each cost a few small operations.
        joined = us[0] if len(us) == 1 else np.concatenate(us)
        rounded, n_clipped = inputs_on_grid(joined, self.grid, self.input_range)
        warn_of_clipping(n_clipped, joined.size, self.input_range, OR_WIDER)
        return np.split(rounded, np.cumsum([len(u) for u in us])[:-1])

    def with_plasticity(
        self, gain: Array, shift: Array, *, cut: tuple[int, int] | None = None
    ) -> Reservoir:
        """Return the reservoir with gain (N,) and shift (N,) of intrinsic plasticity.

        Other gains forget at another pace, so in fixed point the cut is found anew if not given.
        """
        if gain.shape != (self.n_units,) or shift.shape != (self.n_units,):
            raise ValueError(
                f"gain {gain.shape} and shift {shift.shape} must both have shape ({self.n_units},)"
            )
        edges = np.cumsum([layer.n_units for layer in self.layers])[:-1]
        parts = zip(self.layers, np.split(gain, edges), np.split(shift, edges), strict=True)
        layers = tuple(replace(layer, gain=g, shift=s) for layer, g, s in parts)
        return Reservoir(
            layers,
            adapted_from=self.recipe or self.adapted_from,
            grid=self.grid,
            input_range=self.input_range,
            known_cut=cut,
        )


@lru_cache(maxsize=8)
def drawn_reservoir(recipe: Recipe) -> Reservoir:
    """Return the reservoir of a prepared recipe, the same one where it was asked for lately."""
    return Reservoir.from_recipe(recipe)
