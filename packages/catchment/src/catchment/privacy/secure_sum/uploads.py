"""The masked uploads of a round, summed as they come, each kind of message by itself.

Uploads add that have one outline and were made under one transcript. An honest server tells all
clients the same, so that a client with another transcript is wrong; the group of most goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from catchment.errors import UploadError
from catchment.privacy.secure_sum.messages import Outline
from catchment.privacy.secure_sum.ring import Residues, add_into


@dataclass(eq=False)
class _Group:
    outline: Outline
    told: bytes
    total: Residues
    members: set[int]


@final
class Uploads:
    """Sums of masked uploads: of the clients whose messages have one outline, and how many."""

    def __init__(self) -> None:
        self._groups: dict[bytes, _Group] = {}
        self._contents: dict[int, bytes] = {}

    @property
    def members(self) -> Mapping[int, bytes]:
        """The digest of each client's upload, by its place."""
        return self._contents

    def is_new(self, place: int, content: bytes) -> bool:
        """Return whether an upload is a client's first; UploadError if it is another one."""
        before = self._contents.get(place)
        if before is not None and before != content:
            raise UploadError("conflict", "a client sent two different uploads in one round")
        return before is None

    def add(
        self, place: int, outline: Outline, numbers: Residues, content: bytes, told: bytes
    ) -> None:
        """Add a client's upload to those of its outline and transcript."""
        kind = outline.digest() + told
        group = self._groups.get(kind)
        if group is None:
            self._groups[kind] = _Group(outline, told, numbers.copy(), {place})
        else:
            add_into(group.total, numbers)
            group.members.add(place)
        self._contents[place] = content

    def most(self) -> set[int]:
        """Return the clients of the outline and transcript that most clients sent."""
        return set(self._largest().members) if self._groups else set()

    def seal(self) -> None:
        """Keep the sum of the outline that most clients sent, and nothing else."""
        self._groups = {b"": self._largest()}

    @property
    def told(self) -> bytes:
        """The transcript of most uploads (32,)."""
        return self._largest().told

    def total(self) -> tuple[Outline, Residues]:
        """Return what was summed, and a copy of the sum, still masked."""
        return self._largest().outline, self._largest().total.copy()

    def differing(self) -> str:
        """Return a remark for an error message if clients sent messages of different outlines."""
        if len(self._groups) < 2:
            return ""
        kinds = sorted({group.outline.kind for group in self._groups.values()})
        return (
            f"; the clients' messages ({', '.join(kinds)}) differ in their facts or shapes, "
            "and a secure sum adds only messages that differ in nothing but their numbers"
        )

    def _largest(self) -> _Group:
        # By digest where as many sent one as the other: not by who came first.
        return min(self._groups.items(), key=lambda item: (-len(item[1].members), item[0]))[1]
