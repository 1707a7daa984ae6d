"""What the files of a plan look like: the same words as `catchment fit` has for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from catchment.plans.file import PlanFile
from catchment.plans.sources import Files

if TYPE_CHECKING:
    from catchment.data.survey import Survey

MOST_FILES = 200


def seen(file: PlanFile, *, most: int = MOST_FILES) -> list[str]:
    """Return what the files of a plan hold, in lines; nothing for data that are no files.

    Every file is opened, up to `most`. ValueError, with what to write, if the plan cannot run on
    them: a column is nowhere, a target is text, there is one class only, or no file can be used.

    Parameters
    ----------
    most
        Open so many files, evenly taken, and say so.
    """
    origin = file.origin
    if not isinstance(origin, Files):
        return []
    if origin.is_lake(file.base):
        return origin.lake_lines(file.base)
    from catchment.data.survey import summary_lines, survey

    paths = origin.paths(file.base)
    some = paths if len(paths) <= most else paths[:: -(-len(paths) // most)]
    found = survey(
        some,
        label=origin.label,
        target=origin.target,
        client=origin.client,
        recording=origin.recording,
        time=origin.time,
        inputs=origin.inputs,
        classes=None if origin.classes == "auto" else origin.classes,
        per_step=origin.per_step,
        client_by=origin.client_by,
    )
    _refuse(origin, found)
    lines = summary_lines(found)
    if len(some) < len(paths):
        lines.insert(0, f"looked at {len(some)} of {len(paths):,} files")
    return lines


def _refuse(origin: Files, found: Survey) -> None:
    """Raise ValueError where a run of these files would fail."""
    from catchment.data.survey.roles import common

    tables = list(found.tables.values())
    columns = common(tables)
    named = {"label": origin.label, "client": origin.client, "recording": origin.recording,
             "time": origin.time}  # fmt: skip
    several = [(n, one) for n in ("target", "inputs") for one in _listed(getattr(origin, n))]
    for setting, name in [*named.items(), *several]:
        if tables and name is not None and name not in columns:
            raise ValueError(_no_column(setting, name, columns))
    for name in _listed(origin.target):
        if tables and all(table[name].kind == "text" for table in tables if name in table):
            raise ValueError(
                f"target {name!r} is text; write label = {json.dumps(name)} in its place into "
                "[data], which is for classes"
            )
    if not found.files:
        raise ValueError(
            f"none of the {len(found.paths)} files can be used; the first: {found.problems[0]}"
        )
    if origin.label is not None and len(found.classes or ()) < 2:
        only = (found.classes or ("none",))[0]
        raise ValueError(
            f"{origin.label!r} has one class only, {only!r}, so that there is nothing to learn; "
            "add files of another class, or write another label into [data]"
        )
    together = origin.client is not None or origin.client_by == "folder"
    if found.problems and together:
        names = json.dumps([problem.file.name for problem in found.problems])
        raise ValueError(
            f"{found.problems[0]}; or write leave_out = {names} into [data] to go on without"
        )


def _no_column(setting: str, name: str, columns: Sequence[str]) -> str:
    from catchment.data.survey.roles import near

    meant = near(name, columns)
    said = f"{setting} in [data] names {name!r}, which no file has as a column"
    if meant is None:
        return f"{said}; there are {', '.join(columns)}"
    return f"{said}; did you mean {meant!r}? then write {setting} = {json.dumps(meant)}"


def _listed(names: tuple[str, ...] | str | None) -> tuple[str, ...]:
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else names
