"""A plan for files that were looked at: written out in full, for a person to read and to change."""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from catchment.data.survey import Survey
from catchment.data.survey.look import length
from catchment.data.tables import kind_of
from catchment.plans.data import Files
from catchment.plans.file import PlanFile
from catchment.plans.in_process import FOLDS

if TYPE_CHECKING:
    from catchment.data.survey import Survey


WINDOW = 5.0  # seconds, where recordings and the stretches of one label allow it
SHORTEST, USUAL, LONGEST = 16, 128, 1024  # steps of a window
NICE = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0)
LONG = 4  # windows that a recording of one label must have to be cut at all
MARK = "# fit: "


@dataclass(frozen=True)
class Choices:
    """What the user settled; None and nothing where it was left to the proposal.

    Parameters
    ----------
    window
        As in [prepare]; "none" for whole recordings.
    map
        Name of the feature map.
    horizon
        Steps ahead that the inputs are predicted, where there is neither a label nor a target.
    """

    window: str | None = None
    map: str | None = None
    horizon: int | None = None


@dataclass(frozen=True)
class Proposal:
    """A plan as text, and what it chose in a few words."""

    text: str
    said: str


def propose(
    found: Survey, files: Sequence[str], place: Path, choices: Choices, command: str
) -> Proposal:
    """Return a plan for the files of a survey.

    Parameters
    ----------
    files
        What the user named: folders, files or patterns.
    place
        The file of the plan, to whose folder its files are relative.
    command
        What was typed, for the first line.
    """
    window, why = _window(found, choices)
    rate = _rate(found)
    one_each = window is not None or not (found.per_step or choices.horizon)
    map_ = choices.map or ("auto" if one_each else "default")
    data, test = _data(found, files, place.parent, choices)
    prepare = _prepare(found, window, why, rate, choices)
    wide = _over_median(found)
    sections = [
        f"# Written by: {command}",
        f"# Change what you like, then: catchment run {shlex.quote(place.name)}",
        f"title = {_toml(_title(found))}",
        "",
        "[data]",
        *data,
        *test,
        "",
        "[prepare]",
        *prepare,
        "",
        "[features]",
        _line("map", map_, f"or {_other_maps(map_)}"),
        "",
        "[learn]",
        _line("algorithm", "ridge", "exact: as if all rows had been in one place"),
        *(["", "[run]", *wide] if wide else []),
    ]
    text = "\n".join(sections) + "\n"
    said = [f"map: {map_}"]
    said.append("whole recordings" if window is None and one_each else "")
    said.append("" if window is None else f"windows of {_spoken(window)}")
    said.append("one answer per row" if not one_each else "")
    said.append(f"brought to {_number(rate)} Hz" if rate and found.unit == 1 else "")
    said.append("gaps held" if found.gaps else "")
    said.append("scaled by federated moments")
    return Proposal(sealed(text), ", ".join(one for one in said if one))


def _other_maps(taken: str) -> str:
    names = ("auto", "default", "minirocket", "echo_state")
    return ", ".join(f'"{name}"' for name in names if name != taken)


def sealed(text: str) -> str:
    """Return a plan with a last line by which a change to it is noticed.

    >>> is_untouched(sealed("a = 1\\n")), is_untouched(sealed("a = 1\\n").replace("1", "2"))
    (True, False)
    """
    return f"{text}{MARK}{hashlib.sha256(text.encode()).hexdigest()[:16]}\n"


def is_untouched(text: str) -> bool:
    """Return whether a plan is as it was written by `sealed`."""
    body, mark, _ = text.rpartition(MARK)
    return bool(mark) and sealed(body) == text


def _title(found: Survey) -> str:
    roles = found.roles
    what = ", ".join(roles.predicted) or f"{', '.join(roles.inputs[:3])} ahead"
    return f"{what} of {len(found.clients)} people"


def _data(
    found: Survey, files: Sequence[str], place: Path, choices: Choices
) -> tuple[list[str], list[str]]:
    """Return the lines of [data] that say what is read, and those that say how it is tested."""
    roles = found.roles
    patterns = [pattern for name in files for pattern in _patterns(Path(name), place, found)]
    by = {"file": "every file is a person", "folder": "", "column": ""}[roles.client_by]
    lines = [_line("files", patterns[0] if len(patterns) == 1 else patterns, by)]
    if found.problems:
        names = [_unique_name(problem.file, found) for problem in found.problems]
        lines.append(_line("leave_out", names, "not usable as they are; mend them, delete this"))
    if roles.client is not None:
        lines.append(_line("client", roles.client, "whose row it is"))
    if roles.client_by == "folder":
        lines.append(_line("client_by", "folder", "every folder is a person"))
    for name in ("recording", "time"):
        column = roles.recording if name == "recording" else roles.time
        if column is not None:
            lines.append(_line(name, column))
    lines.append(_line("inputs", list(roles.inputs)))
    if roles.label is not None:
        lines.append(_line("label", roles.label))
        classes = found.classes or ()
        lines.append(
            _line("classes", [int(c) for c in classes] if found.numeric_classes else list(classes))
        )
    elif roles.target:
        lines.append(_line("target", list(roles.target)))
    if roles.predicted:
        changes = "changes" if found.per_step else "does not change"
        lines.append(_line("per_step", found.per_step, f"it {changes} within a recording"))
    return lines, _test(found, choices)


def _test(found: Survey, choices: Choices) -> list[str]:
    if choices.horizon is not None:
        return [_line("test", 0.25, "the last quarter of every recording")]
    if len(found.clients) >= 3:
        said = "everyone trains, and is tested by a model that has not seen them"
        return [
            _line("test", "folds", said),
            _line("folds", min(FOLDS, len(found.clients))),
        ]
    of = "steps" if found.per_step else "recordings"
    return [_line("test", 0.25), _line("test_of", of, "too few people to test on other people")]


