"""Accuracy against bytes: the same readout by every upload that a ridge has.

For each map, on the same people: the bytes that one client sends (the mean over clients) as the
dense float64 Gram matrix that a direct implementation would send, as statistics, as the smaller of
statistics and rows of a low-rank Gram matrix, under secure aggregation, and as gradients over
rounds, in the clear and under secure aggregation; with the accuracy on people who did not train.
What is sent in the clear is counted on real messages; under secure aggregation an integer is 8
bytes and another 16, and the rounds of gradients are those of the run in the clear.

    python -m benchmarks.uploads                 # the maps of MAPS
    python -m benchmarks.uploads --quick         # two small ones

A map is anything that `federate` takes; add a line to MAPS.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import RESULTS, write
from catchment import EchoState, Recording, evaluate, federate
from catchment.data import synthetic_wearables
from catchment.features import FeatureMap, MiniRocket
from catchment.federation import Record
from catchment.readout import FixedPoint, packed_length
from catchment_research.learn import ConjugateGradients

Clients = Mapping[str, Sequence[Recording]]
MAPS: dict[str, FeatureMap] = {
    **{f"reservoir {units}": EchoState(units, seed=0) for units in (50, 100, 200, 400)},
    **{f"MiniRocket {n}": MiniRocket(n, seed=0) for n in (504, 1008, 2016)},
}
UPLOADS: dict[str, Any] = {
    "statistics": "statistics",
    "auto": "auto",
    "gradients": ConjugateGradients,
}
MASKED_WHOLE, MASKED_FLOAT = 8, 16  # bytes of a number under secure aggregation
RIDGE = 10.0  # one for all, so that readouts can be compared
WINDOWS = (40, 200)  # of a client


def people(windows: int) -> tuple[Clients, Clients]:
    """Return ten people who train, and five who do not."""
    everyone = synthetic_wearables(n_users=15, windows_per_user=windows, steps=64, seed=1)
    names = sorted(everyone)
    return {n: everyone[n] for n in names[:10]}, {n: everyone[n] for n in names[10:]}


def masked_bytes(features: FeatureMap, n_targets: int) -> int:
    """Return the bytes of one client's statistics under secure aggregation."""
    F, K = features.n_features, n_targets
    entries = {"feature_sum": F, "target_sum": K, "cross": F * K}
    entries |= {"gram": packed_length(F), "target_gram": packed_length(K)}
    grid = FixedPoint.of(features, classes=True)
    if grid is None:
        return MASKED_FLOAT * sum(entries.values())
    return sum(MASKED_WHOLE * grid.limbs[name] * n for name, n in entries.items())


def measured(name: str, described: FeatureMap, windows: int) -> dict[str, object]:
    """Return the bytes of a client by every upload, and the accuracy."""
    train, test = people(windows)
    runs = {
        way: federate(described, train, ridge=RIDGE, upload=upload)
        for way, upload in UPLOADS.items()
    }
    plain, auto, rounds = runs["statistics"], runs["auto"], runs["gradients"]
    features, K = plain.known.maps[0], plain.model.readout.n_outputs
    F, n_rounds = features.n_features, len(rounds.records)
    # One after the other: rounds of directions end with those that are not asked any more.
    directions = int(rounds.records[-1].figures["directions"])
    exact = plain.model.readout.weights
    off = np.linalg.norm(rounds.model.readout.weights - exact) / np.linalg.norm(exact)
    scores = evaluate(plain.model, test).total
    assert scores is not None
    assert auto.statistics.digest() == plain.statistics.digest()
    return {
        "map": name,
        "features": F,
        "rows": windows,
        "accuracy": scores.value,
        "dense float64": 8 * (F * F + F * K),
        "statistics": _each(plain.records),
        "smallest": _each(auto.records),
        "secure statistics": masked_bytes(features, K),
        "gradients": _each(rounds.records),
        "secure gradients": MASKED_FLOAT * (F * (K + 2) + F * directions),
        "rounds": n_rounds,
        "distance of gradients": float(off),
        "same digest": True,
        "why": auto.upload,
    }


def _each(records: Sequence[Record]) -> int:
    """Return the bytes that a client sends on average."""
    return round(sum(record.bytes_up / record.n_used for record in records))


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the results as a table in Markdown."""
    columns = (
        *("dense float64", "statistics", "smallest", "secure statistics"),
        *("gradients", "secure gradients"),
    )
    titles = ("map", "features", "rows", "accuracy", *(f"{c}, kB" for c in columns), "rounds")
    lines = [
        "# Accuracy against bytes",
        "",
        f"What one client sends, by every upload; ridge {RIDGE:g}, people who did not train. Made "
        f"by `python -m benchmarks.uploads` (gradients of at most "
        f"{max(float(row['distance of gradients']) for row in rows):.0e} from the exact weights; "
        "`smallest` has the digest of `statistics` in every row).",
        "",
        f"| {' | '.join(titles)} |",
        f"|{'---|' * len(titles)}",
    ]
    for row in rows:
        sizes = (f"{row[column] / 1000:.1f}" for column in columns)
        told = (row["map"], row["features"], row["rows"], f"{row['accuracy']:.3f}", *sizes)
        lines.append(f"| {' | '.join(map(str, told))} | {row['rounds']} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str], folder: Path = RESULTS) -> None:
    """Measure every map and write results/uploads.json and results/uploads.md."""
    quick = "--quick" in arguments
    maps = dict(list(MAPS.items())[:2]) if quick else MAPS
    rows = []
    for windows in WINDOWS[: 1 if quick else None]:
        for name, described in maps.items():
            rows.append(measured(name, described, windows))
            print(rows[-1], flush=True)
    most = ConjugateGradients(features=EchoState(5).build(1, per_step=True), ridge=1.0).max_rounds
    if not quick:
        write("uploads", {"ridge": RIDGE, "most rounds": most, "rows": rows}, folder=folder)
        (folder / "uploads.md").write_text(table(rows), encoding="utf-8")
    else:
        print(table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
