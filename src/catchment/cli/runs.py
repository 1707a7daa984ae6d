"""`catchment run`, `plan`, `explain`, `report` and `demo`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli.show import DataOption, JsonOption, print_json, print_table, size
from catchment.cli.track import TrackOption, track_run

if TYPE_CHECKING:
    from catchment.federation.measure.comparison import Comparison
    from catchment.plans.file import PlanFile


MOST_NAMED = 100  # clients that were left out, on the terminal


class Engine(StrEnum):
    """What carries the messages of a run."""

    local = "local"
    ray = "ray"


PlanArgument = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, in TOML.")]
RunOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder of the run; runs/ and the plan's name."),
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]


def run(
    plan_file: PlanArgument,
    out: RunOption = None,
    data: DataOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a run that the folder holds.")
    ] = False,
    engine: Annotated[
        Engine, typer.Option(help="local: in this process; ray: simulated clients of Flower.")
    ] = Engine.local,
    threads: Annotated[
        int | None, typer.Option(help="Threads; all cores if not given. Results do not change.")
    ] = None,
    track: TrackOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a plan and keep everything in a folder.

    Ctrl-C stops it; with --resume it goes on after the last finished round.
    """
    from catchment.federation.left_out import headline, left_out
    from catchment.federation.runs.bounds import bounds_of
    from catchment.federation.runs.explain import thin_clients
    from catchment.federation.runs.maps import map_sentence
    from catchment.federation.runs.write import is_empty
    from catchment.plans.conductor import run_plan
    from catchment.plans.file import read_plan
    from catchment.plans.names import own_classes

    file = read_plan(plan_file)
    folder = out or Path("runs") / plan_file.stem
    if engine is Engine.ray:
        _simulate(file, folder, data, resume=resume, force=force)
        track_run(track, folder)
        return
    if resume and is_empty(folder):
        typer.secho(f"{folder} holds no run to go on with: it starts anew", err=True)
    try:
        with progress(quiet=as_json) as watch:
            done = run_plan(
                file,
                folder,
                data=data,
                resume=resume,
                force=force,
                threads=threads,
                watch=watch,
            ).run
    except KeyboardInterrupt:
        again = f"catchment run {plan_file} --out {folder} --resume"
        typer.secho(f"stopped; go on with: {again}", err=True)
        raise typer.Exit(130) from None
    track_run(track, folder)
    comparison, last = done.comparison or (), done.rounds["training"][-1]
    used, asked = last.n_used, last.n_asked
    said, thin = headline(done.rounds, most=MOST_NAMED), thin_clients(done)
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "metric": done.metric,
                "scores": done.scores.get("", {}),
                "clients": {name: s[done.metric] for name, s in done.scores.items() if name},
                "comparison": [vars(row) for row in comparison],
                "flags": [vars(flag) for flag in done.flags],
                "used": used,
                "asked": asked,
                "refused": [asdict(one) for one in left_out(done.rounds)],
                "notes": [thin] if thin else [],
                "bounds": [vars(bound) for bound in bounds_of(done)],
                "facts": dict(done.facts),
            }
        )
        return
    typer.echo(f"{done.facts['title']}: {said or f'{used} of {asked} clients trained'}")
    if map_sentence(done.facts):
        typer.echo(map_sentence(done.facts))
    if thin:
        typer.secho(thin, fg=typer.colors.YELLOW)
    if done.comparison is not None:
        print_comparison(done.comparison)
    if file.protect and len(comparison) > 1:
        own = done.facts["own_row"]
        typer.echo(f"rows but {own!r} are from raw data, outside the federation's protections")
    for bound in bounds_of(done):
        typer.echo(f"privacy of the {bound}")
    if file.is_noisy:
        typer.echo("other releases of the same data add to that; the plan's budget counts them")
    for flag in done.flags:
        typer.echo(f"stands out: {flag}")
    typer.echo(f"run: {folder}")
    use = "".join(f" --use {name}" for name in own_classes(file.features))
    typer.echo(f"predict: catchment predict {folder} FILES...{use}")
    typer.echo(f"what left each client: catchment explain {folder}")
    typer.echo(f"report: catchment report {folder}")


