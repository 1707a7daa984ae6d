"""The ledger: for every message, who sent it, what for, how large, and its hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catchment.wire import Parts, digest


@dataclass(frozen=True)
class Entry:
    """One message. A message down goes to the whole cohort and has no client."""

    round: int
    client: str
    direction: Literal["down", "up"]
    purpose: str
    shapes: tuple[tuple[int, ...], ...]
    n_bytes: int
    sha256: str
    epsilon: float | None = None

    @classmethod
    def of(
        cls,
        round_: int,
        client: str,
        direction: Literal["down", "up"],
        parts: Parts,
        message: bytes,
    ) -> Entry:
        shapes = tuple(tuple(array.shape) for array in parts.arrays)
        sha256 = digest(message).hex()
        return cls(round_, client, direction, parts.kind, shapes, len(message), sha256)
