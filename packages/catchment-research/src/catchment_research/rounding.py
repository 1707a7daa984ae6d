"""Changes of parameters in few bits: rounded at random, so that nothing is lost on average.

Every block of numbers has a scale s, its largest size, and a number v becomes one of the M + 1
levels from -s to s, which are 2 s / M apart. With x = (v / s + 1) M / 2 and u drawn evenly from
[0, 1), the level floor(x + u) has the mean x (Alistarh et al., QSGD, NeurIPS 2017; with two bits,
Wen et al., TernGrad, NeurIPS 2017): the error of one number is below one step, its mean is zero,
and a sum over clients is right on average. Of two bits and more M is even, so that zeros stay
zeros; one bit is a sign.

Rounding at random lengthens a change: n numbers add up to n s^2 / M^2 to the square of its length.
Where changes are clipped the scales are therefore made smaller after rounding until the bound holds
again, for which that change is no longer right on average.

The draw follows from the plan's seed, the round and the client, and hides nothing.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import PositiveFloat, PositiveInt
from catchment.errors import IntegrityError, UploadError
from catchment.federation import (
    Additive,
    Plan,
    Protection,
    Read,
    Requirements,
    RoundContext,
    Upload,
)
from catchment.wire import ANY_FLOAT, Fact, Kind, Message, marked, serialize

ROUNDED = "rounded-change"
TYPES: dict[str, np.dtype[Any]] = {"f4": np.dtype(np.float32), "f8": np.dtype(np.float64)}
TYPE_NAMES = {kind: name for name, kind in TYPES.items()}
_STREAM = 0x20D  # keeps these draws apart from the client's others
LEAST_SCALE = 1e-30  # below it a block is sent as zeros: its inverse could leave a float32
MOST_AXES = 32
MOST_NUMBERS = 1 << 40  # of a tensor, zeros in its shape left out

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, kw_only=True)
class StochasticQuantization(Protection):
    """Send changes of parameters with few bits a number, rounded at random and right on average.

    For algorithms whose clients send weighted parameters or changes of them: partially trainable
    networks, federated averaging, prompts. Only what clients send is rounded; weights and losses
    are not. The download stays as it is.

    Parameters
    ----------
    bits
        Of each number: 16, 8, 4, 2 or 1; 32 leaves messages as they are.
    block
        Numbers that share a scale, which takes four bytes.
    longest
        Longest change that may leave a client; a rounded one that is longer is shortened. Give the
        clip of the algorithm, where it has one.

    >>> from catchment.federation import WeightedSum
    >>> sent = WeightedSum.of((np.linspace(-1, 1, 1000),), 1.0)
    >>> quantized = [StochasticQuantization(bits=b) for b in (32, 8, 2)]
    >>> made = [serialize(one.on_client(sent, RoundContext(0, ()))) for one in quantized]
    >>> [len(parts.to_bytes()) for parts in made]
    [8136, 1230, 479]
    """

    requirements: ClassVar[Requirements] = Requirements(
        each_client="every client's numbers have scales of their own and do not add; leave "
        "StochasticQuantization out, whose saving a mask of 16 bytes a number would undo"
    )
    messages: ClassVar[tuple[Kind, ...]] = (
        Kind(
            ROUNDED,
            "what the client's message holds otherwise, its changes rounded to few bits",
            ("all that the message tells otherwise: rounding hides nothing",),
        ),
    )

    bits: Literal[32, 16, 8, 4, 2, 1] = 8
    block: PositiveInt = 256
    longest: PositiveFloat | None = None

    @property
    def n_steps(self) -> int:
        """Steps from the least level to the greatest."""
        return max(1, 2**self.bits - 2)

    def check(self, plan: Plan[Any, Any, Any]) -> None:
        """Raise ValueError if the rounded messages could not be used."""
        others = [type(one).__name__ for one in plan.plain if one is not self]
        if others:
            raise ValueError(
                f"StochasticQuantization rounds an algorithm's own changes, {others[0]} makes "
                "others of them; leave one of the two out"
            )
        clip = plan.requirements.longest
        if self.bits < 32 and clip is not None and not (self.longest and self.longest <= clip):
            raise ValueError(
                f"changes are clipped at {clip:g} and rounding may lengthen them again; pass "
                f"StochasticQuantization longest={clip:g}"
            )

    def on_client(self, upload: Upload, context: RoundContext) -> Upload:
        if not marked(type(upload), ANY_FLOAT):
            raise UploadError(
                "kind",
                f"StochasticQuantization rounds changes of parameters, not "
                f"{serialize(upload).kind!r}; for statistics use LowRankUpload",
            )
        if self.bits == 32:
            return upload
        parts = serialize(upload)
        numbers, arrays = parts.arrays[0], parts.arrays[1:]
        seed = [context.seed, context.round, zlib.crc32(context.client.encode()), _STREAM]
        flat = [np.zeros(0, np.float32)] if not arrays else [array.ravel() for array in arrays]
        codes, scales = self._codes(np.concatenate(flat), np.random.default_rng(seed))
        facts: dict[str, Fact] = {
            "kind": parts.kind,
            "facts": parts.facts,
            "shapes": cast(list[Fact], [list(array.shape) for array in arrays]),
            "types": [TYPE_NAMES[array.dtype] for array in arrays],
        }
        packed = (numbers, self._shortened(codes, scales), packed_codes(codes, self.bits))
        return Message(ROUNDED, facts, packed)

    def _codes(
        self, values: Floats, rng: np.random.Generator
    ) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
        """Return the level (n,) of every number, and the scale of every block."""
        n, kind = len(values), self._kind(values.dtype)
        blocks = np.zeros((-(-n // self.block), self.block), kind)
        blocks.ravel()[:n] = values
        largest = np.abs(blocks).max(axis=1)
        if not np.isfinite(largest).all():
            raise UploadError("not-finite", "a change holds NaN or infinite numbers")
        if largest.max(initial=0.0) >= np.finfo(np.float32).max:
            raise UploadError("range", f"a value of {largest.max():.3g} is too large for a float32")
        scales = np.where(largest < LEAST_SCALE, 0, largest).astype(np.float32)
        # A float64 rounded down to float32 would leave its own block's range.
        above = np.nextafter(scales, np.float32(np.inf))
        scales = np.where((scales > 0) & (scales < largest), above, scales)
        blocks *= (self.n_steps / 2 / np.where(scales > 0, scales, 1)).astype(kind)[:, None]
        # The middle, an integer but for one bit, is added last: zeros stay zeros exactly.
        blocks += rng.random(blocks.shape, dtype=kind)
        blocks += kind.type(self.n_steps / 2 % 1)
        levels = np.floor(blocks, out=blocks)
        levels += kind.type(self.n_steps // 2)
        np.clip(levels, 0, self.n_steps, out=levels)
        return levels.astype(np.uint16).ravel()[:n], scales

    def _kind(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return in what is calculated: a float32 has no digits to spare for 16 bits."""
        return np.dtype(np.float64) if self.bits == 16 else dtype

    def _values(
        self, codes: NDArray[np.uint16], scales: NDArray[np.float32], dtype: np.dtype[Any]
    ) -> Floats:
        kind = self._kind(dtype)
        values = np.zeros((len(scales), self.block), kind)
        values.ravel()[: len(codes)] = codes
        values -= kind.type(self.n_steps / 2)
        values *= (scales.astype(np.float64) * (2.0 / self.n_steps)).astype(kind)[:, None]
        return cast(Floats, values.ravel()[: len(codes)])

    def _shortened(
        self, codes: NDArray[np.uint16], scales: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return scales with which the change is no longer than it may be."""
        if self.longest is None:
            return scales
        values = self._values(codes, scales, np.dtype(np.float64))
        length = float(np.linalg.norm(values))
        # Scales and values are rounded to float32 once more.
        factor = min(1.0, self.longest * (1 - 1e-6) / max(length, 1e-300))
        return (scales * factor).astype(np.float32) if factor < 1 else scales

    def read_update(self, parts: Message, context: RoundContext, inner: Read) -> Additive:
        if self.bits == 32:
            return inner(parts, context)
        numbers, scales, codes = parts.expect(ROUNDED, 3).arrays
        shapes, types = _layout(parts)
        n = sum(math.prod(shape) for shape in shapes)
        if (
            codes.dtype != np.uint8
            or codes.shape != (-(-n * self.bits // 8),)
            or scales.dtype != np.float32
            or scales.shape != (-(-n // self.block),)
        ):
            raise IntegrityError(
                f"{codes.size} bytes and {scales.size} scales came for {n} numbers of {self.bits} "
                "bits"
            )
        levels = unpacked_codes(codes, n, self.bits)
        sound = np.isfinite(scales).all() and (scales >= 0).all()
        if not sound or (levels > self.n_steps).any():
            raise UploadError("range", "a rounded change is not finite, or beyond its levels")
        kind = np.result_type(*types) if types else TYPES["f4"]
        values, arrays, first = self._values(levels, scales, kind), [], 0
        for shape, own in zip(shapes, types, strict=True):
            last = first + math.prod(shape)
            arrays.append(values[first:last].reshape(shape).astype(own))
            first = last
        inside = cast(Any, parts.facts["facts"])
        return inner(Message(str(parts.facts["kind"]), inside, (numbers, *arrays)), context)


def packed_codes(codes: NDArray[np.uint16], bits: int) -> NDArray[np.uint8]:
    """Return integers of few bits in as few bytes; eight, four or two share one.

    >>> packed_codes(np.array([1, 2, 3], np.uint16), 4)
    array([33,  3], dtype=uint8)
    """
    if bits >= 8:
        return codes.astype(f"<u{bits // 8}").view(np.uint8)
    each = 8 // bits
    padded = np.zeros((-(-len(codes) // each), each), np.uint8)
    padded.ravel()[: len(codes)] = codes
    places = np.arange(each, dtype=np.uint8) * np.uint8(bits)
    joined: NDArray[np.uint8] = np.bitwise_or.reduce(padded << places, axis=1)
    return joined


def unpacked_codes(packed: NDArray[np.uint8], n: int, bits: int) -> NDArray[np.uint16]:
    """Return the n integers that were packed.

    >>> unpacked_codes(np.array([33, 3], np.uint8), 3, 4)
    array([1, 2, 3], dtype=uint16)
    """
    if bits >= 8:
        return packed.view(f"<u{bits // 8}").astype(np.uint16)
    places = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    spread = (packed[:, None] >> places) & np.uint8(2**bits - 1)
    return spread.ravel()[:n].astype(np.uint16)


def _is_shape(shape: object) -> bool:
    """Whether an array can have a shape, also one without numbers."""
    if not isinstance(shape, list) or len(shape) > MOST_AXES:
        return False
    whole = all(type(size) is int and size >= 0 for size in shape)
    return whole and math.prod(max(size, 1) for size in shape) <= MOST_NUMBERS


def _layout(parts: Message) -> tuple[list[tuple[int, ...]], list[np.dtype[Any]]]:
    """Return the shapes and types of the arrays; IntegrityError if they cannot be."""
    facts = parts.facts
    shapes, types, inside = facts.get("shapes"), facts.get("types"), facts.get("facts")
    fits = (
        isinstance(facts.get("kind"), str)
        and isinstance(inside, dict)
        and isinstance(shapes, list)
        and isinstance(types, list)
        and len(shapes) == len(types)
        and all(one in TYPES for one in types if isinstance(one, str))
        and all(isinstance(one, str) for one in types)
        and all(map(_is_shape, shapes))
    )
    if not fits:
        raise IntegrityError("a rounded change does not say what it is made of")
    known = cast(list[list[int]], shapes)
    return [tuple(shape) for shape in known], [TYPES[str(one)] for one in cast(Any, types)]
