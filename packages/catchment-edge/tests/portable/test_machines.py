"""The C form on other processors: big-endian, 32-bit, without a floating-point unit, in a browser.

Each gives the bytes that this machine gives, for every case. `make portable` installs the cross
compilers and emulators and runs these tests.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.portable.cases import ARGUMENT_DIGITS, arguments, cases
from tests.portable.library_maps import library_dumps
from tools.portable.dump import dumped_arguments, dumped_map
from tools.portable.machines import EMULATED, LIBRARY, NATIVE, SOURCES, STRICT, WEB, Machine

pytestmark = pytest.mark.long

CONTRACTIONS = ("-ffp-contract=off", "-ffp-contract=fast")
MACHINES = (NATIVE, *EMULATED, WEB)


def need(machine: Machine) -> None:
    if machine.missing():
        pytest.skip(machine.missing())
    if machine is WEB and importlib.util.find_spec("ziglang") is None:
        pytest.skip("no ziglang here, a C compiler for WebAssembly; pip install ziglang")


def map_dumps(*, words: bool = False) -> list[bytes]:
    return [
        dumped_map(map_, sequences)
        for name, map_, sequences in cases()
        if name.startswith("words") or not words
    ]


def argument_dumps() -> list[bytes]:
    return [
        dumped_arguments(activation, arguments(p_digits), p_digits, digits)
        for activation in range(5)
        for p_digits, digits in ARGUMENT_DIGITS
    ]


def digest(machine: Machine, program: Path, dumps: list[bytes]) -> str:
    """Return the SHA-256 of everything a program writes about these dumps."""
    sha = hashlib.sha256()
    for dump in dumps:
        sha.update(machine.run(program, dump))
    return sha.hexdigest()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    program = NATIVE.build(tmp_path_factory.mktemp("native"))
    kinds = {
        "library": library_dumps(),
        "maps": map_dumps(),
        "words": map_dumps(words=True),
        "arguments": argument_dumps(),
    }
    return {kind: digest(NATIVE, program, dumps) for kind, dumps in kinds.items()}


@pytest.mark.parametrize("machine", MACHINES, ids=[machine.name for machine in MACHINES])
def test_whole_numbers_are_the_same(
    machine: Machine, expected: dict[str, str], tmp_path: Path
) -> None:
    need(machine)
    program = machine.build(tmp_path)
    assert digest(machine, program, library_dumps()) == expected["library"]
    assert digest(machine, program, map_dumps()) == expected["maps"]
    assert digest(machine, program, argument_dumps()) == expected["arguments"]
    small = machine.build(tmp_path, word=16)
    assert digest(machine, small, map_dumps(words=True)) == expected["words"]


@pytest.mark.parametrize("contraction", CONTRACTIONS)
@pytest.mark.parametrize("machine", MACHINES, ids=[machine.name for machine in MACHINES])
def test_float64_gives_the_same_whatever_is_contracted(
    machine: Machine, contraction: str, expected: dict[str, str], tmp_path: Path
) -> None:
    need(machine)
    program = machine.build(tmp_path, doubles=True, flags=(contraction,))
    assert digest(machine, program, argument_dumps()) == expected["arguments"]


def test_contraction_was_tried(tmp_path: Path) -> None:
    """On aarch64 the compiler does fuse the activations' products and sums."""
    need(EMULATED[0])
    fused = []
    for contraction in CONTRACTIONS:
        listing = tmp_path / "doubles.s"
        command = [*EMULATED[0].compiler, *STRICT, contraction, f"-I{LIBRARY}", "-S"]
        subprocess.run([*command, str(SOURCES / "doubles.c"), "-o", str(listing)], check=True)
        fused.append(sum(word in listing.read_text() for word in ("fmadd", "fmsub", "fnmsub")))
    assert fused[0] == 0 < fused[1]


@pytest.mark.parametrize("digits", [8, 15, 20, 24])
def test_one_argument_in_13_gives_the_same_in_whole_numbers_and_in_float64(
    digits: int, tmp_path: Path
) -> None:
    program = NATIVE.build_comparison(tmp_path, flags=("-march=native",))
    assert NATIVE.run(program, b"", "13", str(digits)).endswith(b" 0 different\n")


@pytest.mark.parametrize("word", [16, 32])
def test_a_processor_without_an_operating_system_takes_the_kernel(
    word: int, tmp_path: Path
) -> None:
    """Compiled for a Cortex-M0 the kernel asks for nothing but the compiler's own arithmetic."""
    compiler = shutil.which("arm-none-eabi-gcc")
    if compiler is None:
        pytest.skip("no arm-none-eabi-gcc here; make portable installs it")
    made = tmp_path / "kernel.o"
    flags = ("-mcpu=cortex-m0", "-mthumb", "-ffreestanding", f"-DGRID_WORD={word}", "-c")
    subprocess.run(
        [compiler, *STRICT, *flags, str(LIBRARY / "grid.c"), "-o", str(made)], check=True
    )
    listed = subprocess.run(
        ["arm-none-eabi-nm", "--undefined-only", str(made)],
        check=True,
        capture_output=True,
        text=True,
    )
    asked = {line.split()[-1] for line in listed.stdout.splitlines()}
    whole = {f"__aeabi_{name}" for name in ("lmul", "llsl", "llsr", "lasr", "ldivmod", "uldivmod")}
    assert {name for name in asked if not name.startswith("__gnu_thumb1_case")} <= whole
