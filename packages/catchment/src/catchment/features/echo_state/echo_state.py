"""`EchoState`: a reservoir, and what a readout sees of its states, per step or pooled.

A map travels and is kept as the settings of its reservoir and its own, with gains and shifts if
plasticity changed them; or with the weights if these are no draw of a seed. Either way its
fingerprint is compared when it is rebuilt.

The description says everything but the number of channels, which the data have, so the same few
words mean the same map for one owner, for many, in scikit-learn and in a plan file.

A recording may be gone on with from the states that its steps so far have left. In fixed point it
is cut at L, 2L, ... and each part starts from rest M steps before
(`catchment.features.echo_state.run`), so toward the end of a part the next is under way, too: the
states of all parts under way are carried, and rows are those of the recording in one piece.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catchment.arrays import Array, NonNegativeInt, PositiveInt, check_type
from catchment.errors import IntegrityError
from catchment.features.base import Arrays, Bits, FeatureMap, Part, in_fixed_point, power_of_two
from catchment.features.echo_state.reservoir import Program, Reservoir, shared
from catchment.features.echo_state.run import (
    FEW_UNUSED,
    Batch,
    Block,
    Columns,
    Lane,
    Pool,
    Rows,
    SegmentsError,
    Totals,
    advance,
    plan_batches,
    pooled_rows,
    run_batch,
)
from catchment.features.echo_state.settings import (
    InputRange,
    LongTail,
    MixedActivation,
    StateBits,
    Uniform,
    per_layer,
)
from catchment.features.echo_state.weights import DEFAULT_RANGE, ROUND, layer_arrays, layers_of
from catchment.parallel import ordered_map
from catchment.wire import Fact, Message
from catchment.wire.kept import KEPT, today

KIND = "echo_state"


TOGETHER = 8  # short recordings that advance side by side, and give their rows one by one
MOST_UNITS = 10_000_000  # refused before anything is built, whatever is summed of them

# What "auto" is, by the kind of target; docs/concepts/defaults.md says why.
PER_STEP = {"spectral_radius": 0.95, "input_scaling": 0.2, "leak_rate": LongTail(0.1, 1.0)}
PER_RECORDING = {"spectral_radius": 0.9, "input_scaling": 0.5, "leak_rate": 0.3}

# Bits of the states and of the features, and where inputs are cut off, that "auto" is for targets
# that are classes or numbers; docs/concepts/integers.md says why.
AUTO_GRID: dict[str, tuple[int, int, float]] = {"classes": (20, 8, 8.0), "numbers": (24, 24, 64.0)}


class Reading(TypedDict, total=False):
    """What of a reservoir's states are features: fields of `EchoState`."""

    bias: bool
    input: bool
    state: bool
    pool: Pool | None
    segments: int
    washout: int
    precision: Literal["float64", "float32"]
    feature_bits: int | None


