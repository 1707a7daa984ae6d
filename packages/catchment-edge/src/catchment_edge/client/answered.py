"""What a gateway remembers of the last question that a device answered with its sums.

A device that is asked again under the same number sends the same bytes. So the number stays the
same while the question does, whoever asks again; and goes on when another round asks for more.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from catchment.errors import IntegrityError
from catchment.federation import Memory

KEY = "device"


@dataclass(frozen=True)
class Question:
    """What a device is asked at a round of the training.

    Parameters
    ----------
    token
        The same text for the same question.
    begun
        The plan under which the sum of increments was begun.
    missed
        Whether the server says that the last increment did not come into the sum.
    new_only
        Whether it is asked for what is new, or for the sums of all it has seen.
    """

    token: str
    begun: str = ""
    missed: bool = False
    new_only: bool = False

    def counts(self, known: Answered) -> bool:
        """Return whether an earlier answer is in the sum that this question goes on from."""
        same_sum = self.new_only and known.new_only and known.token.split()[0] == self.begun
        return same_sum and known.sent and not self.missed


@dataclass(frozen=True)
class Answered:
    """The number under which a device was asked, for which round, and how far that came.

    `sent` says that its answer was good and went on its way, `counted` that it is in a sum, and
    `new_only` that it was what is new since the last one that counted.

    >>> memory = {}
    >>> Answered(3, "plan 0").keep(memory)
    >>> Answered.of(memory)
    Answered(round=3, token='plan 0', sent=False, counted=False, new_only=False)
    """

    round: int
    token: str
    sent: bool = False
    counted: bool = False
    new_only: bool = False

    @classmethod
    def of(cls, memory: Memory) -> Answered | None:
        """Return what is remembered, None if nothing is."""
        if KEY not in memory:
            return None
        try:
            return cls(**json.loads(memory[KEY]))
        except (ValueError, TypeError) as error:
            raise IntegrityError("what this client remembers of its device is damaged") from error

    def keep(self, memory: Memory) -> None:
        memory[KEY] = json.dumps(asdict(self)).encode()

    @staticmethod
    def forget(memory: Memory) -> None:
        memory.pop(KEY, None)
