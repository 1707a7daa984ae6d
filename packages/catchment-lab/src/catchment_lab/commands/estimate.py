"""`catchment estimate`: what a plan will cost, before anything of it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli import DataOption, JsonOption, PlanArgument, print_json, print_table, waiting

if TYPE_CHECKING:
    from catchment_lab.estimates import Estimate


def estimate(
    plan_file: PlanArgument,
    clients: Annotated[
        int | None, typer.Option(help="So many clients; as many as the data have, if not given.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps of a recording; as the data have, if not given.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes, each with a core of its own.")] = 1,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a plan will take: time, memory, bytes, from a trial on synthetic recordings here.

    The plan itself is not run. What cannot fit into this machine's memory is refused.
    """
    from catchment.plans import read_plan
    from catchment_lab.estimates import estimate as estimated

    file = read_plan(plan_file)
    with waiting("trying the plan on synthetic recordings"):
        found = estimated(file, clients=clients, steps=steps, workers=workers, data=data)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)


def _print(found: Estimate) -> None:
    from catchment.features import spoken

    several = "" if found.workers == 1 else f", {found.workers} workers"
    typer.echo(f"{found.clients:,} clients of {found.steps:,} steps{several}")
    header = ("stage", "clients", "time", "up", "down")
    rows = [
        (
            one.name,
            f"{one.clients:,}" if one.clients else "",
            duration(one.seconds),
            spoken(one.bytes_up),
            spoken(one.bytes_down),
        )
        for one in found.stages
    ]
    up = sum(one.bytes_up for one in found.stages)
    down = sum(one.bytes_down for one in found.stages)
    rows.append(("all", "", duration(found.seconds), spoken(up), spoken(down)))
    print_table(header, rows, right=header[1:])
    typer.echo(f"one client sends {spoken(found.upload)} in the training")
    memory = f"peak memory: {spoken(found.server_bytes)}"
    if found.workers > 1:
        memory += f", and {spoken(found.worker_bytes)} of each worker"
    typer.echo(f"{memory}; model: {spoken(found.model_bytes)}")
    for note in found.notes:
        typer.echo(note)
    typer.echo("times are from a trial on synthetic recordings on this machine, just now")


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(0.04), duration(75), duration(7300), duration(200_000)
    ('0.0 s', '1 min 15 s', '2 h 1 min', '2 d 7 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if not hours:
        return f"{minutes} min {seconds % 60:.0f} s"
    if hours < 48:
        return f"{hours} h {minutes % 60} min"
    return f"{hours // 24} d {hours % 24} h"
