"""`catchment fit`: from a folder of files to a model, and what to type where it cannot go on."""

from __future__ import annotations

import json
import math
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.cli.runs import one_line_each, run_json, stoppable
from catchment.cli.show import (
    JsonOption,
    ThreadsOption,
    flag,
    option,
    print_json,
    progress,
    size,
    waiting,
)

if TYPE_CHECKING:
    from catchment.data.survey import Survey
    from catchment.federation.runs.read import Run
    from catchment.plans.file import PlanFile

Text = str | None
WORSE = 0.15  # below the mean, from which on the worst person deserves a look
DRIFTED = 1.2  # times the error that intervals expect, from which on they are too narrow
WIDE = 0.5  # and up to which they are too wide
NAIVE = {"persistence": "last value", "seasonal": "seasonal naive"}


@dataclass(frozen=True)
class Asked:
    """What was typed, so that advice can be typed too; an option that was not is None."""

    files: tuple[str, ...]
    options: Mapping[str, Any]

    @property
    def called(self) -> str:
        """What the run is called: the first folder or file, without its suffix."""
        name = Path(self.files[0]).resolve()
        called = name.name if name.is_dir() else name.name.partition(".")[0].strip("*")
        return called or name.parent.name

    def command(self, **changed: object) -> str:
        """Return the command as it was typed, with some options changed; None leaves one out.

        >>> Asked(("my data",), {"label": "activty"}).command(label="activity")
        "catchment fit 'my data' --label activity"
        """
        words = ["catchment", "fit", *self.files]
        for name, value in {**self.options, **changed}.items():
            if value not in (None, False):
                words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        return shlex.join(words)

    def typed(self, **changed: Sequence[str] | None) -> str:
        """Return what to type, with columns of some options changed."""
        joined = {name: new and ",".join(new) for name, new in changed.items()}
        return f"type: {self.command(**joined)}"

    def columns(self, name: str) -> list[str]:
        """Return the columns that an option names."""
        return [one.strip() for one in str(self.options[name] or "").split(",") if one.strip()]


