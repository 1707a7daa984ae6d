"""`catchment run`, `plan`, `demo`, `report`, and runs by files: `contribute` to `kit`."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli.show import (
    DataOption,
    JsonOption,
    ThreadsOption,
    flag,
    option,
    print_json,
    print_table,
    progress,
    size,
    waiting,
)
from catchment.plugins import plugin

if TYPE_CHECKING:
    from catchment.engine.local import Workers
    from catchment.federation.client import Elsewhere
    from catchment.federation.measure.baselines import Comparison
    from catchment.federation.runs.read import Run
    from catchment.plans.file import PlanFile

MOST_NAMED = 100  # clients that were left out, on the terminal


class Engine(StrEnum):
    """What carries the messages of a run."""

    local = "local"
    ray = "ray"
    flower = "flower"


EngineOption = Annotated[Engine, option("This machine, Ray, or a simulation by Flower.")]
AddressOption = Annotated[str | None, option("Ray cluster: auto, HOST:PORT or ray://HOST:PORT.")]
EdgeClientOption = Annotated[
    list[str] | None,
    option("A board that trains, board=tcp://127.0.0.1:7007; repeatable.", "NAME=ADDRESS"),
]
PlanArgument = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, in TOML.")]
IdentitiesOption = Annotated[
    Path | None, option("Public keys of all clients, for secure aggregation.", "JSON")
]
PlanOption = Annotated[Path, option("The plan, in TOML.", "PLAN", "--plan")]
NEXT = {
    ".request": "send it to every client, who types the line of its first contribution again, "
    "with --request {path} at its end; then combine both contributions of each",
    ".batch": "send it to the helper, who types: catchment assist {path} --plan {plan} "
    "--identities JSON; then combine again with --answer",
}


def run(
    plan_file: PlanArgument,
    out: Annotated[Path | None, option("Output folder; runs/PLAN if left out.", "DIR")] = None,
    data: DataOption = None,
    resume: Annotated[bool, flag("--resume", "Resume a run that was stopped.")] = False,
    force: Annotated[bool, flag("--force", "Overwrite a run that is in the folder.")] = False,
    engine: EngineOption = Engine.local,
    threads: ThreadsOption = None,
    workers: Annotated[int | None, option("Worker processes, for many small clients.")] = None,
    address: AddressOption = None,
    strict: Annotated[bool, flag("--strict", "Exit code 1 if any client was left out.")] = False,
    edge_client: EdgeClientOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a plan and keep everything in a folder.

    Ctrl-C stops it; --resume continues after the last finished round.
    """
    from catchment.federation.runs.folder import is_empty
    from catchment.plans.file import read_plan
    from catchment.plans.propose import oddities
    from catchment.plans.run import run_plan

    file = read_plan(plan_file)
    folder = out or Path("runs") / plan_file.stem
    if folder.is_file():
        raise ValueError(f"--out {folder} is a file; name a folder, which the run makes")
    devices = _devices(edge_client or [])
    processes = _processes(engine, workers, address, threads)
    if engine is Engine.flower:
        if devices:
            raise ValueError("--edge-client is for --engine local; simulated clients are synthetic")
        simulated = _simulate(file, folder, data, resume=resume, force=force, as_json=as_json)
        warn_of_left_out(simulated, strict=strict)
        return
    if resume and is_empty(folder):
        typer.secho(f"{folder} holds no run to go on with: it starts anew", err=True)
    given = {"--engine": engine, "--workers": workers, "--address": address,
             "--threads": threads, "--data": data}  # fmt: skip
    words = [(name, value) for name, value in given.items() if value not in (None, Engine.local)]
    words += [("--edge-client", text) for text in edge_client or ()]
    again = ["catchment", "run", plan_file, "--out", folder, "--resume", *chain(*words)]
    with stoppable(shlex.join(map(str, again))), progress(quiet=as_json) as watch, one_line_each():
        done = run_plan(
            file, folder, data=data, resume=resume, force=force, threads=threads, watch=watch,
            devices=devices, workers=processes,
        )  # fmt: skip
    notices = (*done.notices, *oddities(file))
    if as_json:
        print_json(run_json(done.run, folder, notices))
    else:
        print_finished(done.run, folder, file)
    warn_of_left_out(done.run, notices, strict=strict)


