"""Everything that the generated file is made of, decided: types, cutting, map, readout."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from catchment import Array, Integers
from catchment.data import Preprocessing, Scaler, count_steps
from catchment.readout import Model
from catchment_edge.c.map_code import (
    BYTES,
    Field,
    MapCode,
    Setting,
    Table,
    map_code,
    widest_bits,
)


@dataclass(frozen=True)
class Cutting:
    """Windows of `window` steps that start `step` apart; 0 for recordings as they are.

    >>> Cutting(128, 64).overlaps
    True
    """

    window: int = 0
    step: int = 0

    @property
    def overlaps(self) -> bool:
        return self.step < self.window

    @classmethod
    def of(cls, preprocessing: Preprocessing, rate: float | None = None) -> Cutting:
        """Return how a preparation cuts, counted in steps of a device.

        Parameters
        ----------
        rate
            Samples a second, where windows are in seconds and the preparation has no rate.
        """
        if preprocessing.looks_around:
            raise ValueError(
                "the model has inputs beside its channels (known, calendar), which neither a "
                "graph nor a device makes; train without them, or predict with the model itself"
            )
        hertz = rate if preprocessing.rate is None else preprocessing.rate

        def in_steps(name: str, length: int | str | None) -> int:
            if not isinstance(length, str):
                return length or 0
            if hertz is None:
                raise ValueError(
                    f"{name} is {length!r}, and how many steps that is depends on the rate of the "
                    "samples; say it: pass --rate 50, or rate=50"
                )
            return count_steps(name, length, 1 / hertz)

        window = in_steps("window", preprocessing.window)
        return cls(window, in_steps("step", preprocessing.step) or window)


@dataclass(frozen=True, eq=False)
class Layout:
    """A model as C, before it is text.

    Parameters
    ----------
    steps
        Steps of the longest recording, for a map that needs all of one; None if unknown.
    """

    model: Model
    name: str
    cutting: Cutting
    steps: int | None = None

    @cached_property
    def map(self) -> MapCode:
        """The map's code, checked to fit the cutting."""
        window = self.cutting.window
        code = map_code(self.model.features, self.setting)
        if window and window < code.least_steps:
            raise ValueError(
                f"windows have {window} steps and the map needs {code.least_steps}; train with "
                "longer windows or a shorter washout"
            )
        if code.per_step and window and self.cutting.overlaps:
            raise ValueError(
                "the map gives a row per step, of windows that overlap; a device has one row at a "
                "time, so train with a pool, or with a step as long as the window"
            )
        if not code.streams and not window and self.steps is None:
            raise ValueError(
                "the map needs a whole recording at once; pass --steps with the length of the "
                "longest one, or train with windows"
            )
        return code

    @cached_property
    def setting(self) -> Setting:
        features, window = self.model.features, self.cutting.window
        # A row per step comes for ever: nothing may count on an end.
        steps = window or (None if features.per_step else self.steps)
        return Setting(steps, window > 0, widest_bits(features))

    @property
    def feature(self) -> str:
        """C type of a feature."""
        return self.setting.feature

    @property
    def n_outputs(self) -> int:
        return self.model.n_outputs

    @property
    def scaler(self) -> Scaler | None:
        scale = self.model.preprocessing.scale
        return scale if isinstance(scale, Scaler) else None

    @property
    def holds(self) -> bool:
        """Whether missing samples are replaced by the last ones."""
        return self.model.preprocessing.gaps == "hold"

    @property
    def streams(self) -> bool:
        """Whether the map follows the samples as they come; else they are kept for a while."""
        return self.map.streams and not (self.cutting.window and self.cutting.overlaps)

    @property
    def kept_steps(self) -> int:
        """Steps whose words are kept."""
        if self.streams:
            return 0
        kept = self.cutting.window or self.steps
        assert kept is not None  # `map` has refused it
        return kept

    @property
    def by_recording(self) -> bool:
        """Whether a row comes at the end of a recording."""
        return not self.map.per_step and not self.cutting.window

    @property
    def told_steps(self) -> bool:
        """Whether the length of a recording must be told when it begins."""
        return self.map.needs_steps and self.by_recording and self.streams

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """All fields of the state, the widest first, so that there are no holes between them."""
        found = [*self.map.fields, Field(self.feature, "row", self.map.n_features)]
        if self.holds:
            found += [
                Field("double", "held", self.map.n_inputs),
                Field("uint8_t", "known", self.map.n_inputs),
            ]
        if self.kept_steps:
            found.append(Field("int32_t", "kept", self.kept_steps * self.map.n_words))
        elif self.by_recording:
            found.append(Field("int32_t", "last", self.map.n_words))
        found.append(Field("uint32_t", "t", 1))
        if self.told_steps:
            found.append(Field("uint32_t", "steps", 1))
        return tuple(sorted(found, key=lambda one: -BYTES[one.type]))

    @property
    def marks(self) -> dict[str, object]:
        """What templates of the C file and the header have marks for."""
        name = self.name
        return {
            "NAME": name,
            "UP": name.upper(),
            "CHANNELS": self.map.n_inputs,
            "WORDS": self.map.n_words,
            "OUTPUTS": self.n_outputs,
            "FEATURES": self.map.n_features,
            "WINDOW": self.cutting.window,
            "STEP": self.cutting.step,
            "KEPT": self.kept_steps,
            "MOST": self.setting.steps,  # sums have room for so many
            "LEAST": self.map.least_steps,
            "WASHOUT": self.map.washout,
            "PER_STEP": self.map.per_step,
            "STREAMS": self.map.streams,
            "BY_RECORDING": self.by_recording,
            "COUNTED": self.told_steps,
            "HOLDS": self.holds,
            "SCALED": self.scaler is not None,
            "BEGINS": f"{name}_begin(s, steps)" if self.told_steps else f"{name}_reset(s)",
        }

    @property
    def ram(self) -> int:
        """Bytes of the state, as the compiler lays it out."""
        widest = max(BYTES[one.type] for one in self.fields)
        size = sum(one.n_bytes for one in self.fields)
        return -(-size // widest) * widest

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        readout, found = self.model.readout, list[Table]()
        if self.scaler is not None:
            found = [Table("double", "scale_mean", self.scaler.mean)]
            found += [Table("double", "scale_size", self.scaler.scale)]
        assert self.map.bits is not None
        assert self.map.digits is not None
        scaled = np.ldexp(readout.weights.T, -self.map.digits)
        exponents = _exponents(scaled, readout.intercept, self.map.bits)
        # The largest may round up to one more than 32 bits have.
        words = np.minimum(np.rint(np.ldexp(scaled, exponents[:, None])), 2.0**31 - 1)
        return (
            *found,
            *self.map.tables,
            Table("int32_t", "readout_weights", words),
            Table("int64_t", "readout_intercept", np.rint(np.ldexp(readout.intercept, exponents))),
            Table("float", "readout_unit", np.ldexp(1.0, -exponents)),
        )


def _exponents(weights: Array, intercept: Array, bits: int) -> Integers:
    """Return e (K,) such that weights (K, F) times 2^e fit 31 bits, and sums with features 62.

    >>> _exponents(np.array([[0.5, 0.25]]), np.zeros(1), 8)
    array([31])
    """
    largest = np.abs(weights).max(axis=1)
    reach = np.abs(weights).sum(axis=1) * 2.0**bits + np.abs(intercept)
    found = [
        min(31 - np.frexp(w)[1], 62 - np.frexp(r)[1], 120) if r > 0 else 0
        for w, r in zip(largest, reach, strict=True)
    ]
    return np.array(found, dtype=np.int64)
