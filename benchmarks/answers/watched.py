"""A command in processes of its own: what it printed, how long it took, and its peak memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

EVERY = 0.1


def watched(
    command: Sequence[str], *, limit: float, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the JSON of a command's last line beside seconds and peak memory.

    Memory is the proportional set size of the process and of all that it started, looked at ten
    times a second. A command that takes longer than `limit` seconds is ended.
    """
    begin, peak, most = time.monotonic(), 0, 0
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        text=True,
    ) as process:
        while process.poll() is None and time.monotonic() - begin < limit:
            shares = [_share(pid) for pid in _family(process.pid)]
            peak, most = max(peak, sum(shares)), max(most, len(shares))
            time.sleep(EVERY)
        seconds, running = time.monotonic() - begin, process.poll() is None
        for pid in _family(process.pid) if running else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        said, wrong = process.communicate()
    found = json.loads(said.splitlines()[-1]) if process.returncode == 0 else {}
    return {
        "finished": process.returncode == 0,
        "seconds": round(seconds, 1),
        "peak MiB": round(peak / 2**20),
        "processes": most,
        **found,
        **({} if found or running else {"error": wrong.strip().splitlines()[-1][:200]}),
    }


def _family(pid: int) -> list[int]:
    """Return a process and all that it started, those that end meanwhile left out."""
    found = [pid]
    for parent in found:
        for listed in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, listed.read_text().split())
    return found


def _share(pid: int) -> int:
    """Return the bytes of a process, what it shares with others divided among them."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024 * int(line.split()[1])
    return 0
