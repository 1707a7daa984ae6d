"""What it cost a method to first reach an accuracy: the fair way to set bytes side by side.

Totals of whole trainings compare different lengths and different accuracies. Here each run counts
until its development accuracy is first at a level, at the points at which it was looked at; what a
run asked of the language model's server is spread evenly over its rounds. A run that never got
there costs more than any that did, and medians are taken over all runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from reproductions.fedresprompt_values import METHODS, Cell, PromptResult, Variant


@dataclass(frozen=True)
class Reached:
    """When the runs of one variant first had an accuracy; infinite where they never did.

    Parameters
    ----------
    rounds
        Of each run, by seed.
    federation
        Bytes between clients and the federation's server until then.
    whole
        The same with what was asked of the language model's server, where that is elsewhere.
    search
        Whether these are the short runs that settings were chosen by.
    """

    variant: Variant
    level: float
    rounds: tuple[float, ...]
    federation: tuple[float, ...]
    whole: tuple[float, ...]
    search: bool = False

    @property
    def n_runs(self) -> int:
        return len(self.rounds)

    @property
    def n_reached(self) -> int:
        return sum(math.isfinite(n) for n in self.rounds)

    @property
    def median_federation(self) -> float:
        return median(self.federation)

    @property
    def median_whole(self) -> float:
        return median(self.whole)


def first_at(cell: Cell, level: float) -> tuple[float, float, float]:
    """Return the rounds, federation bytes and whole bytes at which a run first had an accuracy.

    >>> from reproductions.fedresprompt_values import Job
    >>> job = Job(task="sst2", variant=Variant(method="subspace"), seed=0)
    >>> run = Cell(job=job, development=0.9, test=0.9, rounds=4, asked_up=400,
    ...            curve=((2, 20, 0.7), (4, 40, 0.9)))
    >>> first_at(run, 0.7), first_at(run, 0.95)
    ((2.0, 20.0, 220.0), (inf, inf, inf))
    """
    each = cell.bytes_asked / max(cell.rounds, 1)
    for rounds, crossed, accuracy in cell.curve:
        if accuracy >= level:
            return float(rounds), float(crossed), crossed + each * rounds
    return math.inf, math.inf, math.inf


def cost_to_reach(
    result: PromptResult, level: float = 0.88, *, task: str = "sst2"
) -> tuple[Reached, ...]:
    """Return what every variant with a curve cost until development was first at a level.

    The final runs come first, by method; then adapters of the search, whose rank the final runs
    do not have.
    """
    runs = [c for c in result.cells if c.job.task == task and c.curve]
    final = _grouped([c for c in runs if not c.job.search])
    ranks = {group[0].job.variant.rank for group in final}
    others = [c for c in runs if c.job.search and c.job.variant.rank not in ranks]
    return tuple(_reached(group, level) for group in (*final, *_grouped(others)))


def times_fewer(ours: Reached, theirs: Reached, *, whole: bool = False) -> float:
    """Return the ratio of two medians; not a number if one of them is infinite.

    Parameters
    ----------
    whole
        Count what was asked of the language model's server, too.
    """
    if whole:
        few, many = ours.median_whole, theirs.median_whole
    else:
        few, many = ours.median_federation, theirs.median_federation
    return many / few if math.isfinite(few) and math.isfinite(many) else math.nan


def _grouped(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Return runs of the same variant together, by method, each group by seed."""
    groups: dict[Variant, list[Cell]] = {}
    for cell in sorted(cells, key=lambda c: (METHODS.index(c.job.variant.method), c.job.seed)):
        groups.setdefault(cell.job.variant, []).append(cell)
    return list(groups.values())


def _reached(cells: Sequence[Cell], level: float) -> Reached:
    rounds, federation, whole = zip(*(first_at(c, level) for c in cells), strict=True)
    job = cells[0].job
    return Reached(job.variant, level, rounds, federation, whole, job.search)
