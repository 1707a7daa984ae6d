"""The tables of docs/guides/gpu.md, from gpu.json.

    python -m benchmarks.gpu_tables                     # writes them into the page

A test holds the page to the results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.fixed_point_tables import RESULTS, ROOT, markdown

PAGE = ROOT / "docs" / "guides" / "gpu.md"

Results = Mapping[str, Any]  # of json.loads


def states_table(results: Results) -> str:
    """Return million client-steps a second of each shape, as Markdown."""
    names = ("grid", "float64", "plain loop", "plain graph", "grid costs", "grid, from the host")
    rows = []
    for line in results["echo_states"]:
        found = [f"{line[name]:.1f}" if name in line else "" for name in names]
        if "grid costs" in line:
            found[4] = f"{line['grid costs']:.2f}"
        rows.append([f"{line['units']}", f"{line['sequences']}", *found])
    head = ["units", "sequences", "in fixed point", "in float64", "plain torch, loop"]
    head += ["plain torch, graph", "what fixed point costs", "fixed point, inputs from the host"]
    return markdown(head, rows)


def statistics_table(results: Results) -> str:
    """Return recordings a second from recordings to statistics, as Markdown."""
    rows = [
        [
            line["map"],
            f"{line['recordings']:,} of {line.get('steps', 128)} steps",
            f"{line['device, /s']:,}",
            f"{line['CPU, /s']:,}",
            f"{line['times']:.1f}",
        ]
        for line in (*results["window_maps"], *results["statistics"])
    ]
    return markdown(["map", "recordings", "GPU", "16 cores", "times"], rows)


def seconds_table(results: Results) -> str:
    """Return what else was timed, as Markdown."""
    (gram,), (one,), (search,) = results["gram"], results["one_sequence"], results["search"]
    rows = [
        [
            f"products of {gram['rows']:,} rows of {gram['features']:,} features, 20 bits",
            f"{gram['20 bits, s']:.3f} s",
            f"{gram['plain torch, float64, s']:.3f} s: `z @ z.T` in float64",
        ],
        ["the same, 8 bits", f"{gram['8 bits, s']:.3f} s", "the same"],
    ]
    for line in results["long_sequence"]:
        few, seconds = next((k, v) for k, v in line.items() if k.startswith("CPU on"))
        steps = int(few.split()[2])
        rows.append(
            [
                f"statistics of one recording of {line['steps']:,} steps, "
                f"`DiagonalReservoir({line['units']})`",
                f"{line['device, s']:.2f} s",
                f"{seconds:.2f} s for {steps:,} steps: CPU",
            ]
        )
    for line in results["outputs"]:
        rows.append(
            [
                "predictions, 200 units, "
                + ("a row per step" if line["rows of a recording"] > 1 else "one a recording"),
                f"{line['device, rows/s']:,} rows/s",
                f"{line['CPU, rows/s']:,} rows/s: 16 cores",
            ]
        )
    trials, here = next((k, v) for k, v in search.items() if k.endswith("on one core, s"))
    rows.append(
        [
            f"search of {search['recipes']} recipes on {search['data']}, "
            f"{search['windows']:,} windows",
            f"{search['device, s']:.0f} s",
            f"{here:.0f} s for the first {trials.split()[1]} of them: one core",
        ]
    )
    peer = "esnfed, its loop on this machine, steps/s"
    published = one["esnfed, published"]["steps/s"]
    beside = (
        f"published by esnfed for its script, float32: {published:,} steps/s, not measured here"
    )
    if peer in one:
        beside = f"{one[peer]:,} steps/s: esnfed's script, float32 ({published:,} published)"
    rows.append(
        [f"one sequence, {one['units']} units", f"{one['grid, steps/s']:,} steps/s", beside]
    )
    return markdown(["", "GPU", "beside it"], rows)


TABLES: dict[str, Callable[[Results], str]] = {
    "gpu echo states": states_table,
    "gpu statistics": statistics_table,
    "gpu seconds": seconds_table,
}


def measured(name: str) -> str:
    """Return the table of this name."""
    return TABLES[name](json.loads((RESULTS / "gpu.json").read_text("utf-8")))


def filled(page: str) -> str:
    """Return the page with every table in its place."""
    for name in TABLES:
        place = rf"(?<=<!-- table: {name} -->\n\n)(?:\|.*\n)+"
        page, n = re.subn(place, measured(name).replace("\\", r"\\") + "\n", page)
        if n != 1:
            raise ValueError(f"the page has {n} places for the table of {name}; it needs one")
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