def fit(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FOLDER",
            help="A folder of CSV, Parquet or npz files, one per person; or a folder for each; "
            "or one file with a column of people.",
        ),
    ],
    label: Annotated[Text, option("Column of classes to predict.", "COLUMN")] = None,
    target: Annotated[Text, option("Columns of numbers to predict, a,b,...", "COLUMNS")] = None,
    horizon: Annotated[int | None, option("Predict the inputs this many rows ahead.")] = None,
    client: Annotated[Text, option("Column that names people.", "COLUMN")] = None,
    time: Annotated[Text, option("Column of times; guessed.", "COLUMN")] = None,
    recording: Annotated[Text, option("Column that names recordings; guessed.", "COLUMN")] = None,
    inputs: Annotated[Text, option("Columns to learn from, a,b,...; guessed.", "COLUMNS")] = None,
    window: Annotated[Text, option('Length of windows: "5s", 128 rows or "none"; guessed.')] = None,
    map: Annotated[Text, option("Feature map; auto tries several.", "NAME")] = None,
    scale: Annotated[Text, option("What scales channels: federated, own, recording.")] = None,
    out: Annotated[Path | None, option("Output folder; runs/FOLDER if left out.", "DIR")] = None,
    plan: Annotated[Path, option("Where to write the plan.", "FILE")] = Path("plan.toml"),
    force: Annotated[bool, flag("--force", "Overwrite an edited plan and a finished run.")] = False,
    strict: Annotated[bool, flag("--strict", "Exit code 1 if a file cannot be used.")] = False,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train on a folder of files, and score the model on new people.

    It writes a plan and runs it. Columns are guessed from their names and
    values, and printed; options override a guess.
    """
    from catchment.plans.run import run_plan

    options = {"label": label, "target": target, "horizon": horizon, "client": client,
               "recording": recording, "time": time, "inputs": inputs, "window": window, "map": map,
               "scale": scale, "out": out, "plan": None if plan == Path("plan.toml") else plan,
               "force": force}  # fmt: skip
    asked = Asked(tuple(files), options)
    folder = out or Path("runs") / asked.called
    if not force:
        _refuse_to_overwrite(plan, folder, asked.command(force=True))
    file, proposed = _proposed(asked, plan, strict=strict, quiet=as_json)
    facts, warned = {"summary": json.dumps(proposed.pop("seen"))}, list[str]()
    with stoppable(asked.command(force=True)), progress(quiet=as_json) as watch, _quietly(warned):
        done = run_plan(file, folder, force=True, threads=threads, watch=watch, facts=facts).run
    seconds = done.seconds or 0.0
    if as_json:
        print_json(proposed | _outcome_json(done, folder, seconds, warned))
        return
    typer.echo("\n".join(_outcome(done, folder, seconds, warned, ahead=bool(horizon))))


def _refuse_to_overwrite(plan: Path, folder: Path, again: str) -> None:
    """Raise ValueError where a plan that was changed, or a run, would be replaced."""
    from catchment.federation.runs.folder import is_begun
    from catchment.plans.propose import is_untouched

    run = shlex.join(["catchment", "run", str(plan)])
    if plan.is_file() and not is_untouched(plan.read_text(encoding="utf-8")):
        raise ValueError(
            f"{plan} was changed or written by hand; run it ({run}), write another "
            f"(--plan), or replace it: {again}"
        )
    if is_begun(folder):
        raise ValueError(
            f"{folder} holds a run already; keep it and choose another folder (--out), continue "
            f"it if it was cut short: {run} --out {shlex.quote(str(folder))} --resume, or replace "
            f"it: {again}"
        )


def _proposed(
    asked: Asked, plan: Path, *, strict: bool, quiet: bool
) -> tuple[PlanFile, dict[str, Any]]:
    """Look at the files and write a plan for them; return it, and what was seen and chosen."""
    from catchment.data.survey import summary_lines
    from catchment.plans.propose import propose
    from catchment.wire.messages import replace_file

    with waiting("looking at the files", quiet=quiet):
        found = look(asked)
    seen, chosen = summary_lines(found), asked.options
    for line in [] if quiet else seen:
        typer.echo(line)
    if strict and found.problems:
        typer.secho("--strict: files that cannot be used stop everything", err=True)
        raise typer.Exit(1)
    check(asked, found)
    names = ("window", "map", "scale", "horizon")
    how: dict[str, Any] = {name: chosen[name] for name in names}
    file, said = propose(found, asked.files, plan, asked.command(), **how)
    plan.parent.mkdir(parents=True, exist_ok=True)
    replace_file(plan, file.text.encode())
    if not quiet:
        typer.echo(f"wrote {plan}   ({said})")
        if found.offsets_differ and not how["scale"] and file.preprocessing.window is None:
            again = asked.command(scale="recording", force=True)
            typer.echo(f"  ! recordings differ in length and level; to scale each alone: {again}")
    return file, {"survey": survey_json(found), "plan": str(plan), "chosen": said, "seen": seen}


def look(asked: Asked) -> Survey:
    """Return what the files hold; ValueError, with what to type, where columns are not there."""
    from catchment.data.survey import survey
    from catchment.data.survey.roles import distinct
    from catchment.plans.propose import COLUMNS, refuse_columns

    paths, by_folder = found_files(asked.files)
    given = {name: asked.columns(name) for name in COLUMNS}
    roles: dict[str, Any] = {name: asked.options[name] for name in COLUMNS[:4]}
    roles |= {name: given[name] or None for name in COLUMNS[4:]}
    found = survey(paths, client_by="folder" if by_folder else "file", guess=True, **roles)
    if not found.tables:
        shown = asked.files[0] if len(asked.files) == 1 else f"{asked.files[0]} and others"
        raise ValueError(f"no file of {shown} can be read; {found.problems[0]}")
    refuse_columns(found, given, asked.typed)
    if not found.roles.inputs:
        why = ", ".join(f"{name}: {reason}" for name, reason in found.roles.unused.items())
        said = f"there is no column of numbers to learn from{f' ({why})' if why else ''}"
        raise ValueError(f"{said}; name some with --inputs")
    predicted = [n for n in ("label", "target", "horizon") if asked.options[n] is not None]
    if len(predicted) > 1:
        raise ValueError("pass one of --label, --target and --horizon: what is to be predicted")
    if not predicted:
        raise ValueError(_what_to_predict(asked, found))
    tables = list(found.tables.values())
    for label in given["label"]:
        kinds = [table[label] for table in tables if label in table]
        numbers = [one for one in kinds if one.kind == "numbers"]
        many = distinct(label, tables) is None or any(not one.whole for one in numbers)
        if len(numbers) * 2 > len(kinds) and many:
            raise ValueError(
                f"column {label!r} holds numbers of many values, not classes; to predict numbers, "
                f"{asked.typed(label=None, target=[label])}"
            )
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


def _what_to_predict(asked: Asked, found: Survey) -> str:
    """Return the columns, and what to type to predict one of them."""
    from catchment.data.survey.roles import common, could_be_label, distinct

    tables, roles = list(found.tables.values()), found.roles
    labels = could_be_label(tables, [roles.time, roles.client, roles.recording])
    described = []
    for name in common(tables):
        values = distinct(name, tables)
        kind = {roles.time: " (time)", roles.client: " (person)"}.get(name, "")
        if not kind and name in labels and values is not None:
            some = ", ".join([*sorted(values)[:4], *(["..."] if len(values) > 4 else [])])
            kind = f" ({len(values)} values: {some})"
        described.append(f"{name}{kind}")
    numbers = f"none looks like classes; for numbers {asked.typed(target=roles.inputs[-1:])}"
    return (
        f"say which column is to be predicted; the columns are {', '.join(described)}; "
        f"{asked.typed(label=labels[:1]) if labels else numbers}; "
        f"or, to forecast the inputs: {asked.command(horizon=1)}"
    )


def check(asked: Asked, found: Survey) -> None:
    """Raise ValueError, with what to do, where nothing can be learned from the files."""
    from catchment.plans.propose import refuse_files

    roles = found.roles
    whole = roles.client is None and roles.client_by == "file" and len(found.paths) == 1
    if whole and asked.options["horizon"] is None:
        columns = next(iter(found.tables.values()))
        few = [name for name, one in columns.items() if one.like_classes]
        could = [name for name in few if name not in roles.needed]
        could += [name for name in roles.inputs if name in few]
        perhaps = f" (perhaps {', '.join(could[:3])})" if could else ""
        raise ValueError(
            f"{found.paths[0].name} is one file, and nothing tells people apart; name the column "
            f"that does{perhaps}, or pass a folder with a file for each; "
            f"{asked.typed(client=could[:1] or ['COLUMN'])}"
        )
    refuse_files(found, "name another --label")


def survey_json(found: Survey) -> dict[str, object]:
    """Return a survey as plain values."""
    named = ("inputs", "label", "target", "time", "client", "client_by", "recording")
    return {
        "files": [str(path) for path in found.paths],
        "clients": {
            c.name: {"recordings": len(c.recordings), "steps": c.steps, "labels": dict(c.labels)}
            for c in found.clients
        },
        **{name: getattr(found.roles, name) for name in named},
        **{name: getattr(found, name) for name in ("rate", "gaps", "classes", "warnings")},
        "problems": [vars(one) | {"file": str(one.file)} for one in found.problems],
    }


@contextmanager
def _quietly(said: list[str]) -> Iterator[None]:
    """Keep warnings for one line each at the end; people left out are named there, too."""
    from catchment.errors import ClippingWarning

    with one_line_each(), warnings.catch_warnings(record=True) as caught:
        yield
    kinds = {one.category: str(one.message) for one in reversed(caught)}
    if kinds.pop(ClippingWarning, None):
        said.append("values more than 8 deviations from the mean were cut off there: other units?")
    said += kinds.values()


def _outcome_json(
    done: Run, folder: Path, seconds: float, warned: Sequence[str]
) -> dict[str, object]:
    """Return how good the model is, for a script."""
    from catchment.federation.runs.read import worst_client

    worst = worst_client(done.scores, done.metric)
    return run_json(done, folder) | {
        "score": done.scores.get("", {}).get(done.metric),
        "worst": {"client": worst, "score": done.scores[worst][done.metric]} if worst else None,
        "map": done.facts.get("map_chosen") or done.facts.get("map_label"),
        "warnings": warned,
        "seconds": seconds,
    }


def _outcome(
    done: Run, folder: Path, seconds: float, said: Sequence[str], *, ahead: bool
) -> list[str]:
    """Return how good the model is, where it is, and what to type next."""
    from catchment.federation.messages import headline
    from catchment.federation.runs.folder import MODEL
    from catchment.federation.runs.read import folds_sentence, lasting, worst_client

    last, scores, metric = done.rounds["training"][-1], done.scores, done.metric
    if ahead and scores and not math.isfinite(scores[""][metric]):
        scores, said = {}, [*said, "no recording's last quarter is longer than the horizon"]
    lines = [f"trained on {last.n_used} of {last.n_asked} people in {lasting(seconds)}"]
    lines += [f"  ! {one}" for one in (headline(done.rounds, most=20), *said) if one]
    worst = worst_client(scores, metric)
    scored = folds_sentence(done.facts, scores, metric, who="people")
    if not scored and scores:
        scored = f"on the part kept for the test: {metric} {scores[''][metric]:.2f}"
        scored += f", worst {worst} {scores[worst][metric]:.2f}" if worst else ""
    chosen = done.facts.get("map_chosen", "")
    naive = naive_lines(done, folder / MODEL) if scores else []
    lines.append((scored or "not tested") + (f"   map chosen: {chosen}" if chosen else ""))
    if worst and metric == "accuracy" and scores[worst][metric] < scores[""][metric] - WORSE:
        why = shlex.join(["catchment", "diagnose", str(folder), "--client", worst])
        lines.append(f"why {worst} is served badly: {why}")
    lines += naive
    model = folder / MODEL
    then = shlex.join(["catchment", "predict", str(folder), "new.csv"]) + " --ahead" * ahead
    return [*lines, f"saved {model} ({size(model.stat().st_size)})   next: {then}"]


def naive_lines(done: Run, model: Path) -> list[str]:
    """Return how the last value and that of a season before do, beside a forecast.

    And whether the model's intervals are too narrow for its errors, or too wide.
    """
    from catchment.readout.storage import load

    rows = {row.name: row for row in done.comparison or () if row.name in NAIVE}
    if not rows:
        return []
    said = [f"{NAIVE[name]} {row.score:.2f}" for name, row in rows.items()]
    lines = [f"beside it: {', '.join(said)} ({done.metric})"]
    best, own = min(row.score for row in rows.values()), done.scores[""][done.metric]
    if own > best:
        lines.append(
            "  ! the forecast is no better than the best of these; try longer recordings, another "
            "--map, or use the naive one"
        )
    deviation, came = load(model).deviation, done.scores[""].get("RMSE", 0.0)
    expected = 0.0 if deviation is None else float((deviation**2).mean()) ** 0.5
    if deviation is not None and came > DRIFTED * expected:
        lines.append(
            f"  ! errors on the test part are {came / expected:.1f} times those that intervals "
            "expect: they drift; widen them by recordings of that time, catchment.calibrate(model, "
            "clients)"
        )
    elif came < WIDE * expected:
        lines.append(
            f"  ! errors on the test part are {came / expected:.1f} times those that intervals "
            "expect: a trend widens those from autocovariances; try --map default, the exact Gram "
            "matrix of lags, or count errors, catchment.calibrate(model, clients)"
        )
    return lines
