"""A reservoir: the frozen network that turns inputs into states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from catchment.arrays import Array, as_matrix, refuse_nonfinite
from catchment.features.echo_state.advance import Program, advance
from catchment.features.echo_state.batches import Batch, SegmentsError, plan_batches, run_batch
from catchment.features.echo_state.build import build, fingerprint
from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.weights import ACTIVATIONS, LayerWeights, SparseRows
from catchment.parallel import ordered_map


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

    def __post_init__(self) -> None:
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
        return cls(build(prepared), prepared)

    @classmethod
    def from_matrices(
        cls,
        W: ArrayLike,
        W_in: ArrayLike,
        *,
        bias: ArrayLike | None = None,
        leak_rate: ArrayLike = 1.0,
        activation: str | Sequence[str] = "tanh",
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
        return cls((layer,))

    @property
    def n_units(self) -> int:
        """Units of all layers together."""
        return sum(layer.n_units for layer in self.layers)

    @property
    def n_inputs(self) -> int:
        return self.layers[0].n_inputs

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of every weight, in hexadecimal."""
        return fingerprint(self.layers)

    def programs(self, dtype: type[np.floating[Any]] = np.float64) -> tuple[Program, ...]:
        """Return the layers in the form that the kernels run."""
        return self._single if dtype is np.float32 else self._double

    @cached_property
    def _double(self) -> tuple[Program, ...]:
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
            (N,) state of all layers before the first input; zeros if not given.
        """
        inputs = self.checked(u)
        if x0 is None:
            return self.run([inputs])[0]
        start = np.asarray(x0, dtype=np.float64)
        if start.shape != (self.n_units,):
            raise ValueError(f"x0 has shape {start.shape}, expected ({self.n_units},)")
        xs = np.empty((len(inputs), self.n_units))
        for block in advance(self.programs(), [inputs], x0=start[:, None]):
            xs[block.start : block.stop] = block.rows[-self.n_units :, :, 0].T
        return xs

    def run(self, inputs: Sequence[ArrayLike], *, threads: int | None = None) -> list[Array]:
        """Return the states (T_k, N) of each sequence, every one started from zero."""
        us = [self.checked(u, f"sequence {k}") for k, u in enumerate(inputs)]
        out = [np.empty((len(u), self.n_units)) for u in us]
        batches = plan_batches(self.programs(), us, washout=0, may_segment=True)

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
        """Return inputs (T, I) as float64; raise if they do not fit or are not finite."""
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

    def with_plasticity(self, gain: Array, shift: Array) -> Reservoir:
        """Return the reservoir with gain (N,) and shift (N,) of intrinsic plasticity."""
        if gain.shape != (self.n_units,) or shift.shape != (self.n_units,):
            raise ValueError(
                f"gain {gain.shape} and shift {shift.shape} must both have shape ({self.n_units},)"
            )
        edges = np.cumsum([layer.n_units for layer in self.layers])[:-1]
        parts = zip(self.layers, np.split(gain, edges), np.split(shift, edges), strict=True)
        layers = tuple(replace(layer, gain=g, shift=s) for layer, g, s in parts)
        return Reservoir(layers, adapted_from=self.recipe or self.adapted_from)
