"""Which names a generated file may have."""

from __future__ import annotations

import re

# What a file's own functions start with, and headers that it includes.
_TAKEN = re.compile("(map|grid|float|golden)(_.*)?|stdint|math")


def check_name(name: str) -> None:
    """Raise ValueError if a file's functions cannot begin with a name.

    >>> check_name("har")
    >>> check_name("1x")
    Traceback (most recent call last):
    ValueError: --name is '1x'; give a letter, then up to 30 letters, digits and _, a word that ...
    """
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]{0,30}", name) or _TAKEN.fullmatch(name):
        raise ValueError(
            f"--name is {name[:40]!r}; give a letter, then up to 30 letters, digits and _, a word "
            "that does not begin with map, grid, float or golden"
        )
