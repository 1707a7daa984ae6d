"""What trains on examples, for prepared recordings: each of them, or of their windows, is one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from catchment.data import Recording
from catchment.federation import Algorithm, Data, Requirements, RoundContext
from catchment.wire import Message

S = TypeVar("S")
U = TypeVar("U")
R_co = TypeVar("R_co", covariant=True)


class OnRecordings(Algorithm[S, U, R_co]):
    """Base of algorithms that train as another does, on recordings; `examples` and `result` differ.

    `training` is the other one, `classes` the names of the outputs, of which every recording has
    one.
    """

    training: Any
    classes: tuple[str, ...]

    @abstractmethod
    def examples(self, recordings: Iterable[Recording]) -> Sequence[Any]:
        """Return what the training takes of a client."""

    @property
    def requirements(self) -> Requirements:
        found: Requirements = self.training.requirements
        return found

    def group_size(self, n_clients: int, n_threads: int) -> int:
        return int(self.training.group_size(n_clients, n_threads))

    def start(self) -> S:
        begun: S = self.training.start()
        return begun

    def broadcast(self, state: S, context: RoundContext) -> Message:
        sent: Message = self.training.broadcast(state, context)
        return sent

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Any:
        return self.client_updates(received, [(data, context)])[0]

    def client_updates(
        self, received: Message, clients: Sequence[tuple[Data, RoundContext]]
    ) -> Sequence[Any]:
        read = [(self.examples(data()), context) for data, context in clients]
        asked = [(lambda held=held: held, context) for held, context in read]
        made: Sequence[Any] = self.training.client_updates(received, asked)
        return made

    def read_update(self, parts: Message, context: RoundContext) -> U:
        update: U = self.training.read_update(parts, context)
        return update

    def server_update(self, state: S, total: U, context: RoundContext) -> S:
        moved: S = self.training.server_update(state, total, context)
        return moved

    def figures(self, state: S) -> dict[str, float]:
        known: dict[str, float] = self.training.figures(state)
        return known


def with_labels(recordings: Iterable[Recording], n_classes: int) -> list[tuple[Recording, int]]:
    """Return recordings with the class of each; those without a target are left out.

    >>> one = Recording.labeled(np.zeros((5, 2)), 1, 3)
    >>> [label for _, label in with_labels([one, one], 3)]
    [1, 1]
    """
    known = []
    for k, recording in enumerate(recordings):
        y = recording.y
        if y is None or recording.per_step or y.shape != (n_classes,):
            raise ValueError(
                f"recording {k} has no label of one of {n_classes} classes for all its steps; name "
                "the label's column, or set a window"
            )
        if not np.isnan(y).any():
            known.append((recording, int(y.argmax())))
    if not known:
        raise ValueError("no recording has a label; there is nothing to learn from")
    return known
