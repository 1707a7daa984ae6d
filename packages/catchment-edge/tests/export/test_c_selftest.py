"""The self-test of the generated file: passes as it is, and fails if anything was changed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import catchment as ct
from catchment_edge import c_code
from tests.export.compiled import SANITIZED, build
from tests.export.models import untrained

MAIN = """
#include <stdio.h>
#include "har.h"
static struct har_state state;
int main(void)
{
    int failed = har_selftest(&state);
    if (failed)
        printf("recording %d\\n", failed);
    return failed;
}
"""


def selftest(folder: Path, *flags: str) -> int:
    (folder / "main.c").write_text(MAIN)
    program = folder / "program"
    sources = [str(folder / "main.c"), str(folder / "har.c")]
    build([*sources, "-DHAR_SELFTEST", "-O1", *flags, "-o", str(program), "-lm"])
    return subprocess.run([program], check=False).returncode


def test_it_passes_under_the_sanitizers(tmp_path: Path) -> None:
    model = untrained(ct.EchoState(20, leak_rate=0.5), window=40, step=20)
    c_code(model, name="har").write(tmp_path)
    assert selftest(tmp_path, *SANITIZED) == 0


@pytest.mark.parametrize("rate", [None, 25.0])
def test_windows_in_seconds_of_samples_without_times(rate: float | None, tmp_path: Path) -> None:
    model = untrained(ct.EchoState(20), window="2s", step="1s", rate=rate)
    c_code(model, name="har", rate=25.0).write(tmp_path)
    assert selftest(tmp_path) == 0


@pytest.mark.parametrize(
    ("table", "bit"), [("map_0_recurrent_values", 1 << 17), ("readout_weights", 1 << 24)]
)
def test_a_changed_weight_is_found(table: str, bit: int, tmp_path: Path) -> None:
    source, _ = c_code(untrained(ct.EchoState(10), window=40), name="har").write(tmp_path)
    text = source.read_text()
    found = re.search(rf"{table}\[\d+\] = \{{\s*(-?\d+)", text)
    assert found is not None
    source.write_text(text[: found.start(1)] + str(int(found[1]) ^ bit) + text[found.end(1) :])
    assert selftest(tmp_path) == 1


def test_it_runs_step_by_step_and_over_whole_recordings(tmp_path: Path) -> None:
    steps = ct.EchoState(10, washout=30)
    c_code(untrained(steps, per_step=True), name="har").write(tmp_path)
    assert selftest(tmp_path, *SANITIZED) == 0
    parts = ct.EchoState(10, pool="mean", segments=3)
    c_code(untrained(parts), name="har").write(tmp_path)
    assert selftest(tmp_path, *SANITIZED) == 0
