"""The self-test of the generated file: passes as it is, and fails if anything was changed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.export.compiled import SANITIZED, build
from tests.export.test_c_echo_state import recordings

import catchment as ct
from catchment.export import c_code

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


@pytest.mark.parametrize("number", ["whole", "q15", "float32"])
def test_it_passes_under_the_sanitizers(number: Any, tmp_path: Path) -> None:
    data = recordings()
    model = ct.fit(ct.Pipeline(ct.Prepare(window=40, step=20), ct.EchoState(20)), data)
    c_code(model, name="har", number=number).write(tmp_path)
    assert selftest(tmp_path, *SANITIZED) == 0


def test_a_changed_weight_is_found(tmp_path: Path) -> None:
    model = ct.fit(ct.Pipeline(ct.Prepare(window=40), ct.EchoState(20)), recordings())
    source, _ = c_code(model, name="har").write(tmp_path)
    text = source.read_text()
    found = re.search(r"map_0_recurrent_values\[\d+\] = \{\s*(-?\d+)", text)
    assert found is not None
    changed = text[: found.start(1)] + str(int(found[1]) ^ (1 << 16)) + text[found.end(1) :]
    source.write_text(changed)
    assert selftest(tmp_path) != 0


def test_steps_and_whole_recordings(tmp_path: Path) -> None:
    u = np.sin(np.arange(400) / 4)[:, None]
    forecast = ct.fit(ct.Pipeline(ct.Prepare(horizon=2), ct.EchoState(20, washout=30)), [u])
    c_code(forecast, name="har").write(tmp_path)
    assert selftest(tmp_path) == 0
    whole = ct.fit(ct.EchoState(20, pool="mean", segments=3), recordings())
    c_code(whole, name="har").write(tmp_path)
    assert selftest(tmp_path) == 0
