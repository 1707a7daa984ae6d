"""The table of docs/guides/export-c.md, made from results/edge_peers.json.

python -m benchmarks.edge_peer_table
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "edge_peers.json"


def edge_peer_table(results: Mapping[str, Any]) -> str:
    """Return bytes and microseconds of a linear model in C, by who wrote it, as Markdown."""
    lines = [
        "| a ridge of 6 classes | flash, bytes | RAM, bytes | a prediction here, µs | "
        "farthest from scikit-learn's scores |",
        "|---|---|---|---|---|",
    ]
    for size, forms in results.items():
        if not size.endswith(" features"):
            continue
        for name, one in forms.items():
            far = one["largest difference of a score"]
            lines.append(
                f"| {size}: {name} | {one['flash']:,} | {one['ram']:,} | "
                f"{one['microseconds']:.2f} | {far:.0e} |"
            )
    for number, one in results["from raw samples"].items():
        name = f"window statistics of raw samples and the readout: catchment, {number}"
        lines.append(f"| {name} | {one['flash']:,} | {one['ram']:,} | | |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(edge_peer_table(json.loads(RESULTS.read_text())))
