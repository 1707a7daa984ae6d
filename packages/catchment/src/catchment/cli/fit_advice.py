"""What to say, and to type, where `catchment fit` cannot go on: columns, kinds, people."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from catchment.data.survey import Survey


@dataclass(frozen=True)
class Asked:
    """What was typed, so that advice can be typed too."""

    files: tuple[str, ...]
    label: str | None = None
    target: tuple[str, ...] = ()
    horizon: int | None = None
    client: str | None = None
    recording: str | None = None
    time: str | None = None
    inputs: tuple[str, ...] = ()
    window: str | None = None
    map: str | None = None
    out: Path | None = None
    plan: Path = Path("plan.toml")
    force: bool = False

    def command(self, *more: str, **changed: str | None) -> str:
        """Return the command as it was typed, with some options changed; None leaves one out.

        >>> Asked(("my data",), label="activty").command(label="activity")
        "catchment fit 'my data' --label activity"
        """
        given: dict[str, object] = {
            "label": self.label,
            "target": ",".join(self.target) or None,
            "horizon": self.horizon,
            "client": self.client,
            "recording": self.recording,
            "time": self.time,
            "inputs": ",".join(self.inputs) or None,
            "window": self.window,
            "map": self.map,
            "out": self.out,
            "plan": None if self.plan == Path("plan.toml") else self.plan,
        }
        words = ["catchment", "fit", *self.files]
        for name, value in {**given, **changed}.items():
            words += [] if value is None else [f"--{name}", str(value)]
        flags = [*more, *(["--force"] if self.force and "--force" not in more else [])]
        return shlex.join([*words, *flags])


def look(asked: Asked) -> Survey:
    """Return what the files hold; ValueError, with what to type, where columns are not there."""
    from catchment.data.survey import survey

    paths, by_folder = found_files(asked.files)
    found = survey(
        paths,
        label=asked.label,
        target=asked.target or None,
        client=asked.client,
        recording=asked.recording,
        time=asked.time,
        inputs=asked.inputs or None,
        client_by="folder" if by_folder else "file",
        guess=True,
    )
    if not found.tables:
        raise ValueError(f"no file of {_shown(asked)} can be read; {found.problems[0]}")
    _check_columns(asked, found)
    return found


def found_files(named: tuple[str, ...]) -> tuple[list[Path], bool]:
    """Return the files that the user named, and whether each person has a folder of them."""
    from catchment.data.files import find_files
    from catchment.data.tables import KINDS, kind_of

    folder = Path(named[0])
    if len(named) > 1 or not folder.is_dir():
        return find_files(named), False
    inside = [one for one in folder.rglob("*") if one.is_file() and kind_of(one) in KINDS]
    depths = {len(one.relative_to(folder).parts) for one in inside}
    if not inside or 1 in depths:
        return find_files(folder), False
    if depths != {2}:
        raise ValueError(
            f"files lie {max(depths) - 1} folders deep in {folder}; put all files of a person "
            f"directly into a folder of theirs, {folder}/ann/*.csv"
        )
    return sorted(inside), True


def check(asked: Asked, found: Survey) -> None:
    """Raise ValueError, with what to do, where nothing can be learned from the files."""
    _check_people(asked, found)
    roles = found.roles
    if not found.files:
        first = found.problems[0]
        raise ValueError(
            f"none of the {len(found.paths)} files of {_shown(asked)} can be used; the first: "
            f"{first}"
        )
    if not roles.inputs:
        raise ValueError("there is no column of numbers to learn from; name some with --inputs")
    if asked.label is not None and len(found.classes or ()) < 2:
        only = (found.classes or ("none",))[0]
        raise ValueError(
            f"{asked.label!r} has one class only, {only!r}, so that there is nothing to learn; "
            "add files of another class, or name another --label"
        )


def _check_people(asked: Asked, found: Survey) -> None:
    """Raise ValueError where one file holds everybody, and no column is known to name them."""
    roles = found.roles
    whole = roles.client is None and roles.client_by == "file" and len(found.paths) == 1
    if whole and asked.horizon is None:
        columns = next(iter(found.tables.values()))
        few = [
            name for name, one in columns.items() if one.like_classes and name not in roles.needed
        ]
        could = [*few, *(n for n in roles.inputs if columns[n].like_classes)]
        remedy = asked.command(client=could[0]) if could else asked.command(client="COLUMN")
        raise ValueError(
            f"{found.paths[0].name} is one file, and nothing tells people apart; name the column "
            f"that does{_could(could)}, or pass a folder with a file for each; type: {remedy}"
        )


def _check_columns(asked: Asked, found: Survey) -> None:
    from catchment.data.survey.roles import common, could_be_label, near

    tables, roles = list(found.tables.values()), found.roles
    columns = common(tables)
    given = {"label": asked.label, "client": asked.client, "recording": asked.recording,
             "time": asked.time}  # fmt: skip
    for option, name in given.items():
        if name is not None and name not in columns:
            _refuse_column(asked, option, name, near(name, columns), columns)
    for option, names in (("target", asked.target), ("inputs", asked.inputs)):
        for name in names:
            if name not in columns:
                meant = near(name, columns)
                joined = ",".join((meant or name) if one == name else one for one in names)
                _refuse_column(asked, option, name, joined if meant else None, columns, meant)
    if [asked.label is not None, bool(asked.target), asked.horizon is not None].count(True) > 1:
        raise ValueError("pass one of --label, --target and --horizon: what is to be predicted")
    if asked.label is None and not asked.target and asked.horizon is None:
        labels = could_be_label(tables, [roles.time, roles.client, roles.recording])
        raise ValueError(_what_to_predict(asked, found, columns, labels))
    _check_kind(asked, found)


def _check_kind(asked: Asked, found: Survey) -> None:
    """Raise ValueError where a label is numbers without end, or a target is text."""
    from catchment.data.survey.roles import distinct

    tables = list(found.tables.values())
    if asked.label is not None:
        kinds = [table[asked.label] for table in tables if asked.label in table]
        numbers = [one for one in kinds if one.kind == "numbers"]
        many = distinct(asked.label, tables) is None or any(not one.whole for one in numbers)
        if len(numbers) * 2 > len(kinds) and many:
            raise ValueError(
                f"column {asked.label!r} holds numbers of many values, not classes; to predict "
                f"numbers, type: {asked.command(label=None, target=asked.label)}"
            )
    for name in asked.target:
        kinds = [table[name] for table in tables if name in table]
        if kinds and all(one.kind == "text" for one in kinds):
            raise ValueError(
                f"column {name!r} holds text; to predict classes, type: "
                f"{asked.command(target=None, label=name)}"
            )


def _refuse_column(
    asked: Asked,
    option: str,
    name: str,
    meant: str | None,
    columns: list[str],
    shown: str | None = None,
) -> NoReturn:
    if meant is None:
        raise ValueError(f"the files have no column {name!r}; there are {', '.join(columns)}")
    raise ValueError(
        f"the files have no column {name!r}; did you mean {shown or meant!r}? then type: "
        f"{asked.command(**{option: meant})}"
    )


def _what_to_predict(asked: Asked, found: Survey, columns: list[str], labels: list[str]) -> str:
    from catchment.data.survey.roles import distinct

    tables = list(found.tables.values())
    described = []
    for name in columns:
        values = distinct(name, tables)
        kind = (
            "time" if name == found.roles.time else "person" if name == found.roles.client else ""
        )
        if not kind and name in labels and values is not None:
            some = ", ".join([*sorted(values)[:4], *(["..."] if len(values) > 4 else [])])
            kind = f"{len(values)} values: {some}"
        described.append(f"{name} ({kind})" if kind else name)
    ahead = asked.command(horizon="1")
    if labels:
        remedy = f"type: {asked.command(label=labels[0])}"
    else:
        numbers = found.roles.inputs
        remedy = f"none looks like classes; for numbers type: {asked.command(target=numbers[-1])}"
    return (
        f"say which column is to be predicted; the columns are {', '.join(described)}; {remedy}; "
        f"or, to forecast the inputs: {ahead}"
    )


def refuse_to_overwrite(asked: Asked, folder: Path, *, force: bool) -> None:
    """Raise ValueError where a plan that was changed, or a run, would be replaced."""
    from catchment.federation.runs.write import is_begun
    from catchment.plans.propose import is_untouched

    if force:
        return
    again = asked.command("--force")
    if asked.plan.is_file() and not is_untouched(asked.plan.read_text(encoding="utf-8")):
        raise ValueError(
            f"{asked.plan} was changed or written by hand; run it (catchment run {asked.plan}), "
            f"write another (--plan), or replace it: {again}"
        )
    if is_begun(folder):
        raise ValueError(
            f"{folder} holds a run already; keep it and choose another folder (--out), or replace "
            f"it: {again}"
        )


def _shown(asked: Asked) -> str:
    return asked.files[0] if len(asked.files) == 1 else f"{asked.files[0]} and others"


def _could(names: list[str]) -> str:
    return f" (perhaps {', '.join(names[:3])})" if names else ""
