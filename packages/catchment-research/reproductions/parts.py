"""The studies on people in parts: one for each set and fold, run here or on several processes.

In a fold everything is chosen by its own validation people, and its test people are scored once, so
that folds can be run in any order, on any machine, and joined: everybody is tested once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from catchment.errors import MissingDataError
from catchment_lab.datasets import Dataset
from reproductions.people import (
    SETS,
    SPOKEN,
    SYNTHETIC,
    Paper,
    People,
    people,
    recorded,
    rotations,
    split,
)
from reproductions.places import load
from reproductions.pool import Deal, Pool, dealing
from reproductions.study import Began, SetResult, joined


@dataclass(frozen=True)
class Study:
    """A study on people: where its code is, and how its parts are cut.

    Parameters
    ----------
    name
        Of its module and of the function in it that makes a `SetResult` of `People`.
    settings
        Name of its class of settings.
    folded
        Whether everybody is tested once; if not there is one split.
    draws
        Field of the settings that counts draws, where each draw is a part of its own.
    sets
        Which sets are run if none is named; all that are here if not given.
    paper
        Whose sequences are cut, where the publisher's own files are at hand.
    published
        Whether the module has the settings of a paper, `PAPER`.
    dealt
        Whether processes take the trials of a part, and not whole parts.
    """

    name: str
    settings: str
    folded: bool = False
    draws: str | None = None
    sets: tuple[str, ...] | None = None
    paper: Paper = "fedip"
    published: bool = False
    dealt: bool = False

    @property
    def module(self) -> Any:
        """The module, loaded when it is first needed."""
        return import_module(f"reproductions.{self.name}")


STUDIES = {
    one.name: one
    for one in (
        Study("incfed", "IncFedSettings", folded=True, paper="incfed", published=True),
        Study(
            "fedip", "FedIPSettings", folded=True, sets=(*SETS, SPOKEN), published=True, dealt=True
        ),
        Study("skew", "SkewSettings", folded=True, sets=("uci_har", "motionsense", "wisdm_watch")),
        Study(
            "variance",
            "VarianceSettings",
            draws="initializations",
            sets=("uci_har", "hhar", "wisdm_watch"),
        ),
        Study("unseen", "UnseenSettings", sets=("uci_har",)),
    )
}


@dataclass(frozen=True)
class Part:
    """What is run at once: a set, one of its folds, and one draw where draws are parts."""

    set: str
    fold: int = 0
    draw: int | None = None

    def __str__(self) -> str:
        return f"{self.set}, " + (f"fold {self.fold}" if self.draw is None else f"draw {self.draw}")

    def within(self, one: SetResult) -> bool:
        """Return whether a result of the set has this part already."""
        return one.name == self.set and any(
            cell.fold == self.fold and self.draw in (None, cell.repetition)
            for cell in (*one.cells, *one.tried)
        )


def parts_of(
    study: Study, sets: Sequence[str], settings: Any, folds: Sequence[int] | None = None
) -> list[Part]:
    """Return the parts of a study, fold by fold, so that a run cut short has all sets.

    Parameters
    ----------
    folds
        Only these; all of the settings' if not given.

    >>> from reproductions.incfed import QUICK
    >>> [str(part) for part in parts_of(STUDIES["incfed"], ["wesad", "hhar"], QUICK, [2])]
    ['wesad, fold 2', 'hhar, fold 2']
    """
    if study.draws is not None:
        draws = range(getattr(settings, study.draws))
        parts = [Part(name, draw=draw) for draw in draws for name in sets]
    else:
        n = settings.folds if study.folded else 1
        parts = [Part(name, fold) for fold in range(n) for name in sets]
    if folds is None:
        return parts
    if not study.folded:
        raise ValueError(f"{study.name} has one split of people; leave --folds out")
    unknown = [fold for fold in folds if not 0 <= fold < settings.folds]
    if unknown:
        raise ValueError(f"there is no fold {unknown[0]}; name some of 0 to {settings.folds - 1}")
    return [part for part in parts if part.fold in folds]


def run_parts(
    study: Study,
    settings: Any,
    parts: Sequence[Part],
    *,
    directory: Path | None = None,
    workers: int = 1,
    earlier: Sequence[SetResult] = (),
    began: Began | None = None,
    kept: Callable[[tuple[SetResult, ...]], object] | None = None,
) -> tuple[SetResult, ...]:
    """Return each set's parts joined, those that an earlier result has as they are.

    Parameters
    ----------
    workers
        Processes, of one thread each; 1 runs the parts here, with as many threads as there are.
    earlier
        Results under the same settings, whose parts are not run again.
    began
        Called with a line of text as parts begin, or end on other processes.
    kept
        Called with what there is so far, whenever a part ends.
    """
    say = began or (lambda text: None)
    found = {one.name: one for one in earlier}
    left = [p for p in parts if not (p.set in found and p.within(found[p.set]))]
    if len(left) < len(parts):
        say(f"{len(parts) - len(left)} of {len(parts)} parts are there already")
    said, spread = began if workers == 1 else None, study.dealt and workers > 1
    failed: list[tuple[Part, Exception]] = []
    with ExitStack() as stack:
        deal = stack.enter_context(dealing(workers)) if spread else map
        work = partial(run_part, study.name, settings, directory, said=said, deal=deal)
        # Two parts of such a study at once: one's trials fill the gaps at the other's end.
        n = min(2, len(left)) if spread else workers
        pool = stack.enter_context(Pool(work, n, one_core=True, threads=spread and n > 1))
        for part, outcome in pool.run(left):
            if isinstance(outcome, Exception):
                say(f"{part}: {outcome}")
                failed.append((part, outcome))
                continue
            say(f"{part}: done in {outcome.seconds:.0f} s")
            before = found.get(part.set)
            whole = outcome if before is None else joined(before, outcome)
            found[part.set] = _finished(study, whole, settings)
            if kept:
                kept(tuple(found.values()))
    if failed:
        raise failed[0][1]
    return tuple(found.values())


def run_part(
    study: str,
    settings: Any,
    directory: Path | None,
    part: Part,
    said: Began | None = None,
    deal: Deal = map,
) -> SetResult:
    """Return what one part gives, its cells marked with the fold."""
    known = STUDIES[study]
    group = subjects(known, part, settings, directory)
    if known.dealt:
        one: SetResult = getattr(known.module, study)(group, settings, said, deal)
    elif part.draw is None:
        one = getattr(known.module, study)(group, settings, said)
    else:
        one = known.module.drawn(group, settings, part.draw, said)
    before = f"fold {part.fold}: " if known.folded else ""
    return replace(
        one,
        cells=tuple(replace(cell, fold=part.fold) for cell in one.cells),
        selected=tuple(replace(chosen, fold=part.fold) for chosen in one.selected),
        remarks=tuple(before + text for text in one.remarks),
    )


def _finished(study: Study, one: SetResult, settings: Any) -> SetResult:
    finished: SetResult = one if study.draws is None else study.module.chosen(one, settings)
    return finished


def subjects(study: Study, part: Part, settings: Any, directory: Path | None) -> People:
    """Return the people of a part as its study cuts and splits them."""
    if study.name == "unseen" and part.set != SYNTHETIC:
        data = load(part.set, directory=directory)
        if not data.test_clients:
            raise ValueError(f"the publisher of {part.set} names no test subjects; use uci_har")
        return split(data, official=True)
    try:
        if study.folded:
            data = _recorded(part.set, study.paper, directory)
            return rotations(data, folds=settings.folds)[part.fold]
        return people(part.set, paper=study.paper, directory=directory)
    except MissingDataError as error:
        raise MissingDataError(
            f"{error}; or run on synthetic people with --sets synthetic"
        ) from error


@lru_cache(maxsize=1)
def _recorded(name: str, paper: Paper, directory: Path | None) -> Dataset:
    return recorded(name, paper=paper, directory=directory)
