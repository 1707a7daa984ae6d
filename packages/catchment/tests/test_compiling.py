"""The first compilation says so once, before the wait; what the cache has says nothing."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core import caching
from numba.core.dispatcher import Dispatcher
from numba.core.event import Event, EventStatus

from catchment import (
    ALWAYS,
    ONCE,
    Compilations,
    compile_kernels,
    compiling,
    njit,
    precompile,
)

SOURCE = str(Path(compiling.__file__).parents[1])
FITS = """
import numpy as np
from catchment.data import Moments
print("before", flush=True)
print(Moments.of([np.ones((3, 1))]).mean.tolist(), Moments.of([[[2.0]]]).mean.tolist())
"""


def told_by_a_process(cache: Path) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": SOURCE}
    done = subprocess.run(
        [sys.executable, "-c", FITS], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[1] == "[1.0] [2.0]"
    return done.stderr


def test_a_process_that_compiles_says_so_once_and_the_next_one_nothing(tmp_path: Path) -> None:
    assert told_by_a_process(tmp_path) == f"{ONCE}\n"
    assert told_by_a_process(tmp_path) == ""


def test_fit_says_it_before_the_wait(tmp_path: Path) -> None:
    for name in ("ann", "bob", "cyd"):
        rows = "".join(f"{t},{t % 7},{t % 3}\n" for t in range(400))
        (tmp_path / f"{name}.csv").write_text(f"t,x,y\n{rows}")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": SOURCE}
    command = [sys.executable, "-m", "catchment.cli", "fit", str(tmp_path), "--target", "y"]
    with subprocess.Popen(
        [*command, "--plan", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "run")],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        process.kill()
    assert said == f"{ONCE}\n"


def starting(module: str) -> Event:
    def kernel() -> None: ...

    kernel.__module__ = module
    dispatcher = numba.njit(kernel)
    made: Any = Event  # numba's own types do not know how it is made
    return made("numba:compile", EventStatus.START, {"dispatcher": dispatcher})  # type: ignore[no-any-return]


def test_only_what_is_ours_is_told_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    listener = Compilations()
    listener.on_start(starting("somebody.elses"))
    assert (listener.count, caplog.messages) == (0, [])
    listener.on_start(starting("catchment.readout.kernels"))
    listener.on_start(starting("catchment.data.kernels"))
    assert (listener.count, caplog.messages) == (2, [ONCE])
    assert caplog.records[0].name == "catchment"
    assert caplog.records[0].levelno == logging.WARNING


def test_without_a_folder_to_write_kernels_work_and_the_line_says_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    monkeypatch.setattr(compiling, "compilations", Compilations())

    def thrice(x: int) -> int:
        return 3 * x

    with pytest.raises(RuntimeError, match="no locator available"):
        numba.njit(cache=True)(thrice)
    assert njit(cache=True)(thrice)(2) == 6
    assert not compiling.compilations.kept
    compiling.compilations.on_start(starting("catchment.readout.kernels"))
    assert caplog.messages == [ALWAYS]


def kernels() -> dict[str, Any]:
    """Return every compiled function of the library that is kept in the cache."""
    return {
        f"{name}.{value.py_func.__name__}": value
        for name, module in sys.modules.items()
        if name.startswith("catchment.")
        for value in vars(module).values()
        if isinstance(value, Dispatcher)
        and value.py_func.__module__ == name
        and isinstance(vars(value)["_cache"], caching.FunctionCache)
    }


@pytest.mark.slow
def test_compiling_beforehand_reaches_the_kernels() -> None:
    compile_kernels()
    found = kernels()
    assert len(found) > 30
    missed = {name.rpartition(".")[2] for name, kernel in found.items() if not kernel.signatures}
    inside = {"add_panels", "find_peaks", "lay_out"}
    inside |= {"_turn"}
    plastic = {"lockstep_plastic", "lockstep_plastic_on_grid", "adapted", "adapt_units"}
    rare = {"log2_of", "carry", "cosines", "monomials", "take_apart", "add_grams"}
    # Called by other kernels only; by maps and sums that few need; by the training of a reservoir.
    assert missed <= inside | rare | plastic


@pytest.mark.parametrize("kept", [True, False])
def test_what_was_compiled_is_said_and_a_cache_that_cannot_be_written_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kept: bool
) -> None:
    monkeypatch.setattr(precompile, "compile_kernels", lambda: 64)
    monkeypatch.setattr(compiling.compilations, "kept", kept)
    if kept:
        precompile.main()
        assert capsys.readouterr().out.strip() == "compiled 64 kernels in 0 s"
    else:
        with pytest.raises(SystemExit, match="NUMBA_CACHE_DIR"):
            precompile.main()
