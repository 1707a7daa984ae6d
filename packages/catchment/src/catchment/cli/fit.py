"""`catchment fit`: from a folder of files to a model, and what to type where it cannot go on."""

from __future__ import annotations

import json
import logging
import shlex
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from catchment.cli.show import JsonOption, print_json, progress, size, waiting
from catchment.files import replace_file

if TYPE_CHECKING:
    from catchment.data.survey import Survey
    from catchment.federation.runs.read import Run
    from catchment.plans.plan_file import PlanFile


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
    if not found.clients:
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
        remedy = asked.command(client=could[0] if could else "COLUMN")
        perhaps = f" (perhaps {', '.join(could[:3])})" if could else ""
        raise ValueError(
            f"{found.paths[0].name} is one file, and nothing tells people apart; name the column "
            f"that does{perhaps}, or pass a folder with a file for each; type: {remedy}"
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
    from catchment.federation.runs.folder import is_begun
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


WORSE = 0.15  # below the mean, from which on the worst person deserves a look


def fit(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FOLDER",
            help="A folder of CSV, Parquet or npz files, one per person; or a folder for each; "
            "or one file with a column of people.",
        ),
    ],
    label: Annotated[
        str | None, typer.Option("--label", metavar="COLUMN", help="Column of classes to predict.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="COLUMNS", help="Columns of numbers to predict, a,b,..."),
    ] = None,
    horizon: Annotated[
        int | None, typer.Option("--horizon", help="Predict the inputs, so many rows ahead.")
    ] = None,
    client: Annotated[
        str | None, typer.Option("--client", metavar="COLUMN", help="Column that names people.")
    ] = None,
    time_column: Annotated[
        str | None, typer.Option("--time", metavar="COLUMN", help="Column of times; guessed.")
    ] = None,
    recording: Annotated[
        str | None,
        typer.Option(
            "--recording", metavar="COLUMN", help="Column that names recordings; guessed."
        ),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            "--inputs", metavar="COLUMNS", help="Columns to learn from, a,b,...; guessed."
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", help='Length of windows: "5s", 128 rows, or "none"; guessed.'),
    ] = None,
    map_: Annotated[
        str | None,
        typer.Option("--map", metavar="NAME", help="Feature map; auto tries a few where it can."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder of the run; runs/FOLDER.")
    ] = None,
    plan: Annotated[
        Path, typer.Option("--plan", metavar="FILE", help="Where to write the plan.")
    ] = Path("plan.toml"),
    force: Annotated[
        bool, typer.Option("--force", help="Replace a plan that was changed, and a finished run.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop, with exit code 1, if a file cannot be used.")
    ] = False,
    threads: Annotated[int | None, typer.Option(help="Threads; all cores if not given.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Look at files, write a plan for them, run it, and say how good the model is and for whom.

    Columns are guessed from their names and values, and said; every option overrules a guess.
    """
    from catchment.data.survey import summary_lines
    from catchment.plans.propose import propose

    asked = Asked(tuple(files), label, _names(target), horizon, client, recording, time_column,
                  _names(inputs), window, map_, out, plan, force)  # fmt: skip
    folder = out or Path("runs") / _name(files[0])
    refuse_to_overwrite(asked, folder, force=force)
    with waiting("looking at the files", quiet=as_json):
        found = look(asked)
    seen = summary_lines(found)
    for line in [] if as_json else seen:
        typer.echo(line)
    if strict and found.problems:
        typer.secho("--strict: files that cannot be used stop everything", err=True)
        raise typer.Exit(1)
    check(asked, found)
    file, said = propose(
        found, files, plan, asked.command(), window=window, map=map_, horizon=horizon
    )
    plan.parent.mkdir(parents=True, exist_ok=True)
    replace_file(plan, file.text.encode())
    if not as_json:
        typer.echo(f"wrote {plan}   ({said})")
    ran = _run(file, folder, threads, quiet=as_json, again=asked.command(), seen=seen)
    if as_json:
        print_json(_as_json(found, said, plan, ran))
        return
    for line in _outcome(ran, folder):
        typer.echo(line)


@dataclass(frozen=True, eq=False)
class Ran:
    """A run, how long it took, and warnings that came meanwhile."""

    run: Run
    seconds: float
    warnings: tuple[str, ...]


def _run(
    file: PlanFile,
    folder: Path,
    threads: int | None,
    *,
    quiet: bool,
    again: str,
    seen: Iterable[str],
) -> Ran:
    from catchment.plans.in_process import run_plan

    started, said = time.monotonic(), list[str]()
    try:
        with progress(quiet=quiet) as watch, _quietly(said):
            facts = {"summary": json.dumps(list(seen))}
            done = run_plan(file, folder, force=True, threads=threads, watch=watch, facts=facts).run
    except KeyboardInterrupt:
        typer.secho(f"stopped; begin again with: {again} --force", err=True)
        raise typer.Exit(130) from None
    return Ran(done, time.monotonic() - started, tuple(said))


@contextmanager
def _quietly(said: list[str]) -> Iterator[None]:
    """Keep warnings for one line each at the end; people left out are named there, too."""
    from catchment.errors import ClippingWarning

    logger = logging.getLogger("catchment")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
    finally:
        logger.setLevel(level)
    kinds = {one.category: str(one.message) for one in reversed(caught)}
    if kinds.pop(ClippingWarning, None):
        said.append("values more than 8 deviations from the mean were cut off there: other units?")
    said += kinds.values()


def _outcome(ran: Ran, folder: Path) -> list[str]:
    """Return how good the model is, where it is, and what to type next."""
    from catchment.federation.messages import headline
    from catchment.federation.runs.folder import MODEL
    from catchment.federation.runs.read import worst_client

    done = ran.run
    last = done.rounds["training"][-1]
    left = headline(done.rounds, most=20)
    lines = [f"trained on {last.n_used} of {last.n_asked} people in {ran.seconds:.1f} s"]
    lines += [f"  ! {one}" for one in ([left] if left else []) + list(ran.warnings)]
    lines.append(score_line(done))
    worst = worst_client(done.scores, done.metric)
    scores, accurate = done.scores, done.metric == "accuracy"
    if worst and accurate and scores[worst]["accuracy"] < scores[""]["accuracy"] - WORSE:
        why = shlex.join(["catchment", "explain", str(folder), "--client", worst])
        lines.append(f"why {worst} is served badly: {why}")
    model, then = folder / MODEL, shlex.join(["catchment", "predict", str(folder), "new.csv"])
    return [*lines, f"saved {model} ({size(model.stat().st_size)})   next: {then}"]


def score_line(done: Run) -> str:
    """Return the score in a line: by folds with their range, or of the test part."""
    from catchment.federation.runs.read import folds_sentence, worst_client

    said = folds_sentence(done.facts, done.scores, done.metric, who="people")
    if not said and done.scores:
        worst = worst_client(done.scores, done.metric)
        said = f"on the part kept for the test: {done.metric} {done.scores[''][done.metric]:.2f}"
        said += f", worst {worst} {done.scores[worst][done.metric]:.2f}" if worst else ""
    chosen = done.facts.get("map_chosen", "")
    return "   ".join([said or "not tested", *([f"map chosen: {chosen}"] if chosen else [])])


def _as_json(found: Survey, said: str, plan: Path, ran: Ran) -> dict[str, object]:
    from dataclasses import asdict

    from catchment.federation.messages import left_out
    from catchment.federation.runs.read import folds_of_run, worst_client

    done = ran.run
    worst = worst_client(done.scores, done.metric)
    return {
        "survey": survey_json(found),
        "plan": str(plan),
        "chosen": said,
        "folder": str(done.folder),
        "metric": done.metric,
        "score": done.scores.get("", {}).get(done.metric),
        "worst": {"client": worst, "score": done.scores[worst][done.metric]} if worst else None,
        "folds": [asdict(one) for one in folds_of_run(done.facts)],
        "clients": {name: one[done.metric] for name, one in done.scores.items() if name},
        "refused": [asdict(one) for one in left_out(done.rounds)],
        "map": done.facts.get("map_chosen") or done.facts.get("map_label"),
        "warnings": list(ran.warnings),
        "seconds": ran.seconds,
    }


def survey_json(found: Survey) -> dict[str, object]:
    """Return a survey as plain values."""
    roles = found.roles
    return {
        "files": [str(path) for path in found.paths],
        "clients": {
            c.name: {"recordings": len(c.recordings), "steps": c.steps, "labels": dict(c.labels)}
            for c in found.clients
        },
        "inputs": list(roles.inputs),
        "label": roles.label,
        "target": list(roles.target),
        "time": roles.time,
        "client": roles.client,
        "client_by": roles.client_by,
        "recording": roles.recording,
        "rate": found.rate,
        "gaps": found.gaps,
        "classes": found.classes,
        "warnings": list(found.warnings),
        "problems": [
            {"file": str(p.file), "reason": p.reason, "remedy": p.remedy} for p in found.problems
        ],
    }


def _names(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _name(first: str) -> str:
    """Return what a run of these files is called: their folder, or the file."""
    path = Path(first)
    inside = path.resolve()
    return (
        inside.name
        if inside.is_dir()
        else inside.name.partition(".")[0].strip("*") or inside.parent.name
    )
