"""Compile the C form for this and for other processors, and run it here, emulated where needed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import catchment_edge

SOURCES = Path(__file__).parent
LIBRARY = Path(catchment_edge.__file__).parent / "sources"  # what devices run
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-O2")


@dataclass(frozen=True)
class Machine:
    """A processor: what compiles for it, what runs its programs, and the Debian packages of both.

    >>> native = Machine("native", ("gcc",))
    >>> native.missing()
    ''
    """

    name: str
    compiler: tuple[str, ...]
    runner: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

    def missing(self) -> str:
        """Return why this machine cannot be had here, or nothing."""
        needed = [words[0] for words in (self.compiler, self.runner) if words]
        absent = [name for name in needed if not shutil.which(name)]
        return f"no {' and no '.join(absent)} here; make portable installs it" if absent else ""

    def build(
        self, folder: Path, *, word: int = 32, doubles: bool = False, flags: tuple[str, ...] = ()
    ) -> Path:
        """Return the program that runs dumps, compiled for this machine.

        Parameters
        ----------
        word
            Bits of weights and states: 32 or 16.
        doubles
            Whether activations of arguments are computed in float64.
        """
        names = ["main.c", *(["doubles.c"] if doubles else [])]
        defines = [f"-DGRID_WORD={word}", *(["-DGRID_DOUBLES"] if doubles else [])]
        return self._compile(
            folder / f"{self.name}-{word}", names, (*defines, *flags, str(LIBRARY / "grid.c"))
        )

    def build_comparison(self, folder: Path, *, flags: tuple[str, ...] = ()) -> Path:
        """Return the program that compares both forms of the activations."""
        names = ["doubles.c", "exhaustive.c"]
        return self._compile(folder / f"{self.name}-exhaustive", names, ("-O3", *flags))

    def run(self, program: Path, stdin: bytes = b"", *words: str) -> bytes:
        """Return what a program writes; RuntimeError with its words if it fails."""
        command = [*self.runner, str(program), *words]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(
                f"{' '.join(command)} ended with {done.returncode}: "
                f"{(done.stderr or done.stdout).decode(errors='replace').strip()}"
            )
        return done.stdout

    def _compile(self, program: Path, names: list[str], flags: tuple[str, ...]) -> Path:
        sources = [str(SOURCES / name) for name in names]
        include = f"-I{LIBRARY}"
        command = [*self.compiler, *STRICT, include, *self.flags, *flags, *sources]
        command += ["-o", str(program)]
        done = subprocess.run([*command, "-lm"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
        return program


def _emulated(name: str, triple: str, debian: str, *flags: str) -> Machine:
    packages = ("qemu-user", f"gcc-{triple}", f"libc6-dev-{debian}-cross")
    return Machine(name, (f"{triple}-gcc",), (f"qemu-{name}",), packages, ("-static", *flags))


NATIVE = Machine("native", ("gcc",))
EMULATED = (
    _emulated("aarch64", "aarch64-linux-gnu", "arm64"),
    _emulated("s390x", "s390x-linux-gnu", "s390x"),  # big-endian
    _emulated("arm", "arm-linux-gnueabi", "armel"),  # 32 bits, no floating-point unit
    _emulated("riscv64", "riscv64-linux-gnu", "riscv64"),
    _emulated("ppc64", "powerpc64-linux-gnu", "ppc64"),  # big-endian
)
# ziglang is a C compiler in a wheel; node is what runs WebAssembly without a browser.
WEB = Machine(
    "wasm",
    (sys.executable, "-m", "ziglang", "cc", "-target", "wasm32-wasi"),
    ("node", "--no-warnings", str(SOURCES / "run_wasm.mjs")),
)


def packages() -> list[str]:
    """Return the Debian packages that the tests of all machines need.

    >>> packages()[:2]
    ['gcc-arm-none-eabi', 'qemu-user']
    """
    needed = [name for machine in EMULATED for name in machine.packages]
    return list(dict.fromkeys(["gcc-arm-none-eabi", *needed]))


if __name__ == "__main__":
    sys.stdout.write(" ".join(packages()) + "\n")
