"""Adapting in C: what the library's float64 gives, on this machine and on the emulated board."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment import Array, Recording, federate
from catchment.data import synthetic_wearables
from catchment.readout import Model, SelfTraining, self_train
from catchment_edge import adapt_code
from catchment_edge.ports import port_files
from tests.export.compiled import STRICT, build

BOARD = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
ROWS = 24


@pytest.fixture(scope="module")
def people() -> dict[str, list[Recording]]:
    return synthetic_wearables(5, 0, windows_per_user=40)


@pytest.fixture(scope="module")
def model(people: dict[str, list[Recording]]) -> Model:
    others = {name: own for name, own in people.items() if name != "user-004"}
    return federate("default", others, adaptable=True).model


@pytest.fixture(scope="module")
def whole(model: Model, people: dict[str, list[Recording]]) -> Any:
    """Return the new person's feature rows as integers (n, F)."""
    assert model.statistics is not None
    assert model.statistics.fixed is not None
    z = np.concatenate(model.pipeline.rows(people["user-004"]))
    rows = z / model.statistics.fixed.scale
    assert (rows == np.rint(rows)).all()
    return rows.astype(np.int16)


def expected(model: Model, whole: Any, rule: SelfTraining | None = None) -> Array:
    """Return the scores that the library's readout, adapted to the rows, gives of them."""
    assert model.statistics is not None
    assert model.statistics.fixed is not None
    z = whole * model.statistics.fixed.scale
    found = self_train(model.statistics, model.readout, z, rule, standardize=True)
    return found.readout(z)


@pytest.mark.parametrize(
    ("rule", "learns"),
    [
        (None, False),  # one of these rows would be renamed, and the gate asks for two
        (SelfTraining(renamed=0), True),
        (SelfTraining(share=0.5, weight=0.3, enough=10), True),
    ],
)
def test_the_scores_are_the_librarys_but_for_rounding(
    model: Model, whole: Any, rule: SelfTraining | None, learns: bool, tmp_path: Path
) -> None:
    code = adapt_code(model, rows=ROWS, rule=rule)
    source, _ = code.write(tmp_path)
    library = tmp_path / "adapt.so"
    build([str(source), *STRICT, "-O1", "-shared", "-fPIC", "-o", str(library), "-lm"])
    loaded = ctypes.CDLL(str(library))
    state = ctypes.create_string_buffer(2 * code.ram)
    loaded.model_adapt_start(state)
    for row in whole[:35]:  # the first eleven go again
        loaded.model_adapt_add(state, np.ascontiguousarray(row).ctypes)
    assert (loaded.model_adapt_run(state) > 0) == learns
    scores = np.zeros((ROWS, len(model.classes or ())), np.float32)
    for k, row in enumerate(whole[11:35]):
        place = np.ascontiguousarray(row).ctypes
        loaded.model_adapt_scores(state, place, scores[k].ctypes)
    np.testing.assert_allclose(scores, expected(model, whole[11:35], rule), atol=2e-3)


MAIN = """
#include "model_adapt.h"
#include "rows.h"
struct timer { volatile uint32_t control, value, reload, interrupt; };
#define TIMER ((struct timer *)0x40000000u)
static struct model_adaptation state;
int main(void);
void board_fault(void);

static void host(uint32_t what, const void *with) /* asks the emulator */
{
    register uint32_t r0 __asm__("r0") = what;
    register const void *r1 __asm__("r1") = with;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void board_fault(void)
{
    host(0x18, (const void *)0x20023);
}

int main(void)
{
    float scores[model_OUTPUTS];
    char said[9] = {0};
    uint32_t ticks;
    int i, k;
    model_adapt_start(&state);
    for (i = 0; i < ROWS; i++)
        model_adapt_add(&state, rows[i]);
    TIMER->reload = TIMER->value = 0xffffffffu;
    TIMER->control = 1;
    if (model_adapt_run(&state) <= 0)
        board_fault();
    ticks = 0 - TIMER->value;
    for (i = 0; i < ROWS; i++) {
        model_adapt_scores(&state, rows[i], scores);
        for (k = 0; k < model_OUTPUTS; k++)
            if (scores[k] > scored[i][k] + 2e-3f || scores[k] < scored[i][k] - 2e-3f)
                board_fault();
    }
    for (i = 0; i < 8; i++, ticks <<= 4)
        said[i] = "0123456789abcdef"[ticks >> 28];
    host(0x04, said);
    host(0x18, (const void *)0x20026);
    return 0;
}
"""


@pytest.mark.slow
def test_an_emulated_board_adapts_within_64_kb(
    model: Model, whole: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool}")
    rule = SelfTraining(renamed=0)
    code = adapt_code(model, rows=ROWS, rule=rule)
    code.write(tmp_path)
    rows, scores = whole[:ROWS], expected(model, whole[:ROWS], rule)
    lines = ["#include <stdint.h>", f"enum {{ ROWS = {ROWS} }};"]
    for kind, name, values, style in (
        ("int16_t", "rows", rows, "{:d}"),
        ("float", "scored", scores, "{:.8e}f"),
    ):
        body = ", ".join("{" + ", ".join(map(style.format, row)) + "}" for row in values.tolist())
        lines.append(f"static const {kind} {name}[{ROWS}][{values.shape[1]}] = {{{body}}};")
    files = {**port_files("mps2_an386"), "rows.h": "\n".join(lines), "main.c": MAIN}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    elf, sources = tmp_path / "adapt.elf", ("startup.c", "main.c", "model_adapt.c")
    # The linker has 64 kB of RAM, the stack in them, and refuses more.
    build(
        [*BOARD, "-O2", "-ffp-contract=off", "-ffreestanding", "-fno-tree-loop-distribute-patterns",
         "-Wno-conversion", *(str(tmp_path / name) for name in sources), "-nostdlib",
         "-Wl,--defsym=flash_size=1M,--defsym=stack_size=2K", "-T", str(tmp_path / "board.ld"),
         "-lm", "-lgcc", "-o", str(elf)],
        "arm-none-eabi-gcc",
    )  # fmt: skip
    words = ["qemu-system-arm", "-M", "mps2-an386", "-nographic", "-icount", "shift=0,sleep=off"]
    words += ["-semihosting-config", "enable=on,target=native", "-kernel", str(elf)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done
    instructions = 40 * int((done.stdout + done.stderr).strip()[-8:], 16)
    sizes = subprocess.run(
        ["arm-none-eabi-size", str(elf)], capture_output=True, text=True, check=True
    )
    text, data, bss = map(int, sizes.stdout.splitlines()[1].split()[:3])
    with capsys.disabled():
        print(f"\nadapting to {ROWS} rows: {data + bss:,} bytes of RAM with the stack, {text:,} of "
              f"flash, {instructions:,} instructions, {code.operations:,} products")  # fmt: skip
    assert code.ram <= data + bss <= 64 * 1024
    assert instructions > code.operations / 2


def test_what_a_device_cannot_do_is_refused(model: Model) -> None:
    with pytest.raises(ValueError, match="rows is 0; keep 1 to 1024"):
        adapt_code(model, rows=0)
