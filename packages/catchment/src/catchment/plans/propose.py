"""A plan for files that were looked at: written out in full, for a person to read and to change.

And what the files of a plan hold, what is odd about them, and what keeps a plan from running.
"""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from catchment.data.frames import listed
from catchment.data.survey.look import length
from catchment.data.tables import kind_of
from catchment.errors import as_toml, near, nearest
from catchment.federation.learn.yule_walker import LONG as LONG_SERIES
from catchment.federation.learn.yule_walker import LOOKBACKS
from catchment.plans.data import FOLDS, Files
from catchment.plans.file import PlanFile, beside_plan, plan_of_tables

if TYPE_CHECKING:
    from catchment.data.survey import Survey

WINDOW = 5.0  # seconds, where recordings and the segments of one label allow it
SHORTEST, USUAL, LONGEST = 16, 128, 1024  # steps of a window
NICE = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0)
LONG = 4  # windows that a recording of one label must have to be cut at all
MARK = "# fit: "
TESTED = 0.25  # of every recording that is forecast, its end
SCALES = {
    "federated": "scaled by federated moments",
    "own": "everyone scaled alone",
    "recording": "each recording scaled alone",
}
COLUMNS = ("label", "client", "recording", "time", "target", "inputs")
MOST_FILES = 200
MOST_BYTES = 1 << 29  # of files that a run looks at once more
Section = dict[str, tuple[object, str]]  # by setting: its value, and what is said of it


def propose(
    found: Survey,
    files: Sequence[str],
    place: Path,
    command: str,
    *,
    window: str | None = None,
    map: str | None = None,
    scale: str | None = None,
    horizon: int | None = None,
) -> tuple[PlanFile, str]:
    """Return a plan for the files of a survey, and what it chose in a few words.

    The files are what the user named, relative to the folder of the plan, `place`; its first line
    has the command that was typed. The rest is as in [preprocessing] and [features]: a window is
    proposed if not given, and "none" for whole recordings; the map is "default" and the scale
    "federated" if not given; the horizon is for plans with neither a label nor a target.
    """
    cut, why = _window(found, window)
    rate = _rate(found, cut)
    one_each = cut is not None or not (found.per_step or horizon)
    map_, scale = map or "default", scale or "federated"
    others = [f'"{name}"' for name in ("auto", "default", "minirocket", "echo_state")]
    scales = [f'"{one}"' for one in SCALES if one != scale]
    by = "all people's mean and deviation" if scale == "federated" else "its own moments"
    roles = found.roles
    what = ", ".join(roles.predicted) or f"{', '.join(roles.inputs[:3])} ahead"
    title = f"{what} of {len(found.clients)} people"
    sections: dict[str, Section] = {
        "data": _data(found, files, place.parent) | _test(found, horizon),
        "preprocessing": _prepare(found, cut, why, rate, horizon)
        | {"scale": (scale, f"by {by}; or {' or '.join(scales)}")},
        "features": {
            "map": (map_, f"or {', '.join(one for one in others if one != as_toml(map_))}"),
        },
        "learn": {"algorithm": ("ridge", "exact: as if all rows had been in one place")},
    }
    reason = ""
    if horizon is not None and map is None and cut is None:
        changed, reason = _forecaster(found, horizon)
        sections |= changed
        map_ = str(sections["features"]["map"][0])
    sections |= _limits(found)
    head = f"# Written by: {command}\n# Change what you like, then: catchment run "
    text = written(f"{head}{shlex.quote(place.name)}\ntitle = {as_toml(title)}\n", sections)
    tables: dict[str, object] = {"title": title}
    for name, section in sections.items():
        tables[name] = {setting: section[setting][0] for setting in section}
    said = [f"map: {map_}{reason}"]
    said.append("whole recordings" if one_each else "one answer per row")
    if cut is not None:
        said[-1] = f"windows of {cut}{' rows' if isinstance(cut, int) else ''}"
    said += [f"brought to {rate:g} Hz"] if found.other_rates and rate else []
    said += ["gaps held"] if found.gaps else []
    base = beside_plan(place.resolve().parent)
    made = plan_of_tables(tables, text=text, base=base, name=place.name)
    return made, ", ".join([*said, SCALES.get(scale, f"scale: {scale}")])


def _limits(found: Survey) -> dict[str, Section]:
    """Return the settings of [run] where somebody has far more rows than others."""
    steps = [client.steps for client in found.clients]
    ratio = max(steps) / max(1.0, float(np.median(steps)))
    many = "times the rows of the middle person that one may have"
    return {"run": {"over_median": (float(math.ceil(2 * ratio)), many)}} if ratio > 5 else {}


