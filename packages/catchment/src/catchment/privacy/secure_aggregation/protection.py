"""Secure aggregation: the server learns the exact sum of the clients' messages and nothing else of
them.

The protocol is that of Bonawitz et al. (CCS 2017) with registered identities and the consistency
round, on the sparse graph of Bell et al. (CCS 2020) above 100 clients, over a ring in which sums
are exact. The stages:

    keys         every client signs two fresh public keys and a commitment to a random number;
    nonces       on a sparse graph it sees all keys and shows its number; the graph is drawn from
                 all numbers, and who does not show its own ends the round;
    shares       it hands its neighbors shares of two secrets, in boxes only they can open, and
                 digests of the shares for the server to know right ones by;
    boxes        it opens its neighbors' boxes and names those that do not open;
    update       it sends its numbers under its own mask and one mask for each neighbor;
    consistency  it signs the set of clients whose uploads arrived, as the server told it;
    unmask       with enough such signatures it gives, for each neighbor, a share of the own mask
                 if it is in the set and of the mask key if it is not, never both.

Every signature covers all that the client acted on until then: the plan, its round and seed, what
came along (maps, preparation, model), the members and their keys, and from the update on the
algorithm's request. The masks are salted with it. So clients that were told different things never
end in one sum.

What is claimed, and under which assumptions:

- Public keys were registered without the server's help, and the primitives are sound.
- A *curious* server, which keeps to the protocol, together with fewer than t holders of a client's
  shares: sees the sum of the sealed set and nothing else of that client's message.
- A server that *lies*, together with at most `corrupt` of the registered clients: the same. On the
  full graph no two sets get t signatures, because 2t > m + c for m members and c corrupt ones. On
  the sparse graph no client's two secrets are opened, but for 2^-40; see
  `catchment.privacy.secure_aggregation.graph` for what is not proved there.
- The server chooses who is asked and may end any round. So a client asks for `min_clients`, for
  `min_share` of the registered ones, and for what its own ledger allows
  (`catchment.privacy.ledger`): sums over different sets can be subtracted.
- A client that lies cannot see others, and is found out where it can be: boxes that do not open,
  shares that were not dealt, a number that is not shown. It can send any numbers under its mask,
  and deal shares that do not fit together, which ends the round with its name.

Not covered: who talks when, the shape of messages, the sum itself, one person with many
identities; and a server that can run its own program on the clients. Nobody outside has reviewed
the protocol.

What a client refuses (`check_...`) it checks on its own, from the plan, its data and its memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Lt

from catchment.arrays import Fraction
from catchment.errors import RuleError, UploadError
from catchment.federation.algorithm import Memory, RoundContext, Upload
from catchment.federation.protection import Exchange, Masking
from catchment.privacy.secure_aggregation.graph import corrupt_among, degree, threshold, uncut
from catchment.privacy.secure_aggregation.ring import Outline, Ring
from catchment.privacy.secure_aggregation.server_journal import Journal
from catchment.wire import Kind, Message, measured

FEWEST_CLIENTS = 3
FEWEST_ROWS_PER_FEATURE = 2.0
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def is_name(text: str) -> bool:
    """Return whether a text may name a client or a federation: no paths, no surprises.

    >>> is_name("subject-07"), is_name("../x"), is_name(".."), is_name("")
    (True, False, False, False)
    """
    return _NAME.fullmatch(text) is not None and text not in (".", "..")


def check_clients(n_clients: int, min_clients: int) -> None:
    """Refuse a round of too few clients.

    >>> check_clients(2, 3)
    Traceback (most recent call last):
    catchment.errors.RuleError: the round has 2 clients, this client asks for 3 or more; ...
    """
    if n_clients < min_clients:
        raise RuleError(
            "clients",
            f"the round has {n_clients} clients, this client asks for {min_clients} or more; wait "
            "until more are there",
        )


def check_share(n_clients: int, n_registered: int, min_share: float) -> None:
    """Refuse a round of too small a part of those who are registered.

    A server chooses who is asked, and so could fill a small round with those who work with it.

    >>> check_share(12, 40, 0.5)
    Traceback (most recent call last):
    catchment.errors.RuleError: the round has 12 of 40 registered clients, this client asks for ...
    """
    if n_clients < min_share * n_registered:
        raise RuleError(
            "share",
            f"the round has {n_clients} of {n_registered} registered clients, this client asks "
            f"for {min_share:.0%} of them or more; wait until more are there, or register fewer",
        )


def check_threshold(threshold: int, n_holders: int, n_corrupt: int) -> None:
    """Refuse a threshold with which a server could open both secrets of one client.

    It shows half of the honest holders a set with the client and half of them one without; those
    who work with it give a share of each.

    >>> check_threshold(8, 12, 4)
    Traceback (most recent call last):
    catchment.errors.RuleError: 8 shares of 12 open a secret, and 4 holders may work with the ...
    """
    if not n_holders + n_corrupt < 2 * threshold or threshold > n_holders:
        raise RuleError(
            "threshold",
            f"{threshold} shares of {n_holders} open a secret, and {n_corrupt} holders may work "
            f"with the server; {(n_holders + n_corrupt) // 2 + 1} to {n_holders} shares must be "
            "needed",
        )


def check_rows(upload: object, *, rows_per_feature: float, min_clients: int) -> None:
    """Refuse to send statistics of so few rows that the cohort's sum may be too thin.

    With every client above `rows_per_feature * features / min_clients` and at least `min_clients`
    of them, the sum has `rows_per_feature` rows per feature, and no client needs to know another's
    count. Values that do not count rows, or have no features, pass.

    >>> from catchment.readout.statistics import RidgeStatistics
    >>> check_rows(RidgeStatistics.zero(6, 1), rows_per_feature=20, min_clients=10)
    Traceback (most recent call last):
    catchment.errors.RuleError: too few rows for 6 features, this client sends 12 or more; ...
    """
    for found in measured(upload):
        n_features = found.sizes.get("features", 0)
        least = rows_per_feature * n_features / min_clients
        if not found.rows >= least:
            raise RuleError(
                "rows",
                f"too few rows for {n_features} features, this client sends {least:.0f} or more; "
                "collect more data before taking part, use fewer features, or agree on a plan with "
                "more min_clients or fewer rows_per_feature",
            )


class Identities(Mapping[str, str]):
    """Public keys by client, with the memories of clients that live in this process.

    What is signed, described, printed, copied or pickled are the public keys: private ones stay in
    the memories, and those in this process.

    Parameters
    ----------
    public
        Ed25519 key of every client in hexadecimal.
    memories
        What each client remembers, its private key first of all.

    >>> keys = Identities({"ann": "00" * 32}, {"ann": {"a secret": b"1234"}})
    >>> keys
    Identities(ann)
    """

    def __init__(self, public: Mapping[str, str], memories: Mapping[str, Memory]) -> None:
        self._public = dict(public)
        self.memories: dict[str, Memory] = dict(memories)

    def __getitem__(self, name: str) -> str:
        return self._public[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._public)

    def __len__(self) -> int:
        return len(self._public)

    def __repr__(self) -> str:
        return f"Identities({', '.join(self._public)})"

    def __reduce__(self) -> tuple[type[dict[str, str]], tuple[dict[str, str]]]:
        return dict, (dict(self._public),)


@dataclass(frozen=True, eq=False)
class SecureAggregation(Masking):
    """Hides every client's message in the sum of all; the last of a plan's protections.

    All arrays of a message are summed; its kind, its facts and its shapes travel in clear and must
    be the same for all clients.

    Parameters
    ----------
    identities
        Public Ed25519 key of every client in hexadecimal, registered without the server's help;
        for clients of one process, what `generate_keys` returns.
    federation
        Name that keeps the rounds of one federation apart from another's.
    min_clients
        Fewest clients in a sum, at least 3. Clients refuse less.
    rows_per_feature
        Fewest rows per feature in a sum of ridge statistics, at least 2; a client refuses to send
        statistics of fewer than `rows_per_feature * features / min_clients` rows.
    corrupt
        Fraction of the registered clients that may work with a server that lies; all of them may be
        asked in one round. Clients refuse a threshold that does not withstand it.
    min_share
        Smallest fraction of the registered clients in a round. With 0 any number will do and
        `corrupt` counts among those who are asked, whom the server chose.
    neighbors, shares_needed
        With how many others each client masks and how many shares open a secret; chosen by the
        number of clients if None. Clients refuse so few that corrupt ones could stand on all sides
        of an honest one.
    bits
        128: sums are exact. 64: half the bytes, rounded to fit `bound`. Statistics in fixed point
        are integers and exact in any ring: theirs has 64 bits, or with 32 half of that, and then
        clients refuse to send what could wrap it, and anything that is not in fixed point.
    bound
        With 64 bits: what no entry of the sum exceeds.
    ridge, tolerance
        With 64 bits: the least ridge that ridge statistics will be solved with, and how far the
        rounding may move the readout, relative to its norm or to 1. Clients refuse to send
        statistics for which this cannot be promised.
    servers, helper
        2: a client sends one message and need not be there again; a helper, whose public keys these
        are (`new_helper`), takes the masks off the sum of a batch; `corrupt`, `min_share` and
        `neighbors` are of one server. See `catchment.privacy.secure_aggregation.two_servers`.
    assist
        With 2 servers, on the leader: carries a batch to the helper and its answer back.

    >>> SecureAggregation(identities={"ann": "00" * 32}).ring
    Ring(bits=128, fraction=80)
    """

    messages: ClassVar[tuple[Kind, ...]] = tuple(
        Kind(f"secure-{name}", holds, tuple(tells))
        for name, holds, *tells in (
            ("keys", "public keys of one round, signed", "that the client takes part"),
            (
                "later",
                "the number of the latest round that the client knows",
                "how many rounds it took part in, at most",
            ),
            ("nonce", "a random number of which the graph of neighbors is drawn", "nothing"),
            (
                "shares",
                "shares of the round's secrets, encrypted for the other clients",
                "nothing by themselves",
            ),
            (
                "complaints",
                "which of the other clients' boxes do not open",
                "that those clients, or this one, are at fault",
            ),
            (
                "upload",
                "the client's message under masks that cancel in the sum of all clients",
                "nothing of one client by itself, as long as enough clients are honest",
                "from the sum what such sums tell: of a small cohort, who is in it",
            ),
            ("consent", "a signature under the list of clients in the sum", "that it agrees"),
            (
                "shares-given",
                "shares that take the masks off the sum",
                "nothing of one client by itself",
            ),
            (
                "single",
                "the client's message under a mask whose seed is sealed for the helper",
                "nothing of one client by itself, unless leader and helper work together",
                "from the sum what such sums tell: of a small cohort, who is in it",
            ),
        )
    )

    identities: Mapping[str, str]
    _: KW_ONLY
    federation: str = "catchment"
    min_clients: Annotated[int, Ge(FEWEST_CLIENTS)] = 10
    rows_per_feature: Annotated[float, Ge(FEWEST_ROWS_PER_FEATURE)] = 20.0
    corrupt: Annotated[float, Ge(0), Lt(1)] = 0.2
    min_share: Fraction = 0.5
    neighbors: int | None = None
    shares_needed: int | None = None
    bits: Literal[32, 64, 128] = 128
    bound: float | None = None
    ridge: float = 1e-6
    tolerance: float = 1e-3
    servers: Literal[1, 2] = field(default=1, metadata={"later": True})
    helper: str = field(default="", metadata={"later": True})
    assist: Callable[[bytes], bytes] | None = field(
        default=None, repr=False, metadata={"local": True}
    )

    def __post_init__(self) -> None:
        for name, key in self.identities.items():
            if not is_name(name):
                raise ValueError(
                    f"a client is called {name[:80]!r}; use 1 to 64 letters, digits, '.', '_', '-'"
                )
            if not re.fullmatch(r"[0-9a-f]{64}", key):
                raise ValueError(f"the key of {name} is {key[:80]!r}; pass 64 hexadecimal digits")
        if (self.servers == 2) != bool(re.fullmatch(r"([0-9a-f]{64}){1,2}", self.helper)):
            raise ValueError(
                f"servers is {self.servers} and helper is {self.helper[:80]!r}; with two servers, "
                "and only then, pass the helper's public keys, 128 hexadecimal digits"
            )
        if len(set(self.identities.values())) != len(self.identities):
            raise ValueError("two clients have one identity; register a key for each")
        if not is_name(self.federation):
            raise ValueError(f"federation is {self.federation[:80]!r}; use letters and digits")
        super().__post_init__()
        if (self.bound is None) != (self.bits != 64):
            raise ValueError(
                f"bits is {self.bits} and bound is {self.bound}; "
                "a bound on the sum goes with 64 bits, and only with them"
            )
        if not isinstance(self.identities, Identities):
            # A copy nobody else holds: the plan's fingerprint covers it.
            object.__setattr__(self, "identities", MappingProxyType(dict(self.identities)))

    @cached_property
    def ring(self) -> Ring:
        """The ring of numbers that are not whole; with 32 bits there is none for them."""
        if self.bits == 32:
            return Ring(32, 0)
        return Ring() if self.bound is None else Ring.compact(self.bound)

    def ring_of(self, outline: Outline) -> Ring:
        """Return the ring in which messages of an outline are summed: the plan's, nobody's choice.

        >>> import numpy as np
        >>> grid = Message("sums", {"grid": "[8,[[2,8]],0]"}, (np.array([1, 2]),))
        >>> SecureAggregation(identities={"ann": "00" * 32}).ring_of(Outline.of(grid))
        Ring(bits=64, fraction=0)
        """
        if outline.is_whole:
            return Ring(min(self.bits, 64), 0)
        if self.bits == 32:
            raise UploadError(
                "ring",
                f"a message of {outline.kind[:40]!r} is not in fixed point, and the plan's ring "
                "of 32 bits takes integers only; use a map in fixed point, or bits=128",
            )
        return self.ring

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All clients in order; messages call a client by its place here."""
        return tuple(sorted(self.identities))

    @cached_property
    def places(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def degree(self, n_clients: int) -> tuple[int, int]:
        """Return how many neighbors a client has, and how many shares open a secret.

        >>> SecureAggregation(identities={"ann": "00" * 32}, neighbors=20).degree(100)
        (20, 14)
        """
        k = self._k(n_clients)
        if self.shares_needed is not None:
            return k, self.shares_needed
        if self.neighbors is None:
            return degree(n_clients, self.n_corrupt(n_clients))
        least = self.least_shares(n_clients)
        return k, max(threshold(k + 1, self.corrupt_holders(n_clients)), least)

    def corrupt_holders(self, n_clients: int) -> int:
        """Return how many of those who hold a client's shares may work with the server.

        >>> keys = {f"c{k}": f"{k:064x}" for k in range(40)}
        >>> SecureAggregation(identities=keys).corrupt_holders(20)
        8
        """
        bad, k = self.n_corrupt(n_clients), self._k(n_clients)
        # On the full graph it is all of them, however many are asked.
        return bad if k >= n_clients - 1 else corrupt_among(n_clients, bad, k)

    def least_shares(self, n_clients: int) -> int:
        """Return how many shares must be needed for no part of a ring to be cut off from it."""
        bad, k = self.n_corrupt(n_clients), self._k(n_clients)
        return 1 if k >= n_clients - 1 else uncut(n_clients, bad, k)

    def _k(self, n_clients: int) -> int:
        if self.neighbors is None:
            return degree(n_clients, self.n_corrupt(n_clients))[0]
        # Even, because half of them stand on either side.
        return n_clients - 1 if self.neighbors >= n_clients - 1 else self.neighbors // 2 * 2

    def n_corrupt(self, n_clients: int) -> int:
        """Return how many of so many clients asked may work with the server.

        >>> keys = {f"c{k}": f"{k:064x}" for k in range(40)}
        >>> SecureAggregation(identities=keys).n_corrupt(20)
        8
        """
        among = len(self.identities) if self.min_share else n_clients
        return math.floor(self.corrupt * among + 1e-9)  # 0.29 * 100 is not quite 29

    def exact(self, *, of_few: bool = False) -> SecureAggregation:
        """Return secure aggregation that rounds nothing: a bound says nothing of other sums."""
        same = replace(self, bits=128, bound=None)
        return replace(same, min_share=0.0) if of_few else same

    def check_rows(self, upload: Upload) -> None:
        """Refuse to send what has so few rows that the sum may be too thin."""
        check_rows(upload, rows_per_feature=self.rows_per_feature, min_clients=self.min_clients)

    def open(self, context: RoundContext, *, min_clients: int, journal: Journal | None) -> Exchange:
        if self.servers == 2:
            from catchment.privacy.secure_aggregation.two_servers import TwoServerRound

            return TwoServerRound(self, context, max(min_clients, self.min_clients))
        from catchment.privacy.secure_aggregation.server import SecureRound

        return SecureRound(self, context, max(min_clients, self.min_clients), journal)

    def on_stage(
        self, stage: str, received: Message, context: RoundContext, memory: Memory
    ) -> Message:
        from catchment.privacy.secure_aggregation.client import answer

        return answer(self, stage, received, context, memory)

    @property
    def memories(self) -> dict[str, Memory]:
        return self.identities.memories if isinstance(self.identities, Identities) else {}

    def mask(
        self,
        received: Message,
        upload: Callable[[Message, RoundContext], Upload],
        context: RoundContext,
        memory: Memory,
    ) -> Upload:
        if self.servers == 2:
            from catchment.privacy.secure_aggregation.two_servers import masked as once

            return once(self, received, upload, context, memory)
        from catchment.privacy.secure_aggregation.client import masked

        return masked(self, received, upload, context, memory)
