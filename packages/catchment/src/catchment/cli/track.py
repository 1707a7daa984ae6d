"""`--track`: runs are logged elsewhere once they are over."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from catchment.plugins import plugin


class Tracker(StrEnum):
    """Where a run may be logged."""

    mlflow = "mlflow"


def _installed(tracker: Tracker | None) -> Tracker | None:
    """Return what was asked for; MissingExtraError before the run, not after it, if it lacks."""
    if tracker is not None:
        plugin("reports", "track", needed_for="logs of runs")
    return tracker


TrackOption = Annotated[
    Tracker | None,
    typer.Option(
        "--track",
        callback=_installed,
        help="Log the run once it is over; where to is up to $MLFLOW_TRACKING_URI.",
    ),
]


def track_run(tracker: Tracker | None, folder: Path) -> None:
    """Log a run that is over, if that was asked for, and say under which name, or why not."""
    if tracker is None:
        return
    from catchment.errors import FederationError

    try:
        logged = plugin("reports", "track")(folder)
        typer.secho(f"{tracker}: {logged}", err=True)
    except FederationError as error:  # the run's own results are still to be shown
        typer.secho(f"warning: {error}", fg=typer.colors.YELLOW, err=True)