def _prepare(
    found: Survey, window: str | int | None, why: str, rate: float | None, choices: Choices
) -> list[str]:
    lines = [_line("gaps", "hold", 'a missing value is the one before; or "interpolate"')]
    if rate is not None:
        rate_said = "rows per second; the commonest of the files"
        if found.unit != 1:
            rate_said = f"rows per unit of {found.roles.time!r}; the commonest of the files"
        lines.append(_line("rate", rate, rate_said))
    if window is not None:
        lines.append(_line("window", window, why))
        if found.per_step:
            label = "majority" if found.classes is not None else "mean"
            lines.append(_line("label", label, "of the rows in a window"))
    if choices.horizon is not None:
        lines.append(_line("horizon", choices.horizon, "rows ahead"))
    lines.append(_line("scale", "federated", 'by all people\'s mean and deviation; or "own"'))
    return lines


def _rate(found: Survey) -> float | None:
    """Return the rate to which all are brought, in the unit of the column; None if all have it."""
    if not found.other_rates or not found.interval:
        return None
    rate = 1 / found.interval
    nice = float(f"{rate:.4g}")
    return float(round(nice)) if nice >= 1 and abs(nice - round(nice)) < 0.01 * nice else nice


def _window(found: Survey, choices: Choices) -> tuple[str | int | None, str]:
    """Return the length of windows and the reason; None where recordings stay whole."""
    if choices.window is not None:
        text = choices.window.strip()
        if text == "none":
            return None, ""
        return (int(text) if text.isdecimal() else text), "as you said"
    if found.classes is None:
        return None, ""  # numbers to predict are predicted at every row
    steps = np.array([one.steps for one in found.recordings])
    stretches = np.array([n for one in found.recordings for n in one.stretches] or [1])
    rate = found.rate or 0.0
    usual = _steps(rate)
    if not found.per_step and np.median(steps) < LONG * usual:
        return None, ""
    # Most rows lie in long stretches; a window that fits twice into those is rarely of two labels.
    long = float(np.sort(np.repeat(stretches, stretches))[stretches.sum() // 10])
    most = min(usual, int(long // 2) if found.per_step else usual, int(np.median(steps) // 2))
    most = max(most, 2)
    if not rate or found.unit != 1 or found.interval is None:
        return _round_steps(most), "rows"
    seconds = _nice(most / rate)
    said = "" if found.per_step else "recordings are long, so that they are cut"
    return _duration(seconds), said or f"labels last {length(long / rate)} or more"


def _steps(rate: float) -> int:
    """Return the steps of a usual window: some seconds of a sensor, 128 rows of what is slow."""
    if not rate:
        return USUAL
    steps = round(WINDOW * rate)
    return USUAL if steps < SHORTEST * 2 else min(steps, LONGEST)


def _nice(seconds: float) -> float:
    """Return the longest duration not above this that people would choose.

    >>> _nice(5.2), _nice(3.0), _nice(0.3), _nice(7200.0)
    (5.0, 2.0, 0.3, 7200.0)
    """
    below = [one for one in NICE if one <= seconds * 1.0001]
    if not below or seconds > 2 * NICE[-1]:
        return float(f"{seconds:.2g}")
    return below[-1]


def _round_steps(steps: int) -> int:
    """Return the largest power of two not above a number of steps, if there is room for one."""
    return 2 ** int(math.log2(steps)) if steps >= SHORTEST else steps


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= size and math.isclose(seconds / size, round(seconds / size, 2)):
            return f"{round(seconds / size, 2):g}{unit}"
    return f"{1000 * seconds:g}ms" if seconds < 1 else f"{seconds:g}s"


def _over_median(found: Survey) -> list[str]:
    """Return the line that lets people with many rows take part, where there are such."""
    steps = [client.steps for client in found.clients]
    ratio = max(steps) / max(1.0, float(np.median(steps)))
    if ratio <= 5:
        return []
    said = "times the rows of the middle person that one may have"
    return [_line("over_median", float(math.ceil(2 * ratio)), said)]


def _patterns(path: Path, place: Path, found: Survey) -> list[str]:
    """Return how a plan names what the user named, relative to the plan where that is short."""
    shown = _from(path, place)
    if not path.is_dir():
        return [shown]
    kinds = {kind_of(one) for one in found.paths if one.is_relative_to(path)}
    by_folder = found.roles.client_by == "folder"
    if len(kinds) == 1 and all(one.name.endswith(tuple(kinds)) for one in found.paths):
        return [f"{shown}/{'*/' if by_folder else ''}*{kinds.pop()}"]
    return [f"{shown}/*/*.*"] if by_folder else [shown]


def _from(path: Path, place: Path) -> str:
    whole, base = path.resolve(), place.resolve()
    near = whole.is_relative_to(base)
    text = os.path.relpath(whole, base) if near else str(whole)
    return glob.escape(text) if path.exists() else text


def _unique_name(path: Path, found: Survey) -> str:
    same = [other for other in found.paths if other.name == path.name]
    return path.name if len(same) == 1 else f"{path.parent.name}/{path.name}"


def _spoken(window: str | int) -> str:
    return f"{window} rows" if isinstance(window, int) else window


def _number(value: float | None) -> str:
    return f"{value:g}"


def _line(name: str, value: object, comment: str = "") -> str:
    text = f"{name} = {_toml(value)}"
    return f"{text:<38}  # {comment}" if comment else text


def _toml(value: object) -> str:
    """Return a value as TOML writes it.

    >>> _toml(["a", 'say "b"']), _toml(True), _toml(0.25)
    ('["a", "say \\\\"b\\\\""]', 'true', '0.25')
    """
    return json.dumps(value, ensure_ascii=False)


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
