"""Run tests on a copy of the repository with one fault in it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tools.mutants.mutant import Mutant

COPIED = ("packages", "tests", "tools", "conftest.py")
Verdict = Literal["killed", "alive", "timeout"]


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: noticed by a test, by nobody, or never finished."""

    verdict: Verdict
    by: str  # the test that noticed, and what it said
    seconds: float


@dataclass(eq=False)
class Copy:
    """A copy of the repository in which files can be changed without harm."""

    root: Path
    folder: Path
    passing: set[str] = field(default_factory=set)  # tests that pass without any fault
    left_out: set[str] = field(default_factory=set)  # tests that do not
    _clock: int = field(default=0)

    @classmethod
    def of(cls, root: Path, folder: Path) -> Copy:
        folder.mkdir(parents=True)
        for entry in sorted(root.iterdir()):
            if entry.name in COPIED:
                skipped = shutil.ignore_patterns("__pycache__")
                if entry.is_dir():
                    shutil.copytree(entry, folder / entry.name, ignore=skipped)
                else:
                    shutil.copy(entry, folder)
            elif not entry.name.startswith("."):
                (folder / entry.name).symlink_to(entry)
        return cls(root, folder)

    @property
    def paths(self) -> list[Path]:
        """Where Python finds the packages and the tests of the copy."""
        packages = sorted(self.folder.glob("packages/*"))
        return [*(one / "src" for one in packages), *packages, self.folder]

    def tried(self, mutant: Mutant, *, timeout: float) -> Outcome:
        """Return what becomes of a fault; the copy is as it was afterwards.

        A test that fails without the fault, too, has not noticed it: it is left out from then on.
        """
        while True:
            changed = mutant.sources(self.root)
            try:
                self._write(changed)
                outcome = self.tested(mutant.tests, timeout=timeout)
            finally:
                self._write({path: (self.root / path).read_text() for path in changed})
            if outcome.verdict != "killed" or self._passes(outcome.by, timeout):
                return outcome
            if outcome.by in self.left_out:
                raise RuntimeError(f"{outcome.by} cannot be left out, and fails without a fault")
            self.left_out.add(outcome.by)

    def tested(self, tests: Sequence[str], *, timeout: float) -> Outcome:
        """Return the outcome of tests on what the copy holds now."""
        left_out = [
            f"--{'deselect' if '::' in name else 'ignore'}={name}" for name in sorted(self.left_out)
        ]
        named = [test for test in tests if test not in self.left_out]  # no option takes these away
        returned, said, seconds = self._run(["-x", *left_out, *named], timeout)
        if returned is None:
            return Outcome("timeout", "", seconds)
        if returned == 0 or (returned == 5 and left_out):
            return Outcome("alive", "", seconds)
        by = noticed_by(said)
        if returned not in (1, 2) or not by:
            raise RuntimeError(f"pytest ended with {returned}:\n{said}")
        return Outcome("killed", by, seconds)

    def _passes(self, test: str, timeout: float) -> bool:
        if test not in self.passing:
            if self.tested([test], timeout=timeout).verdict != "alive":
                return False
            self.passing.add(test)
        return True

    def _run(self, words: list[str], timeout: float) -> tuple[int | None, str, float]:
        """Return pytest's exit status (None if it took too long), what it said, and seconds."""
        options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--tb=line"]
        options += ["--doctest-modules"]  # examples in the changed file itself
        command = [sys.executable, "-m", "pytest", "-p", "tools.mutants.quiet", *options, *words]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, self.paths)),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        began = time.monotonic()
        running = subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = running.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
            return None, "", time.monotonic() - began
        return running.returncode, said, time.monotonic() - began

    def _write(self, texts: Mapping[str, str]) -> None:
        for path, text in texts.items():
            file = self.folder / path
            file.write_text(text)
            # Python knows compiled files by seconds and size, and a fault may change neither.
            self._clock += 2
            os.utime(file, (self._clock, self._clock))


def noticed_by(said: str) -> str:
    """Return the first failure in pytest's summary.

    >>> noticed_by("...F\\nFAILED tests/test_a.py::test_b - assert 1 == 2\\n1 failed in 1s")
    'tests/test_a.py::test_b'
    """
    for line in said.splitlines():
        for word in ("FAILED ", "ERROR "):
            if line.startswith(word) and line[len(word)] != " ":  # else a line of some log
                return line.removeprefix(word).split(" - ")[0]
    return ""