def written(head: str, sections: Mapping[str, Section]) -> str:
    """Return a plan as text, with a last line by which a change to it is noticed.

    >>> text = written("", {"run": {"rounds": (3, "of them")}})
    >>> text.splitlines()[2]
    'rounds = 3                              # of them'
    >>> is_untouched(text), is_untouched(text.replace("3", "4"))
    (True, False)
    """
    lines = [head]
    for name, section in sections.items():
        lines.append(f"\n[{name}]\n")
        for setting, (value, comment) in section.items():
            line = f"{setting} = {as_toml(value)}"
            lines.append(f"{line:<38}  # {comment}\n" if comment else f"{line}\n")
    return _marked("".join(lines))


def _marked(text: str) -> str:
    return f"{text}{MARK}{hashlib.sha256(text.encode()).hexdigest()[:16]}\n"


def is_untouched(text: str) -> bool:
    """Return whether a plan is as it was `written`."""
    body, mark, _ = text.rpartition(MARK)
    return bool(mark) and _marked(body) == text


def _data(found: Survey, files: Sequence[str], place: Path) -> Section:
    """Return the settings of [data] that say what is read."""
    roles = found.roles
    patterns = [pattern for name in files for pattern in _patterns(Path(name), place, found)]
    by = "every file is a person" if roles.client_by == "file" else ""
    section: Section = {"files": (patterns[0] if len(patterns) == 1 else patterns, by)}
    if found.problems:
        names, every = [], [path.name for path in found.paths]
        for path in (problem.file for problem in found.problems):
            alone = every.count(path.name) == 1
            names.append(path.name if alone else f"{path.parent.name}/{path.name}")
        section["leave_out"] = (names, "not usable as they are; mend them, delete this")
    if roles.client is not None:
        section["client"] = (roles.client, "whose row it is")
    if roles.client_by == "folder":
        section["client_by"] = ("folder", "every folder is a person")
    if roles.recording is not None:
        section["recording"] = (roles.recording, "")
    if roles.time is not None:
        section["time"] = (roles.time, "")
    section["inputs"] = (list(roles.inputs), "")
    if roles.label is not None:
        section["label"] = (roles.label, "")
        classes: list[object] = list(found.classes or ())
        section["classes"] = (
            [*map(int, found.classes or ())] if found.numeric_classes else classes,
            "",
        )
    elif roles.target:
        section["target"] = (list(roles.target), "")
    if roles.predicted:
        changes = "changes" if found.per_step else "does not change"
        section["per_step"] = (found.per_step, f"it {changes} within a recording")
    return section


def _test(found: Survey, horizon: int | None) -> Section:
    if horizon is not None:
        section: Section = {"test": (TESTED, "the last quarter of every recording")}
        if len(found.clients) == 1:
            section["split"] = ("natural", "one person, who is not cut into several")
        return section
    if len(found.clients) >= 3:
        said = "everyone trains, and is tested by a model that has not seen them"
        return {"test": ("folds", said), "folds": (min(FOLDS, len(found.clients)), "")}
    of = "steps" if found.per_step else "recordings"
    return {"test": (0.25, ""), "test_of": (of, "too few people to test on other people")}


def _forecaster(found: Survey, horizon: int) -> tuple[dict[str, Section], str]:
    """Return the map and the algorithm of a forecast, and why these.

    Autocovariances where series are long enough that their ends do not matter, else the default
    map, whose exact Gram matrix of lags is as good for any length.
    """
    steps = float(np.median([one.steps for one in found.recordings] or [0]))
    trained = steps * (1 - TESTED)
    if horizon >= trained:
        raise ValueError(
            f"horizon is {horizon}, and recordings have {steps:g} rows, of which {trained:g} are "
            "learned from; pass a shorter horizon or longer recordings"
        )
    lags = next((L for L in LOOKBACKS if trained >= LONG_SERIES * (L + horizon)), 0)
    about, long = f"recordings have {steps:g} rows", f"{LONG_SERIES} times the {{}} + {horizon}"
    if not lags:
        return {}, f" (exact Gram matrix of lags: {about}, under {long.format(LOOKBACKS[-1])})"
    sections: dict[str, Section] = {
        "features": {
            "map": ("nvar", 'the last values; or "echo_state", a reservoir'),
            "order": (1, "of which forecasts are linear"),
            "delays": (lags, "how many values back, at most"),
        },
        "learn": {"algorithm": ("yule_walker", "a few kilobytes of autocovariances each")},
    }
    return sections, f" ({lags} lags, from autocovariances: {about}, {long.format(lags)} or more)"