def _processes(
    engine: Engine, workers: int | None, address: str | None, threads: int | None
) -> int | Workers | None:
    """Return what `workers` is in Python, as the command line has it."""
    if engine is not Engine.ray:
        if address is not None:
            raise ValueError(f"--address {address} is for Ray; add --engine ray")
        for name, value in (("workers", workers), ("threads", threads)):
            if engine is Engine.flower and value is not None:
                raise ValueError(f"--{name} is for --engine local or ray; Flower takes all cores")
        return workers
    made: Workers = plugin("engines", "ray", needed_for="runs on Ray")(workers, address)
    return made


def _devices(given: Sequence[str]) -> dict[str, Elsewhere]:
    """Return devices by name, as the command line has them."""
    if not given:
        return {}
    device = plugin("engines", "device", needed_for="devices")
    found: dict[str, Elsewhere] = {}
    for text in given:
        name, equals, address = text.partition("=")
        if not (name and equals):
            raise ValueError(
                f"--edge-client is {text!r}; write NAME=ADDRESS, board=tcp://127.0.0.1:7007"
            )
        if name in found:
            raise ValueError(f"--edge-client names {name!r} twice; give each its own name")
        found[name] = device(address)
    return found


def _simulate(
    file: PlanFile, folder: Path, data: Path | None, *, resume: bool, force: bool, as_json: bool
) -> Run:
    from catchment.federation.messages import counts
    from catchment.federation.runs.folder import is_begun, remove_run
    from catchment.federation.runs.read import read_run

    if force:
        remove_run(folder)
    if is_begun(folder) and not resume:
        raise ValueError(f"{folder} already holds a run; pass --resume or --force")
    model = plugin("engines", "flower", needed_for="simulations by Flower")(file, folder, data=data)
    done = read_run(folder)
    if as_json:
        print_json(run_json(done, folder))
    else:
        typer.echo(f"{counts(done.rounds)}\nmodel: {model}")
    return done


def plan(
    plan_file: Annotated[
        Path | None,
        typer.Argument(metavar="[PLAN]", help="A plan to check, in TOML; or an example's name."),
    ] = None,
    schema: Annotated[bool, flag("--schema", "Print the JSON schema of plans.")] = False,
    # A flag, so that it lists the examples by itself: PLAN is the name then.
    example: Annotated[
        bool, flag("--example", "Print the example named PLAN; without a name, list them.")
    ] = False,
    data: DataOption = None,
) -> None:
    """Check a plan, or print an example."""
    if schema == (plan_file is not None or example):
        raise ValueError("pass a plan to check, or --schema, or --example NAME")
    if schema:
        from catchment.plans.file import plan_schema

        print_json(plan_schema())
    elif example:
        from catchment.plans.file import example_names, example_plan

        name = "list" if plan_file is None else str(plan_file)
        typer.echo("\n".join(example_names()) if name == "list" else example_plan(name).rstrip())
    elif plan_file is not None:
        _check(plan_file, data)


def _check(plan_file: Path, data: Path | None) -> None:
    from catchment.errors import MissingDataError
    from catchment.plans.file import read_plan
    from catchment.plans.propose import seen
    from catchment.plans.run import Beside

    file = read_plan(plan_file)
    for line in seen(file):
        typer.echo(line)
    try:
        with waiting("reading the data"):
            held = file.load_data(data)
    except MissingDataError as error:
        typer.echo(f"{plan_file} is a good plan, but its data are not here: {error}")
        raise typer.Exit(1) from error
    file.check_named(held.train)
    workflow = file.workflow(held.about, n_clients=len(held.train))
    _ = workflow.fingerprint  # the algorithm is made, and refuses what it does not take
    who = f"{len(held.train)} training and {len(held.test)} test clients"
    if file.sharing.test == "folds":
        who = f"{len(held.train)} clients, tested in {len(Beside(file, held).folds)} folds"
    typer.echo(
        f"{plan_file} is a good plan: {file.algorithm} on {file.source}, {who}, "
        f"stages: {', '.join(workflow.stages)}"
    )


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    out: Annotated[
        Path | None, option("Output file; report.html in the run.", "FILE", "--out", "-o")
    ] = None,
) -> None:
    """Write an offline HTML report of one run or several."""
    from catchment.report.html import write_report

    with waiting("writing the report"):
        path = write_report(folders, out or folders[0] / "report.html")
    typer.echo(str(path))


