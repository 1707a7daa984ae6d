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
        for name, one in _today(forms):
            far = one["largest difference of a score"]
            lines.append(
                f"| {size}: {name} | {one['flash']:,} | {one['ram']:,} | "
                f"{one['microseconds']:.2f} | {far:.0e} |"
            )
    for number, one in _today(results["from raw samples"]):
        name = f"window statistics of raw samples and the readout: catchment, {number}"
        lines.append(f"| {name} | {one['flash']:,} | {one['ram']:,} | | |")
    return "\n".join(lines)


def _today(measured: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return what was measured of forms that there still are: single precision went."""
    return [(name, one) for name, one in measured.items() if "float32" not in name]


if __name__ == "__main__":
    print(edge_peer_table(json.loads(RESULTS.read_text())))
