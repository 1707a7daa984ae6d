"""What an algorithm is: four methods, and what may be said beyond them.

    start()                                 the server's state before the first round
    client_update(received, data, turn)     what one client sends; runs where the data is
    server_update(state, total, turn)       the state after a round, from the sum of what was sent
    result(state)                           what was made: a model, scores, a scaler, ...

`as_algorithm` fills in the rest: clients are told nothing, what they send is read, added and
checked as its class declares (`catchment.wire`), the state is kept in the same way, and the
server needs no more than the sum. An algorithm that differs says so with a method or an attribute
of that name; `Algorithm` has them all.
"""

from __future__ import annotations

import types
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Protocol,
    Self,
    TypeVar,
    cast,
    final,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

import numpy as np

from catchment.federation.cost import Cost
from catchment.protocols import conforms
from catchment.wire import (
    NOTHING,
    Kind,
    Parts,
    Structure,
    added,
    kind_of,
    put_together,
    taken_apart,
)
from catchment.wire.fields import members_of

if TYPE_CHECKING:
    from catchment.federation.measure.drift import Drift
    from catchment.federation.measure.outliers import AnyFlag
    from catchment.federation.sums import Tally
    from catchment.readout.ridge_choice import RidgeChoice

# What a client holds is its algorithm's business: sequences for reservoirs, examples for networks.
Data = Callable[[], Iterable[Any]]


class Upload(Protocol):
    """What leaves a client: a value that can be taken apart for the journey."""

    def parts(self) -> Parts: ...


@runtime_checkable
class Additive(Protocol):
    """What the server makes of an upload: a value that adds."""

    def __add__(self, other: Self, /) -> Self: ...


