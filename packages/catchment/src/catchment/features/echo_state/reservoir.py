"""A reservoir: the frozen network that turns inputs into states, the same bits everywhere.

Only `prepare` solves for an eigenvalue, which it rounds to few enough bits that every machine finds
the same. A prepared recipe is built by multiplication with the scale it carries, and the result
must have the fingerprint it carries.

Several reservoirs side by side are one: they share the inputs and nothing else. The states of the
union are the states of its members, so whatever is linear in each member's features (an ensemble of
readouts, joint statistics of all of them) is linear in the union's.

On a grid the union has one number of weight digits per layer and one cut, which suit all members;
where a member's own are others, its states in the union differ from those alone by a few steps of
the grid.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catchment.arrays import Array, Integers, as_matrix, frozen, refuse_nonfinite
from catchment.errors import ClippingWarning, FinerRadiusWarning, FingerprintError
from catchment.features.echo_state.recipe import (
    Layer,
    Mixture,
    Recipe,
    Spread,
    cut_of,
    grid_digits,
    power_of_two,
)
from catchment.features.echo_state.run import (
    Batch,
    Program,
    SegmentsError,
    advance,
    found_cut,
    inputs_on_grid,
    plan_batches,
    programs_on_grid,
    run_batch,
)
from catchment.features.echo_state.weights import (
    ACTIVATIONS,
    DEFAULT_RANGE,
    RADIUS_BITS,
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
from catchment.parallel import ordered_map

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


MANY_CLIPPED = 0.01  # share of inputs beyond the range from which to warn


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
    input_range: float = DEFAULT_RANGE  # at which inputs are cut off, with a grid
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
        """Return the reservoir of a recipe, checked against its fingerprint if it has one."""
        prepared = recipe.prepared()
        return cls(
            build(prepared),
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
        bounds = np.concatenate([state_bounds(layer) for layer in self.layers])
        return bounds if self.grid is not None else np.where(bounds == 1.0, 1.0, np.inf)

    def programs(self, dtype: type[np.floating[Any]] = np.float64) -> tuple[Program, ...]:
        """Return the layers in the form that the kernels run."""
        if self.grid is not None and dtype is np.float32:
            raise ValueError(
                f"the reservoir has a grid of {self.grid} digits, which float32 does not hold; use "
                "float64, or no grid"
            )
        return self._single if dtype is np.float32 else self._double

    @cached_property
    def _double(self) -> tuple[Program, ...]:
        if self.grid is not None:
            return programs_on_grid(self.layers, self.grid, self.input_range)
        return tuple(Program.of(layer) for layer in self.layers)

    @cached_property
    def _single(self) -> tuple[Program, ...]:
        return tuple(Program.of(layer, np.float32) for layer in self.layers)

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
            start = self._start_on_grid(start)
        xs = np.empty((len(inputs), self.n_units))
        for block in advance(self.programs(), [inputs], x0=start[:, None]):
            xs[block.start : block.stop] = block.rows[-self.n_units :, :, 0].T
        return xs

    def _start_on_grid(self, x0: Array) -> Array:
        assert self.grid is not None
        if not (np.abs(x0) <= self.state_bounds).all():
            raise ValueError(
                f"x0 reaches {np.abs(x0).max():g}, and a state on the grid lies within 1, or 8 for "
                "relu and identity; pass a state that the reservoir can have"
            )
        return rounded(x0, self.grid)

    def run(self, inputs: Sequence[ArrayLike], *, threads: int | None = None) -> list[Array]:
        """Return the states (T_k, N) of each sequence, every one started from zero."""
        us = self.checked_all(inputs)
        out = [np.empty((len(u), self.n_units)) for u in us]
        batches = plan_batches(self.programs(), us, washout=0, may_segment=True, cut=self.cut)

        def fill(batch: Batch) -> None:
            try:
                self._fill(batch, out)
            except SegmentsError:
                self._fill(batch.in_one_piece(us, 0), out)

        for _ in ordered_map(fill, batches, threads=threads):
            pass
        return out

    def _fill(self, batch: Batch, out: list[Array]) -> None:
        for block in run_batch(self.programs(), batch):
            for b, lane in enumerate(batch.lanes):
                begin, end = max(block.start, lane.skip), min(block.stop, len(lane.u))
                if begin < end:
                    place = slice(lane.first + begin - lane.skip, lane.first + end - lane.skip)
                    part = block.rows[-self.n_units :, begin - block.start : end - block.start, b]
                    out[lane.source][place] = part.T

    def checked(self, u: ArrayLike, name: str = "inputs") -> Array:
        """Return inputs (T, I) as float64; raise if they do not fit or are not finite.

        With a grid they are cut off at its range and rounded to it.
        """
        return self._on_grid([self._fitting(u, name)])[0]

    def checked_all(self, inputs: Sequence[ArrayLike]) -> list[Array]:
        """Return what `checked` does for each sequence, with one warning for all of them."""
        return self._on_grid([self._fitting(u, f"sequence {k}") for k, u in enumerate(inputs)])

    def _on_grid(self, us: list[Array]) -> list[Array]:
        if self.grid is None:
            return us
        # Together, because very many short sequences would each cost a few small operations.
        ends = np.cumsum([len(u) for u in us]).tolist()
        joined = us[0] if len(us) == 1 else np.concatenate(us or [np.empty((0, self.n_inputs))])
        rounded, n_clipped = inputs_on_grid(joined, self.grid, self.input_range)
        share = n_clipped / max(1, joined.size)
        if share > MANY_CLIPPED:
            warnings.warn(
                f"{share:.2%} of the input values lie beyond {self.input_range:g} and were cut off "
                "there; scale the inputs to a standard deviation of 1, or pass a larger "
                "input_range",
                ClippingWarning,
                stacklevel=3,
            )
        return [rounded[end - len(u) : end] for u, end in zip(us, ends, strict=True)]

    def _fitting(self, u: ArrayLike, name: str) -> Array:
        inputs = as_matrix(u, name)
        if inputs.shape[1] != self.n_inputs:
            raise ValueError(
                f"{name} has {inputs.shape[1]} columns, the reservoir was built for "
                f"{self.n_inputs}; pass an array of shape (T, {self.n_inputs})"
            )
        if len(inputs) == 0:
            raise ValueError(f"{name} has no steps; leave empty sequences out")
        refuse_nonfinite(inputs, name)
        return inputs

    def with_plasticity(
        self, gain: Array, shift: Array, *, cut: tuple[int, int] | None = None
    ) -> Reservoir:
        """Return the reservoir with gain (N,) and shift (N,) of intrinsic plasticity.

        Other gains forget at another pace, so on a grid the cut is found anew if not given.
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


