"""Which models are checked at which sizes, and what must come out."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Check:
    """A model, its size, and what is expected: that all holds, or that an attack is found.

    >>> Check("secure_aggregation", ("N=4", "C=1"), "all holds").title
    'secure_aggregation N=4 C=1'
    """

    model: str
    settings: tuple[str, ...]
    about: str
    finds: bool = False  # whether an assertion must fail
    long: bool = False

    @property
    def title(self) -> str:
        return " ".join((self.model, *self.settings))


@dataclass(frozen=True)
class Found:
    """What Spin said: how many states there are, and which assertion failed, if any."""

    states: int
    depth: int
    failed: str
    seconds: float


def _sound(n: int, c: int, *more: str, long: bool = False) -> Check:
    about = f"{n} clients, {c} of them corrupt, any order, any lie: all three claims hold"
    return Check("secure_aggregation", (f"N={n}", f"C={c}", *more), about, long=long)


def _attack(n: int, c: int, rule: str, claim: int, about: str, *, long: bool = False) -> Check:
    settings = (f"N={n}", f"C={c}", rule, f"CLAIM={claim}")
    return Check("secure_aggregation", settings, about, finds=True, long=long)


CHECKS: tuple[Check, ...] = (
    _sound(4, 1),
    _attack(4, 2, "NO_BOUND", 1, "split view: both secrets of a client are open"),
    _attack(4, 1, "NO_PAYLOAD", 3, "two broadcasts in one sum"),
    _attack(
        4, 1, "NO_SALT", 3, "two broadcasts in one sum, although consents cover them", long=True
    ),
    _attack(4, 1, "AGAIN", 1, "a client that answers twice gives both kinds of share", long=True),
    _attack(4, 1, "NO_CONSENTS", 2, "clients give shares for different sets", long=True),
    _attack(5, 3, "NO_BOUND", 1, "split view: both secrets of a client are open", long=True),
    _sound(3, 0, long=True),
    _sound(3, 1, long=True),
    _sound(4, 0, long=True),
    _sound(4, 1, "VIEWS=3", long=True),
    _sound(4, 2, long=True),
    _sound(5, 1, long=True),
    _sound(5, 2, "VIEWS=3", long=True),
    Check("liveness", ("N=4", "C=1"), "m - t lost or lying: the sum comes out"),
    Check("liveness", ("N=5", "C=0"), "m - t lost or lying: the sum comes out", long=True),
    Check("liveness", ("N=5", "C=1"), "m - t lost or lying: the sum comes out", long=True),
    Check(
        "liveness",
        ("N=5", "C=1", "EXTRA=1"),
        "one more lost, and it may not",
        finds=True,
        long=True,
    ),
)


CHECKS += (
    Check("ledger", ("N=4",), "4 clients, 2 plans, 1 lost, changed data: nobody is isolated"),
    Check("ledger", ("N=4", "AT_UNMASK"), "an upload counts too late: changed rows", finds=True),
    Check("ledger", ("N=4", "C=1"), "the same, one of them corrupt", long=True),
    Check("ledger", ("N=4", "ANY_SET"), "sums over two sets: one client", finds=True),
    Check("ledger", ("N=4", "ANY_DATA"), "released data change: the changed rows", finds=True),
    Check("ledger", ("N=4", "BY_PLAN"), "every plan has its own account", finds=True),
)
CHECKS += (
    Check("two_servers", ("N=5",), "5 clients, 2 plans, a leader that lies: nobody is isolated"),
    Check("two_servers", ("N=5", "C=1"), "the same, one client corrupt", long=True),
    Check("two_servers", ("N=5", "NO_FLOOR"), "a batch of one client", finds=True),
    Check("two_servers", ("N=5", "OVERLAP"), "two batches that differ by one", finds=True),
    Check("two_servers", ("N=5", "BY_PLAN"), "a batch of each of two plans", finds=True),
    Check("two_servers", ("N=5", "NOTE_LATER"), "a batch forgotten by a crash", finds=True),
)


def spin() -> str:
    """Return the program, of the system or of the environment; nothing if there is none."""
    return shutil.which("spin") or shutil.which("spin", path=str(Path(sys.executable).parent)) or ""


def missing() -> str:
    """Return why models cannot be checked here, or nothing."""
    if not spin():
        return "no spin here, which checks models; `make spin` fetches it where there is apt"
    return "" if shutil.which("gcc") else "no gcc here, which spin needs"


def run(check: Check, folder: Path) -> Found:
    """Return what Spin finds, trying everything; RuntimeError if it could not.

    Parameters
    ----------
    folder
        Where it writes its program.
    """
    shutil.copy(FOLDER / f"{check.model}.pml", folder)
    began = time.monotonic()
    defines = [f"-D{setting}" for setting in check.settings]
    _said([spin(), *defines, "-a", f"{check.model}.pml"], folder)
    # Of two models every transition is visible to the claims: no order can be left out.
    kind = ["-DSAFETY", "-DNOREDUCE"] if check.model != "liveness" else []
    # The small models are done before a compiler has made them fast.
    options = ["-w", "-O2" if check.long else "-O0", "-DCOLLAPSE", "-DMEMLIM=4000", *kind]
    _said(["gcc", *options, "-o", "pan", "pan.c"], folder)
    said = _said(["./pan", "-a" if not kind else "-E", "-m1000000", "-w20"], folder)
    states = re.search(r"(\d+) states, stored", said)
    depth = re.search(r"depth reached (\d+), errors: (\d+)", said)
    if states is None or depth is None or "out of memory" in said or "max search depth" in said:
        raise RuntimeError(f"{check.title}: not everything was tried:\n{said}")
    failed = re.search(r"pan:1: (.*)", said)
    if bool(failed) != (depth[2] != "0"):
        raise RuntimeError(f"{check.title}: {said}")
    seconds = time.monotonic() - began
    return Found(int(states[1]), int(depth[1]), failed[1] if failed else "", seconds)


def _said(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
