"""How many features a map will have, told from its description: nothing large is built for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from catchment.features.base import FeatureMap

SIZES = ("units", "features", "columns")  # settings that a map's features grow with
LARGE = 20_000  # a size from which on a map is not built to be counted
_SMALL = 504  # what stands for it: a multiple of what maps round their features to


@dataclass(frozen=True)
class _Place:
    """A large size within a description: the settings that lead to it, and its value."""

    path: tuple[str | int, ...]
    value: int


def n_features_of(one: FeatureMap, n_inputs: int, *, per_step: bool, classes: bool) -> int:
    """Return how many features a map has; about, if it is so large that it is not built.

    >>> from catchment import EchoState
    >>> n_features_of(EchoState(1_000_000), 3, per_step=False, classes=True)
    2000006
    """

    def count(described: FeatureMap) -> int:
        return described.build(n_inputs, per_step=per_step, classes=classes).n_features

    if one.is_bound:
        return one.n_features
    places = list(_large(one))
    small = one
    for place in places:
        small = _with(small, place.path, _SMALL)
    total = at_least = count(small)
    for place in places:
        twice = count(_with(small, place.path, 2 * _SMALL))
        total += (twice - at_least) * (place.value - _SMALL) // _SMALL
    return total


def is_large(one: Any) -> bool:
    """Return whether a map has a size from which on it is not built to be counted.

    >>> from catchment import EchoState
    >>> is_large(EchoState(200)), is_large(EchoState(1_000_000))
    (False, True)
    """
    return any(True for _ in _large(one))


def _large(one: Any, path: tuple[str | int, ...] = ()) -> Iterator[_Place]:
    """Yield the large sizes of a description, and of the maps in it."""
    if isinstance(one, tuple):
        for k, item in enumerate(one):
            yield from _large(item, (*path, k))
    elif type(one) is int:
        if one > LARGE and any(name in SIZES for name in path if isinstance(name, str)):
            yield _Place(path, one)
    elif is_dataclass(one) and not isinstance(one, type):
        for field in fields(one):
            value = getattr(one, field.name)
            inside = isinstance(value, tuple) or is_dataclass(value)
            if field.name in SIZES or inside:
                yield from _large(value, (*path, field.name))


def _with(one: Any, path: tuple[str | int, ...], value: int) -> Any:
    """Return a description with another size in one place."""
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(first, int):
        return tuple(_with(item, rest, value) if k == first else item for k, item in enumerate(one))
    return replace(one, **{first: _with(getattr(one, first), rest, value)})


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
    one: Any, n_inputs: int, *, per_step: bool, classes: bool, remedy: str = ""
) -> None:
    """Raise ValueError if the sums of a map's features cannot be in this machine's memory.

    Parameters
    ----------
    remedy
        What else would help.

    >>> from catchment import EchoState
    >>> refuse_large(EchoState(200), 3, per_step=False, classes=True)
    """
    if not is_large(one):
        return
    F = n_features_of(one, n_inputs, per_step=per_step, classes=classes)
    memory = machine_bytes()
    if memory is None or gram_bytes(F) <= memory:
        return
    raise ValueError(
        f"the map has about {F:,} features, whose Gram matrix of {gram_bytes(F) // 8:,} numbers "
        f"takes {spoken(gram_bytes(F))}, and this machine has {spoken(memory)}; take fewer units, "
        f"{remedy}or project the features to fewer (Projected)"
    )