def demo(
    out: Annotated[Path, option("Output folder.", "DIR")] = Path("runs/demo"),
) -> None:
    """Compare ways to train on synthetic wearables."""
    from catchment import federate
    from catchment.data import synthetic_wearables
    from catchment.plans import example_plan, parse_plan, run_plan
    from catchment.report import write_report

    plan = parse_plan(example_plan("demo_wearables"))
    with progress() as watch:
        if watch is not None:
            watch("compiling, once", 0, 0, 0)
        # Whoever comes first below would be charged for it.
        federate("default", synthetic_wearables(3, windows_per_user=6))
        done = run_plan(plan, out, force=True, watch=watch).run
    assert done.comparison is not None
    typer.echo(f"{plan.title}: synthetic, so that results say nothing about people")
    print_comparison(done.comparison)
    typer.echo(f"\nreport: {write_report([out], out / 'report.html').resolve()}")


def print_finished(done: Run, folder: Path, file: PlanFile) -> None:
    """Print what came of a run of a plan: the headline, the comparison, and what to type next."""
    from catchment.federation.measure.baselines import ADAPTED_ROW
    from catchment.federation.messages import counts
    from catchment.federation.runs.ledger import bounds_of, map_sentence, thin_clients
    from catchment.federation.runs.read import folds_sentence
    from catchment.plans.settings import own_classes

    week = f", time {done.facts['week']}" if "week" in done.facts else ""
    typer.echo(f"{done.facts['title']}{week}: {counts(done.latest)}")
    thin = typer.style(thin_clients(done), fg=typer.colors.YELLOW) if thin_clients(done) else ""
    for line in filter(None, (map_sentence(done.facts), thin)):
        typer.echo(line)
    if done.comparison is not None:
        print_comparison(done.comparison)
    lines = [folds_sentence(done.facts, done.scores, done.metric)]
    if "adapted" in done.facts:
        lines.insert(0, f"{ADAPTED_ROW}: {done.facts['adapted']}")
    if file.protections and done.beside:
        own = " and ".join(repr(r.name) for r in done.comparison or () if r.name not in done.beside)
        lines.append(f"rows but {own} are from raw data, outside the federation's protections")
    lines += [f"privacy of the {bound}" for bound in bounds_of(done)]
    if file.is_noisy:
        lines.append("other releases of the same data add to that; the plan's budget counts them")
    lines += [f"stands out: {flag}" for flag in done.flags]
    if week:
        lines += _changed(done)
    needed = own_classes([file.features, file.learn.get("network")])
    at, use = shlex.quote(str(folder)), "".join(f" --use {name}" for name in needed)
    lines += [f"run: {folder}", f"predict: catchment predict {at} FILES...{use}"]
    lines += [f"what left each client: catchment ledger {at}", f"report: catchment report {at}"]
    typer.echo("\n".join(filter(None, lines)))


def _changed(done: Run) -> list[str]:
    """Return who changed at the last time that a run went on, or that it is too early to say."""
    last = done.rounds["training"][-1]
    if "drifted clients" not in last.figures:
        return ["too early to tell who changes: earlier times are too few to compare with"]
    found = [f"changed: {one}" for one in done.drifts if one.round == last.round]
    return found or ["nobody changed more than is usual"]


