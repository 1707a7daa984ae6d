"""What accuracy hides: classes that are never said, and what saying one class always gives."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from catchment.readout import ClassCounts
from reproductions.intervals import Interval, over_people
from reproductions.study import Selected, SetResult

Counts = ClassCounts | None
Seeds = list[dict[str, tuple[float, float]]]


def confusion(one: SetResult, method: str, share: float, repetition: int | None = None) -> Counts:
    """Return the counts of all test people, over all repetitions or of one; None of none."""
    cells = [
        cell
        for cell in one.of(method, share)
        if cell.confusions and repetition in (None, cell.repetition)
    ]
    return reduce(add, (cell.confusion for cell in cells)) if cells else None


def balanced(one: SetResult, method: str, share: float) -> float:
    """Return the mean over classes of the share that is recognized, over repetitions; or NaN."""
    counts = confusion(one, method, share)
    return float("nan") if counts is None else counts.balanced_accuracy


def macro_f1(one: SetResult, method: str, share: float) -> float:
    """Return the mean over classes of F1, over repetitions; or NaN."""
    counts = confusion(one, method, share)
    return float("nan") if counts is None else counts.macro_f1


def never_said(one: SetResult, method: str, share: float) -> tuple[str, ...]:
    """Return the classes that test people have and that a method never says."""
    counts = confusion(one, method, share)
    if counts is None:
        return ()
    table = counts.confusion
    silent = (table.sum(axis=1) > 0) & (table.sum(axis=0) == 0)
    return tuple(name for name, lost in zip(one.classes, silent, strict=True) if lost)


def majority(one: SetResult, share: float) -> Seeds:
    """Return how often the most frequent class of the test people is right, by person."""
    for method in one.methods:
        cells = [cell for cell in one.of(method, share) if cell.confusions]
        if cells:
            first = min(cell.repetition for cell in cells)
            known = {
                name: np.array(counts).sum(axis=1)
                for cell in cells
                if cell.repetition == first
                for name, counts in cell.confusions.items()
            }
            best = int(np.sum(list(known.values()), axis=0).argmax())
            return [{name: (float(n[best]), float(n.sum())) for name, n in known.items()}]
    return []


def interval(one: SetResult, method: str, share: float) -> Interval | None:
    """Return the accuracy with its interval over people, None where no one's counts are known."""
    counts = one.counts(method, share)
    return over_people(counts) if counts and counts[0] else None


def difference(one: SetResult, method: str, other: str, share: float) -> Interval | None:
    """Return how far a method is ahead of another, in the repetitions that both have.

    None where there are none, or no one's counts are known.
    """
    ours, theirs = (
        {cell.repetition for cell in one.of(name, share) if cell.confusions}
        for name in (method, other)
    )
    both = ours & theirs
    if not both:
        return None
    only = replace(one, cells=tuple(c for c in one.cells if c.repetition in both))
    return only.difference(method, other, share)


def by_validation(one: SetResult, kind: str, share: float) -> Seeds:
    """Return the counts of the method that does best on validation people, in each fold anew.

    Parameters
    ----------
    kind
        How the names of the methods begin that are chosen from.
    """
    best: dict[int, Selected] = {}
    for chosen in one.selected:
        if chosen.method.partition("-")[0] == kind:
            known = best.get(chosen.fold)
            if known is None or chosen.validation > known.validation:
                best[chosen.fold] = chosen
    found: dict[int, dict[str, tuple[float, float]]] = {}
    for fold, chosen in best.items():
        for cell in one.of(chosen.method, share):
            if cell.fold == fold:
                table = {
                    name: (float(np.trace(c)), float(np.sum(c)))
                    for name, c in cell.confusions.items()
                }
                found.setdefault(cell.repetition, {}).update(table)
    return [found[k] for k in sorted(found)]
