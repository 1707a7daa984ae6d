"""A demonstration: training strategies side by side, on people who took no part in training."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from catchment.data.synthetic import synthetic_wearables
from catchment.federation.measure.baselines import Comparison
from catchment.federation.runs.folder import DATABASE
from catchment.plans.file import example_plan, parse_plan
from catchment.plans.run import Watch, run_plan
from catchment.plugins import installed
from catchment.report.html import write_report
from catchment.verbs import federate

NOTES = {
    "wearables": "Wearables are synthetic: results on them say nothing about people.",
    "uci_har": "UCI HAR is not here; `catchment data path uci_har` says where to get it.",
}


@dataclass(frozen=True, eq=False)
class Shown:
    """What the demonstration found: a comparison per data set, remarks, and the report's path."""

    comparisons: Mapping[str, Comparison]
    notes: tuple[str, ...]
    report: Path


def run_demo(folder: str | Path, *, data: Path | None = None, watch: Watch | None = None) -> Shown:
    """Run the demonstration anew into a folder, and write its report there.

    Parameters
    ----------
    folder
        Where its runs are kept; earlier ones of the same names are replaced.
    data
        Directory of public data sets; the usual ones if not given.
    watch
        Called with (stage, round, clients done, clients asked).
    """
    folder = Path(folder)
    names = ["wearables"]
    notes = [NOTES["wearables"]]
    public = installed("sources").get("uci_har")
    if public is not None and public.load().is_here("uci_har", data):
        names.append("uci_har")
    else:
        notes.append(NOTES["uci_har"])
    if watch is not None:
        watch("compiling, once", 0, 0, 0)
    # Whoever comes first below would be charged for it.
    federate("default", synthetic_wearables(3, windows_per_user=6))
    comparisons = {}
    for name in names:
        if (folder / name / DATABASE).is_file():  # of an earlier demonstration
            shutil.rmtree(folder / name)
        plan = parse_plan(example_plan(f"demo_{name}"))
        done = run_plan(plan, folder / name, data=data, watch=watch).run
        assert done.comparison is not None
        comparisons[plan.title] = done.comparison
    report = write_report([folder / name for name in names], folder / "report.html")
    return Shown(comparisons, tuple(notes), report.resolve())