def run_json(done: Run, folder: Path, notices: Sequence[str] = ()) -> dict[str, object]:
    """Return what came of a run for a script, with what is odd about the data."""
    from catchment.federation.messages import left_out
    from catchment.federation.runs.ledger import bounds_of, thin_clients
    from catchment.federation.runs.read import folds_of_run

    last, thin = done.rounds["training"][-1], thin_clients(done)
    return {
        "folder": str(folder),
        "metric": done.metric,
        "scores": done.scores.get("", {}),
        "clients": {name: s[done.metric] for name, s in done.scores.items() if name},
        "folds": [asdict(one) for one in folds_of_run(done.facts)],
        "comparison": [vars(row) for row in done.comparison or ()],
        "flags": [vars(flag) for flag in done.flags],
        "drifts": [vars(drift) for drift in done.drifts],
        "used": last.n_used,
        "asked": last.n_asked,
        "refused": [asdict(one) for one in left_out(done.rounds)],
        "notices": list(notices),
        "notes": [thin] if thin else [],
        "bounds": [vars(bound) for bound in bounds_of(done)],
        "facts": dict(done.facts),
    }


def warn_of_left_out(done: Run, notices: Iterable[str] = (), *, strict: bool = False) -> None:
    """Print a line on stderr for every notice, and client that was left out, with the reason.

    With `strict` the program ends with exit code 1 if there was one.
    """
    from catchment.federation.messages import left_out_lines

    lines = left_out_lines(done.latest)
    for line in (*notices, *lines[:MOST_NAMED]):
        warn(line)
    if len(lines) > MOST_NAMED:
        more = len(lines) - MOST_NAMED
        warn(f"and {more} more were left out: catchment ledger {shlex.quote(str(done.folder))}")
    if lines and strict:
        typer.secho("--strict: somebody was left out, see above", fg=typer.colors.RED, err=True)
        raise typer.Exit(1)


