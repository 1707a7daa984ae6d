"""`catchment search`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catchment.cli.show import DataOption

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
    out: Annotated[Path | None, typer.Option(help="Write all trials to this JSON file.")] = None,
    data: DataOption = None,
) -> None:
    """Search a plan's ranges on its training clients; run it again to go on where it stopped."""
    from catchment.plans.file import read_plan
    from catchment.search.plan_search import advice, search_plan
    from catchment.search.trials import Trial

    kept = storage or plan.with_suffix(".trials")

    def watch(trial: Trial) -> None:
        typer.echo(f"trial {trial.number}: {trial.state}, {trial.score:.4f}", err=True)

    file = read_plan(plan)
    if file.is_noisy:
        typer.echo(UNPROTECTED, err=True)
    result = search_plan(file, data=data, storage=kept, watch=watch)
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
