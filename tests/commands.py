"""The command line as it is typed: in this process, because starting Python anew takes seconds."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from catchment.cli import main

Done = CompletedProcess[str]


def typed(*words: str | Path, code: int = 0) -> Done:
    """Return what a command prints that ends with this exit code."""
    out, err, said = io.StringIO(), io.StringIO(), [str(word) for word in words]
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(said)
    assert (ended.value.code or 0) == code, out.getvalue() + err.getvalue()
    return CompletedProcess(said, code, out.getvalue(), err.getvalue())


def typed_apart(*words: str | Path) -> Done:
    """Return what a command prints in a process of its own, which finds modules in its folder."""
    command = [sys.executable, "-m", "catchment.cli", *map(str, words)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
