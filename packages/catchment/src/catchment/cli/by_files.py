"""`catchment kit`, `contribute`, `inspect`, `combine` and `assist`: a federation by files."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from catchment.cli.runs import PlanArgument, print_finished, warn
from catchment.cli.show import JsonOption, flag, option, print_json, size

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
        own = {"path": quote(str(path)), "plan": quote(str(plan_file))}
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
