"""A plugin of pytest that keeps the CPU seconds of every test file, by suite.

    pytest -p tools.suite_seconds --suite-seconds tools/suite_seconds.json

The seconds are those of all threads of the process and of the processes that it started and waited
for; workers of pytest-xdist hand theirs to the first process. Files that did not run keep what they
had, and files that are gone are left out. The suite is the folder in packages/, or "tests".
"""

from __future__ import annotations

import json
import resource
import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

Seconds = dict[str, float]  # by path of the test file


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--suite-seconds", type=Path, help="keep CPU seconds of every file here")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.suite_seconds is not None:
        config.pluginmanager.register(Clock(config), "suite-seconds-clock")


def used() -> float:
    """Return the CPU seconds of this process and of the children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Clock:
    """Counts in every process, and writes in the first."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.seconds: Seconds = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        start = used()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid.split("::")[0]] += used() - start

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the seconds of a worker that has ended."""
        for path, more in getattr(node, "workeroutput", {}).get("suite_seconds", {}).items():
            self.seconds[path] += more

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["suite_seconds"] = dict(self.seconds)
            return
        kept = self.config.option.suite_seconds
        before = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
        now = merged(before, self.seconds, self.config.rootpath)
        kept.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def merged(
    before: Mapping[str, Mapping[str, float]], seconds: Mapping[str, float], root: Path
) -> dict[str, Seconds]:
    """Return the kept seconds by suite and file, with the new ones, of files that exist."""
    every = {path: n for files in before.values() for path, n in files.items()} | dict(seconds)
    found: dict[str, Seconds] = defaultdict(dict)
    for path, n in sorted(every.items()):
        if (root / path).exists():
            parts = Path(path).parts
            found[parts[1] if parts[0] == "packages" else parts[0]][path] = round(n, 1)
    return dict(found)
