"""What a protection is: a change to uploads on the client, undone on the sum if it can be.

A `Masking` has messages of its own before and after the upload, such as a secure sum; `Exchange` is
the server's half of those in one round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from catchment.federation.algorithm import NO_NEEDS, Additive, Memory, Needs, Turn, Upload
from catchment.wire import Kind, Parts

if TYPE_CHECKING:
    from catchment.federation.plan import Plan

Read = Callable[[Parts, Turn], Additive]


class Protection:
    """Both halves of a change to uploads: made on the client, undone on the sum if it can be.

    Override what differs: by default everything is handed through.

    >>> Protection().on_client("upload", Turn(0, ()))
    'upload'
    """

    is_noise: ClassVar[bool] = False  # under which nothing may be chosen by the data

    @property
    def needs(self) -> Needs:
        """What the plan around it must give or leave be."""
        return NO_NEEDS

    @property
    def messages(self) -> tuple[Kind, ...]:
        """The kinds of messages that it makes of uploads; each says what it holds and tells."""
        return ()

    def on_client(self, upload: Upload, turn: Turn) -> Upload:
        """Return what leaves the client instead."""
        return upload

    def read_update(self, parts: Parts, turn: Turn, inner: Read) -> Additive:
        """Return what came, ready to add; `inner` reads what was there before this protection."""
        return inner(parts, turn)

    def on_server(self, total: Additive, turn: Turn, inner: Read) -> Additive:
        """Return the sum as it would be without this protection, as far as it can be had."""
        return total

    def check(self, plan: Plan[Any, Any, Any]) -> None:
        """Raise ValueError if the plan would break what is promised."""

    def before(self, turn: Turn) -> None:
        """Raise to refuse a round before any client is asked."""

    def beside(self, masking: Masking) -> Self:
        """Return the protection with settings that, if not given, follow from the masking."""
        return self


class Masking(Protection, ABC):
    """A protection with messages of its own before and after the upload, such as a secure sum."""

    @abstractmethod
    def exact(self, *, of_few: bool = False) -> Self:
        """Return the protection for sums of any size, which rounds nothing.

        `of_few` is for sums over few of the registered clients, as those that test a model.
        """

    @abstractmethod
    def open(self, turn: Turn, *, min_clients: int, journal: Any) -> Exchange:
        """Return the server's half of one round, or of the one that the journal left unfinished.

        A journal is the protection's own: what that half writes down before it acts on it.
        """

    @abstractmethod
    def on_stage(self, stage: str, received: Parts, turn: Turn, memory: Memory) -> Parts:
        """Return a client's answer to a stage; secrets stay in its memory."""

    @abstractmethod
    def mask(
        self, received: Parts, upload: Callable[[Parts, Turn], Upload], turn: Turn, memory: Memory
    ) -> Upload:
        """Return the masked upload; `upload` makes it from the algorithm's own letter.

        The turn it is made with has the session and a ledger, for noise that is drawn once only.
        """


class Exchange(Protocol):
    """The server's half of a masking protocol in one round; the loop carries its letters."""

    @property
    def stages(self) -> Iterable[str]:
        """The stages in their order, to be closed one after the other."""

    def asked(self, stage: str) -> Sequence[str]:
        """Return the clients whose answers to a stage are wanted and not yet here."""

    def letter(self, stage: str, client: str, payload: Parts) -> Parts:
        """Return what a client is sent at a stage; "update" carries the algorithm's payload."""

    def take(self, stage: str, parts: Parts, turn: Turn) -> bool:
        """Note a client's answer; raise IntegrityError or UploadError if it cannot be used."""

    def close(self, stage: str) -> None:
        """End a stage for good; raise TooFewClientsError if too few answered it to go on."""

    def left_out(self) -> Sequence[tuple[str, str, str]]:
        """Return whom the protocol itself left out since the last call: name, code and reason."""

    def result(self, inner: Read) -> tuple[Additive, int]:
        """Return the sum without masks, read by `inner`, and how many clients are in it."""

    def publish(self) -> None:
        """Note that the state after the round is kept, so that the round is never run again."""
