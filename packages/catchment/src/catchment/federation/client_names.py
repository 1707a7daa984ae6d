"""Which names clients may have: those that can be printed, kept and told apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST = 200  # characters


def check_client_names(names: Iterable[object]) -> None:
    """Raise ValueError for a name that cannot be printed or kept, or that leads out of a folder.

    >>> check_client_names(["ann", "ward 3/bed 2", "Zoë"])
    >>> check_client_names(["../../ann"])
    Traceback (most recent call last):
    ValueError: a client is called '../../ann'; use text of 1 to 200 printable characters that is
    no path to another folder
    """
    every = list(names)
    if _are_plain(every):
        return
    for name in every:
        if not _is_fit(name):
            shown = f"{ascii(name)[:60]}..." if len(ascii(name)) > 63 else ascii(name)
            raise ValueError(
                f"a client is called {shown}; use text of 1 to {MOST} printable characters that is "
                "no path to another folder"
            )


def _are_plain(names: list[object]) -> bool:
    """Return whether all names are fit and none is a path, by one look at all of a million."""
    texts = [name for name in names if isinstance(name, str)]
    if len(texts) < len(names) or max(map(len, texts), default=0) > MOST:
        return False
    lines = "\n".join(["", *texts, ""])
    return (
        lines.count("\n") == len(texts) + 1
        and lines.replace("\n", "").isprintable()  # of all white space, this leaves the blank
        and not any(bad in lines for bad in ("\n\n", "\n ", " \n", "/", "\\", "\n.\n", "\n..\n"))
    )


def _is_fit(name: object) -> bool:
    return (
        isinstance(name, str)
        and 0 < len(name) <= MOST
        and name.isprintable()
        and name.strip() == name
        and not _leads_away(name)
    )


def _leads_away(name: str) -> bool:
    # Most names are no paths, and a million of them are looked at.
    parts = re.split(r"[/\\]", name) if "/" in name or "\\" in name else (name,)
    return any(part in ("", ".", "..") for part in parts)