def with_own_seed(recipe: Recipe, client: str) -> Recipe:
    """Return the recipe with a seed drawn from its seed and the client's name.

    >>> a, b = (with_own_seed(Recipe(units=5, inputs=1), name) for name in ("a", "b"))
    >>> a.seed != b.seed, a == with_own_seed(Recipe(units=5, inputs=1), "a")
    (True, True)
    """
    digest = hashlib.sha256(f"{recipe.seed}/{client}".encode()).digest()
    return replace(recipe.unprepared(), seed=int.from_bytes(digest[:8]))


def aligned_reservoir(own: Reservoir, target: Reservoir, alpha: float) -> Reservoir:
    """Return the target with its recurrent matrices moved towards another reservoir's.

    Parameters
    ----------
    own
        Whose recurrent matrices it has at alpha = 0, rescaled to the target's spectral radii.
    target
        Whose input weights, biases and leaks it has; at alpha = 1 it is the target itself.
    alpha
        Between 0 and 1.

    >>> own, target = (Reservoir.from_recipe(Recipe(units=20, inputs=1, seed=s)) for s in (1, 2))
    >>> half = aligned_reservoir(own, target, 0.5)
    >>> common_radius(half.layers[0].W)[0] == common_radius(target.layers[0].W)[0]
    True
    >>> aligned_reservoir(own, target, 1.0).fingerprint == target.fingerprint
    True
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}; pass a number between 0 and 1")
    if alpha == 1:
        return target
    sizes = [[layer.n_units for layer in r.layers] for r in (own, target)]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"layers of {sizes[0]} units do not align with layers of {sizes[1]}; use equal sizes"
        )
    return Reservoir(
        tuple(
            replace(layer, W=_blend(mine, layer, alpha))
            for mine, layer in zip(own.layers, target.layers, strict=True)
        ),
        grid=target.grid,
        input_range=target.input_range,
    )


def _blend(own: LayerWeights, target: LayerWeights, alpha: float) -> SparseRows:
    W = SparseRows.from_dense((1 - alpha) * own.W.to_dense() + alpha * target.W.to_dense())
    radius, wanted = common_radius(W)[0], common_radius(target.W)[0]
    return W.times(wanted / radius) if radius > 0 else W


def side_by_side(reservoirs: Sequence[Reservoir]) -> Reservoir:
    """Return the reservoir whose layers hold, one after another, the units of each member's layers.

    Parameters
    ----------
    reservoirs
        With the same inputs and equally many layers; sizes may differ.

    >>> from catchment import Recipe
    >>> members = [Reservoir.from_recipe(Recipe(units=n, inputs=2, seed=n)) for n in (5, 8)]
    >>> u = np.ones((4, 2))
    >>> apart = np.hstack([member.states(u) for member in members])
    >>> np.allclose(side_by_side(members).states(u), apart, atol=1e-14)
    True
    """
    if not reservoirs:
        raise ValueError("there are no reservoirs; pass at least one")
    for name, found in (
        ("inputs", {reservoir.n_inputs for reservoir in reservoirs}),
        ("layers", {len(reservoir.layers) for reservoir in reservoirs}),
    ):
        if len(found) > 1:
            raise ValueError(
                f"the reservoirs have {', '.join(map(str, sorted(found)))} {name}; "
                f"only reservoirs of equally many {name} stand side by side"
            )
    grids = {(reservoir.grid, reservoir.input_range) for reservoir in reservoirs}
    if len(grids) > 1:
        raise ValueError(
            f"the reservoirs have {len(grids)} different grids or input ranges; only reservoirs of "
            "one grid stand side by side"
        )
    ((grid, input_range),) = grids
    stacks = zip(*(reservoir.layers for reservoir in reservoirs), strict=True)
    return Reservoir(
        tuple(_joined(stack, first=k == 0) for k, stack in enumerate(stacks)),
        grid=grid,
        input_range=input_range,
        known_cut=None if grid is None else _common_cut([r.cut for r in reservoirs]),
    )


def _common_cut(cuts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the cut of a union: long enough for all, none if one member has none."""
    if (0, 0) in cuts:
        return 0, 0
    return max(L for L, _ in cuts), max(M for _, M in cuts)


