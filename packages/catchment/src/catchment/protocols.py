"""Whether a value has what a protocol asks for, remembered by its class."""

from __future__ import annotations

from typing import Any

MOST = 4096  # classes and protocols that are remembered
_known: dict[tuple[type, object], bool] = {}


def conforms(value: object, protocol: Any) -> bool:
    """Return what `isinstance` says of a protocol; asked again for a class, it takes no time.

    To look for the members of a protocol takes as long as to read a small message. It is for values
    whose class says all: not for those that get a member of their own later.

    >>> from collections.abc import Sized
    >>> conforms([], Sized), conforms(3, Sized)
    (True, False)
    """
    key = (type(value), protocol)
    found = _known.get(key)
    if found is None:
        if len(_known) >= MOST:
            _known.clear()
        found = _known[key] = isinstance(value, protocol)
    return found