def _prepare(
    found: Survey, window: str | int | None, why: str, rate: float | None, horizon: int | None
) -> Section:
    section: Section = {"gaps": ("hold", 'a missing value is the one before; or "interpolate"')}
    if rate is not None:
        section["rate"] = (rate, "rows per second; the commonest of the files")
    if window is not None:
        section["window"] = (window, why)
        if found.per_step:
            label = "majority" if found.classes is not None else "mean"
            section["label"] = (label, "of the rows in a window")
    if horizon is not None:
        section["horizon"] = (horizon, "rows ahead")
    return section


def _rate(found: Survey, window: str | int | None) -> float | None:
    """Return the rate to which all are brought; None without times, or where it would harm.

    Windows in seconds are then equally long for everybody, now and when the model is exported. A
    recording that pauses would be filled with rows that nobody measured.
    """
    if not found.interval or not (
        found.other_rates or (isinstance(window, str) and not found.pauses)
    ):
        return None
    if found.interval > 1:
        return 1 / float(f"{found.interval:.4g}")
    nice = float(f"{1 / found.interval:.4g}")
    return float(round(nice)) if abs(nice - round(nice)) < 0.01 * nice else nice


def _window(found: Survey, asked: str | None) -> tuple[str | int | None, str]:
    """Return the length of windows and the reason; None where recordings stay whole."""
    if asked is not None and asked.strip() != "none":
        text = asked.strip()
        return (int(text) if text.isdecimal() else text), "as you said"
    if asked is not None or found.classes is None:
        return None, ""  # numbers to predict are predicted at every row
    steps = np.array([one.steps for one in found.recordings])
    segments = np.array([n for one in found.recordings for n in one.segments] or [1])
    rate = found.rate or 0.0
    # Some seconds of a sensor, 128 rows of what is slow.
    usual = round(WINDOW * rate)
    usual = USUAL if usual < SHORTEST * 2 else min(usual, LONGEST)
    if not found.per_step and np.median(steps) < LONG * usual:
        return None, ""
    # Most rows lie in long segments; a window that fits twice into those is rarely of two labels.
    long = float(np.sort(np.repeat(segments, segments))[segments.sum() // 10])
    most = min(usual, int(long // 2) if found.per_step else usual, int(np.median(steps) // 2))
    most = max(most, 2)
    if not rate:
        return (2 ** int(math.log2(most)) if most >= SHORTEST else most), "rows"
    seconds = _nice(most / rate)
    said = "" if found.per_step else "recordings are long, so that they are cut"
    said = said or f"labels last {length(long / rate)} or more"
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= size and math.isclose(seconds / size, round(seconds / size, 2)):
            return f"{round(seconds / size, 2):g}{unit}", said
    return f"{1000 * seconds:g}ms" if seconds < 1 else f"{seconds:g}s", said


def _nice(seconds: float) -> float:
    """Return the longest duration not above this that people would choose.

    >>> _nice(5.2), _nice(3.0), _nice(0.3), _nice(7200.0)
    (5.0, 2.0, 0.3, 7200.0)
    """
    below = [one for one in NICE if one <= seconds * 1.0001]
    if not below or seconds > 2 * NICE[-1]:
        return float(f"{seconds:.2g}")
    return below[-1]


def _patterns(path: Path, place: Path, found: Survey) -> list[str]:
    """Return how a plan names what the user named, relative to the plan where that is short."""
    whole, base = path.resolve(), place.resolve()
    shown = os.path.relpath(whole, base) if whole.is_relative_to(base) else str(whole)
    shown = glob.escape(shown) if path.exists() else shown
    if not path.is_dir():
        return [shown]
    kinds = {kind_of(one) for one in found.paths if one.is_relative_to(path)}
    by_folder = found.roles.client_by == "folder"
    if len(kinds) == 1 and all(one.name.endswith(tuple(kinds)) for one in found.paths):
        return [f"{shown}/{'*/' if by_folder else ''}*{kinds.pop()}"]
    return [f"{shown}/*/*.*"] if by_folder else [shown]


def survey_of(file: PlanFile) -> Survey | None:
    """Return a look at the files of a plan, evenly taken where they are many; None for others."""
    origin = file.origin
    if not isinstance(origin, Files) or origin.is_lake(file.base):
        return None
    from catchment.data.survey import survey

    paths = origin.paths(file.base)
    columns = origin.columns | {"classes": None if origin.classes == "auto" else origin.classes}
    return survey(paths[:: -(-len(paths) // MOST_FILES)], client_by=origin.client_by, **columns)


def seen(file: PlanFile) -> list[str]:
    """Return what the files of a plan hold, in lines; nothing for data that are no files.

    ValueError, with what to write, if the plan cannot run on them: a column is nowhere, a target is
    text, there is one class only, or no file can be used.
    """
    origin, found = file.origin, survey_of(file)
    if not isinstance(origin, Files):
        return []
    if found is None:
        return origin.lake_lines(file.base)
    from catchment.data.survey import summary_lines

    def remedy(**changed: Sequence[str] | None) -> str:
        instead = [f" in the place of {name}" for name, new in changed.items() if new is None]
        lines = [
            f"{name} = {as_toml(new[0] if len(new) == 1 else list(new))}"
            for name, new in changed.items()
            if new is not None
        ]
        return f"write {' and '.join(lines)} into [data]{''.join(instead)}"

    refuse_columns(found, {name: listed(getattr(origin, name)) for name in COLUMNS}, remedy)
    refuse_files(found, "write another label into [data]")
    together = origin.client is not None or origin.client_by == "folder"
    if found.problems and together:
        names = json.dumps([problem.file.name for problem in found.problems])
        raise ValueError(
            f"{found.problems[0]}; or write leave_out = {names} into [data] to go on without"
        )
    lines, n_files = summary_lines(found), len(origin.paths(file.base))
    lines += [f"  ! {one}" for one in _read_too(origin, file.base, found)]
    some = len(found.paths)
    return [*([f"looked at {some} of {n_files:,} files"] if some < n_files else []), *lines]


def _read_too(origin: Files, base: Path, found: Survey) -> list[str]:
    """Return what a plan that names no inputs reads although it does not look like a channel."""
    read = None if origin.inputs is not None else origin.channels_of(origin.paths(base)[0])
    likely = found.roles.inputs
    return [
        f"column {name!r} does not look like a channel, and is read as one: name what it is in "
        f"[data], or write inputs = {as_toml(list(likely))}"
        for name in read or ()
        if name not in likely
    ]


def oddities(file: PlanFile) -> tuple[str, ...]:
    """Return what is odd about a plan's files, and is used all the same, in a sentence each."""
    origin = file.origin
    if not isinstance(origin, Files) or origin.is_lake(file.base):
        return ()
    if sum(path.stat().st_size for path in origin.paths(file.base)) > MOST_BYTES:
        return ()
    found = survey_of(file)
    assert found is not None
    every, said = list(found.recordings), [*found.warnings, *_read_too(origin, file.base, found)]
    changing = [
        client.name
        for client in found.clients
        for one in client.recordings
        if len(one.segments) > 1
    ]
    if file.preprocessing.window is None and 0 < len(changing) <= len(every) / 10:
        said.append(
            f"the label changes within {len(changing)} of {len(every)} recordings "
            f"({', '.join(dict.fromkeys(changing))}), and so every step is classified by itself; "
            "mend them if each recording should have one label"
        )
    if found.gaps and file.preprocessing.gaps != "error":
        said.append(
            f"{100 * found.gaps:.2g} % of the inputs are missing and are filled: "
            f'gaps = "{file.preprocessing.gaps}" in [preprocessing]'
        )
    return tuple(said)


def refuse_columns(
    found: Survey, given: Mapping[str, Sequence[str]], written: Callable[..., str]
) -> None:
    """Raise ValueError where a column is in no file, or numbers to predict are text.

    `given` has the columns that each setting names; `written` says how settings are changed, each
    by its name to some columns, or to None for none.
    """
    from catchment.data.survey.roles import common

    tables = list(found.tables.values())
    columns = common(tables)
    for setting, names in given.items():
        for name in names:
            if tables and name not in columns:
                said = f"the files have no column {name!r}; {nearest(name, columns)}"
                if meant := near(name, columns):
                    new = [meant if one == name else one for one in names]
                    said += f" then {written(**{setting: new})}"
                raise ValueError(said)
    for name in given["target"]:
        if tables and all(table[name].kind == "text" for table in tables if name in table):
            remedy = written(target=None, label=[name])
            raise ValueError(f"column {name!r} holds text; to predict classes, {remedy}")


def refuse_files(found: Survey, other: str) -> None:
    """Raise ValueError where nothing can be learned from the files; `other` names another label."""
    if not found.clients:
        raise ValueError(
            f"none of the {len(found.paths)} files can be used; the first: {found.problems[0]}"
        )
    if found.roles.label is not None and len(found.classes or ()) < 2:
        only = (found.classes or ("none",))[0]
        raise ValueError(
            f"{found.roles.label!r} has one class only, {only!r}, so that there is nothing to "
            f"learn; add files of another class, or {other}"
        )
