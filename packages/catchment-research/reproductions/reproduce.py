"""Run a published experiment on the data at hand, and write down what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reproductions.options import changed
from reproductions.parts import STUDIES, Study, parts_of, run_parts
from reproductions.people import SYNTHETIC, available
from reproductions.study import (
    Began,
    SetResult,
    StudyResult,
    environment,
    load_result,
    merged,
    plain,
)
from reproductions.tables import markdown

QUICK_SETS = 2


def reproduce(
    study: str,
    *,
    sets: Sequence[str] | None = None,
    settings: Any = None,
    quick: bool = False,
    folds: Sequence[int] | None = None,
    workers: int = 1,
    directory: Path | None = None,
    earlier: StudyResult | None = None,
    began: Began | None = None,
    kept: Callable[[StudyResult], object] | None = None,
) -> StudyResult:
    """Return the result of an experiment on the sets at hand; on synthetic people if there are
    none.

    Parameters
    ----------
    study
        One of `STUDIES`.
    sets
        Which data sets; if not given, all that are on this machine (two of them if quick).
    settings
        Those of the study's module; `settings_of` if not given.
    quick
        A small version, in minutes at most, to see that everything works.
    folds
        Only these, counted from 0; all if not given.
    workers
        Processes that parts (a set and a fold) are dealt to.
    directory
        Data directory; the usual ones if not given.
    earlier
        A result whose parts are not run again; it must have been made with the same settings.
    began
        Called with a line of text as the parts begin.
    kept
        Called with what there is so far, whenever a part ends.
    """
    known = study_named(study)
    settings = settings_of(study, quick=quick) if settings is None else settings
    described = plain(known.module.described(settings))
    assert isinstance(described, dict)
    if earlier is not None:
        refuse_other_settings(earlier, described, but=known.draws)
    result = StudyResult(
        name=study, settings=described, sets=(), quick=quick, environment=environment()
    )

    def so_far(found: tuple[SetResult, ...]) -> StudyResult:
        return replace(result, sets=found)

    found = run_parts(
        known,
        settings,
        parts_of(known, chosen_sets(study, sets, quick, directory), settings, folds),
        directory=directory,
        workers=workers,
        earlier=earlier.sets if earlier is not None else (),
        began=began,
        kept=None if kept is None else lambda found: kept(so_far(found)),
    )
    return so_far(found)


def study_named(study: str) -> Study:
    """Return a study on people by its name."""
    if study not in STUDIES:
        raise ValueError(f"no experiment is called {study!r}; use {', '.join(STUDIES)}")
    return STUDIES[study]


def settings_of(study: str, *, quick: bool = False, paper: bool = False, **numbers: Any) -> Any:
    """Return a study's settings: usual, quick or the paper's, with numbers in place of its own.

    >>> settings_of("unseen", quick=True, trials=5).trials
    5
    """
    known = study_named(study)
    if paper and not known.published:
        raise ValueError(f"{study} repeats no paper; leave --paper out")
    if paper:
        usual = known.module.PAPER
    else:
        usual = known.module.QUICK if quick else getattr(known.module, known.settings)()
    return changed(usual, **numbers)


def refuse_other_settings(
    earlier: StudyResult, settings: dict[str, Any], *, but: str | None = None
) -> None:
    """Raise ValueError if a result was made with other settings, and name one of them.

    Parameters
    ----------
    but
        A setting that may differ: the number of draws where each is a part of its own.
    """
    names = sorted({*earlier.settings, *settings} - {but})
    other = [name for name in names if earlier.settings.get(name) != settings.get(name)]
    if other:
        name = other[0]
        raise ValueError(
            f"the result in the folder was made with {name} {earlier.settings.get(name)}, not "
            f"{settings.get(name)}; leave --resume out to begin anew, or name another --out"
        )


def chosen_sets(
    study: str, sets: Sequence[str] | None, quick: bool, directory: Path | None
) -> tuple[str, ...]:
    """Return the sets that an experiment runs on."""
    if sets:
        return tuple(sets)
    here = available(directory, STUDIES[study].sets)
    if not here:
        return (SYNTHETIC,)
    return here[-QUICK_SETS:] if quick else here


def path_of(study: str, folder: Path, *, quick: bool) -> Path:
    """Return where the figures of a study are kept.

    >>> path_of("incfed", Path("results"), quick=True).name
    'incfed-quick.json'
    """
    return folder / f"{study}-quick.json" if quick else folder / f"{study}.json"


def beside(result: StudyResult, path: Path) -> StudyResult:
    """Return a result with the sets that an earlier one at the path has beyond these."""
    if path.is_file():
        result = merged(load_result(path), result)
    return replace(result, sets=tuple(sorted(result.sets, key=lambda one: one.name)))


def write(result: StudyResult, folder: Path, *, merge: bool = False) -> list[Path]:
    """Write a result's figures, tables and picture into a folder, and return their paths.

    Parameters
    ----------
    merge
        Keep the sets that an earlier result of the same kind in the folder has beyond these.
    """
    path = path_of(result.name, folder, quick=result.quick)
    result = beside(result, path) if merge else result
    result = replace(result, sets=tuple(sorted(result.sets, key=lambda one: one.name)))
    result.save(path)
    text = path.with_suffix(".md")
    text.write_text(markdown(result))
    from reproductions.pictures import draw

    picture = path.with_suffix(".png")
    draw(result).savefig(picture, dpi=110)
    return [path, text, picture]