@dataclass(frozen=True)
class EchoState(FeatureMap):
    """A reservoir and the features made of its states.

    `build` binds it to its inputs: then it has rows, and its `reservoir`. `EchoState.of` makes it
    of a reservoir that is there already, which alone then says what the weights are.

    Parameters
    ----------
    units
        Number of units; a tuple makes a deep stack, each layer driven by the one below, and other
        settings of the reservoir may then be tuples too.
    seed
        Names the random draws.
    topology, density, connections, rewiring, jump, jump_weight, random_signs
        Wiring, as in `Reservoir`.
    input_connections, bias_scaling, activation
        Dynamics, as in `Reservoir`.
    spectral_radius, input_scaling, leak_rate
        As in `Reservoir`, for inputs of standard deviation 1. "auto" is, where every step has a
        target, 0.95, 0.2 and `LongTail(0.1, 1.0)`: most units are quick and a few slow; and where
        a whole recording has one, 0.9, 0.5 and 0.3.
    bias, input, state
        Whether a constant one, the inputs and the states of all layers are features. Readouts fit
        an intercept anyway, unpenalized; a constant is penalized like any weight.
    pool
        "auto": mean and standard deviation over a recording that has one target, none where every
        step has its own. None for a row per step; "last", "mean", "mean_std" or "max" for one row
        per recording.
    segments
        With a pool: cut each recording into this many equal parts, pool each, and join the rows.
    washout
        Steps at the start of each recording that give no features.
    precision
        Of the states. Statistics are float64 always.
    bits, range
        As in `Reservoir`. "auto" follows `AUTO_GRID`, and is None with precision "float32".
    feature_bits
        Bits to which features are rounded, which makes their statistics integers; it needs
        bits. "auto" follows `AUTO_GRID`, and is at most the bits.
    n_inputs
        Channels, filled in by `build`.
    matrices
        The reservoir, if it is not drawn from the seed.

    >>> EchoState(50).build(3, per_step=False).n_features
    106
    >>> EchoState(50).build(3, per_step=True).n_features
    53
    """

    units: int | tuple[int, ...] = 200
    seed: int = 0
    topology: str | tuple[str, ...] = Reservoir.topology
    density: float | tuple[float | None, ...] | None = Reservoir.density
    connections: int | tuple[int | None, ...] | None = Reservoir.connections
    rewiring: float | tuple[float | None, ...] | None = Reservoir.rewiring
    jump: int | tuple[int | None, ...] | None = Reservoir.jump
    jump_weight: float | tuple[float | None, ...] | None = Reservoir.jump_weight
    random_signs: bool | tuple[bool, ...] = Reservoir.random_signs
    spectral_radius: float | tuple[float, ...] | Literal["auto"] = "auto"
    input_scaling: float | tuple[float, ...] | Literal["auto"] = "auto"
    input_connections: int | tuple[int | None, ...] | None = Reservoir.input_connections
    bias_scaling: float | tuple[float, ...] = Reservoir.bias_scaling
    leak_rate: float | Uniform | tuple[float | Uniform, ...] | Literal["auto"] = "auto"
    activation: str | MixedActivation | tuple[str | MixedActivation, ...] = Reservoir.activation
    bias: bool = False
    input: bool = True
    state: bool = True
    pool: Pool | Literal["auto"] | None = "auto"
    segments: PositiveInt = 1
    washout: NonNegativeInt = 0
    precision: Literal["float64", "float32"] = "float64"
    bits: int | Literal["auto"] | None = "auto"
    feature_bits: int | Literal["auto"] | None = "auto"
    range: float | Literal["auto"] = "auto"
    n_inputs: int | None = field(default=None, repr=False, metadata={"later": True})
    matrices: Reservoir | None = field(default=None, repr=False, metadata={"later": True})

    message_kind = KIND

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.matrices is None:
            self.reservoir_for(self.n_inputs or 1 << 31)
        if self.n_units > MOST_UNITS:
            raise ValueError(
                f"{self.n_units:,} units are more than {MOST_UNITS:,}; ask for fewer units"
            )
        if not (self.bias or self.input or self.state):
            raise ValueError("no features are chosen; set bias, input or state")
        if self.segments > 1 and self.pool is None:
            raise ValueError(f"segments is {self.segments}; pass a pool with more than 1")
        check_type(self.bits, StateBits | Literal["auto"] | None, "bits")
        check_type(self.range, InputRange | Literal["auto"], "range")
        if self.range != "auto":
            power_of_two(self.range, "range")
        check_type(self.feature_bits, Bits | Literal["auto"] | None, "feature_bits")
        if isinstance(self.feature_bits, int) and self.bits is None:
            raise ValueError(
                f"feature_bits is {self.feature_bits} and bits is None; give bits too, such as "
                "bits=20"
            )
        if isinstance(self.bits, int) and self.precision == "float32":
            raise ValueError(
                f"precision is 'float32' and bits is {self.bits}; use one or the other"
            )

    @classmethod
    def of(cls, reservoir: Reservoir, **read: Unpack[Reading]) -> EchoState:
        """Return the features of a reservoir that is there already: a row per step, not rounded.

        >>> reservoir = Reservoir.from_matrices([[0.5]], [[1.0]])
        >>> EchoState.of(reservoir, washout=5).rows([np.zeros((8, 1))])[0].shape
        (3, 2)
        """
        given: Reading = {"pool": None, "feature_bits": None, **read}
        return cls(matrices=reservoir, **given).reading(reservoir)

    def reading(
        self, reservoir: Reservoir, *, per_step: bool = True, classes: bool = False
    ) -> EchoState:
        """Return it bound to a reservoir; targets matter where something is "auto" yet."""
        units = tuple(layer.n_units for layer in reservoir.layers)
        given = replace(
            self,
            units=units if units[1:] else units[0],
            bits=reservoir.bits,
            range=reservoir.range,
            n_inputs=None,
            matrices=reservoir,
        )
        return given.build(reservoir.n_inputs, per_step=per_step, classes=classes)

    def build(self, n_inputs: int, *, per_step: bool, classes: bool = False) -> EchoState:
        """Return the map bound to inputs of this many channels."""
        made = super().build(n_inputs, per_step=per_step, classes=classes)
        assert isinstance(made, EchoState)
        return made

    def settled(self, n_inputs: int, *, per_step: bool, classes: bool) -> dict[str, Any]:
        """Return what "auto" is."""
        most, bits, largest = AUTO_GRID["classes" if classes else "numbers"]
        auto: dict[str, Any] = {**(PER_STEP if per_step else PER_RECORDING), "range": largest}
        auto["bits"] = None if self.precision == "float32" else most
        auto["pool"] = None if per_step else "mean_std"
        states = auto["bits"] if self.bits == "auto" else self.bits
        auto["feature_bits"] = None if states is None else min(bits, states)
        filled = {name: value for name, value in auto.items() if getattr(self, name) == "auto"}
        if states is None:
            filled["range"] = DEFAULT_RANGE
        if filled.get("pool", self.pool) is None:
            filled["segments"] = 1
        return filled

    def reservoir_for(
        self, n_inputs: int, *, per_step: bool = True, classes: bool = False
    ) -> Reservoir:
        """Return the reservoir for inputs of this many channels, not drawn yet.

        >>> EchoState(50).reservoir_for(3, per_step=False).input_scaling
        0.5
        """
        settled = self.settled(n_inputs, per_step=per_step, classes=classes)
        names = {one.name for one in fields(Reservoir)} & {one.name for one in fields(self)}
        own = {name: settled.get(name, getattr(self, name)) for name in names}
        return Reservoir(inputs=n_inputs, **own)

    @cached_property
    def reservoir(self) -> Reservoir:
        """The network whose states are read; ValueError before it is bound."""
        return self.matrices or shared(self.reservoir_for(self.known_inputs).prepared())

    def is_told_by(self, parts: Message, *, adapted: bool) -> bool:
        """Return whether parts have this reservoir, but for the scale, and these settings."""
        if self.matrices is not None:
            own = self.parts()
            same = (own.kind, own.facts.get("recipe")) == (parts.kind, parts.facts.get("recipe"))
            return same if adapted else own.to_bytes() == parts.to_bytes()
        try:
            told = Reservoir.from_json(str(parts.facts.get("recipe")))
        except (TypeError, ValueError):
            return False
        same = told.unprepared() == self.reservoir_for(self.known_inputs)
        same = same and (adapted or not parts.arrays)
        return same and (parts.kind, parts.facts.get("settings")) == (KIND, self.settings())

    # What a bound map is.

    @cached_property
    def n_units(self) -> int:
        """Units of all layers together."""
        return sum(per_layer(self.units))

    @cached_property
    def n_base(self) -> int:
        """Features of one step."""
        return self.bias + self.input * self.known_inputs + self.state * self.n_units

    @cached_property
    def n_features(self) -> int:
        return self.n_base * self.segments * (2 if self.pool == "mean_std" else 1)

    @property
    def per_step(self) -> bool:
        return self.pool is None

    @cached_property
    def _rounder(self) -> Array:
        """Numbers (n_base,) whose addition and subtraction rounds a step's features."""
        return np.ldexp(ROUND, -self.feature_digits[: self.n_base])

    def _round(self, rows: NDArray[np.floating[Any]]) -> None:
        """Round the features of a block in place; the states to go on from are kept elsewhere."""
        from catchment.features.echo_state.kernels import round_block

        if self.feature_bits is None:
            return
        Z = rows[: self.n_base].reshape(self.n_base, -1)
        by_step = rows.shape[2] == 1
        round_block(Z.T if by_step else Z, self._rounder, by_step)

    @property
    def constant(self) -> bool:
        return self.bias

    def title(self) -> str:
        return f"echo_state ({self.n_units} units)" if self.is_bound else "echo_state"

    @cached_property
    def bounds(self) -> Array:
        """Largest absolute value (F,) of each feature, infinite where there is none.

        A leaky mean of values between -1 and 1 that starts at zero stays between them, and so do
        its mean, standard deviation and maximum over time. In fixed point inputs are cut off at the
        input range, and relu and identity at 8, so every bound is finite.

        >>> EchoState(2, bias=True, bits=None).build(1, per_step=True).bounds
        array([ 1., inf,  1.,  1.])
        """
        return np.tile(self.step_bounds, self.n_features // self.n_base)

    @cached_property
    def step_bounds(self) -> Array:
        """Largest absolute value (n_base,) of each feature of one step."""
        largest = np.inf if self.bits is None else self.range
        base = [
            np.ones(int(self.bias)),
            np.full(self.known_inputs * self.input, largest),
            (self.matrices or self.reservoir_for(self.known_inputs)).state_bounds
            if self.state
            else np.ones(0),
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
        names = Reading.__annotations__
        found: dict[str, Fact] = {KEPT.get(name, name): getattr(self, name) for name in names}
        if self.feature_bits is None:
            del found[KEPT["feature_bits"]]
        return found

    def parts(self) -> Message:
        """Return the settings of the reservoir and its own, or weights that no seed draws."""
        reservoir, layers = self.reservoir, self.reservoir.layers
        facts: dict[str, Fact] = {"fingerprint": self.fingerprint, "settings": self.settings()}
        if reservoir.is_drawn:
            return Message(KIND, facts | {"recipe": reservoir.prepared().to_json()})
        arrays: list[NDArray[Any]]
        if reservoir.base is not None:
            facts["recipe"] = reservoir.base.to_json()
            arrays = [np.concatenate([layer.gain for layer in layers])]
            arrays += [np.concatenate([layer.shift for layer in layers])]
        else:
            facts["layers"] = len(layers)
            arrays = [array for layer in layers for array in layer_arrays(layer)]
        if reservoir.bits is not None:  # what of it no settings say
            facts["cut"] = list(reservoir.cut)
            if reservoir.base is None:
                facts |= {"grid": reservoir.bits, "input_range": reservoir.range}
        return Message(KIND, facts, tuple(arrays))

    @classmethod
    def from_message(cls, parts: Message) -> EchoState:
        """Return the map that `parts` describes; IntegrityError if it is not what was kept."""
        facts, arrays = parts.facts, parts.arrays
        grid: Any = facts.get("grid"), facts.get("input_range", DEFAULT_RANGE), facts.get("cut")
        try:
            if facts.get("recipe") is None:
                bits, reach, cut = grid
                layers = layers_of(arrays)
                reservoir = Reservoir.of_layers(layers, bits=bits, range=reach, cut=cut)
            else:
                reservoir = Reservoir.from_json(str(facts["recipe"]))
                if not reservoir.is_prepared:
                    raise ValueError("the reservoir carries no scale")
                reservoir.layers  # noqa: B018  # raises if they do not have their fingerprint
                if arrays:
                    gain, shift = arrays
                    reservoir = reservoir.with_plasticity(gain, shift, cut=grid[2])
            settings: Any = facts["settings"]
            made = cls.of(reservoir, **today(settings))
        except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
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
        base = ["bias"] * self.bias
        base += [f"u{k}" for k in range(self.reservoir.n_inputs)] * self.input
        base += [f"x{k}" for k in range(self.reservoir.n_units)] * self.state
        if self.pool is None:
            return base
        kinds = ["mean", "std"] if self.pool == "mean_std" else [self.pool]
        parts = [f"_part{k}" for k in range(self.segments)] if self.segments > 1 else [""]
        return [f"{kind}_{name}{part}" for part in parts for kind in kinds for name in base]

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

    def checked_all(self, inputs: Sequence[ArrayLike], name: str = "recording {}") -> list[Array]:
        """Return what the reservoir's does for sequences; raise, too, if they are too short."""
        us = self.reservoir.checked_all(inputs, name)
        for k, u in enumerate(us):
            if len(u) < self.washout + self.segments:
                raise ValueError(
                    f"{name.format(k)} has {len(u)} steps, fewer than washout {self.washout} + "
                    f"{self.segments}; shorten the washout or leave the recording out"
                )
        return us

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

    def blocks(self, batch: Batch, *, rounded: bool = True, **room: int) -> Iterator[Block]:
        """Yield blocks whose rows are the features of one step, blocks of washout left out.

        After the features come `spare_rows` for the caller to fill; a block stays valid until
        `n_buffers` more have been taken: both are settings of `advance`. With `feature_bits`
        features are rounded to them, unless a caller who rounds them anyway passes `rounded=False`.
        """
        skips = {lane.skip for lane in batch.lanes}
        for block in run_batch(self.programs, batch, cuts=sorted(skips), **room):
            if block.stop > min(skips):
                rows = self.select(block.rows)
                if rounded:
                    self._round(rows)
                yield Block(block.start, block.stop, rows)

    def stacked(
        self,
        inputs: Sequence[ArrayLike],
        targets: Sequence[Array],
        roots: Array,
        *,
        threads: int | None = None,
        rounded: bool = True,
    ) -> list[Part]:
        """Return a part for every batch of recordings with their targets; see `FeatureMap`."""
        us, spare = self.checked_all(inputs), targets[0].shape[-1] + 1
        few = FEW_UNUSED if rounded else 0.0

        def blocks(batch: Batch, n_buffers: int) -> Iterator[tuple[int, Array]]:
            run = self.blocks(batch, spare_rows=spare, n_buffers=n_buffers, rounded=rounded)
            return map(partial(Columns.of(batch, targets, roots).fill, few=few), run)

        def part(batch: Batch, n_buffers: int) -> Iterator[tuple[int, Array] | None]:
            try:
                yield from blocks(batch, n_buffers)
            except SegmentsError:
                yield None
                yield from blocks(batch.in_one_piece(us, self.washout), n_buffers)

        return [partial(part, batch) for batch in self.batches(us)]

    def stacked_each(
        self, inputs: Sequence[ArrayLike], targets: Sequence[Array], roots: Array
    ) -> Iterator[tuple[int, Array]]:
        """Yield the columns of each short recording; see `FeatureMap`."""
        us, washout = self.checked_all(inputs), self.washout
        F, K = self.n_features, targets[0].shape[-1]
        order = sorted(range(len(us)), key=lambda k: len(us[k]))
        found = np.empty((TOGETHER, F + K + 1, max(map(len, us), default=0)))
        for first in range(0, len(order), TOGETHER):
            numbers = order[first : first + TOGETHER]
            lanes = [Lane(b, us[k], washout, washout) for b, k in enumerate(numbers)]
            # Fewer lanes would get a kernel of their own and other bits; the same ones again do
            # not.
            for block in self.blocks(Batch(tuple(TOGETHER * lanes)[:TOGETHER]), rounded=False):
                found[:, :F, block.start : block.stop] = block.rows.transpose(2, 0, 1)
            for k, one in zip(numbers, found, strict=False):
                y, Z = targets[k], one[:, washout : len(us[k])]
                Z[F:-1], Z[-1] = y[:, None] if y.ndim == 1 else y[washout:].T, 1.0
                if roots[k] != 1:
                    Z *= roots[k]
                gaps = np.isnan(y)
                if gaps.any():
                    known = np.logical_not(gaps.any(axis=-1))
                    Z = Z[:, np.broadcast_to(known, len(us[k]))[washout:]]
                yield k, Z

    def is_short(self, n_steps: int, n_targets: int) -> bool:
        """Whether a recording is so short that eight cost little more than one; not if it is cut.

        Beyond these numbers of steps and features BLAS takes each recording better by itself.
        """
        few = n_steps <= 256 and self.n_features + n_targets <= 128
        whole = self.precision == "float64" and not 0 < self.reservoir.cut[0] < n_steps
        return few and whole and self.per_step

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

    def selected(self, rows: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return the features (F, T, lanes) of a block's rows, rounded as all are."""
        z = self.select(rows)
        self._round(z)
        return z

    def pooled(self, batch: Batch) -> Array:
        """Return one feature row (lanes, F) per lane of a batch."""
        if self.pool is None or self.pool == "auto":
            raise ValueError("these features are per step; pass a pool")
        rows = pooled_rows(
            self.programs,
            batch,
            self.select,
            pool=self.pool,
            segments=self.segments,
            bounds=self.step_bounds,
            cut=self.reservoir.cut,
        )
        return self.rounded(rows)

    def rounded(self, rows: Array) -> Array:
        """Return feature rows (n, F), rounded to their bits if they have some."""
        if not isinstance(self.feature_bits, int):
            return rows
        return in_fixed_point(rows, self.feature_digits, self.feature_bits)

    def _fill(self, batch: Batch, out: list[Array]) -> None:
        for block in self.blocks(batch):
            for b, lane in enumerate(batch.lanes):
                begin, end = max(block.start, lane.skip), min(block.stop, len(lane.u))
                if begin < end:
                    at = lane.first - self.washout - lane.skip
                    part = block.rows[:, begin - block.start : end - block.start, b]
                    out[lane.source][at + begin : at + end] = part.T

    # Going on with a recording.

    def refuse_segments(self) -> None:
        if self.segments > 1:
            raise ValueError(
                f"segments is {self.segments}, equal parts of a recording whose end is not known "
                "while it goes on; use segments=1, or cut recordings into windows"
            )

    def go_on(self, u: Array, steps: int, carried: Arrays) -> tuple[Array, Arrays]:
        """Return the rows of the next steps; states (parts, N) and sums of a pool are carried."""
        inputs, (L, M) = self.reservoir.checked(u), self.reservoir.cut
        stop, begun = steps + len(inputs), max(steps, self.washout)
        waiting, sums, kept = iter(carried[0] if carried else ()), carried[1:], []
        out = np.empty((max(0, stop - begun) if self.pool is None else 0, self.n_features))
        # Each part runs from its rest on, and gives rows from its first step to before its end.
        parts = [(0, self.washout, stop + 1)] if L == 0 else [
            (max(0, end - L - M), max(end - L, self.washout), end)
            for end in range(steps // L * L + L, stop + M + L, L)
            if end > self.washout
        ]  # fmt: skip
        for rest, first, end in parts:
            low, high = max(rest, steps), min(end, stop)
            x = next(waiting) if rest < steps else np.zeros(self.n_units)
            lane = inputs[low - steps : high - steps]
            for block in advance(self.programs, [lane], cuts=[first - low], x0=x[:, None]):
                # Features may be rounded where they lie, so the state is taken first.
                x = block.rows[-self.n_units :, -1, 0].astype(np.float64)
                at = low + block.start
                if at < first:
                    continue
                if self.pool is None:
                    z = self.selected(block.rows)[:, :, 0].T
                    out[at - begun : at - begun + len(z)] = z
                else:
                    sums = self._with_steps(sums, self.select(block.rows))
            if end > stop:
                kept.append(x)
        return out, (np.array(kept).reshape(len(kept), self.n_units), *sums)

    def at_end(self, steps: int, carried: Arrays) -> Array:
        n = steps - self.washout
        if self.pool is None or n < 1:
            return super().at_end(steps, carried)
        return self.rounded(self._totals(n, carried[1:]).rows())

    def _with_steps(self, sums: Arrays, Z: Rows) -> Arrays:
        """Return the sums of a pool with those of some steps (n, T, 1)."""
        if self.pool == "last":
            return (Z[:, -1, 0].astype(np.float64),)
        totals = self._totals(1, sums)
        running = totals.sums[0, 0].reshape(*totals.sums.shape[2:], 1)
        totals.add(running, Z, [] if sums else [0])
        return (running[:, :, 0],)

    def _totals(self, n_steps: int, sums: Arrays) -> Totals:
        assert self.pool is not None
        assert self.pool != "auto"
        totals = Totals(self.pool, self.step_bounds, [[0, n_steps]], self.reservoir.bits)
        for held in sums:
            # Once every pool in float64 kept three sums, the second of which it needs.
            older = held.ndim == 2 and len(held) > totals.sums.shape[2]
            totals.sums[0, 0] = held[1:2] if older else held
        return totals
