"""`catchment audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli import DataOption, JsonOption, print_json, print_table, waiting

if TYPE_CHECKING:
    from catchment_lab.audit.report import Report, Setting


def audit(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PLAN|RUN]",
            help="A plan, in TOML, or the folder of a run; a standard configuration if left out.",
        ),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Attack a plan's uploads as a curious server, on synthetic data.

    Exit code 1 if something is recovered under the protections of the plan.
    """
    from catchment_lab.audit.report import audit as run_audit

    setting = None if source is None else _setting(source, data)
    with waiting("attacking", quiet=as_json):
        report = run_audit(setting)
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)
    if report.leaks:
        raise typer.Exit(1)


def _setting(source: Path, data: Path | None) -> Setting:
    """Return what a plan's clients and protections look like; sizes come from its data."""
    import numpy as np

    from catchment.engine import data_of
    from catchment.federation.runs import PLAN
    from catchment.plans import read_plan
    from catchment.privacy import GaussianNoise, SecureAggregation
    from catchment_lab.audit.report import Setting

    # A run keeps its plan, not its data: those are named from where one is.
    file = read_plan(source / PLAN, base=Path()) if source.is_dir() else read_plan(source)
    held = file.load_data(data)
    workflow = file.workflow(held.about, n_clients=len(held.train))
    widest = max(workflow.start().maps, key=lambda one: one.n_features)
    looked_at = [list(data_of(held.train[name])()) for name in sorted(held.train)[:20]]
    secure = next((p for p in workflow.protections if isinstance(p, SecureAggregation)), None)
    noise = [p for p in workflow.protections if isinstance(p, GaussianNoise)]
    return Setting(
        features=widest,
        n_inputs=workflow.n_inputs,
        n_clients=len(held.train),
        sequences=int(np.median([len(sequences) for sequences in looked_at])),
        steps=int(np.median([s.n_steps for sequences in looked_at for s in sequences])),
        n_classes=len(held.about.classes or ()),
        secure=secure is not None,
        min_clients=secure.min_clients if secure else 10,
        rows_per_feature=secure.rows_per_feature if secure else 20.0,
        noise=noise[0] if noise else None,
        plasticity=False,
    )


def _print(report: Report) -> None:
    from catchment_lab.audit.report import VIEWS

    about = ", ".join(f"{value} {name}" for name, value in report.configuration.items() if value)
    typer.echo(f"generated data: {about}\n")
    rows = [
        (finding.attack, *(finding.outcomes[view].word for view in VIEWS))
        for finding in report.findings
    ]
    print_table(("attack", *VIEWS), rows)
    typer.echo(f"\nWith this plan the server's view is: {report.configured}")
    for finding in report.findings:
        mark = "LEAK" if finding.leaks(report.configured) else "    "
        outcome = finding.outcomes[report.configured]
        typer.echo(f"{mark} {finding.asks}: {outcome.text}")
    if report.left_out:
        typer.echo(f"\n{report.left_out}")
    typer.echo(
        "\nAn attack that finds nothing proves nothing; only noise gives a bound "
        f"({report.seconds:.0f} s)"
    )
