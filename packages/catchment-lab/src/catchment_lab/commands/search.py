"""`catchment search`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.cli import DataOption, DeviceOption, counting

if TYPE_CHECKING:
    from catchment.plans import PlanFile
    from catchment_lab.search.trials import SearchResult

UNPROTECTED = (
    "warning: a search reads the training clients without noise, and no epsilon of the plan covers "
    "what it chooses; search on other clients or public data if the settings are to be published"
)


def search(
    plan: Annotated[Path, typer.Argument(help="A plan file with a table called search.")],
    storage: Annotated[
        Path | None,
        typer.Option(help="File that keeps the trials; PLAN.trials if left out."),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option("--write", metavar="FILE", help="Write the plan with the best settings."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write all trials to this JSON file.")] = None,
    data: DataOption = None,
    device: DeviceOption = None,
) -> None:
    """Search a plan's ranges; run it again to resume."""
    from catchment.plans import read_plan
    from catchment_lab.search.trials import advice, read_search, search_plan

    file = read_plan(plan)
    _check_written(write, plan)
    kept = storage or plan.with_suffix(".trials")
    if file.is_noisy:
        typer.echo(UNPROTECTED, err=True)
    where: dict[str, Any] = {"data": data, "storage": kept, "device": device}
    with counting("trials", read_search(file).settings.trials) as done:
        result = search_plan(file, watch=lambda t: done(f"the last: {t.score:.4f}"), **where)
    finished = sum(trial.state == "complete" for trial in result.trials)
    typer.echo(
        f"best {result.metric} on validation clients: {result.best.score:.4f} "
        f"({len(result.trials)} trials, {finished} of them to the end; kept in {kept})"
    )
    typer.echo("[features]")
    for name, value in advice(result).items():
        typer.echo(f"{name} = {value}")
    if result.adaptation is not None:
        rule = result.adaptation.rule
        typer.echo(
            f"# plasticity: target_std {rule.target_std:.4g}, learning_rate "
            f"{rule.learning_rate:.4g}, epochs {rule.epochs}, rounds {result.adaptation.rounds}"
        )
    if out is not None:
        result.save(out)
    if write is not None:
        _write_plan(file, result, write)
        typer.echo(f"wrote {write}      next: catchment run {shlex.quote(str(write))}")
    else:
        tuned = plan.with_name(f"{plan.stem}-tuned.toml")
        again = shlex.join(["catchment", "search", str(plan), "--write", str(tuned)])
        typer.echo(f"the whole plan: {again}")


def _check_written(write: Path | None, plan: Path) -> None:
    """Raise ValueError if a plan is to be written where its files would not be found."""
    if write is None:
        return
    if write.resolve().parent != plan.resolve().parent:
        raise ValueError(
            f"--write {write} is in another folder than {plan}, which names its files from where "
            f"it is; write {plan.parent / write.name}"
        )
    if write.resolve() == plan.resolve():
        raise ValueError(f"--write {write} is the plan itself; choose another name")


def _write_plan(file: PlanFile, result: SearchResult, path: Path) -> None:
    from catchment.plans import parse_plan
    from catchment.wire import replace_file
    from catchment_lab.search.trials import tuned_plan

    text = tuned_plan(file, result)
    parse_plan(text, base=file.base, name=path.name)
    replace_file(path, text.encode())