def _simulate(
    file: PlanFile, folder: Path, data: Path | None, *, resume: bool, force: bool
) -> None:
    from catchment.federation.left_out import headline
    from catchment.federation.runs.read import read_run
    from catchment.federation.runs.write import is_begun, remove_run
    from catchment.plans.flower.simulation import simulate_plan

    if force:
        remove_run(folder)
    if is_begun(folder) and not resume:
        raise ValueError(f"{folder} already holds a run; pass --resume or --force")
    model = simulate_plan(file, folder, data=data)
    said = headline(read_run(folder).rounds, most=MOST_NAMED)
    if said:
        typer.echo(said)
    typer.echo(f"model: {model}")


def plan(
    plan_file: Annotated[
        Path | None, typer.Argument(metavar="[PLAN]", help="A plan to check, in TOML.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of plans.")
    ] = False,
    example: Annotated[
        str | None,
        typer.Option("--example", metavar="NAME", help="Print an example; `list` lists them."),
    ] = None,
    data: DataOption = None,
) -> None:
    """Check a plan, or show what plans look like."""
    if [plan_file is not None, schema, example is not None].count(True) != 1:
        raise ValueError("pass a plan to check, or --schema, or --example NAME")
    if schema:
        from catchment.plans.schema import plan_schema

        print_json(plan_schema())
    elif example is not None:
        from catchment.plans.examples import example_names, example_plan

        listed = "\n".join(example_names())
        typer.echo(listed if example == "list" else example_plan(example).rstrip())
    elif plan_file is not None:
        _check(plan_file, data)


def _check(plan_file: Path, data: Path | None) -> None:
    from catchment.errors import MissingDataError
    from catchment.plans.file import read_plan
    from catchment.plans.seen import seen

    file = read_plan(plan_file)
    try:
        held = file.load_data(data)
    except MissingDataError as error:
        typer.echo(f"{plan_file} is a good plan, but its data are not here: {error}")
        raise typer.Exit(1) from error
    for line in seen(file):
        typer.echo(line)
    course = file.course(held.about, n_clients=len(held.train))
    typer.echo(
        f"{plan_file} is a good plan: {file.algorithm} on {file.source}, "
        f"{len(held.train)} training and {len(held.test)} test clients, "
        f"stages: {', '.join(course.stages)}"
    )


def explain(
    folder: RunArgument,
    client: Annotated[
        str | None, typer.Option("--client", help="List every message of one client.")
    ] = None,
) -> None:
    """Say in plain words what left each client, what can be read from it, and what never left."""
    from catchment.federation.runs.explain import in_words
    from catchment.federation.runs.read import messages_of, read_run

    found = read_run(folder)
    limit = 100_000 if client else 30
    messages = messages_of(folder, client, limit + 1)
    if client and not messages:
        raise ValueError(f"{client!r} sent nothing in {folder}; check the name")
    typer.echo(in_words(found, messages[:limit], more=len(messages) > limit).rstrip())


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Where to; report.html in the run."),
    ] = None,
) -> None:
    """Write one HTML file about runs that works offline."""
    from catchment.report.html import write_report

    typer.echo(str(write_report(folders, out or folders[0] / "report.html")))


def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder of the demonstration's runs.")
    ] = Path("runs/demo"),
    data: DataOption = None,
) -> None:
    """Compare ways to learn together, on invented wearables and, if it is here, on UCI HAR."""
    from catchment.demo import run_demo

    with progress() as watch:
        shown = run_demo(out, data=data, watch=watch)
    for title, comparison in shown.comparisons.items():
        typer.echo(f"\n{title}")
        print_comparison(comparison)
    for note in shown.notes:
        typer.echo(note)
    typer.echo(f"\nreport: {shown.report}")


def print_comparison(comparison: Comparison) -> None:
    """Print a comparison as a table, a star at the best score."""
    metric, best = comparison.rows[0].metric, comparison.best.score
    header = ("", metric, "worst client", "spread", "sent up", "rounds", "seconds")
    rows = [
        (
            f"{row.name} *" if row.score == best else row.name,
            f"{row.score:.4f}",
            f"{row.worst:.4f} {row.worst_client}",
            f"{row.spread:.3f}",
            size(row.bytes_up) if row.bytes_up else "-",
            row.rounds or "-",
            f"{row.seconds:.1f}",
        )
        for row in comparison
    ]
    print_table(header, rows, right=(metric, "spread", "sent up", "rounds", "seconds"))


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Callable[[str, int, int, int], None] | None]:
    """Show on stderr which stage is running and how far it is, if someone is looking."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def watch(stage: str, round_: int, done: int, asked: int) -> None:
            label = f"{stage}, round {round_ + 1}" if asked else stage
            bar.update(task, description=label, completed=done, total=asked or None)

        yield watch
