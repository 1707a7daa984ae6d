"""Run a published experiment on the data at hand, and write down what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from catchment.errors import MissingDataError
from reproductions import fedip, incfed, unseen, variance
from reproductions.people import SYNTHETIC, People, available, people, split
from reproductions.places import load
from reproductions.study import (
    Began,
    SetResult,
    StudyResult,
    environment,
    load_result,
    merged,
)
from reproductions.tables import markdown

STUDIES = ("incfed", "fedip", "variance", "unseen")
QUICK_SETS = 2


def reproduce(
    study: str,
    *,
    sets: Sequence[str] | None = None,
    quick: bool = False,
    trials: int | None = None,
    steps: int | None = None,
    directory: Path | None = None,
    began: Began | None = None,
) -> StudyResult:
    """Return the result of an experiment on the sets at hand; on invented people if there are none.

    Parameters
    ----------
    study
        One of `STUDIES`.
    sets
        Which data sets; if not given, all that are on this machine (two of them if quick).
    quick
        A small version, in minutes at most, to see that everything works.
    trials, steps
        Configurations searched, and time steps of all subjects together at most, in place of the
        experiment's own numbers.
    directory
        Data directory; the usual ones if not given.
    began
        Called with a line of text as the parts begin.
    """
    if study not in STUDIES:
        raise ValueError(f"no experiment is called {study!r}; use {', '.join(STUDIES)}")
    module: Any = {"incfed": incfed, "fedip": fedip, "variance": variance, "unseen": unseen}[study]
    settings = module.QUICK if quick else getattr(module, _SETTINGS[study])()
    settings = changed(settings, trials=trials, steps=steps)
    one: Callable[[People, Any, Began | None], SetResult] = getattr(module, study)
    results = []
    for name in chosen_sets(study, sets, quick, directory):
        group = subjects(study, name, directory)
        results.append(one(group, settings, began))
    return StudyResult(
        name=study,
        settings=module.described(settings),
        sets=tuple(results),
        quick=quick,
        environment=environment(),
    )


_SETTINGS = {
    "incfed": "IncFedSettings",
    "fedip": "FedIPSettings",
    "variance": "VarianceSettings",
    "unseen": "UnseenSettings",
}


def changed(settings: Any, **numbers: int | None) -> Any:
    """Return an experiment's settings with the given numbers in place of its own.

    >>> changed(unseen.QUICK, trials=5, steps=None).trials
    5
    """
    given = {name: value for name, value in numbers.items() if value is not None}
    for name, value in given.items():
        if name not in {field.name for field in fields(settings)}:
            raise ValueError(f"this experiment has no {name}; leave the option out")
        if value < 1:
            raise ValueError(f"{name} is {value}; pass 1 or more")
    return replace(settings, **given)


def chosen_sets(
    study: str, sets: Sequence[str] | None, quick: bool, directory: Path | None
) -> tuple[str, ...]:
    """Return the sets that an experiment runs on."""
    if sets:
        return tuple(sets)
    here = available(directory)
    if study == "unseen":
        here = tuple(name for name in here if name == "uci_har")
    if study == "variance":
        here = tuple(name for name in here if name in ("uci_har", "hhar", "wisdm_watch"))
    if not here:
        return (SYNTHETIC,)
    return here[-QUICK_SETS:] if quick else here


def subjects(study: str, name: str, directory: Path | None) -> People:
    """Return the people of a set as an experiment cuts and splits them."""
    if study == "unseen" and name != SYNTHETIC:
        data = load(name, directory=directory)
        if not data.test_clients:
            raise ValueError(f"the publisher of {name} names no test subjects; use uci_har")
        return split(data, official=True)
    try:
        return people(name, paper="incfed" if study == "incfed" else "fedip", directory=directory)
    except MissingDataError as error:
        raise MissingDataError(
            f"{error}; or run on invented people with --sets synthetic"
        ) from error


def write(result: StudyResult, folder: Path, *, merge: bool = False) -> list[Path]:
    """Write a result's figures, tables and picture into a folder, and return their paths.

    Parameters
    ----------
    merge
        Keep the sets that an earlier result of the same kind in the folder has beyond these.
    """
    stem = f"{result.name}-quick" if result.quick else result.name
    path = folder / f"{stem}.json"
    if merge and path.is_file():
        result = merged(load_result(path), result)
    result = replace(result, sets=tuple(sorted(result.sets, key=lambda one: one.name)))
    result.save(path)
    text = folder / f"{stem}.md"
    text.write_text(markdown(result))
    from reproductions.pictures import draw

    picture = folder / f"{stem}.png"
    draw(result).savefig(picture, dpi=110)
    return [path, text, picture]
