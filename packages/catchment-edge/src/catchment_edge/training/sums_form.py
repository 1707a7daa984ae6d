"""How wide the sums of a device are, and how many rows they hold."""

from __future__ import annotations

from dataclasses import dataclass

from catchment.features import FeatureMap

ROWS = 10_000  # that a device has room for if nothing is said
PRECISE = 1000  # rows up to which sums in float32 keep six digits
_COUNTED = 2**32 - 1


@dataclass(frozen=True)
class SumsForm:
    """Types in C of the Gram matrix and of sums of features, and the rows that they hold.

    >>> SumsForm.whole(8, 10_000)
    SumsForm(gram='int32_t', sum='int32_t', most_rows=32767)
    >>> SumsForm.whole(12, 10_000).gram
    'int64_t'
    """

    gram: str
    sum: str
    most_rows: int

    @classmethod
    def of(cls, features: FeatureMap, rows: int, *, whole: bool) -> SumsForm:
        """Return the form for so many rows of a map; ValueError if there is none."""
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise ValueError(f"rows is {rows!r}; pass an integer of 1 or more")
        if not whole:
            return cls.floating(rows)
        assert features.feature_grid is not None
        return cls.whole(features.feature_grid, rows)

    @classmethod
    def whole(cls, bits: int, rows: int) -> SumsForm:
        """Return the narrowest sums of rows of integers up to 2^bits."""
        types = {"int32_t": 2**31 - 1, "int64_t": 2**63 - 1}
        holds = {name: (most >> 2 * bits, most >> bits) for name, most in types.items()}
        gram = next((name for name in types if holds[name][0] >= rows), None)
        if gram is None:
            most = holds["int64_t"][0]
            raise ValueError(
                f"sums of {rows} rows of {bits}-bit features do not fit 63 bits, {most} do; pass "
                f"rows={most}, or give the map a feature_grid of fewer bits"
            )
        total = next(name for name in types if holds[name][1] >= rows)
        return cls(gram, total, min(holds[gram][0], holds[total][1], _COUNTED))

    @classmethod
    def floating(cls, rows: int) -> SumsForm:
        """Return sums in float32 where they stay precise, else in float64.

        >>> SumsForm.floating(500)
        SumsForm(gram='float', sum='float', most_rows=500)
        """
        if rows <= PRECISE:
            return cls("float", "float", rows)
        return cls("double", "double", _COUNTED)
