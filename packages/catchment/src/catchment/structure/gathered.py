"""A mapping that grows by parts without being copied each time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, final

FEW = 512  # entries up to which a plain dict is quicker


@final
class Gathered(Mapping[Any, Any]):
    """What several mappings hold, in parts that are each at least as large as the next.

    To put n small mappings together one after the other copies an entry log2 n times, where plain
    dicts would copy it n times. It is never changed: what was made of fewer parts stays as it is.

    >>> held = gathered(gathered({"a": 1}, {"b": 2}), {"a": 3})
    >>> dict(held)
    {'a': 3, 'b': 2}
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: tuple[Mapping[Any, Any], ...]) -> None:
        self._parts = parts

    def __getitem__(self, key: Any) -> Any:
        for part in self._parts:
            if key in part:
                return part[key]
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def with_part(self, new: Mapping[Any, Any]) -> Gathered:
        """Return what this and a mapping with other keys hold."""
        parts = [*self._parts, dict(new)]
        while len(parts) > 1 and len(parts[-2]) <= len(parts[-1]):
            last = parts.pop()
            parts[-1] = {**parts[-1], **last}
        return Gathered(tuple(parts))


def gathered(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return what two mappings hold; of a key in both, what the second has."""
    if len(one) + len(other) <= FEW or any(key in one for key in other):
        return {**one, **other}
    grown = one if isinstance(one, Gathered) else Gathered((one,) if one else ())
    return grown.with_part(other)
