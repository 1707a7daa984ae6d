"""What the integers of statistics in fixed point count.

Feature j is an integer times 2^-d_j, and a target an integer times 2^-t: t is 0 where
targets are whole, as those of classes are, and 36 where they are numbers. So an entry of Z'Z counts
units of 2^-(d_i + d_j), one of Z'Y 2^-(d_i + t), and one of Y'Y 2^-2t.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from catchment.arrays import Array, Integers, check_type
from catchment.errors import IntegrityError
from catchment.features.base import Bits, FeatureMap, digits_after_point, handed

if TYPE_CHECKING:
    from catchment.data.recording import Recording

# Binary digits after the point of targets that are numbers: below 8 they are two pieces.
TARGET_DIGITS = 36
LARGEST_CLASS = 256  # of whole targets
LARGEST_TARGET = 2.0**40  # of numbers
_FURTHEST = 400  # digits: a product of two stays a float64


@dataclass(frozen=True)
class FixedPoint:
    """The units that integers of ridge statistics count.

    Parameters
    ----------
    bits
        Feature j is an integer of absolute value up to 2^bits, times 2^-d_j.
    runs
        The digits d_j of all features in order, as pairs (number of columns, digits).
    target_digits
        Binary digits after the point of the targets: 0 or 36.

    >>> fixed = FixedPoint(8, ((1, 8), (2, 5)))
    >>> fixed.digits, fixed.is_whole
    (array([8, 5, 5]), True)
    """

    bits: int
    runs: tuple[tuple[int, int], ...]
    target_digits: int = 0

    def __post_init__(self) -> None:
        check_type(self.bits, Bits, "bits")
        for n_columns, digits in self.runs:
            if type(n_columns) is not int or type(digits) is not int or n_columns < 1:
                raise ValueError(f"runs hold {(n_columns, digits)}; give (columns, digits) pairs")
            if abs(digits) > _FURTHEST:
                raise ValueError(
                    f"a feature has {digits} digits after the point; rescale it so that its bound "
                    "is nearer to 1"
                )
        if self.target_digits not in (0, TARGET_DIGITS):
            raise ValueError(f"target_digits is {self.target_digits}; give 0 or {TARGET_DIGITS}")

    @classmethod
    def of(
        cls, features: FeatureMap, *, classes: bool | None, among: Sequence[Recording] = ()
    ) -> FixedPoint | None:
        """Return the units of a map's statistics, None if its features are plain float64.

        Parameters
        ----------
        classes
            Whether targets are whole, as those of classes are; if None they are if all targets
            `among` some recordings are 0 or 1.
        """
        if features.feature_bits is None:
            return None
        if classes is None:
            given = [s.y for s in among if s.y is not None]
            known = [y if y.ndim == 1 else y.reshape(-1) for y in given]
            # Numbers show in the first; one look at all others is quicker than one at each.
            classes = not known or (_are_classes(known[0]) and _are_classes(np.concatenate(known)))
        return _fixed_point_of(features.feature_bits, features.bounds.tobytes(), classes)

    @classmethod
    def from_digits(cls, bits: int, digits: Integers, *, classes: bool) -> FixedPoint:
        """Return the units of features with these digits (F,) after the point.

        >>> FixedPoint.from_digits(8, np.array([8, 5, 5]), classes=True).runs
        ((1, 8), (2, 5))
        """
        first = np.flatnonzero(np.diff(digits, prepend=digits[:1] - 1))
        counts = np.diff(first, append=len(digits)).tolist()
        runs = tuple(zip(counts, digits[first].tolist(), strict=True))
        return cls(bits, runs, 0 if classes else TARGET_DIGITS)

    n_features: ClassVar[int] = handed("digits.size")

    @cached_property
    def is_whole(self) -> bool:
        """Whether targets are integers."""
        return self.target_digits == 0

    @cached_property
    def digits(self) -> Integers:
        """Binary digits (F,) after the point of each feature."""
        counts, digits = np.array(self.runs, dtype=np.int64).reshape(-1, 2).T
        return np.repeat(digits, counts)

    @cached_property
    def scale(self) -> Array:
        """What (F,) each feature's integer is multiplied by, powers of two."""
        return np.ldexp(1.0, -self.digits)

    @cached_property
    def gram_scale(self) -> float | Array:
        """What the entries of a packed Gram matrix are multiplied by; one number if it is one."""
        if len(self.runs) == 1:
            return float(2.0 ** (-2 * self.runs[0][1]))
        scale = self.scale
        return np.concatenate([scale[i] * scale[i:] for i in range(len(scale))] or [scale])

    @cached_property
    def limbs(self) -> dict[str, int]:
        """How many limbs of 40 digits each sum travels in.

        They are the same for every client of a plan, whatever its data.
        """
        whole = self.is_whole
        return {
            "feature_sum": 1,
            "target_sum": 1 if whole else 3,
            "gram": 1 if self.bits <= 16 else 2,
            "cross": 1 if whole else 3,
            "target_gram": 1 if whole else 5,
        }

    def to_json(self) -> str:
        """Return the units as one text, the same for equal ones.

        >>> FixedPoint(8, ((3, 8),)).to_json()
        '[8,[[3,8]],0]'
        """
        return self._text

    @cached_property
    def _text(self) -> str:  # asked for every client
        return json.dumps([self.bits, self.runs, self.target_digits], separators=(",", ":"))

    @staticmethod
    @lru_cache(maxsize=16)
    def from_json(text: str) -> FixedPoint:
        """Return the units of a text; IntegrityError if there is none in it.

        >>> FixedPoint.from_json('[8,[[3,8]],0]')
        FixedPoint(bits=8, runs=((3, 8),), target_digits=0)
        """
        try:
            bits, runs, target_digits = json.loads(text)
            return FixedPoint(bits, tuple((n, digits) for n, digits in runs), target_digits)
        except (ValueError, TypeError, RecursionError) as error:
            raise IntegrityError(f"{text[:80]!r} describes no fixed point ({error})") from error


def _are_classes(y: Array) -> bool:
    """Whether all targets are 0, 1 or missing."""
    return bool(((y == 0) | (y == 1) | np.isnan(y)).all())


@lru_cache(maxsize=16)  # asked for every client, of which a round may have a million
def _fixed_point_of(bits: int, bounds: bytes, classes: bool) -> FixedPoint:
    digits = digits_after_point(np.frombuffer(bounds), bits)
    return FixedPoint.from_digits(bits, digits, classes=classes)
