"""Sequences as records: each one's upload is kept apart until a protection has bounded it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from catchment.errors import UploadError
from catchment.federation.algorithm import Algorithm, Data, Kept, Needs, Turn, Upload
from catchment.wire import Parts

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Records:
    """One upload per sequence of a client, made as they are asked for; does not travel."""

    uploads: Callable[[], Iterator[Upload]]

    def parts(self) -> Parts:
        raise UploadError(
            "records",
            "uploads per sequence must not leave the client; protect the plan with "
            "GaussianNoise(unit='sequence', ...)",
        )


@dataclass(frozen=True, kw_only=True)
class PerSequence(Algorithm[S, U, R]):
    """An algorithm whose clients make one upload per sequence, for privacy per sequence.

    Every sequence is run by itself from a state of zero, so that no input of one reaches the
    features of another. The protection sums the uploads on the client.

    Parameters
    ----------
    algorithm
        Asked for one upload per sequence; its uploads must be ridge statistics.
    """

    algorithm: Algorithm[S, U, R]

    @property
    def needs(self) -> Needs:
        return self.algorithm.needs | Needs(per_sequence=True)

    def start(self) -> S:
        return self.algorithm.start()

    def broadcast(self, state: S, turn: Turn) -> Parts:
        return self.algorithm.broadcast(state, turn)

    def client_update(self, received: Parts, data: Data, turn: Turn) -> Records:
        def uploads() -> Iterator[Upload]:
            for sequence in data():
                yield self.algorithm.client_update(received, partial(list, [sequence]), turn)

        return Records(uploads)

    def read_update(self, parts: Parts, turn: Turn) -> Any:
        return self.algorithm.read_update(parts, turn)

    def server_update(self, state: S, total: U, turn: Turn) -> S:
        return self.algorithm.server_update(state, total, turn)

    def result(self, state: S) -> R:
        return self.algorithm.result(state)

    def figures(self, state: S) -> Mapping[str, float]:
        return self.algorithm.figures(state)

    def kept(self, state: S) -> Kept:
        return self.algorithm.kept(state)

    def save_state(self, state: S) -> Parts:
        return self.algorithm.save_state(state)

    def load_state(self, parts: Parts) -> S:
        return self.algorithm.load_state(parts)
