"""What a client sends for the default map under secure aggregation, beside the clear.

    python -m reproductions.map_secure --out results

writes maps_secure.json: bytes of the largest message of a training person, all rounds together.
Two rows a feature, the fewest that are allowed: with the usual twenty a person of these sets has
too few windows for 510 columns, and refuses.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import catchment as ct
from reproductions.map_sets import folded

FILE = "maps_secure.json"
ROWS = 2.0
NAMES = {"clear": 0, "secure": 128, "secure, 32 bits": 32}


def sent(run: ct.Run) -> float:
    """Return the bytes of the client that sent most."""
    total: dict[str, int] = {}
    for _, notes in run.held.values():
        for entry in notes.entries:
            if entry.direction == "up":
                total[entry.client] = total.get(entry.client, 0) + entry.n_bytes
    return float(max(total.values()))


def measured(sets: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return bytes by set and way."""
    found: dict[str, dict[str, float]] = {}
    for name in sets:
        data = folded(name)
        people = {who: list(data.clients[who]) for who in data.training(0)}
        keys = ct.generate_keys(people)
        for way, bits in NAMES.items():
            secure = ct.SecureAggregation(
                keys,
                min_clients=5,
                rows_per_feature=ROWS,
                bits=bits or 128,  # type: ignore[arg-type]
            )
            protections = [secure] if bits else []
            run = ct.federate("default", people, classes=data.classes, protections=protections)
            found.setdefault(name, {})[way] = sent(run)
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--sets", default="uci_har,hhar")
    given = parser.parse_args()
    found = measured(given.sets.split(","))
    (given.out / FILE).write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
