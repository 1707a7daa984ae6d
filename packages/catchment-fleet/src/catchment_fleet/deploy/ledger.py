"""A node's memory for its owner to look at: releases are shown and never removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from catchment.federation import Memory
from catchment.privacy import FileMemory, Release, Releases
from catchment_fleet.flower.app import one_at_a_time


@contextmanager
def memory_at(keys: Path) -> Iterator[Memory]:
    """Open the memory of a node's folder, when no message is being answered."""
    folder = keys / "memory" if (keys / "memory").is_dir() else keys
    if not any(folder.glob("*.entry")):
        raise FileNotFoundError(f"{keys} holds no node's memory; name the node's folder of keys")
    with one_at_a_time(folder / "lock", seconds=60.0):
        yield FileMemory(folder)


def ledger_lines(releases: list[Release]) -> list[str]:
    """Return what was released, a line each, and a line for all of it.

    >>> one = Release("ab" * 32, 0, "averages", "7", "cd" * 32, n_clients=12, at="2026-01-02")
    >>> print(*ledger_lines([one]), sep="\\n")
    2026-01-02  averages  plan abababababab  round 0  data cdcdcdcd  sum of 12 clients, exact
    1 release
    """
    lines = [
        "  ".join(
            [
                one.at or "no date",
                one.kind,
                f"plan {one.plan[:12]}",
                f"round {one.round}",
                f"data {one.data[:8] or 'unknown'}",
                f"{_where(one)}, {_cost(one)}",
            ]
        )
        for one in releases
    ]
    n = len(releases)
    return [*lines, f"{n} release{'' if n == 1 else 's'}" if n else "nothing was released"]


def _where(one: Release) -> str:
    if not one.session:
        return "in the clear"
    return f"{'perhaps in a ' if one.possible else ''}sum of {one.n_clients} clients"


def _cost(one: Release) -> str:
    return "exact" if one.is_exact else f"epsilon {one.epsilon:g} at delta {one.delta:g}"


def releases_in(memory: Memory) -> list[Release]:
    """Return what was released of a node's data; IntegrityError if the ledger was tampered with."""
    return Releases(memory).entries()
