"""The table of docs/results.md, made from results/peers.json.

python -m benchmarks.peer_table
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "peers.json"


def peer_table(jobs: Mapping[str, Mapping[str, Any]]) -> str:
    """Return CPU microseconds per step of a whole job on one thread, and ratios, as Markdown."""
    lines = [
        "| job | units, connected | catchment | esnfed | ReservoirPy | numpy loop | "
        "faster than esnfed as it comes | than any peer's best path | floor = 100% | two cores |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, job in jobs.items():
        cpu = {
            who: seconds / job["n_steps"] * 1e6
            for who, seconds in job["cpu_seconds_one_thread"].items()
        }
        best = job["best_peer"]
        lines.append(
            f"| {name} {job['kind']} | {job['units']}, {job['density']:.0%} "
            f"| {cpu['catchment']:.2f} | {cpu['esnfed']:.1f} | {cpu['reservoirpy']:.1f} "
            f"| {cpu['numpy loop']:.1f} | **{job['speed_against_default']:.1f}×** "
            f"| {job['speed_against_best_peer']:.1f}× ({best}) | {1 / job['ours_over_floor']:.0%} "
            f"| {job['all_cores_against_one']:.2f}× |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(peer_table(json.loads(RESULTS.read_text())["jobs"]))