def warn(text: str) -> None:
    """Print a warning on stderr."""
    typer.secho(f"warning: {text}", fg=typer.colors.YELLOW, err=True)


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
def stoppable(again: str) -> Iterator[None]:
    """Let Ctrl-C end the program with the command that goes on, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        typer.secho(f"stopped; go on with: {again}", err=True)
        raise typer.Exit(130) from None


@contextmanager
def one_line_each() -> Iterator[None]:
    """Keep the log from saying who is left out of every stage: it is said once, at the end."""
    logger = logging.getLogger("catchment.federation.runs.folder.rounds")
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(logging.NOTSET)


def contribute(
    plan_file: PlanArgument,
    data: Annotated[str, typer.Argument(metavar="DATA", help="Your files: folder or pattern.")],
    name: Annotated[str, option("What this client is called.", "NAME")],
    keys: Annotated[
        Path | None, option("Private folder: key, privacy ledger, policy; NAME.keys.", "DIR")
    ] = None,
    out: Annotated[Path | None, option("The file; NAME[.second].contribution.", "FILE")] = None,
    request: Annotated[
        Path | None, option("What `combine` wrote for the second contribution.", "FILE")
    ] = None,
    identities: IdentitiesOption = None,
    clear: Annotated[
        bool, flag("--clear", "Allow statistics to leave without secure aggregation.")
    ] = False,
) -> None:
    """Write this client's contribution to a plan into a signed file.

    Nothing is sent.
    """
    from catchment.plans.by_files import contribute as make

    folder = keys or Path(f"{name}.keys")
    made = make(
        plan_file, data, name=name, keys=folder, request=request, identities=identities, clear=clear
    )
    path = made.save(out or Path(f"{name}{'.second' if request else ''}.contribution"))
    inspect(path)
    typer.echo(f"wrote {path}; the privacy ledger in {folder} has it. Send it to whoever combines")


def inspect(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A contribution.")],
    as_json: JsonOption = False,
) -> None:
    """Show what a contribution holds, who signed it, what it reveals.

    Nothing is sent.
    """
    from catchment.plans.by_files import Contribution
    from catchment.privacy.policy import NOT_ANONYMOUS
    from catchment.wire import plain_text

    one = Contribution.read(path)
    message = one.message
    told = f"in the clear: {NOT_ANONYMOUS}"
    if message.kind.startswith("secure-"):
        told = "masked: it tells nothing by itself, unless leader and helper work together"
    lines = {
        "client": one.client,
        "key": one.key,
        "plan": one.plan,
        "stage": f"{one.stage}, round {one.round + 1}",
        "holds": f"{message.kind}, {size(len(one.reply))}, arrays {message.shapes()}",
        "what it is": one.tells,
        "what it tells": told,
    }
    if as_json:
        print_json(lines)
        return
    for title, text in lines.items():
        typer.echo(f"{title + ':':<15}{plain_text(text, 1000)}")


def combine(
    contributions: Annotated[
        list[Path], typer.Argument(metavar="FILES...", help="Contributions; answers, *.answer.")
    ],
    plan_file: PlanOption,
    out: Annotated[Path | None, option("Output folder; runs/PLAN if left out.", "DIR")] = None,
    identities: IdentitiesOption = None,
    without: Annotated[list[str] | None, option("Who withdrew; repeatable.", "NAME")] = None,
    answer: Annotated[list[Path] | None, option("The helper's answer; repeatable.", "FILE")] = None,
    strict: Annotated[bool, flag("--strict", "Exit code 1 if any file was refused.")] = False,
) -> None:
    """Add contributions, and train the plan's model.

    The run is the same as if all clients were in one process.
    """
    from catchment.federation.messages import left_out_lines
    from catchment.plans.by_files import AwaitedError, by_files
    from catchment.plans.by_files import combine as add
    from catchment.wire.messages import replace_file

    folder = out or Path("runs") / plan_file.stem
    try:
        done = add(
            [one for one in contributions if one.suffix != ".answer"],
            plan_file,
            out=folder,
            identities=identities,
            without=without or (),
            answers=[*(answer or ()), *(one for one in contributions if one.suffix == ".answer")],
        )
    except AwaitedError as error:
        path = folder.with_name(f"{folder.name}{error.suffix}")
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, error.content)
        typer.echo(f"{error}; wrote {path}")
        own = {"path": shlex.quote(str(path)), "plan": shlex.quote(str(plan_file))}
        typer.echo(NEXT[error.suffix].format(**own))
        lines = getattr(error, "__notes__", [])
    else:
        run, refused = done.finished.run, done.refused
        print_finished(run, folder, by_files(plan_file))
        lines = [f"{name} was refused: {why}" for name, why in refused.items()]
        lines += [f"{name} sent no second contribution: left out" for name in done.absent]
        lines += left_out_lines(run.latest)
    for line in lines:
        warn(line)
    if lines and strict:
        raise typer.Exit(1)


def assist(
    batch: Annotated[Path, typer.Argument(metavar="BATCH", help="What `combine` wrote.")],
    plan_file: PlanOption,
    identities: Annotated[Path, option("Public keys of all clients.", "JSON")],
    keys: Annotated[Path, option("The helper's private folder.", "DIR")] = Path("helper"),
    out: Annotated[Path | None, option("The file; BATCH.answer if left out.", "FILE")] = None,
) -> None:
    """Act as the helper of secure aggregation for one batch.

    It writes the sum of the batch's masks into a file.
    """
    from catchment.plans.by_files import assist as answer
    from catchment.wire.messages import replace_file

    content = answer(batch, plan_file, keys=keys, identities=identities)
    path = out or batch.with_suffix(".answer")
    replace_file(path, content)
    typer.echo(f"wrote {path}, {size(len(content))}; send it back to whoever combines")


def kit(
    plan_file: PlanArgument,
    sites: Annotated[Path, option("A file with one client's name per line.", "FILE")],
    out: Annotated[Path, option("Where the folders are made.", "DIR")] = Path("kits"),
) -> None:
    """Write a folder for each client: plan, keys, the command to run."""
    from catchment.plans.by_files import kit as make

    names = [line.split(",")[0].strip() for line in sites.read_text("utf-8-sig").splitlines()]
    made = make(plan_file, filter(None, names), out)
    for folder in sorted(filter(Path.is_dir, made.iterdir())):
        typer.echo(f"wrote {folder}")
    typer.echo(f"hand each folder to its owner; combine with --plan {made / 'plan.toml'}")
