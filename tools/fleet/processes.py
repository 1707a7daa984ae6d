"""Child processes that end with us: every one in a session of its own, with its log in a file.

A process may start others, and those may outlive it. All inherit two variables that name the
deployment and the process they come from, and by them they are found again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from catchment.errors import FederationError

DEPLOYMENT = "CATCHMENT_DEPLOYMENT"
PROCESS = "CATCHMENT_PROCESS"
GRACE = 5.0  # seconds from asking to forcing


@dataclass(eq=False)
class Processes:
    """Processes by name; on leaving the `with` block all of them are stopped, and their children.

    Parameters
    ----------
    folder
        Of their logs.
    environment
        What they know besides this process's own environment.

    >>> import sys, tempfile
    >>> with tempfile.TemporaryDirectory() as place, Processes(Path(place)) as processes:
    ...     sleeper = processes.start("sleeper", [sys.executable, "-c", "input()"])
    ...     processes.alive("sleeper")
    ...
    True
    >>> sleeper.poll() is None
    False
    """

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    _started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process; its output goes to NAME.log, after what is there."""
        if self.alive(name):
            raise FederationError(f"{name} runs already; stop it first")
        self.folder.mkdir(parents=True, exist_ok=True)
        marks = {DEPLOYMENT: self._mark(), PROCESS: name}
        known = {**os.environ, **self.environment, **(environment or {}), **marks}
        with self.log(name).open("ab") as log:
            started = subprocess.Popen(
                command,
                env=known,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started[name] = started
        return started

    def log(self, name: str) -> Path:
        """Return the file of a process's output."""
        return self.folder / f"{name}.log"

    def alive(self, name: str) -> bool:
        """Return whether a process was started and has not ended."""
        return name in self._started and self._started[name].poll() is None

    def pid(self, name: str) -> int:
        """Return the number of a process."""
        return self._started[name].pid

    def wait_until(self, name: str, ready: Callable[[], bool], *, seconds: float) -> None:
        """Wait for a process to be ready; FederationError if it ends or takes longer."""
        end = time.monotonic() + seconds
        while not ready():
            if not self.alive(name):
                status = self._started[name].poll() if name in self._started else "never started"
                raise FederationError(f"{name} ended ({status}); {self._last_lines(name)}")
            if time.monotonic() > end:
                raise FederationError(
                    f"{name} was not ready after {seconds:g} seconds; {self._last_lines(name)}"
                )
            time.sleep(0.1)

    def _last_lines(self, name: str) -> str:
        log = self.log(name)
        text = log.read_text(errors="replace") if log.is_file() else ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return f"its log {log} ends with: {' / '.join(lines[-3:])[-600:]}"

    def stop(self, *names: str, grace: float = GRACE) -> None:
        """Ask processes and all they started to end, and force those that have not after a while.

        With no grace they are killed at once, as by a power cut.
        """
        if grace > 0:
            self._signal(names, signal.SIGTERM)
            end = time.monotonic() + grace
            while time.monotonic() < end and any(True for _ in self._living(names)):
                time.sleep(0.05)
        while any(True for _ in self._living(names)):
            self._signal(names, signal.SIGKILL)
            time.sleep(0.05)
        for name in names:
            process = self._started.pop(name, None)
            if process is not None:
                process.wait()
                if process.stdin is not None:
                    process.stdin.close()

    def _living(self, names: Iterable[str]) -> Iterator[int]:
        """Yield the processes of these names that run, then their children's."""
        for name in names:
            if self.alive(name):
                yield self._started[name].pid
        yield from marked(self._mark(), names)

    def _signal(self, names: Sequence[str], number: int) -> None:
        for pid in list(self._living(names)):
            _send(pid, number)

    def _mark(self) -> str:
        return str(self.folder.resolve())

    def kill_leftovers(self) -> None:
        """Kill what an earlier process that was itself killed left running for this folder."""
        for pid in list(marked(self._mark(), None)):
            _send(pid, signal.SIGKILL)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(*self._started)


def _send(pid: int, number: int) -> None:
    """Send a signal to a process, and to its group if it leads one."""
    for send in (os.killpg, os.kill):
        try:
            send(pid, number)
        except ProcessLookupError:
            continue


def marked(deployment: str, names: Iterable[str] | None) -> Iterator[int]:
    """Yield the processes of a deployment that came from processes of these names, or from any.

    Where there is no /proc nothing is found, and only process groups are left to go by.

    >>> list(marked("no such deployment", None))
    []
    """
    wanted = None if names is None else {f"{PROCESS}={name}".encode() for name in names}
    own = f"{DEPLOYMENT}={deployment}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            known = set((folder / "environ").read_bytes().split(b"\0"))
            title = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        mine = own in known and (wanted is None or wanted & known)
        # nginx writes its title over its environment, and the title names its folder.
        nginx = wanted is None and title.startswith(b"nginx:") and deployment.encode() in title
        if (mine or nginx) and int(folder.name) != os.getpid():
            yield int(folder.name)
