"""`catchment fit`: from a folder of files to a model, in one command."""

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
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli.fit_advice import Asked, check, look, refuse_to_overwrite
from catchment.cli.show import JsonOption, print_json, size
from catchment.cli.track import TrackOption, track_run
from catchment.files import replace_file

if TYPE_CHECKING:
    from catchment.data.survey import Survey
    from catchment.federation.runs.read import Run
    from catchment.plans.propose import Proposal

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
    track: TrackOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look at files, write a plan for them, run it, and say how good the model is and for whom.

    Columns are guessed from their names and values, and said; every option overrules a guess.
    """
    from catchment.cli.progress import waiting
    from catchment.plans.propose import Choices, propose

    asked = Asked(tuple(files), label, _names(target), horizon, client, recording, time_column,
                  _names(inputs), window, map_, out, plan, force)  # fmt: skip
    folder = out or Path("runs") / _name(files[0])
    refuse_to_overwrite(asked, folder, force=force)
    with waiting("looking at the files", quiet=as_json):
        found = look(asked)
    for line in [] if as_json else _summary(found):
        typer.echo(line)
    if strict and found.problems:
        typer.secho("--strict: files that cannot be used stop everything", err=True)
        raise typer.Exit(1)
    check(asked, found)
    made = propose(found, files, plan, Choices(window, map_, horizon), asked.command())
    plan.parent.mkdir(parents=True, exist_ok=True)
    replace_file(plan, made.text.encode())
    if not as_json:
        typer.echo(f"wrote {plan}   ({made.said})")
    ran = _run(plan, folder, threads, quiet=as_json, again=asked.command(), seen=_summary(found))
    track_run(track, folder)
    if as_json:
        print_json(_as_json(found, made, plan, ran))
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
    plan: Path,
    folder: Path,
    threads: int | None,
    *,
    quiet: bool,
    again: str,
    seen: Iterable[str],
) -> Ran:
    from catchment.cli.progress import progress
    from catchment.plans.file import read_plan
    from catchment.plans.in_process import run_plan

    started, said = time.monotonic(), list[str]()
    file = read_plan(plan)
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


def _summary(found: Survey) -> list[str]:
    from catchment.data.survey import summary_lines

    return summary_lines(found)


def _outcome(ran: Ran, folder: Path) -> list[str]:
    """Return how good the model is, where it is, and what to type next."""
    from catchment.federation.messages import headline
    from catchment.federation.runs.folds import worst_client
    from catchment.federation.runs.write import MODEL

    done = ran.run
    last = done.rounds["training"][-1]
    left = headline(done.rounds, most=20)
    lines = [f"trained on {last.n_used} of {last.n_asked} people in {ran.seconds:.1f} s"]
    lines += [f"  ! {one}" for one in ([left] if left else []) + list(ran.warnings)]
    lines.append(score_line(done))
    worst = worst_client(done.scores, done.metric)
    if worst and _is_far_below(done, worst):
        why = shlex.join(["catchment", "explain", str(folder), "--client", worst])
        lines.append(f"why {worst} is served badly: {why}")
    model, then = folder / MODEL, shlex.join(["catchment", "predict", str(folder), "new.csv"])
    return [*lines, f"saved {model} ({size(model.stat().st_size)})   next: {then}"]


def _is_far_below(done: Run, worst: str) -> bool:
    if done.metric != "accuracy":
        return False
    return done.scores[worst]["accuracy"] < done.scores[""]["accuracy"] - WORSE


def score_line(done: Run) -> str:
    """Return the score in a line: by folds with their range, or of the test part."""
    from catchment.federation.runs.folds import folds_sentence, worst_client

    said = folds_sentence(done.facts, done.scores, done.metric, who="people")
    if not said and done.scores:
        worst = worst_client(done.scores, done.metric)
        said = f"on the part kept for the test: {done.metric} {done.scores[''][done.metric]:.2f}"
        said += f", worst {worst} {done.scores[worst][done.metric]:.2f}" if worst else ""
    chosen = done.facts.get("map_chosen", "")
    return "   ".join([said or "not tested", *([f"map chosen: {chosen}"] if chosen else [])])


def _as_json(found: Survey, made: Proposal, plan: Path, ran: Ran) -> dict[str, object]:
    from dataclasses import asdict

    from catchment.federation.messages import left_out
    from catchment.federation.runs.folds import folds_of_run, worst_client

    done = ran.run
    worst = worst_client(done.scores, done.metric)
    return {
        "survey": survey_json(found),
        "plan": str(plan),
        "chosen": made.said,
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
