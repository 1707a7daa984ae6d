"""The plan of RAM, flash and operations against what compilers say, and the file as a file."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment as ct
from catchment.features import EchoState
from catchment_edge import c_code, to_c
from tests.export.compiled import build, compiled
from tests.export.models import signal, untrained
from tools.code_sizes import COMPILER, flash_of

pytestmark = pytest.mark.filterwarnings("ignore::catchment.errors.ClippingWarning")
needs_arm = pytest.mark.skipif(
    shutil.which(COMPILER) is None, reason=f"no {COMPILER} here; make edge installs it"
)
SOME: list[tuple[Any, dict[str, Any]]] = [
    (ct.EchoState(60), {"window": 128, "step": 64}),
    (ct.EchoState(100, bits=15), {"window": 100}),
    (ct.EchoState((30, 20), pool="mean"), {"channels": 6}),
    (ct.EchoState(80, washout=20), {"per_step": True, "classes": False, "outputs": 1}),
    (ct.DefaultMap(300), {"window": 60, "channels": 3}),
    (ct.MiniRocket(84), {"window": 60}),
]


@needs_arm
@pytest.mark.parametrize(("described", "options"), SOME)
def test_flash_is_within_two_hundredths(described: Any, options: Any, tmp_path: Path) -> None:
    code = c_code(untrained(described, **options))
    assert code.plan.flash == pytest.approx(flash_of(code, tmp_path), rel=0.02)


@needs_arm
def test_no_warning_and_the_planned_ram_on_a_cortex_m4(tmp_path: Path) -> None:
    for described, options in SOME[:3]:
        code = c_code(untrained(described, **options))
        source, _ = code.write(tmp_path)
        check = tmp_path / "check.c"
        check.write_text(
            '#include "model.h"\n'
            f"typedef char same[sizeof(struct model_state) == {code.plan.ram} ? 1 : -1];\n"
            "same *unused;\n"
        )
        arm = ["-Os", "-mcpu=cortex-m4", "-mthumb", "-c", "-o", str(tmp_path / "model.o")]
        for text in (source, check):
            build([str(text), *arm], compiler=COMPILER)


def test_ram_is_the_size_of_the_state(tmp_path: Path) -> None:
    made = compiled(untrained(ct.EchoState(11), channels=3, window=20), tmp_path)
    assert ctypes.sizeof(made.state.contents) == made.code.plan.ram
    check = tmp_path / "check.c"
    check.write_text(
        '#include "model.h"\n'
        f"typedef char same[sizeof(struct model_state) == {made.code.plan.ram} ? 1 : -1];\n"
        "same *unused;\n"
    )
    build([str(check), "-c", "-o", str(tmp_path / "check.o")])


def test_operations_are_weights_leaks_and_squares() -> None:
    model = untrained(ct.EchoState(40, pool="mean_std"), window=50, step=25)
    features = model.features
    assert isinstance(features, EchoState)
    (layer,) = features.reservoir.layers
    weights = len(layer.W.values) + len(layer.W_in.values)
    plan = c_code(model).plan
    assert plan.operations == 2 * (weights + 2 * 40 + 42)  # each step is in two windows
    assert plan.readout_operations == 84 * 3


def test_the_longest_recording_makes_the_sums_smaller_and_is_kept_to(tmp_path: Path) -> None:
    model = untrained(ct.EchoState(10))
    made = compiled(model, tmp_path, steps=100)
    assert made.code.plan.ram < c_code(model).plan.ram
    scores = made.predict(signal(100))
    assert scores is not None
    np.testing.assert_allclose(scores, model.scores([signal(100)])[0], rtol=2e-6, atol=1e-6)
    assert made.predict(signal(101)) is None


def test_no_library_is_needed(tmp_path: Path) -> None:
    source, _ = c_code(untrained(ct.EchoState(8, pool="last"))).write(tmp_path)
    build([str(source), "-O1", "-ffreestanding", "-c", "-o", str(tmp_path / "model.o")])
    told = subprocess.run(
        ["nm", "-u", tmp_path / "model.o"], capture_output=True, text=True, check=True
    )
    found = {line.split()[-1] for line in told.stdout.splitlines()}
    assert found <= {"_GLOBAL_OFFSET_TABLE_"}


def test_two_models_are_one_program(tmp_path: Path) -> None:
    first = untrained(ct.EchoState(8), window=20)
    second = untrained(ct.EchoState(9, bits=12), window=20)
    to_c(first, tmp_path, name="first")
    to_c(second, tmp_path, name="second")
    (tmp_path / "main.c").write_text(
        '#include "first.h"\n#include "second.h"\n'
        "static struct first_state a;\nstatic struct second_state b;\n"
        "int main(void)\n{\n    return first_selftest(&a) + second_selftest(&b);\n}\n"
    )
    sources = [str(tmp_path / name) for name in ("main.c", "first.c", "second.c")]
    program = tmp_path / "both"
    build([*sources, "-DFIRST_SELFTEST", "-DSECOND_SELFTEST", "-o", str(program), "-lm"])
    assert subprocess.run([program], check=False).returncode == 0


def test_names_of_classes_survive(tmp_path: Path) -> None:
    names = ('a "b"', "\\n??/", "Zürich", "π/2 %s")
    data = [ct.Recording.labeled(signal(40, seed=k), k % 4, names) for k in range(8)]
    made = compiled(ct.fit(ct.EchoState(5), data), tmp_path)
    assert [made.own_class(row) for row in np.eye(4)] == list(names)
