"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    >>> print(grid(["a", "b"], [["1", "2"]]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
