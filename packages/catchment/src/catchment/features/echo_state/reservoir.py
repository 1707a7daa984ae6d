"""A reservoir: the frozen network that turns inputs into states."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from catchment.arrays import Array, as_matrix, refuse_nonfinite
from catchment.errors import ClippingWarning
from catchment.features.echo_state.advance import Program, advance, programs_on_grid
from catchment.features.echo_state.batches import Batch, SegmentsError, plan_batches, run_batch
from catchment.features.echo_state.build import build, fingerprint
from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.segments import found_cut
from catchment.features.echo_state.settings import cut_of, grid_digits, power_of_two
from catchment.features.echo_state.weights import ACTIVATIONS, LayerWeights, SparseRows
from catchment.features.echo_state.whole_weights import (
    DEFAULT_RANGE,
    inputs_on_grid,
    rounded,
    state_bounds,
)
from catchment.parallel import ordered_map

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
