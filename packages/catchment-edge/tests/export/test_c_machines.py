"""Every map as C on other processors: the self-test there has the hashes of the library's rows."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import catchment as ct
from catchment_edge import c_code
from tests.export.models import untrained
from tools.portable.machines import EMULATED, Machine

MAIN = """
#include "model.h"
static struct model_state state;
int main(void)
{
    return model_selftest(&state);
}
"""
ALL_WINDOWS = ct.FeatureUnion(
    ct.AppendNorm(ct.FeatureUnion(ct.WindowStatistics(), ct.MiniRocket(60), ct.Hydra(32))),
    ct.DiagonalReservoir(20),
    ct.RandomProjection(ct.MiniRocket(40), 20),
    ct.RandomFourierFeatures(ct.EchoState(10), 20),
)
ALL_STEPS = ct.FeatureUnion(
    ct.NVAR(2, order=3), ct.DiagonalReservoir(20), ct.RandomFourierFeatures(features=20)
)
# What a careless build may have: multiplications fused with additions where the processor can.
CARELESS = ("-std=gnu11", "-O3", "-ffp-contract=fast", "-static")


def ends(machine: Machine, model: ct.Model, folder: Path, **options: Any) -> int:
    """Return what the self-test returns on a machine."""
    source, _ = c_code(model, **options).write(folder)
    (folder / "main.c").write_text(MAIN)
    files = [str(source), str(folder / "main.c"), "-o", str(folder / "main")]
    subprocess.run([*machine.compiler, *CARELESS, "-DMODEL_SELFTEST", *files], check=True)
    return subprocess.run([*machine.runner, str(folder / "main")], check=False).returncode


@pytest.mark.slow
@pytest.mark.parametrize("machine", EMULATED[:3], ids=lambda one: one.name)
def test_features_are_the_librarys_on_any_processor(machine: Machine, tmp_path: Path) -> None:
    if machine.missing():
        pytest.skip(machine.missing())
    windows = untrained(ALL_WINDOWS, window=50, step=25)
    assert ends(machine, windows, tmp_path) == 0
    assert ends(machine, untrained(ALL_STEPS, per_step=True), tmp_path) == 0
