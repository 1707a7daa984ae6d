"""What devices that train need: RAM, flash, instructions, bytes, on emulated boards.

    python -m tools.edge run --devices 21 --data .data --out runs/edge.json
    python -m benchmarks.edge --federations runs/edge.json     # writes results/edge.json
    python -m benchmarks.edge --masks                          # only what masks cost
    python -m benchmarks.edge --tables                         # tables of guides/edge-boards.md

The first line trains 21 boards on UCI HAR, for a quarter of an hour on two cores. RAM is with the
stack, as the linker gives it; instructions are those that qemu counts.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.fixed_point_tables import markdown
from benchmarks.record import RESULTS, write
from tools.edge.counts import counted, counted_masks
from tools.edge.federation import Recipe
from tools.edge.needs import missing
from tools.edge.recipes import RECIPES

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "edge-boards.md"
NEIGHBORS = 24  # of secure aggregation
PROCESSORS = {"cortex-m4": "Cortex-M4F", "cortex-m0plus": "Cortex-M0+"}

Results = Any  # of json.loads


def device(recipe: Recipe, cpu: str) -> dict[str, object]:
    """Return what the plan of a device says, what the linker says and what the emulator counts."""
    one = replace(recipe, cpu=cpu)
    with tempfile.TemporaryDirectory(prefix="edge-") as folder:
        place = Path(folder)
        facts = one.write(place).facts()
        firmware = one.firmware(place)
        counting = one.firmware(place, memory=True, counted=True)
        counts = counted(counting, int(facts["features"]), place)
    return {
        "processor": PROCESSORS[cpu],
        "features": facts["features"],
        "ram": firmware.ram,
        "flash": firmware.flash,
        "planned ram, without stack": facts["ram"],
        "planned tables": facts["tables"],
        "planned upload, at most": facts["upload"],
        "multiply-adds a step": facts["operations"],
        "stack used": counts.stack,
        "instructions, a step of training": counts.trained_step,
        "instructions, a step of predicting": counts.predicted_step,
        "instructions, an upload": counts.upload,
    }


def masks(recipe: Recipe, cpu: str) -> dict[str, object]:
    """Return what masks of secure aggregation add to a device."""
    plain, masked = replace(recipe, cpu=cpu), replace(recipe, cpu=cpu, masks=NEIGHBORS)
    with tempfile.TemporaryDirectory(prefix="edge-") as folder:
        before, after = plain.firmware(Path(folder) / "a"), masked.firmware(Path(folder) / "b")
        counting = masked.firmware(Path(folder) / "b", memory=True, counted=True)
        counts = counted_masks(counting, Path(folder))
    return {
        "processor": PROCESSORS[cpu],
        "neighbors": NEIGHBORS,
        "ram more": after.ram - before.ram,
        "flash more": after.flash - before.flash,
        "stack used": counts.stack,
        "instructions, a key agreed on": counts.agreement,
        "instructions, sums under three masks": counts.masked,
        "numbers in the sums": counts.numbers,
    }


def masks_table(results: Mapping[str, Results]) -> str:
    """Return what masks cost, as Markdown."""
    rows = [
        [
            found["processor"],
            f"{found['ram more']:,}",
            f"{found['flash more']:,}",
            f"{found['instructions, a key agreed on'] / 1e6:.1f} million",
            f"{found['instructions, sums under three masks'] / 1e6:.1f} million",
        ]
        for found in results["masks"]
    ]
    head = ["processor", "RAM more, bytes", "flash more, bytes", "instructions, a key agreed on"]
    return markdown([*head, "sums under three masks"], rows)


def devices_table(results: Mapping[str, Results]) -> str:
    """Return what each device needs, as Markdown."""
    federations = results["federations"]
    rows = [
        [
            name,
            str(found["features"]),
            found["processor"],
            f"{found['ram']:,}",
            f"{found['flash']:,}",
            f"{found['instructions, a step of training']:,}",
            f"{found['instructions, a step of predicting']:,}",
            f"{federations[name]['upload']:,}" if name in federations else "",
        ]
        for name, of_name in results["devices"].items()
        for found in of_name
    ]
    head = ["echo states", "features", "processor", "RAM, bytes", "flash, bytes"]
    head += ["instructions a step, training", "predicting", "upload, bytes"]
    return markdown(head, rows)


def federations_table(results: Mapping[str, Results]) -> str:
    """Return how federations of devices compare with one process, as Markdown."""
    rows = []
    for name in (one for one in results["devices"] if one in results["federations"]):
        found = results["federations"][name]
        same = found["digest"] == found["pooled_digest"]
        digest = f"one SHA-256, `{found['digest'][:16]}`"
        apart = f"G to {found['gram_error']:.1e}, C to {found['cross_error']:.1e}"
        rows.append(
            [
                name,
                str(found["devices"]),
                f"{found['rows']:,}",
                digest if same else apart,
                f"{found['agree']:,} of {found['tested']:,}",
                f"{found['device_agree']:,}",
                f"{found['accuracy']:.2%}, {found['pooled_accuracy']:.2%}",
            ]
        )
    head = ["echo states", "devices", "windows", "their sum and that of one process"]
    head += ["same predictions", "on the devices", "right, and of one process"]
    return markdown(head, rows)


TABLES = {"devices": devices_table, "federations": federations_table, "masks": masks_table}


def filled(page: str, results: Mapping[str, Results]) -> str:
    """Return the page with the tables in their places."""
    for name, table in TABLES.items():
        place = rf"(?<=<!-- table: {name} -->\n\n)(?:\|.*\n)+"
        page, n = re.subn(place, table(results) + "\n", page)
        if n != 1:
            raise ValueError(f"the page has {n} places for the table of {name}; it needs one")
    return page


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What devices that train need.")
    parser.add_argument("--federations", type=Path, metavar="FILE", help="of tools.edge run")
    parser.add_argument("--masks", action="store_true", help="measure only what masks cost")
    parser.add_argument("--tables", action="store_true", help="write the tables into the page")
    given = parser.parse_args(words)
    kept = RESULTS / "edge.json"
    if given.tables:
        results = json.loads(kept.read_text("utf-8"))
        PAGE.write_text(filled(PAGE.read_text("utf-8"), results), "utf-8")
        return
    if missing():
        sys.exit(missing())
    results = json.loads(kept.read_text("utf-8")) if kept.exists() else {"federations": {}}
    results = {key: found for key, found in results.items() if key != "machine"}
    if given.federations:
        results["federations"] = json.loads(given.federations.read_text("utf-8"))
    if not given.masks:
        results["devices"] = {
            name: [device(recipe, cpu) for cpu in PROCESSORS] for name, recipe in RECIPES.items()
        }
    results["masks"] = [masks(next(iter(RECIPES.values())), cpu) for cpu in PROCESSORS]
    print(write("edge", results | {"tools": versions()}))


def versions() -> dict[str, str]:
    """Return the first line that compiler and emulator say of themselves."""
    words = {"compiler": "arm-none-eabi-gcc", "emulator": "qemu-system-arm"}
    return {
        name: subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=True
        ).stdout.splitlines()[0]
        for name, program in words.items()
    }


if __name__ == "__main__":
    main()
