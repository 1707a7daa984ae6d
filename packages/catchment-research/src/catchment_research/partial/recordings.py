"""A network that clients train on their recordings: each prepared recording is one example."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from catchment.data import Recording
from catchment.federation import Algorithm, Data, Requirements, RoundContext
from catchment.wire import Message
from catchment_research.partial.local import Examples
from catchment_research.partial.network_model import NetworkModel
from catchment_research.partial.training import Change, FederatedTraining, Moved, Trained


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordingTraining(Algorithm[Trained, Moved, NetworkModel]):
    """Train a partially trainable network to name the class of recordings or windows.

    Parameters
    ----------
    training
        The network and how it is trained; its module takes (batch, steps, channels) and returns
        logits (batch, classes), and is made by a `Maker`.
    classes
        Names of the outputs; every recording has one of them.
    """

    training: FederatedTraining
    classes: tuple[str, ...]

    @property
    def requirements(self) -> Requirements:
        return self.training.requirements

    def group_size(self, n_clients: int, n_threads: int) -> int:
        return self.training.group_size(n_clients, n_threads)

    def start(self) -> Trained:
        return self.training.start()

    def broadcast(self, state: Trained, context: RoundContext) -> Message:
        return self.training.broadcast(state, context)

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Change:
        return self.client_updates(received, [(data, context)])[0]

    def client_updates(
        self, received: Message, clients: Sequence[tuple[Data, RoundContext]]
    ) -> Sequence[Change]:
        read = [(examples_of(data(), len(self.classes)), context) for data, context in clients]
        asked = [(lambda held=held: [held], context) for held, context in read]
        return self.training.client_updates(received, asked)

    def read_update(self, parts: Message, context: RoundContext) -> Moved:
        return self.training.read_update(parts, context)

    def server_update(self, state: Trained, total: Moved, context: RoundContext) -> Trained:
        return self.training.server_update(state, total, context)

    def result(self, state: Trained) -> NetworkModel:
        return NetworkModel(
            network=self.training.network, values=state.values, classes=self.classes
        )

    def figures(self, state: Trained) -> dict[str, float]:
        return self.training.figures(state)


def examples_of(recordings: Iterable[Recording], n_classes: int) -> Examples:
    """Return prepared recordings as examples (n, T, I); those without a target are left out.

    >>> one = Recording.labeled(np.zeros((5, 2)), 1, 3)
    >>> held = examples_of([one, one], 3)
    >>> held.x.shape, held.y
    ((2, 5, 2), array([1, 1]))
    """
    known = []
    for k, recording in enumerate(recordings):
        y = recording.y
        if y is None or recording.per_step or y.shape != (n_classes,):
            raise ValueError(
                f"recording {k} has no label of one of {n_classes} classes for all its steps; a "
                "network needs one: name the label's column, or set a window"
            )
        if not np.isnan(y).any():
            known.append(recording)
    lengths = sorted({recording.n_steps for recording in known})
    if not lengths:
        raise ValueError("no recording has a label; there is nothing to learn from")
    if len(lengths) > 1:
        raise ValueError(
            f"recordings have {lengths[0]} to {lengths[-1]} steps, a network takes examples of one "
            f"length; set a window of at most {lengths[0]} steps"
        )
    x = np.stack([recording.u for recording in known]).astype(np.float32)
    labels = [int(np.argmax(r.y)) for r in known if r.y is not None]
    return Examples(x, np.array(labels, dtype=np.int64))
