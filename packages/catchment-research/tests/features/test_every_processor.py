"""Recorded hashes of drawn recipes, found again with the kernels of other processors.

`python -W ignore -m tests.features.test_every_processor` writes the record anew: do so only where a
map is meant to change, and say in CHANGELOG.md which.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

from tests.features.drawn_recipes import NAMES, hashes

RECORD = Path(__file__).parent / "data" / "every_processor.json"
ROOT = Path(__file__).parents[2]
ALL, DAILY = 200, len(NAMES)  # a recipe of every kind
GENERIC = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "OPENBLAS_CORETYPE": "Prescott"}
# numpy's own vector code is turned down together with that of the linear algebra.
PLAIN = {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F"}
CORES = [
    {"OPENBLAS_CORETYPE": "Haswell"},
    {"OPENBLAS_CORETYPE": "SkylakeX"},
    {"OPENBLAS_CORETYPE": "Sandybridge", "OPENBLAS_NUM_THREADS": "2"},
    PLAIN,
    {"OPENBLAS_CORETYPE": "Prescott"},
]


def name(settings: Mapping[str, str]) -> str:
    return " ".join(filter(None, settings.values()))


def recorded() -> list[dict[str, str | None]]:
    rows: list[dict[str, str | None]] = json.loads(RECORD.read_text("utf-8"))
    return rows


def found_by(settings: Mapping[str, str], n: int) -> list[dict[str, str | None]]:
    """Return the hashes that a new process finds with these settings."""
    core = settings["OPENBLAS_CORETYPE"]
    if core == "SkylakeX" and not _has("avx512f"):
        pytest.skip("this processor has no AVX-512")
    if not any("openblas" in str(one.get("internal_api")) for one in threadpool_info()):
        pytest.skip("numpy is not built with OpenBLAS, whose kernels can be chosen")
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.features.drawn_recipes", "0", str(n)],
        env=os.environ | settings | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def _has(feature: str) -> bool:
    about = Path("/proc/cpuinfo")
    return about.exists() and feature in about.read_text("utf-8").split()


def test_the_record_has_every_map_and_no_hash_twice() -> None:
    rows = recorded()
    assert len(rows) == ALL
    assert [row["map"] for row in rows[:DAILY]] == list(NAMES)
    for kind in ("sum", "file", "solved"):
        told = [row[kind] for row in rows if row[kind] is not None]
        assert len(told) > 180
        assert len(set(told)) == len(told)


@pytest.mark.parametrize("settings", CORES, ids=name)
def test_a_recipe_of_every_map_has_the_recorded_hashes(settings: dict[str, str]) -> None:
    assert found_by(settings, DAILY) == recorded()[:DAILY]


@pytest.mark.long
@pytest.mark.parametrize("settings", [*CORES, GENERIC], ids=name)
def test_two_hundred_recipes_have_the_recorded_hashes(settings: dict[str, str]) -> None:
    assert found_by(settings, ALL) == recorded()


if __name__ == "__main__":
    lines = [json.dumps(hashes(number)) for number in range(ALL)]
    RECORD.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
