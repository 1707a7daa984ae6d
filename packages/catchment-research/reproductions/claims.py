"""What a paper claims, what came of it here, and whether that is the same conclusion."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from reproductions.intervals import Interval
from reproductions.study import StudyResult, load_result

Same = Literal["yes", "partly", "no", "not settled", "not run"]


@dataclass(frozen=True)
class Verdict:
    """Our figures, whether they say what the paper says, and why."""

    ours: str
    same: Same
    why: str


@dataclass(frozen=True)
class Claim:
    """A claim in our words with the paper's figures, and how results are held against it."""

    text: str
    judge: Callable[[Results], Verdict | None]


@dataclass(frozen=True)
class Paper:
    """A paper, its claims, and a sentence on what was run in place of its data or models."""

    title: str
    claims: tuple[Claim, ...]
    instead: str = ""


@dataclass(frozen=True)
class Results:
    """The figures that are kept in a clone.

    Parameters
    ----------
    studies, benchmarks
        Folders of JSON files.
    """

    studies: Path
    benchmarks: Path

    def people(self, name: str) -> StudyResult | None:
        """Return a study on people, None if it has not been run."""
        return self._people.get(name)

    def study(self, name: str) -> dict[str, Any] | None:
        """Return any other study as it lies in its file, None if it has not been run."""
        return _read(self.studies / f"{name}.json")

    def benchmark(self, name: str) -> dict[str, Any] | None:
        """Return a benchmark's figures, None if it has not been run."""
        return _read(self.benchmarks / f"{name}.json")

    @cached_property
    def _people(self) -> dict[str, StudyResult]:
        names = ("incfed", "fedip", "skew", "variance", "unseen")
        paths = {name: self.studies / f"{name}.json" for name in names}
        return {name: load_result(path) for name, path in paths.items() if path.is_file()}


def _read(path: Path) -> dict[str, Any] | None:
    content: dict[str, Any] | None = json.loads(path.read_text()) if path.is_file() else None
    return content


def directions(found: Sequence[Interval]) -> tuple[int, int, int]:
    """Return how many differences are settled above zero, settled below, and not settled."""
    known = [one for one in found if one.settled and not one.too_few]
    above = sum(one.value > 0 for one in known)
    return above, len(known) - above, len(found) - len(known)


def same_sign(found: Sequence[Interval]) -> Same:
    """Return whether differences are above zero, as a paper says they are.

    All settled above is yes, none of them no, or not settled if none is settled at all; whatever
    lies between is partly.

    >>> same_sign([Interval(0.02, 0.01, 0.03, 9), Interval(0.01, -0.01, 0.03, 9)])
    'partly'
    >>> same_sign([Interval(0.01, -0.01, 0.03, 9)])
    'not settled'
    """
    above, below, _ = directions(found)
    if not found:
        return "not run"
    if above == len(found):
        return "yes"
    if above:
        return "partly"
    return "no" if below else "not settled"


def settled_text(found: Sequence[Interval]) -> str:
    """Return how many differences are settled, in words.

    >>> settled_text([Interval(0.02, 0.01, 0.03, 9), Interval(0.01, -0.01, 0.03, 9)])
    '1 of 2 settled for it, 0 against'
    """
    above, below, _ = directions(found)
    return f"{above} of {len(found)} settled for it, {below} against"


def percent(value: float) -> str:
    """Return a share in per cent.

    >>> percent(0.8125)
    '81.2'
    """
    return f"{100 * value:.1f}"
