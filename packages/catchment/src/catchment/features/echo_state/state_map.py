"""What the readout sees of a state: the constant, the input, the state; per step or pooled.

A map travels and is kept as its recipe and settings where it has a recipe, with gains and shifts if
plasticity changed them, and else as its weights; either way its fingerprint is compared when it is
rebuilt.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catchment.arrays import Array, Integers
from catchment.errors import IntegrityError
from catchment.features.base import (
    Continuation,
    FeatureMap,
    checked_bits,
    digits_after_point,
    on_grid,
)
from catchment.features.echo_state.advance import Block, Program, advance
from catchment.features.echo_state.batches import Batch, SegmentsError, plan_batches, run_batch
from catchment.features.echo_state.pooling import POOLS, Pool, pooled_rows
from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.segments import cut_places
from catchment.features.echo_state.settings import cut_of, grid_digits, power_of_two
from catchment.features.echo_state.weights import layer_arrays, layers_of
from catchment.features.echo_state.whole_pooling import whole_rows
from catchment.features.echo_state.whole_weights import DEFAULT_RANGE, ROUND
from catchment.parallel import ordered_map
from catchment.wire import Fact, Parts

KIND = "echo_state"


@dataclass(frozen=True, eq=False)
class EchoStateMap(FeatureMap):
    """A fixed map from an input sequence to feature rows.

    Parameters
    ----------
    reservoir
        The network whose states are read.
    bias
        Whether a constant one is a feature. Readouts fit an intercept anyway, unpenalised; with
        this the constant is penalised like any weight.
    input, state
        Whether the inputs and the states of all layers are features.
    pool
        None for a row per step; else one row per sequence: its last feature row, or the mean, the
        mean and standard deviation, or the maximum over its steps.
    segments
        With a pool: cut each sequence into this many equal parts, pool each, and join the rows.
    washout
        Steps at the start of each sequence that give no features.
    precision
        Of the states. Statistics are float64 always.
    feature_grid
        Bits to which features are rounded, for a reservoir with a grid: their statistics are then
        whole numbers. None to leave them as they are.

    >>> from catchment import Recipe
    >>> reservoir = Reservoir.from_recipe(Recipe(units=20, inputs=2, seed=1))
    >>> EchoStateMap(reservoir, washout=5)(np.zeros((8, 2))).shape
    (3, 22)
    >>> EchoStateMap(reservoir, input=False, pool="mean_std")(np.zeros((8, 2))).shape
    (1, 40)
    """

    reservoir: Reservoir
    bias: bool = False
    input: bool = True
    state: bool = True
    pool: Pool | None = None
    segments: int = 1
    washout: int = 0
    precision: Literal["float64", "float32"] = "float64"
    feature_grid: int | None = None

    def __post_init__(self) -> None:
        if not (self.bias or self.input or self.state):
            raise ValueError("no features are chosen; set bias, input or state")
        if self.pool is not None and self.pool not in POOLS:
            raise ValueError(f"pool is {self.pool!r}; use None or one of {', '.join(POOLS)}")
        if self.segments < 1 or (self.segments > 1 and self.pool is None):
            raise ValueError(
                f"segments is {self.segments}; pass 1 or more, and a pool with more than 1"
            )
        if self.washout < 0:
            raise ValueError(f"washout is {self.washout}; pass 0 or more steps")
        if self.precision not in ("float64", "float32"):
            raise ValueError(f"precision is {self.precision!r}; use 'float64' or 'float32'")
        if self.precision == "float32" and self.reservoir.grid is not None:
            raise ValueError(
                f"precision is 'float32' and the reservoir has a grid of {self.reservoir.grid} "
                "digits; use one or the other"
            )
        if self.feature_grid is not None:
            checked_bits(self.feature_grid, "feature_grid")
            if self.reservoir.grid is None:
                raise ValueError(
                    f"feature_grid is {self.feature_grid} and the reservoir has no grid; give the "
                    "recipe one, such as grid=20"
                )

    @property
    def n_base(self) -> int:
        """EchoStateMap of one step."""
        return (
            self.bias + self.input * self.reservoir.n_inputs + self.state * self.reservoir.n_units
        )

    @property
    def n_features(self) -> int:
        return self.n_base * self.segments * (2 if self.pool == "mean_std" else 1)

    @property
    def n_inputs(self) -> int:
        return self.reservoir.n_inputs

    @property
    def per_step(self) -> bool:
        """Whether every step after the washout gives a row."""
        return self.pool is None

    @property
    def grid(self) -> int | None:
        """Bits of the features, None if they are not rounded."""
        return self.feature_grid

    @cached_property
    def _digits(self) -> Integers:
        """Digits (F,) after the point of the features on their grid."""
        assert self.feature_grid is not None
        return digits_after_point(self.bounds, self.feature_grid)

    @cached_property
    def _rounder(self) -> Array:
        """Numbers (n_base,) whose addition and subtraction rounds a step's features."""
        return np.ldexp(ROUND, -self._digits[: self.n_base])

    def _round(self, rows: NDArray[np.floating[Any]]) -> None:
        """Round the features of a block in place; the states to go on from are kept elsewhere."""
        from catchment.features.echo_state.kernels import round_block

        if self.feature_grid is None:
            return
        Z = rows[: self.n_base].reshape(self.n_base, -1)
        by_step = rows.shape[2] == 1
        round_block(Z.T if by_step else Z, self._rounder, by_step)

    @property
    def constant(self) -> bool:
        """Whether the first feature is one in every row."""
        return self.bias

    @property
    def plan_name(self) -> str:
        return "EchoStateMap"

    def title(self) -> str:
        return f"echo_state ({self.reservoir.n_units} units)"

    @cached_property
    def bounds(self) -> Array:
        """Largest absolute value (F,) of each feature, infinite where there is none.

        A leaky mean of values between -1 and 1 that starts at zero stays between them, and so do
        its mean, standard deviation and maximum over time. On a grid inputs are cut off at the
        input range, and relu and identity at 8, so every bound is finite.

        >>> from catchment import Recipe
        >>> EchoStateMap(Reservoir.from_recipe(Recipe(units=2, inputs=1)), bias=True).bounds
        array([ 1., inf,  1.,  1.])
        """
        return np.tile(self.step_bounds, self.n_features // self.n_base)

    @property
    def step_bounds(self) -> Array:
        """Largest absolute value (n_base,) of each feature of one step."""
        reservoir = self.reservoir
        largest = np.inf if reservoir.grid is None else reservoir.input_range
        base = [
            np.ones(int(self.bias)),
            np.full(reservoir.n_inputs * self.input, largest),
            reservoir.state_bounds[: reservoir.n_units * self.state],
        ]
        return np.concatenate(base)

    @property
    def cost(self) -> float:
        """Multiplications and additions for one step: every weight, and the units' own sums."""
        layers = self.reservoir.layers
        weights = sum(len(layer.W.values) + len(layer.W_in.values) for layer in layers)
        return 2.0 * weights + 4.0 * self.reservoir.n_units

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the reservoir's weights and of these settings, in hexadecimal."""
        return hashlib.sha256(
            json.dumps([self.reservoir.fingerprint, self.settings()], sort_keys=True).encode()
        ).hexdigest()

    def settings(self) -> dict[str, Fact]:
        """Return everything but the reservoir, ready for JSON."""
        rounding: dict[str, Fact] = {}
        if self.feature_grid is not None:
            rounding["feature_grid"] = self.feature_grid
        return {
            "bias": self.bias,
            "input": self.input,
            "state": self.state,
            "pool": self.pool,
            "segments": self.segments,
            "washout": self.washout,
            "precision": self.precision,
            **rounding,
        }

    def parts(self) -> Parts:
        """Return the recipe and the settings, or the weights where there is no recipe."""
        recipe, base = self.reservoir.recipe, self.reservoir.adapted_from
        facts: dict[str, Fact] = {"fingerprint": self.fingerprint, "settings": self.settings()}
        if recipe is not None:
            return Parts(KIND, facts | {"recipe": recipe.to_json()})
        layers = self.reservoir.layers
        if base is not None:
            adapted = (
                np.concatenate([layer.gain for layer in layers]),
                np.concatenate([layer.shift for layer in layers]),
            )
            return Parts(KIND, facts | {"recipe": base.to_json()} | self._grid_facts(), adapted)
        arrays = tuple(array for layer in layers for array in layer_arrays(layer))
        return Parts(KIND, facts | {"layers": len(layers)} | self._grid_facts(), arrays)

    def _grid_facts(self) -> dict[str, Fact]:
        """Return what of a grid no recipe says."""
        reservoir = self.reservoir
        if reservoir.grid is None:
            return {}
        L, M = reservoir.cut
        facts: dict[str, Fact] = {"cut": [L, M]}
        if reservoir.adapted_from is None:
            facts |= {"grid": reservoir.grid, "input_range": reservoir.input_range}
        return facts

    @classmethod
    def from_parts(cls, parts: Parts) -> EchoStateMap:
        """Return the map that `parts` describes; IntegrityError if it is not what was kept."""
        facts, arrays = parts.facts, parts.arrays
        try:
            reservoir = _reservoir(facts, arrays)
            made = cls(reservoir, **facts["settings"])  # type: ignore[arg-type]  # checked there
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise IntegrityError(
                f"no reservoir can be rebuilt from this ({type(error).__name__}: {error}); get it "
                "again from its sender"
            ) from error
        if made.fingerprint != facts.get("fingerprint"):
            raise IntegrityError(
                f"the features have fingerprint {made.fingerprint[:12]} and were kept as "
                f"{str(facts.get('fingerprint'))[:12]}; get them again"
            )
        return made

    def names(self) -> list[str]:
        """Return the name of every feature, in order."""
        base = ["bias"] * self.bias
        base += [f"u{k}" for k in range(self.reservoir.n_inputs)] * self.input
        base += [f"x{k}" for k in range(self.reservoir.n_units)] * self.state
        if self.pool is None:
            return base
        kinds = ["mean", "std"] if self.pool == "mean_std" else [self.pool]
        parts = [f"_part{k}" for k in range(self.segments)] if self.segments > 1 else [""]
        return [f"{kind}_{name}{part}" for part in parts for kind in kinds for name in base]

    def continuation(self) -> Continuation:
        from catchment.features.echo_state.continued import EchoStateContinuation

        if self.segments == 1:
            return EchoStateContinuation(self)
        raise ValueError(
            f"segments is {self.segments}, equal parts of a recording whose end is not known while "
            "it goes on; use segments=1, or cut recordings into windows"
        )

    def foresees(
        self,
        parts: Parts,
        n_inputs: int,
        *,
        per_step: bool,
        classes: bool = False,
        adapted: bool = False,
    ) -> bool:
        """Return whether parts may be those of this map, adapted if it may be."""
        own = self.parts()
        if adapted:
            return own.kind == parts.kind and own.facts.get("recipe") == parts.facts.get("recipe")
        return own.to_bytes() == parts.to_bytes()

    def __call__(self, u: ArrayLike) -> Array:
        """Return the feature rows of one sequence: (T - washout, F), or (1, F) if pooled."""
        return self.rows([u])[0]

    def rows(self, inputs: Sequence[ArrayLike], *, threads: int | None = None) -> list[Array]:
        """Return the feature rows of each sequence."""
        return self.compute_rows(inputs, threads)

    def compute_rows(self, inputs: Sequence[ArrayLike], threads: int | None) -> list[Array]:
        """Return the feature rows of each sequence, which is checked first."""
        us = self.checked_all(inputs)
        n_rows = [len(u) - self.washout if self.per_step else 1 for u in us]
        out = [np.empty((n, self.n_features)) for n in n_rows]

        def fill(batch: Batch) -> None:
            if not self.per_step:
                for lane, row in zip(batch.lanes, self.pooled(batch), strict=True):
                    out[lane.source][0] = row
                return
            try:
                self._fill(batch, out)
            except SegmentsError:
                self._fill(batch.in_one_piece(us, self.washout), out)

        for _ in ordered_map(fill, self.batches(us), threads=threads):
            pass
        return out

    def checked(self, u: ArrayLike, name: str = "inputs") -> Array:
        """Return inputs (T, I) as float64; raise if they do not fit or are too short.

        With a grid they are cut off at its range and rounded to it.
        """
        return self._long_enough(self.reservoir.checked(u, name), name)

    def checked_all(self, inputs: Sequence[ArrayLike]) -> list[Array]:
        """Return what `checked` does for each sequence, with one warning for all of them."""
        us = self.reservoir.checked_all(inputs)
        return [self._long_enough(u, f"sequence {k}") for k, u in enumerate(us)]

    def _long_enough(self, inputs: Array, name: str) -> Array:
        if len(inputs) < self.washout + self.segments:
            raise ValueError(
                f"{name} has {len(inputs)} steps, fewer than washout {self.washout} + "
                f"{self.segments}; shorten the washout or leave the sequence out"
            )
        return inputs

    @property
    def programs(self) -> tuple[Program, ...]:
        return self.reservoir.programs(np.float32 if self.precision == "float32" else np.float64)

    def batches(self, inputs: Sequence[Array]) -> list[Batch]:
        """Return the batches in which the sequences are best run."""
        return plan_batches(
            self.programs,
            inputs,
            washout=self.washout,
            may_segment=self.per_step,
            cut=self.reservoir.cut if self.per_step else (0, 0),
        )

    def blocks(
        self, batch: Batch, *, spare_rows: int = 0, n_buffers: int = 1, rounded: bool = True
    ) -> Iterator[Block]:
        """Yield blocks whose rows are the features of one step, blocks of washout left out.

        After the features come `spare_rows` for the caller to fill; a block stays valid until
        `n_buffers` more have been taken. With a feature grid the features lie on it, unless a
        caller who rounds them anyway passes `rounded=False`.
        """
        skips = {lane.skip for lane in batch.lanes}
        for block in run_batch(
            self.programs,
            batch,
            cuts=sorted(skips),
            spare_rows=spare_rows,
            n_buffers=n_buffers,
        ):
            if block.stop > min(skips):
                rows = self.select(block.rows)
                if rounded:
                    self._round(rows)
                yield Block(block.start, block.stop, rows)

    def select(self, rows: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return the chosen rows of a block, and any spare ones; a view where it can be."""
        I, N = self.reservoir.n_inputs, self.reservoir.n_units
        parts = ((self.bias, 0, 1), (self.input, 1, 1 + I), (self.state, 1 + I, 1 + I + N))
        chosen = [part[1:] for part in parts if part[0]]
        if len(rows) > 1 + I + N:
            chosen.append((1 + I + N, len(rows)))
        if all(last == first for (_, last), (first, _) in pairwise(chosen)):
            return rows[chosen[0][0] : chosen[-1][1]]
        return np.concatenate([rows[first:last] for first, last in chosen])

    def last(self, u: Array, x: Array | None = None) -> tuple[Array, Array]:
        """Return the features (F,) and the state (N, 1) after the last of checked inputs (T, I).

        Parameters
        ----------
        x
            (N, 1) state before the first input, which is gone on from without a cut; from rest, and
            cut as every sequence is, if not given.
        """
        if x is None:
            begin, _, _ = cut_places(len(u), self.reservoir.cut, 0)[-1]
            u = u[begin:]
        for block in advance(self.programs, [u], x0=x):
            rows = block.rows[:, -1:]
        state = rows[1 + self.n_inputs :, 0].astype(np.float64)
        return self.selected(rows)[:, 0, 0].astype(np.float64), state

    def selected(self, rows: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return the features (F, T, lanes) of a block's rows, rounded as all are."""
        z = self.select(rows)
        self._round(z)
        return z

    def pooled(self, batch: Batch) -> Array:
        """Return one feature row (lanes, F) per lane of a batch."""
        if self.pool is None:
            raise ValueError("these features are per step; pass a pool")
        if self.reservoir.grid is not None:
            rows = whole_rows(
                self.programs,
                batch,
                self.select,
                bounds=self.step_bounds,
                cut=self.reservoir.cut,
                pool=self.pool,
                segments=self.segments,
            )
            return self.rounded(rows)
        return pooled_rows(
            self.programs,
            batch,
            self.select,
            n_base=self.n_base,
            pool=self.pool,
            segments=self.segments,
        )

    def rounded(self, rows: Array) -> Array:
        """Return feature rows (n, F) on their grid, if they have one."""
        if self.feature_grid is None:
            return rows
        return on_grid(rows, self._digits, self.feature_grid)

    def _fill(self, batch: Batch, out: list[Array]) -> None:
        for block in self.blocks(batch):
            for b, lane in enumerate(batch.lanes):
                begin, end = max(block.start, lane.skip), min(block.stop, len(lane.u))
                if begin < end:
                    at = lane.first - self.washout - lane.skip
                    part = block.rows[:, begin - block.start : end - block.start, b]
                    out[lane.source][at + begin : at + end] = part.T


def _reservoir(facts: Mapping[str, Fact], arrays: Sequence[NDArray[Any]]) -> Reservoir:
    """Return the reservoir of a map that was kept."""
    cut = None if facts.get("cut") is None else cut_of(facts["cut"], "cut")
    if facts.get("recipe") is None:
        grid, input_range = facts.get("grid"), facts.get("input_range", DEFAULT_RANGE)
        return Reservoir(
            layers_of(arrays),
            grid=grid_digits(grid, "grid"),
            input_range=power_of_two(input_range, "input_range"),
            known_cut=cut,
        )
    recipe = Recipe.from_json(str(facts["recipe"]))
    if not recipe.is_prepared:
        raise ValueError("the recipe carries no scale")
    reservoir = Reservoir.from_recipe(recipe)
    if not arrays:
        return reservoir
    gain, shift = arrays
    return reservoir.with_plasticity(gain, shift, cut=cut)
