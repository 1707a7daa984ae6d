"""What a gateway remembers of the last question that a device answered with its sums.

A device that is asked again under the same number sends the same bytes. So the number stays the
same while the question does, whoever asks again; and goes on when another round asks for more.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from catchment.errors import IntegrityError
from catchment.federation.plan import Memory

KEY = "device"


@dataclass(frozen=True)
class Answered:
    """The number under which a device was asked, for which round, and how far that came.

    `sent` says that its answer was good and went on its way, `counted` that it is in a sum.

    >>> memory = {}
    >>> Answered(3, "plan 0").keep(memory)
    >>> Answered.of(memory)
    Answered(round=3, token='plan 0', sent=False, counted=False)
    """

    round: int
    token: str
    sent: bool = False
    counted: bool = False

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
