"""The results of `benchmarks.dynamics` as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write_table(results: dict[str, Any], path: Path) -> None:
    """Write the tables of maps, of thinning and of jobs."""
    lines = ["# Maps with a row per step", "", "By `python -m benchmarks.dynamics`.", ""]
    if "dynamics" in results:
        lines += _dynamics(results["dynamics"], results["seeds"])
    if "thinning" in results:
        lines += _thinning(results["thinning"])
    if "jobs" in results:
        lines += _jobs(results["jobs"])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _dynamics(tasks: dict[str, Any], n_seeds: int) -> list[str]:
    names = list(next(iter(tasks.values())))
    lines = [
        f"## 400 features, NRMSE on 1 800 test steps, mean ± sd of {n_seeds} seeds",
        "",
        "Settings chosen on the series of two other seeds, where a map has no `defaults` beside",
        "its name; the ridge by generalized cross-validation on the training series.",
        "",
        "| map | " + " | ".join(tasks) + " |",
        "|---" * (len(tasks) + 1) + "|",
    ]
    for name in names:
        cells = [f"{rows[name]['nrmse']:.4f} ± {rows[name]['sd']:.4f}" for rows in tasks.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "Settings that were chosen:", ""]
    for task, rows in tasks.items():
        for name, row in rows.items():
            if row["settings"]:
                told = ", ".join(f"{key}={value!r}" for key, value in row["settings"].items())
                lines.append(f"- {task}, {name}: {told}")
    return [*lines, ""]


def _thinning(tasks: dict[str, Any]) -> list[str]:
    kept = list(next(iter(tasks.values())))
    lines = [
        "## What thinning costs: 200 units, 16 000 steps, NRMSE",
        "",
        "| one row of | " + " | ".join(kept) + " |",
        "|---" * (len(kept) + 1) + "|",
    ]
    for task, errors in tasks.items():
        lines.append(f"| {task} | " + " | ".join(f"{errors[k]:.4f}" for k in kept) + " |")
    return [*lines, ""]


def _jobs(jobs: dict[str, Any]) -> list[str]:
    lines = [
        "## Jobs A2 to A6, one thread, CPU time",
        "",
        "Microseconds a step for statistics and a solve. Errors are NRMSE on series of as many",
        "steps, mean of three seeds: EchoState as it is timed / with defaults / diagonal. Times of",
        "the diagonal reservoir are for the settings of that task; `times as fast` is the time in",
        "float64 over it, and that in fixed point. The first table shows what an EchoState can do",
        "that is chosen for a task.",
        "",
        "| job | EchoState | float64 | fixed point | diagonal | task | µs | times as fast "
        "| errors |",
        "|---" * 9 + "|",
    ]
    for name, job in jobs.items():
        times, size = job["us a step"], job["echo state"]
        own = f"{job['diagonal']['units']} units, one row of {job['diagonal']['every']}"
        for task, errors in job["errors"].items():
            mine = times[task]
            ratio = f"{times['float64'] / mine:.1f}, {times['grid'] / mine:.1f}"
            told = " / ".join(f"{value:.4f}" for value in errors.values())
            lines.append(
                f"| {name} | {size['units']} units, {size['steps']} steps | {times['float64']:.3g} "
                f"| {times['grid']:.3g} | {own} | {task} | {mine:.3g} | {ratio} | {told} |"
            )
    return [*lines, ""]