def state_places(
    reservoirs: Sequence[Reservoir],
) -> list[Integers]:
    """Return, for each member, where (N_m,) its states lie among the union's.

    >>> from catchment import Recipe
    >>> deep = [Reservoir.from_recipe(Recipe(units=(2, 1), inputs=1, seed=s)) for s in (1, 2)]
    >>> [places.tolist() for places in state_places(deep)]
    [[0, 1, 4], [2, 3, 5]]
    """
    sizes = np.array([[layer.n_units for layer in r.layers] for r in reservoirs])  # (M, L)
    firsts = np.concatenate([[0], np.cumsum(sizes.T.ravel())])[:-1].reshape(sizes.T.shape).T
    return [
        np.concatenate([np.arange(f, f + n) for f, n in zip(row, counts, strict=True)])
        for row, counts in zip(firsts, sizes, strict=True)
    ]


def _joined(layers: Sequence[LayerWeights], *, first: bool) -> LayerWeights:
    return LayerWeights(
        _diagonal([layer.W for layer in layers]),
        _diagonal([layer.W_in for layer in layers], shared_columns=first),
        *(
            np.concatenate([getattr(layer, name) for layer in layers])
            for name in ("bias", "leak", "gain", "shift", "activation")
        ),
    )


def _diagonal(blocks: Sequence[SparseRows], *, shared_columns: bool = False) -> SparseRows:
    """Return the blocks below one another, each in columns of its own unless these are shared."""
    widths = [0 if shared_columns else block.n_columns for block in blocks]
    offsets = np.concatenate([[0], np.cumsum(widths)])
    counts = np.concatenate([np.diff(block.starts) for block in blocks])
    return SparseRows(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.concatenate(
            [block.columns + np.uint32(o) for block, o in zip(blocks, offsets, strict=False)]
        ),
        np.concatenate([block.values for block in blocks]),
        blocks[0].n_columns if shared_columns else int(offsets[-1]),
    )
