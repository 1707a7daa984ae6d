"""What one column of one file is like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catchment.data.frames import missing_values

MOST_CLASSES = 50  # different values that are still listed
Kind = Literal["numbers", "text", "times", "empty"]


@dataclass(frozen=True)
class ColumnFacts:
    """What one column is like, without its values.

    Parameters
    ----------
    kind
        What its values are; text that is mostly numbers counts as numbers.
    n
        Rows.
    n_missing
        Rows without a value.
    odd
        The first value that is text among numbers, and its row, counted from 1 after the header.
    distinct
        Its different values, if they are few.
    whole
        Whether all numbers are whole.
    constant
        Whether there is one value only.
    rising
        Share of steps from one row to the next that go up.
    counter
        Whether it counts the rows: 0, 1, 2 and so on, or from another number.
    high
        The largest finite number.
    """

    kind: Kind
    n: int
    n_missing: int = 0
    odd: tuple[str, int] | None = None
    distinct: tuple[Any, ...] | None = None
    whole: bool = False
    constant: bool = False
    rising: float = 0.0
    counter: bool = False
    high: float = 0.0

    @property
    def like_classes(self) -> bool:
        """Whether it could be a label: text or whole numbers, of few different values."""
        if self.distinct is None or len(self.distinct) * 2 > self.n:
            return False
        return self.kind == "text" or (self.kind == "numbers" and self.whole)


def facts_of(values: NDArray[Any]) -> ColumnFacts:
    """Return what a column (n,) is like.

    >>> facts_of(np.array([0, 1, 2])).counter, facts_of(np.array(["0.5", "x", "2"], object)).odd
    (True, ('x', 2))
    """
    missing = missing_values(values)
    known, n, n_missing = values[~missing], len(values), int(missing.sum())
    if not len(known):
        return ColumnFacts("empty", n, n_missing)
    if values.dtype.kind in "mM":
        return ColumnFacts("times", n, n_missing, rising=_rising(known))
    if values.dtype.kind == "O" and not isinstance(known[0], str | bool | int | float):
        return ColumnFacts("times", n, n_missing, rising=_rising(known))
    if values.dtype.kind in "OU":
        return _of_text(known, np.flatnonzero(~missing), n, n_missing)
    numbers = known.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    steps = np.diff(finite)
    return ColumnFacts(
        "numbers",
        n,
        n_missing,
        distinct=_few(known),
        whole=bool((finite == np.floor(finite)).all()),
        constant=bool((numbers == numbers[0]).all()),
        rising=_rising(finite),
        counter=n_missing == 0 and len(steps) > 1 and bool((steps == 1).all()),
        high=float(finite.max(initial=0.0)),
    )


def _of_text(known: NDArray[Any], rows: NDArray[np.intp], n: int, n_missing: int) -> ColumnFacts:
    texts = [str(value) for value in known.tolist()]
    sample = [as_number(text) is not None for text in texts[:1000]]
    distinct = _few(np.array(texts, dtype=object))
    if sum(sample) * 2 > len(sample):
        odd = next((k for k, text in enumerate(texts) if as_number(text) is None), None)
        found = None if odd is None else (texts[odd], int(rows[odd]) + 1)
        return ColumnFacts("numbers", n, n_missing, odd=found, distinct=distinct)
    constant = distinct is not None and len(distinct) == 1
    moments = distinct is None and looks_like_time(texts[0]) and looks_like_time(texts[-1])
    kind: Kind = "times" if moments else "text"
    rising = _rising(known) if moments else 0.0
    return ColumnFacts(kind, n, n_missing, distinct=distinct, constant=constant, rising=rising)


def as_number(text: str) -> float | None:
    """Return the number that a text is, with a point or a comma; None if it is none.

    >>> as_number("0,5"), as_number("fast")
    (0.5, None)
    """
    try:
        return float(text.strip().replace(",", ".", 1))
    except ValueError:
        return None


def looks_like_time(text: str) -> bool:
    """Return whether a text is a date or a clock time as ISO 8601 writes it."""
    import datetime as dt

    for read in (dt.datetime.fromisoformat, dt.time.fromisoformat):
        try:
            read(text)
        except ValueError:
            continue
        return True
    return False


def _few(known: NDArray[Any]) -> tuple[Any, ...] | None:
    """Return the different values, sorted, or None if they are many."""
    few = set(known[:2000].tolist())
    if len(few) <= MOST_CLASSES:
        few = set(known.tolist())
    return tuple(sorted(few, key=str)) if len(few) <= MOST_CLASSES else None


def _rising(known: NDArray[Any]) -> float:
    if len(known) < 2:
        return 1.0
    try:
        return float(np.mean(known[1:] > known[:-1]))
    except TypeError:
        return 0.0
