"""What trains on examples, for prepared recordings: each of them, or of their windows, is one.

`OfRecordings` is the base of what such a training makes, a model with one row for a recording.

`TrainedSum` has the changes that training made and how well clients did meanwhile: a client means
over its examples as its steps met them, and sends three numbers that add: its weight w,
w loss / 2^20 and w accuracy. A loss above 2^20 is sent as 2^20, so that none of the three is ever
larger than the weight, which travels anyway: where weights fit into secure aggregation, these do. A
client that tells nothing sends zeros.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self, TypeVar

import numpy as np

from catchment.data import Preprocessing, Recording
from catchment.federation import Algorithm, Data, Requirements, RoundContext, WeightedSum
from catchment.readout import Predictor, to_bytes
from catchment.wire import NOT_NEGATIVE, REMARK, Kind, Message

S = TypeVar("S")
U = TypeVar("U")
R_co = TypeVar("R_co", covariant=True)
LARGEST_LOSS = 2.0**20


class OnRecordings(Algorithm[S, U, R_co]):
    """Base of algorithms that train as another does, on recordings; `examples` and `result` differ.

    `training` is the other one, `classes` the names of the outputs, of which every recording has
    one.
    """

    training: Algorithm[S, U, Any]
    classes: tuple[str, ...]

    @abstractmethod
    def examples(self, recordings: Iterable[Recording]) -> Sequence[Any]:
        """Return what the training takes of a client."""

    @property
    def requirements(self) -> Requirements:
        return self.training.requirements

    def group_size(self, n_clients: int, n_threads: int) -> int:
        return self.training.group_size(n_clients, n_threads)

    def start(self) -> S:
        return self.training.start()

    def broadcast(self, state: S, context: RoundContext) -> Message:
        return self.training.broadcast(state, context)

    def client_updates(
        self, received: Message, clients: Sequence[tuple[Data, RoundContext]]
    ) -> Sequence[Any]:
        read = [(self.examples(data()), context) for data, context in clients]
        asked = [(lambda held=held: held, context) for held, context in read]
        return self.training.client_updates(received, asked)

    def read_update(self, parts: Message, context: RoundContext) -> U:
        return self.training.read_update(parts, context)

    def figures(self, state: S) -> Mapping[str, float]:
        return self.training.figures(state)


class OfRecordings(Predictor):
    """Base of predictors that give one row for a recording, after a preparation of their own."""

    preprocessing: Preprocessing
    channels: tuple[str, ...] | None
    per_step = False
    washout = 0

    def identity(self) -> str:
        """Return the SHA-256 of all that it says, in hexadecimal."""
        return hashlib.sha256(to_bytes(self)).hexdigest()

    def prepared_by(
        self, preprocessing: Preprocessing, channels: Sequence[str] | None = None
    ) -> Self:
        known = self.channels if channels is None else tuple(channels)
        return self.changed(preprocessing=preprocessing, channels=known)


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


@dataclass(frozen=True)
class Progress:
    """Mean loss and share of right answers; None where they are not known."""

    loss: float | None = None
    accuracy: float | None = None

    def weighted(self, weight: float) -> tuple[float, float, float]:
        """Return what a client of this weight sends.

        >>> Progress(loss=2.0**19, accuracy=0.25).weighted(8.0)
        (8.0, 4.0, 2.0)
        """
        if self.loss is None:
            return 0.0, 0.0, 0.0
        loss = LARGEST_LOSS if math.isnan(self.loss) else min(max(self.loss, 0.0), LARGEST_LOSS)
        return weight, weight * loss / LARGEST_LOSS, weight * (self.accuracy or 0.0)

    @classmethod
    def mean(cls, telling: float, loss: float, right: float, *, scored: bool) -> Progress:
        """Return the mean of what clients sent, from the sums; nothing if none told any.

        Parameters
        ----------
        telling, loss, right
            Sums of what clients sent.
        scored
            Whether they know what they got right.

        >>> Progress.mean(8.0, 2.0**-17, 2.0, scored=True)
        Progress(loss=1.0, accuracy=0.25)
        """
        if not telling > 0:
            return cls()
        return cls(loss / telling * LARGEST_LOSS, right / telling if scored else None)

    @property
    def figures(self) -> dict[str, float]:
        """By name, what is known.

        >>> Progress(loss=0.5).figures
        {'training loss': 0.5}
        """
        named = {"training loss": self.loss, "training accuracy": self.accuracy}
        return {name: value for name, value in named.items() if value is not None}


UNKNOWN = Progress()


@dataclass(frozen=True, eq=False)
class TrainedSum(WeightedSum):
    """A weighted sum of what training moved, with how well the clients did while they trained.

    >>> import numpy as np
    >>> a, b = (TrainedSum.of((np.zeros(1),), n).told(Progress(n)) for n in (1.0, 3.0))
    >>> (a + b).progress(scored=False)
    Progress(loss=2.5, accuracy=None)
    """

    KIND: ClassVar[Kind] = Kind(
        "trained-sum",
        "how far the parameters moved that the client trained on its own data, multiplied by their "
        "weight, the weight, and the mean loss of these steps (of classes also the share right)",
        (
            "how many rows the client has, if it is weighed by them",
            "which classes the client has: the parameters of a class it never saw show it",
            "the gradient of this one client's data, against which recordings can be tested",
            "how well the shared model fits this one client's data",
        ),
    )

    telling: Annotated[float, NOT_NEGATIVE, REMARK] = 0.0
    loss: Annotated[float, NOT_NEGATIVE, REMARK] = 0.0
    right: Annotated[float, NOT_NEGATIVE, REMARK] = 0.0

    def told(self, progress: Progress) -> Self:
        """Return the sum with one client's progress in it."""
        telling, loss, right = progress.weighted(self.weight)
        return replace(self, telling=telling, loss=loss, right=right)

    def progress(self, *, scored: bool) -> Progress:
        """Return the mean over those who told theirs, as they weigh."""
        return Progress.mean(self.telling, self.loss, self.right, scored=scored)