S = TypeVar("S")
U = TypeVar("U")
U_contra = TypeVar("U_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
V = TypeVar("V")


class Ledger(Protocol):
    """A client's own record of what was released of its data, which refuses what is too much."""

    def reading(self, data: Data, *, apart: bool = False) -> Data:
        """Return the data, noted as they are read; each as a part of its own if they are apart."""

    @property
    def about(self) -> str:
        """The data that were read for the upload being made, to be said again with its copy."""

    @about.setter
    def about(self, noted: str, /) -> None: ...

    def charge(self, cost: Cost, *, epsilon: float, delta: float) -> None:
        """Note that the upload being made has noise, what its release costs and what was agreed."""

    def secret(self, purpose: bytes) -> bytes:
        """Return a key (32,) that nobody else knows, the same whenever the purpose is."""

    def upload(
        self,
        plan: str,
        round_: int,
        kind: str,
        session: str = "",
        clients: Iterable[str] = (),
        *,
        lost: int = 0,
    ) -> None:
        """Note an upload, where it lasts, in the act that lets it leave; raise if it must not.

        Without a session it is seen by itself; else it is in a sum over these clients, or over an
        earlier set of this client's that is left when up to `lost` of them are lost.
        """

    def check(self, session: str, clients: Iterable[str]) -> None:
        """Raise RuleError or BudgetError if a sum over these clients must not be released."""

    def release(self, session: str, clients: Iterable[str]) -> None:
        """Note, where it lasts, that a sum over these clients is opened, or raise as `check`."""


@dataclass(frozen=True)
class Turn:
    """All that an algorithm or a protection may know of the moment: round, cohort, and client.

    `told` is the SHA-256 of what came with the request beside the algorithm's own letter (maps,
    preparation, model), so that a protection can bind clients to it. `ledger` is the client's own,
    on a client; the server has none. `session` names the secure sum that an upload goes into: the
    same one again is the same release. `vault` keeps the client's secrets of it, if its memory does
    not (`catchment.privacy.secure_sum.client`).
    """

    round: int
    cohort: tuple[str, ...]
    seed: int = 0
    client: str = ""
    plan: str = ""  # fingerprint
    changed: bool = False  # a protection changed the numbers: sums on a grid are float64 then
    told: str = ""
    ledger: Ledger | None = field(default=None, compare=False, repr=False)
    session: str = ""
    vault: Any = field(default=None, compare=False, repr=False)

    def rng(self) -> np.random.Generator:
        """Return the generator of this client in this round, whoever answers first.

        >>> turn = Turn(0, ("a", "b"), seed=1, client="a")
        >>> turn.rng().random() == turn.rng().random()
        True
        """
        return np.random.default_rng([self.seed, self.round, zlib.crc32(self.client.encode())])

    def at(self, client: str) -> Turn:
        return replace(self, client=client)


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What an algorithm or a protection asks of the plan around it.

    A wrapper hands on what the algorithm inside it needs, with `|` together with its own.

    Parameters
    ----------
    each_client
        Why the server must see every client's message by itself, and what to do instead; nothing
        if their sum is enough.
    data_choice
        Which setting is chosen by looking at the data, and what to do instead: under noise there
        is nothing to choose by.
    per_sequence
        Whether clients make one upload per sequence, which a protection must bound and add up
        before anything leaves.
    rounds
        How many rounds it takes.
    other_targets
        Whether its messages are about other targets than those of the recordings' rows.
    unchanged
        Why no protection may change a message, and what to do instead; nothing if they may.
    longest
        The longest change that the server takes from a client, if there is a bound.

    >>> Needs(rounds=2) | Needs(each_client="it keeps clients apart; pass keep_clients=False")
    Needs(each_client='it keeps clients apart; pass keep_clients=False', data_choice='',
          per_sequence=False, rounds=2, other_targets=False, unchanged='', longest=None)
    """

    each_client: str = ""
    data_choice: str = ""
    per_sequence: bool = False
    rounds: int = 1
    other_targets: bool = False
    unchanged: str = ""
    longest: float | None = None

    def __or__(self, other: Needs) -> Needs:
        return Needs(
            each_client=self.each_client or other.each_client,
            data_choice=self.data_choice or other.data_choice,
            per_sequence=self.per_sequence or other.per_sequence,
            rounds=max(self.rounds, other.rounds),
            other_targets=self.other_targets or other.other_targets,
            unchanged=self.unchanged or other.unchanged,
            longest=min(
                (one for one in (self.longest, other.longest) if one is not None), default=None
            ),
        )


NO_NEEDS = Needs()


@runtime_checkable
class Needy(Protocol):
    """Whatever declares its needs."""

    @property
    def needs(self) -> Needs: ...


class Learner(Protocol[S, U_contra, R_co]):
    """The least of an algorithm: `S` is the server's state, `U` a sum of uploads."""

    def start(self) -> S:
        """Return the state before the first round."""

    def client_update(self, received: Parts, data: Data, turn: Turn) -> Any:
        """Return what one client sends; runs where the data is."""

    def server_update(self, state: S, total: U_contra, turn: Turn) -> S:
        """Return the state after a round, from the sum of the updates."""

    def result(self, state: S) -> R_co:
        """Return what the state amounts to; FederationError if it amounts to nothing yet."""


class Algorithm(Protocol[S, U, R_co]):
    """A way to learn: `S` is the server's state, `U` an upload as the server adds it, `R` the end.

    `as_algorithm` makes one of anything that has the methods of a `Learner`.
    """

    @property
    def needs(self) -> Needs:
        """What the plan around it must give or leave be."""

    def start(self) -> S:
        """Return the state before the first round."""

    def broadcast(self, state: S, turn: Turn) -> Parts:
        """Return what every client of the cohort is told."""

    def client_update(self, received: Parts, data: Data, turn: Turn) -> Upload:
        """Return what one client sends; runs where the data is."""

    def read_update(self, parts: Parts, turn: Turn) -> U:
        """Return an upload ready to add; IntegrityError or UploadError if it is not acceptable.

        The turn names the client, unless a protection hides whose upload this is.
        """

    def server_update(self, state: S, total: U, turn: Turn) -> S:
        """Return the state after a round, from the sum of the updates."""

    def result(self, state: S) -> R_co:
        """Return what the state amounts to; FederationError if it amounts to nothing yet."""

    def figures(self, state: S) -> Mapping[str, float]:
        """Return numbers by which a round can be judged: a loss, a score, the ridge chosen."""

    def save_state(self, state: S) -> Parts:
        """Return the state as it is kept between rounds."""

    def load_state(self, parts: Parts) -> S:
        """Return the state that was kept."""


@runtime_checkable
class Broadcasting(Protocol):
    """An algorithm that tells clients something."""

    def broadcast(self, state: Any, turn: Turn) -> Parts: ...


@runtime_checkable
class Reading(Protocol):
    """An algorithm that reads and checks uploads in its own way."""

    def read_update(self, parts: Parts, turn: Turn) -> Any: ...


@runtime_checkable
class Figuring(Protocol):
    """An algorithm that has figures after a round."""

    def figures(self, state: Any) -> Mapping[str, float]: ...


@runtime_checkable
class Keeping(Protocol):
    """An algorithm that keeps its state in its own way."""

    def save_state(self, state: Any) -> Parts: ...

    def load_state(self, parts: Parts) -> Any: ...


@dataclass(frozen=True)
class Kept:
    """What a run's folder keeps of a finished training, beside its model.

    `rows` says how many rows are behind each client's message, where the server knows; `flags` are
    the clients that stand out, by their loss or by their rows; `choice` is the path of ridges, if
    one was chosen; `maps` is what each feature map scored on clients left out, if several were
    tried, and `chosen` the name of the best; `drifts` are clients whose new data stood out from
    their earlier ones, where they hand in what is new.
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    flags: tuple[AnyFlag, ...] = ()
    choice: RidgeChoice | None = None
    maps: Mapping[str, float] = field(default_factory=dict)
    chosen: str = ""
    drifts: tuple[Drift, ...] = ()


@runtime_checkable
class Ending(Protocol):
    """An algorithm that may be done before the last of the plan's rounds."""

    def finished(self, state: Any) -> bool: ...


@runtime_checkable
class Remembering(Protocol):
    """An algorithm that has more to keep than what it makes."""

    def kept(self, state: Any) -> Kept: ...


@runtime_checkable
class Summing(Protocol):
    """An algorithm whose state is a sum of what clients sent, and what each sent where it is kept.

    A run's folder writes down the digests of both, so that anybody can compare them.
    """

    def sums(self, state: Any) -> Tally[Any] | None: ...


@runtime_checkable
class Dividing(Protocol):
    """An algorithm that does something with clients that one client alone cannot do."""

    def alone(self, state: Any) -> Learner[Any, Any, Any]: ...


@runtime_checkable
class Speaking(Protocol):
    """A part of a plan with messages of its own; each kind says what it holds and tells."""

    @property
    def messages(self) -> tuple[Kind, ...]: ...


@runtime_checkable
class Grouped(Protocol):
    """An algorithm that serves several clients of one machine for less than each by itself."""

    def group_size(self, n_clients: int, n_threads: int) -> int:
        """Return how many clients to serve at once, given `n_clients` and `n_threads`."""

    def client_updates(
        self, received: Parts, clients: Sequence[tuple[Data, Turn]]
    ) -> Sequence[Upload]:
        """Return what each client sends, as `client_update` would."""


@dataclass(frozen=True, eq=False)
class Sent(Generic[V]):
    """A value on its way, taken apart as its class declares."""

    value: V

    def parts(self) -> Parts:
        return taken_apart(self.value)


@dataclass(frozen=True, eq=False)
class Summed(Generic[V]):
    """A value of a class without `+`, added as its class declares."""

    value: V

    def __add__(self, other: Summed[V]) -> Summed[V]:
        return Summed(added(self.value, other.value))


@final
@dataclass(frozen=True, eq=False)
class Completed(Generic[S, U, R_co]):
    """An algorithm with all that it left out filled in; `as_algorithm` makes it."""

    algorithm: Learner[S, U, R_co]

    @property
    def needs(self) -> Needs:
        return needs_of(self.algorithm)

    def start(self) -> S:
        return self.algorithm.start()

    def broadcast(self, state: S, turn: Turn) -> Parts:
        if isinstance(self.algorithm, Broadcasting):
            return self.algorithm.broadcast(state, turn)
        return NOTHING

    def client_update(self, received: Parts, data: Data, turn: Turn) -> Upload:
        made = self.algorithm.client_update(received, data, turn)
        return made if isinstance(made, Structure | _HasParts) else Sent(made)

    def read_update(self, parts: Parts, turn: Turn) -> Any:
        return self._read(parts, turn)

    @cached_property
    def _read(self) -> Callable[[Parts, Turn], Any]:
        """What reads an upload; found once, because a round may have many thousands of them."""
        if isinstance(self.algorithm, Reading):
            return self.algorithm.read_update
        return self._read_as_declared

    def _read_as_declared(self, parts: Parts, turn: Turn) -> Any:
        value = put_together(self.upload_type, parts)
        return value if isinstance(value, Additive) else Summed(value)

    def server_update(self, state: S, total: Any, turn: Turn) -> S:
        plain = total.value if isinstance(total, Summed) else total
        return self.algorithm.server_update(state, plain, turn)

    def result(self, state: S) -> R_co:
        return self.algorithm.result(state)

    def figures(self, state: S) -> Mapping[str, float]:
        if isinstance(self.algorithm, Figuring):
            return {name: float(value) for name, value in self.algorithm.figures(state).items()}
        return {}

    def finished(self, state: S) -> bool:
        """Return whether no more rounds are needed, however many are planned."""
        return isinstance(self.algorithm, Ending) and self.algorithm.finished(state)

    def kept(self, state: S) -> Kept:
        """Return what a run's folder keeps beside the result."""
        return self.algorithm.kept(state) if isinstance(self.algorithm, Remembering) else Kept()

    def sums(self, state: S) -> Tally[Any] | None:
        """Return the sum that the state is, None if it is none."""
        return self.algorithm.sums(state) if isinstance(self.algorithm, Summing) else None

    def alone(self, state: S) -> Learner[S, U, R_co]:
        """Return the algorithm for one who has all data, with choices as the state has them."""
        if isinstance(self.algorithm, Dividing):
            return self.algorithm.alone(state)
        return self.algorithm

    def save_state(self, state: S) -> Parts:
        if isinstance(self.algorithm, Keeping):
            return self.algorithm.save_state(state)
        if state is not None and not isinstance(state, self._state_classes):
            raise TypeError(
                f"{self.name} returned a {type(state).__name__} as its state, expected "
                f"{self.state_type}; annotate what server_update returns"
            )
        return taken_apart(state)

    def load_state(self, parts: Parts) -> S:
        if isinstance(self.algorithm, Keeping):
            return self.algorithm.load_state(parts)  # type: ignore[no-any-return]
        state: S = put_together(self.state_type | None, parts, trusted=True)
        return state

    @property
    def name(self) -> str:
        return type(self.algorithm).__name__

    @property
    def messages(self) -> tuple[Kind, ...]:
        """The kinds of messages that clients send, as far as they are declared."""
        found = members_of(_hints(self.algorithm.client_update).get("return"))
        return tuple(kind_of(one) for one in found if is_dataclass(get_origin(one) or one))

    @cached_property
    def upload_type(self) -> Any:
        """The class of what clients send, as `client_update` or `server_update` say."""
        hints = (
            _hints(self.algorithm.client_update).get("return"),
            _hints(self.algorithm.server_update).get("total"),
        )
        for hint in hints:
            if all(is_dataclass(get_origin(one) or one) for one in members_of(hint)):
                return hint
        raise TypeError(
            f"{self.name}.client_update does not say what it returns; annotate it with the "
            "dataclass that clients send, or write read_update"
        )

    @cached_property
    def sum_type(self) -> Any:
        """The class of what is added, as `read_update` says; that of the uploads if it does not."""
        if isinstance(self.algorithm, Reading):
            hint = _hints(self.algorithm.read_update).get("return")
            if hint is not None and hint is not Any:
                return hint
        return self.upload_type

    @cached_property
    def state_type(self) -> Any:
        """The class of the state, as the methods say; that of the uploads if they do not."""
        for method in (self.algorithm.server_update, self.algorithm.start):
            hint = _hints(method).get("return")
            if hint not in (None, types.NoneType, Any) and not isinstance(hint, TypeVar):
                return hint
        return self.upload_type

    @property
    def _state_classes(self) -> tuple[type, ...]:
        return tuple(get_origin(one) or one for one in members_of(self.state_type))


@runtime_checkable
class _HasParts(Protocol):
    def parts(self) -> Parts: ...


def as_algorithm(value: Learner[S, U, R_co] | Algorithm[S, U, R_co]) -> Completed[S, U, R_co]:
    """Return an algorithm in full, of anything with the four methods of a `Learner`.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Longest:
    ...     def start(self): return 0
    ...     def client_update(self, received, data, turn): return len(list(data()))
    ...     def server_update(self, state, total, turn): return max(state, total)
    ...     def result(self, state): return state
    >>> as_algorithm(Longest()).needs
    Needs(each_client='', data_choice='', per_sequence=False, rounds=1, other_targets=False,
          unchanged='', longest=None)
    """
    return value if isinstance(value, Completed) else Completed(value)


def needs_of(part: object) -> Needs:
    """Return what an algorithm or a protection declares that it needs; nothing if it does not."""
    return cast(Needy, part).needs if conforms(part, Needy) else NO_NEEDS


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except NameError as error:
        raise TypeError(
            f"the types of {function.__qualname__} are not known here ({error}); define the "
            "classes at the top of a module, and import what they name"
        ) from error
