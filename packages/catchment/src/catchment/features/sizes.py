"""Whether the sums of a map's features fit into memory, told before anything large is made."""

from __future__ import annotations

import os

from catchment.features.base import FeatureMap


def gram_bytes(n_features: int) -> int:
    """Return the bytes of the sums of products of features, each pair once.

    >>> gram_bytes(1000)
    4004000
    """
    return 8 * (n_features * (n_features + 1) // 2)


def machine_bytes() -> int | None:
    """Return the memory of this machine; None if it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return None


def spoken(n_bytes: float) -> str:
    """Return a number of bytes as people say it.

    >>> spoken(4e12), spoken(25_300_000_000), spoken(1_234_567), spoken(812)
    ('4.0 TB', '25.3 GB', '1.2 MB', '812 B')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:,.1f} {unit}"
    return f"{n_bytes:.0f} B"


def refuse_large(
    one: FeatureMap, n_inputs: int, *, per_step: bool, classes: bool, remedy: str = ""
) -> None:
    """Raise ValueError if the sums of a map's features cannot be in this machine's memory.

    Parameters
    ----------
    remedy
        What else would help.

    >>> from catchment import EchoState
    >>> refuse_large(EchoState(200), 3, per_step=False, classes=True)
    """
    try:
        F = one.build(n_inputs, per_step=per_step, classes=classes).n_features
    except ValueError:  # it is no map for such data, as whoever takes it will say
        return
    memory = machine_bytes()
    if memory is None or gram_bytes(F) <= memory:
        return
    raise ValueError(
        f"the map has {F:,} features, whose Gram matrix of {gram_bytes(F) // 8:,} numbers "
        f"takes {spoken(gram_bytes(F))}, and this machine has {spoken(memory)}; take fewer units, "
        f"{remedy}or project the features to fewer (Projected)"
    )
