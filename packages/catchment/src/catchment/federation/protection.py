"""What a protection is: a change to uploads on the client, undone on the sum if it can be.

A `Masking` has messages of its own before and after the upload, such as secure aggregation;
`Exchange` is the server's half of those in one round.

`LowRankUpload` makes statistics in fixed point smaller: of a Gram matrix of low rank a client sends
a few rows, from which `catchment.readout.low_rank` makes the whole matrix without a rounding, and
all else as always.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from catchment.arrays import check_fields
from catchment.errors import IntegrityError, UploadError
from catchment.federation.algorithm import (
    NO_NEEDS,
    Additive,
    Memory,
    Requirements,
    RoundContext,
    Upload,
)
from catchment.readout import integers
from catchment.readout.fixed_point import FixedPoint
from catchment.readout.low_rank import LARGEST, independent_rows, low_rank_length, whole_gram
from catchment.readout.statistics import SUMS, RidgeStatistics, packed_length
from catchment.wire import Kind, Message

if TYPE_CHECKING:
    from catchment.federation.plan import Plan

Read = Callable[[Message, RoundContext], Additive]
LOW_RANK = "low-rank-statistics"
WORTHWHILE = 0.1  # share of the Gram matrix; for less nobody looks for its rank
MOST_WORK = 2**36  # multiplications to put a Gram matrix together again: about a minute
_GRAM = 1 + SUMS.index("gram")  # its place among the arrays of statistics


class Protection:
    """Both halves of a change to uploads: made on the client, undone on the sum if it can be.

    Override what differs: by default everything is handed through.

    >>> Protection().on_client("upload", RoundContext(0, ()))
    'upload'
    """

    is_noise: ClassVar[bool] = False  # under which nothing may be chosen by the data
    hides: ClassVar[bool] = False  # uploads in their sum, as a `Masking` does

    @property
    def memories(self) -> dict[str, Memory]:
        """What clients of this process remember, if the protection was made with it."""
        return {}

    # The settings of one that is a dataclass are checked by the types of its fields.
    __post_init__ = check_fields

    @property
    def requirements(self) -> Requirements:
        """What the plan around it must give or leave be."""
        return NO_NEEDS

    @property
    def messages(self) -> tuple[Kind, ...]:
        """The kinds of messages that it makes of uploads; each says what it holds and tells."""
        return ()

    def on_client(self, upload: Upload, context: RoundContext) -> Upload:
        """Return what leaves the client instead."""
        return upload

    def read_update(self, parts: Message, context: RoundContext, inner: Read) -> Additive:
        """Return what came, ready to add; `inner` reads what was there before this protection."""
        return inner(parts, context)

    def on_server(self, total: Additive, context: RoundContext, inner: Read) -> Additive:
        """Return the sum as it would be without this protection, as far as it can be had."""
        return total

    def says(self, sent: str) -> str:
        """Return what clients send, a sentence, with what this last of the protections does."""
        return f"{sent}: protections change them"

    def check(self, plan: Plan[Any, Any, Any]) -> None:
        """Raise ValueError if the plan would break what is promised."""

    def before(self, context: RoundContext) -> None:
        """Raise to refuse a round before any client is asked."""

    def beside(self, masking: Masking) -> Self:
        """Return the protection with settings that, if not given, follow from the masking."""
        return self

    def exact(self, *, of_few: bool = False) -> Self | None:
        """Return the protection for sums of any size, which rounds nothing; None if it has none.

        `of_few` is for sums over few of the registered clients, as those that test a model.
        """
        return None


class Masking(Protection, ABC):
    """A protection with messages before and after the upload, such as secure aggregation."""

    hides = True

    def says(self, sent: str) -> str:
        return f"{sent}: the server sees only sums"

    @abstractmethod
    def open(self, context: RoundContext, *, min_clients: int, journal: Any) -> Exchange:
        """Return the server's half of one round, or of the one that the journal left unfinished.

        A journal is the protection's own: what that half writes down before it acts on it.
        """

    @abstractmethod
    def on_stage(
        self, stage: str, received: Message, context: RoundContext, memory: Memory
    ) -> Message:
        """Return a client's answer to a stage; secrets stay in its memory."""

    @abstractmethod
    def mask(
        self,
        received: Message,
        upload: Callable[[Message, RoundContext], Upload],
        context: RoundContext,
        memory: Memory,
    ) -> Upload:
        """Return the masked upload; `upload` makes it from the algorithm's own request.

        The turn it is made with has the session and a ledger, for noise that is drawn once only.
        """


class Exchange(Protocol):
    """The server's half of a masking protocol in one round; the loop carries its requests."""

    @property
    def stages(self) -> Iterable[str]:
        """The stages in their order, to be closed one after the other."""

    def asked(self, stage: str) -> Sequence[str]:
        """Return the clients whose answers to a stage are wanted and not yet here."""

    def request(self, stage: str, client: str, payload: Message) -> Message:
        """Return what a client is sent at a stage; "update" carries the algorithm's payload."""

    def take(self, stage: str, parts: Message, context: RoundContext) -> bool:
        """Note a client's answer; raise IntegrityError or UploadError if it cannot be used."""

    def close(self, stage: str) -> None:
        """End a stage for good; raise TooFewClientsError if too few answered it to go on."""

    def left_out(self) -> Sequence[tuple[str, str, str]]:
        """Return whom the protocol itself left out since the last call: name, code and reason."""

    def result(self, inner: Read) -> tuple[Additive, int]:
        """Return the sum without masks, read by `inner`, and how many clients are in it."""

    def publish(self) -> None:
        """Note that the state after the round is kept, so that the round is never run again."""


