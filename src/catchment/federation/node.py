"""The client's half of a turn: a message comes in, a message goes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from catchment.errors import CatchmentError, IntegrityError
from catchment.federation.plan import Additive, Data, Plan, Turn, Upload
from catchment.wire import Parts, join, split

S = TypeVar("S")
U = TypeVar("U", bound=Additive)


@dataclass(frozen=True, eq=False)
class Request:
    """What the server asks of every client of a cohort."""

    plan: str
    turn: Turn
    payload: Parts

    def to_bytes(self) -> bytes:
        about = Parts(
            "turn",
            {
                "plan": self.plan,
                "round": self.turn.round,
                "seed": self.turn.seed,
                "clients": len(self.turn.cohort),
            },
        )
        return join("request", {"turn": about, "payload": self.payload}).to_bytes()


@dataclass(frozen=True, eq=False)
class Node(Generic[S, U]):
    """One client: its name, the plan it agreed to, and its data, which stays here."""

    name: str
    plan: Plan[S, U]
    data: Data

    def answer(self, message: bytes) -> bytes:
        """Return the reply to a request, or a refusal with its reason."""
        try:
            return self._upload(message).parts().to_bytes()
        except (CatchmentError, ValueError, ArithmeticError, OSError) as error:
            reason = {"reason": str(error), "error": type(error).__name__}
            return Parts(
                "refusal", {**reason, "code": getattr(error, "code", "refused")}
            ).to_bytes()

    def _upload(self, message: bytes) -> Upload:
        request = split(Parts.from_bytes(message), "request")
        about = request["turn"].facts
        round_, seed = about.get("round"), about.get("seed")
        if type(round_) is not int or type(seed) is not int:
            raise IntegrityError("the request names no round")
        if about.get("plan") != self.plan.fingerprint():
            raise IntegrityError("the server runs another plan than this client agreed to")
        turn = Turn(round_, (), seed, self.name)
        upload = self.plan.algorithm.client_update(request["payload"], self.data, turn)
        for protection in self.plan.protections:
            upload = protection.on_client(upload, turn)
        return upload
