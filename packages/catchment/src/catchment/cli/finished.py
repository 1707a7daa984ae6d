"""What commands print when a run is over: who took part, how well it went, what to type next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from catchment.cli.show import print_json, print_table, size

if TYPE_CHECKING:
    from catchment.federation.measure.baselines import Comparison
    from catchment.federation.runs.read import Run
    from catchment.plans.file import PlanFile

MOST_NAMED = 100  # clients that were left out, on the terminal


def print_finished(done: Run, folder: Path, file: PlanFile) -> None:
    """Print what came of a run: the headline, the comparison, and what to type next.

    Parameters
    ----------
    done
        The run as `read_run` has it.
    folder
        Where it is kept, as the user wrote it.
    file
        The plan that was run.
    """
    from catchment.federation.runs.folds import folds_sentence

    for line in opening_lines(done):
        typer.echo(line)
    if done.comparison is not None:
        print_comparison(done.comparison)
    by_folds = folds_sentence(done.facts, done.scores, done.metric)
    if by_folds:
        typer.echo(by_folds)
    for line in (*privacy_lines(done, file), *next_lines(folder, file)):
        typer.echo(line)


def print_finished_as_json(done: Run, folder: Path, notices: Sequence[str] = ()) -> None:
    """Print what came of a run for a script, with what is odd about the data."""
    from catchment.federation.messages import left_out
    from catchment.federation.runs.bounds import bounds_of
    from catchment.federation.runs.explain import thin_clients
    from catchment.federation.runs.folds import folds_of_run

    last, thin = done.rounds["training"][-1], thin_clients(done)
    print_json(
        {
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
    )


def opening_lines(done: Run) -> list[str]:
    """Return how many took part, which map was chosen, and whose inputs can be rebuilt."""
    from catchment.federation.messages import counts
    from catchment.federation.runs.explain import thin_clients
    from catchment.federation.runs.maps import map_sentence

    thin = thin_clients(done)
    time = f", time {done.facts['week']}" if "week" in done.facts else ""
    lines = (
        f"{done.facts['title']}{time}: {counts(done.latest)}",
        map_sentence(done.facts),
        typer.style(thin, fg=typer.colors.YELLOW) if thin else "",
    )
    return [line for line in lines if line]


def privacy_lines(done: Run, file: PlanFile) -> list[str]:
    """Return what is bounded and what is not, and who stands out."""
    from catchment.federation.runs.bounds import bounds_of

    lines = []
    if file.protect and len(done.comparison or ()) > 1:
        own = done.facts["own_row"]
        lines.append(f"rows but {own!r} are from raw data, outside the federation's protections")
    lines += [f"privacy of the {bound}" for bound in bounds_of(done)]
    if file.is_noisy:
        lines.append("other releases of the same data add to that; the plan's budget counts them")
    return lines + [f"stands out: {flag}" for flag in done.flags] + drift_lines(done)


def drift_lines(done: Run) -> list[str]:
    """Return who changed at the last time that a run went on, or that it is too early to say."""
    if "week" not in done.facts:
        return []
    last = done.rounds["training"][-1]
    if "drifted clients" not in last.figures:
        return ["too early to tell who changes: earlier times are too few to compare with"]
    found = [f"changed: {one}" for one in done.drifts if one.round == last.round]
    return found or ["nobody changed more than is usual"]


def next_lines(folder: Path, file: PlanFile) -> list[str]:
    """Return where the run is, and what to type next."""
    from catchment.plans.names import own_classes

    use = "".join(f" --use {name}" for name in own_classes(file.features))
    return [
        f"run: {folder}",
        f"predict: catchment predict {folder} FILES...{use}",
        f"what left each client: catchment explain {folder}",
        f"report: catchment report {folder}",
    ]


def warn_of_left_out(done: Run, *, strict: bool = False) -> None:
    """Print a line on stderr for every client that was left out, with the reason.

    Parameters
    ----------
    strict
        Whether to end the program with exit code 1 if there was one.
    """
    from catchment.federation.messages import left_out_lines

    lines = left_out_lines(done.latest)
    for line in lines[:MOST_NAMED]:
        warn(line)
    if len(lines) > MOST_NAMED:
        more = len(lines) - MOST_NAMED
        warn(f"and {more} more were left out: catchment explain {done.folder}")
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