@dataclass(frozen=True, kw_only=True)
class LowRankUpload(Protection):
    """Send statistics in fixed point as they are, or in fewer numbers that say exactly the same.

    The Gram matrix of fewer rows than features has that rank, and that many of its rows say the
    rest. Each client sends what is smaller for it, after it has put its own message together again
    and found every number equal, unless that would take minutes; the message says which. The server
    therefore adds the very same integers, and their digests, what is unlearned and what is verified
    do not change by a bit.
    Messages of other kinds, and statistics that are float64, are sent as they are.

    >>> rng = np.random.default_rng(0)
    >>> z, y = np.round(256 * rng.uniform(-1, 1, size=(5, 80))) / 256, np.ones((5, 1))
    >>> s = RidgeStatistics.from_states(z, y, fixed=FixedPoint(8, ((80, 8),)))
    >>> sent = [s.parts(), LowRankUpload().on_client(s, RoundContext(0, ()))]
    >>> [(parts.kind, len(parts.to_bytes())) for parts in sent]
    [('ridge-statistics', 8274), ('low-rank-statistics', 1687)]
    """

    requirements: ClassVar[Requirements] = Requirements(
        each_client="rows of Gram matrices do not add; leave it out: secure aggregation hides "
        "sums of one shape"
    )
    messages: ClassVar[tuple[Kind, ...]] = (
        Kind(
            LOW_RANK,
            "the sums over the client's rows, and of their products between features as many rows "
            "as say the others",
            (
                *RidgeStatistics.KIND.tells,
                "the raw inputs, in part or whole, as any sums of fewer rows than features",
                "from the size of the message that the client has fewer rows than features, and "
                "how many of them are independent, which the sums tell as well",
            ),
        ),
    )

    def says(self, sent: str) -> str:
        return f"{sent}, those in fixed point in the smaller of two forms that say exactly the same"

    def on_client(self, upload: Upload, context: RoundContext) -> Upload:
        if not isinstance(upload, RidgeStatistics) or upload.fixed is None:
            return upload
        F, fixed, gram = upload.n_features, upload.fixed, upload.gram
        most = min(upload.n_rows, F)
        worthwhile = low_rank_length(most, F) <= (1 - WORTHWHILE) * packed_length(F)
        if not worthwhile or most * F**2 > MOST_WORK or gram.dtype != np.int64:
            return upload
        # What no entry of the Gram matrix of rows of this weight exceeds.
        if int(upload.weight) << 2 * fixed.bits >= LARGEST:
            return upload
        pivots, entries = independent_rows(gram.astype(np.int64), F, most)
        plain = upload.parts()
        arrays = list(plain.arrays)
        arrays[_GRAM] = integers.to_limbs(entries, fixed.limbs["gram"])
        found = Message(LOW_RANK, plain.facts, (*arrays, pivots.astype(np.uint32)))
        try:
            same = np.array_equal(_whole(found).arrays[_GRAM], plain.arrays[_GRAM])
        except UploadError:  # independent, but not modulo every prime
            return upload
        return found if same else upload

    def read_update(self, parts: Message, context: RoundContext, inner: Read) -> Additive:
        return inner(_whole(parts) if parts.kind == LOW_RANK else parts, context)


def _whole(parts: Message) -> Message:
    """Return low-rank statistics as they would have come otherwise."""
    *arrays, pivots = parts.expect(LOW_RANK, len(SUMS) + 2).arrays
    fixed = FixedPoint.from_json(str(parts.facts.get("grid")))
    F, limbs, numbers = fixed.n_features, arrays[_GRAM], arrays[0]
    rank = len(pivots) if pivots.ndim == 1 else -1
    if pivots.dtype != np.uint32 or not 0 <= rank <= F or (pivots >= F).any():
        raise IntegrityError(f"{pivots.shape} rows of {pivots.dtype} came for {F} features")
    if len(np.unique(pivots)) != rank:
        raise IntegrityError("a low-rank upload has a feature twice")
    n_limbs = fixed.limbs["gram"]
    if limbs.dtype != np.int64 or limbs.shape != (n_limbs, low_rank_length(rank, F)):
        raise IntegrityError(f"the rows of rank {rank} came as {limbs.dtype} of {limbs.shape}")
    if integers.largest(limbs) > integers.LARGEST_LIMB:
        raise UploadError("range", f"gram holds {integers.largest(limbs)}, more than it can be")
    if numbers.shape != (2,) or not 0 <= numbers[1] < 2**53:
        raise IntegrityError(f"the counts of {LOW_RANK!r} came with shape {numbers.shape}")
    entries = integers.from_limbs(limbs)
    if entries.dtype != np.int64:
        raise UploadError("range", "gram holds more than 64 bits")
    gram = whole_gram(pivots.astype(np.int64), entries, F, int(numbers[1]) << 2 * fixed.bits)
    arrays[_GRAM] = integers.to_limbs(gram, n_limbs)
    return Message(RidgeStatistics.KIND.name, parts.facts, tuple(arrays))
