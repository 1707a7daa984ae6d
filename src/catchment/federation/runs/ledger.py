"""The ledger: for every message, who sent it, what for, how large, and its hash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from catchment.wire import Fact, Parts, digest, plain_text


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
        about = (round_, client, direction, plain_text(parts.kind, 80), shapes)
        return cls(*about, len(message), sha256, _epsilon(parts.facts))


def _epsilon(facts: Mapping[str, Fact]) -> float | None:
    """Return the privacy cost that a message states, itself or for what is masked in it."""
    match facts:
        case {"epsilon": float(epsilon)}:
            return epsilon
        case {"outline": {"facts": {"epsilon": float(epsilon)}}}:
            return epsilon
    return None
