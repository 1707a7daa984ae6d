"""What an algorithm is: four methods, and defaults for all else; and sums that many of them add.

    start()                                 the server's state before the first round
    client_update(received, data, turn)     what one client sends; runs where the data is
    server_update(state, total, turn)       the state after a round, from the sum of what was sent
    result(state)                           what was made: a model, scores, a scaler, ...

By default clients are told nothing, what they send is read, added and checked as its class declares
(`catchment.wire`), the state is kept in the same way, and the server needs no more than the
sum. An algorithm that differs overrides the method or property that says otherwise.
"""

from __future__ import annotations

import types
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from functools import lru_cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeVar,
    get_origin,
    get_type_hints,
)

import numpy as np

from catchment.arrays import Array, check_fields
from catchment.errors import FederationError, UploadError
from catchment.wire import (
    ANY_FLOAT,
    CLIENTS,
    GATHERED,
    LATER,
    NOTHING,
    POOLED,
    WEIGHT,
    Kind,
    Message,
    Summable,
    deserialize,
    kind_of,
    serialize,
)
from catchment.wire.structure import members_of

if TYPE_CHECKING:
    from catchment.data.preprocessing import Preprocessing
    from catchment.federation.measure.outliers import AnyFlag, Drift
    from catchment.readout.ridge_choice import RidgeChoice

# What a client holds is its algorithm's business: sequences for reservoirs, examples for networks.
Data = Callable[[], Iterable[Any]]
# What leaves a client, which `serialize` makes a message of, and what the server adds: both are
# as their class declares (`catchment.wire`).
Upload = Any
Additive = Any
Memory = MutableMapping[str, bytes]  # of a client, from message to message
S = TypeVar("S")
U = TypeVar("U")
V = TypeVar("V")
W = TypeVar("W", bound="WeightedSum")
Weighting = Literal["samples", "uniform", "printed"]
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True)
class Cost:
    """Costs of releases about the same clients; they add.

    `gaussian` is the sum of 1 / multiplier^2 over releases of Gaussian noise, which is all there
    is to know about them; `concentrated` is the sum of rho over releases of discrete noise.

    >>> Cost.of_gaussian(2.0) + Cost.of_gaussian(2.0)
    Cost(gaussian=0.5, concentrated=0.0)
    """

    gaussian: float = 0.0
    concentrated: float = 0.0

    @classmethod
    def of_gaussian(cls, multiplier: float) -> Cost:
        """Return the cost of Gaussian noise of `multiplier` times the sensitivity."""
        return cls(gaussian=multiplier**-2)

    @classmethod
    def of_discrete(cls, multiplier: float) -> Cost:
        """Return the cost of discrete Gaussian noise of `multiplier` times the sensitivity."""
        return cls(concentrated=0.5 * multiplier**-2)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.gaussian + other.gaussian, self.concentrated + other.concentrated)


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
        """Note what noise the upload being made has: its cost, and what the plan promises.

        No cost if whoever receives it sees exact numbers.
        """

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
    ) -> Sequence[str]:
        """Note an upload, where it lasts, in the act that lets it leave; raise if it must not.

        Without a session it is seen by itself; else it is in a sum over these clients, or over an
        earlier set of this client's that is left when up to `lost` of them are lost. Returns the
        other sessions whose sums must be over the clients of this one.
        """

    def check(self, session: str, clients: Iterable[str]) -> None:
        """Raise RuleError or BudgetError if a sum over these clients must not be released."""

    def release(self, session: str, clients: Iterable[str]) -> None:
        """Note, where it lasts, that a sum over these clients is opened, or raise as `check`."""


@dataclass(frozen=True)
class RoundContext:
    """All that an algorithm or a protection may know of the moment: round, cohort, and client.

    `told` is the SHA-256 of what came with the request beside the algorithm's own request (maps,
    preparation, model), so that a protection can bind clients to it. `ledger` is the client's own,
    on a client; the server has none. `session` names secure aggregation that an upload goes into:
    the same one again is the same release; `thick` raises for an upload of too few rows for its
    sum, before noise hides how many it has. `vault` keeps the client's secrets of secure
    aggregation, if its memory does not (`catchment.privacy.secure_aggregation.client`).
    `preprocessing` and `memory` are the plan's and the client's where an algorithm carries its
    state from round to round. `own` says that this very program made the upload, from data that lie
    here: nobody can have forged it.
    """

    round: int
    cohort: tuple[str, ...]
    seed: int = 0
    client: str = ""
    plan: str = ""  # fingerprint
    told: str = ""
    ledger: Ledger | None = field(default=None, compare=False, repr=False)
    session: str = ""
    thick: Callable[[Upload], None] | None = field(default=None, compare=False, repr=False)
    vault: Any = field(default=None, compare=False, repr=False)
    preprocessing: Preprocessing | None = field(default=None, compare=False, repr=False)
    memory: Memory | None = field(default=None, compare=False, repr=False)
    own: bool = False

    def rng(self) -> np.random.Generator:
        """Return the generator of this client in this round, whoever answers first.

        >>> context = RoundContext(0, ("a", "b"), seed=1, client="a")
        >>> context.rng().random() == context.rng().random()
        True
        """
        return np.random.default_rng([self.seed, self.round, zlib.crc32(self.client.encode())])


@dataclass(frozen=True, kw_only=True)
class Requirements:
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
    longest
        The longest change that the server takes from a client, if there is a bound.

    >>> Requirements(rounds=2) | Requirements(each_client="it keeps clients apart")
    Requirements(each_client='it keeps clients apart', data_choice='',
          per_sequence=False, rounds=2, other_targets=False, longest=None)
    """

    each_client: str = ""
    data_choice: str = ""
    per_sequence: bool = False
    rounds: int = 1
    other_targets: bool = False
    longest: float | None = None

    def __or__(self, other: Requirements) -> Requirements:
        return Requirements(
            each_client=self.each_client or other.each_client,
            data_choice=self.data_choice or other.data_choice,
            per_sequence=self.per_sequence or other.per_sequence,
            rounds=max(self.rounds, other.rounds),
            other_targets=self.other_targets or other.other_targets,
            longest=min(
                (one for one in (self.longest, other.longest) if one is not None), default=None
            ),
        )


NO_NEEDS = Requirements()


@dataclass(frozen=True)
class Kept:
    """What a run's folder keeps of a finished training, beside its model.

    `rows` says how many rows are behind each client's message, where the server knows; `flags` are
    the clients that stand out, by their loss or by their rows; `choice` is the path of ridges, if
    one was chosen; `maps` is what each feature map scored on clients left out, or in the way that
    `by` says, if several were tried, and `chosen` the name of the best; `drifts` are clients whose
    new data stood out from their earlier ones, where they hand in what is new.
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    flags: tuple[AnyFlag, ...] = ()
    choice: RidgeChoice | None = None
    maps: Mapping[str, float] = field(default_factory=dict)
    chosen: str = ""
    by: str = ""
    drifts: tuple[Drift, ...] = ()


class Algorithm(ABC, Generic[S, U, R_co]):
    """A way to learn: `S` is the server's state, `U` an upload as the server adds it, `R` the end.

    Write the four abstract methods; the rest has defaults.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Rows:
    ...     n: int
    >>> class Counting(Algorithm[Rows, Rows, int]):
    ...     def start(self) -> Rows: return Rows(0)
    ...     def client_update(self, received, data, context) -> Rows: return Rows(len(list(data())))
    ...     def server_update(self, state, total, context) -> Rows: return total
    ...     def result(self, state) -> int: return state.n
    >>> Counting().upload_type.__name__, Counting().requirements.rounds
    ('Rows', 1)
    """

    sent: ClassVar[str] = ""  # what clients send, in a word

    # The settings of one that is a dataclass are checked by the types of its fields.
    __post_init__ = check_fields

    @abstractmethod
    def start(self) -> S:
        """Return the state before the first round."""

    @abstractmethod
    def client_update(self, received: Message, data: Data, context: RoundContext) -> Any:
        """Return what one client sends; runs where the data is."""

    @abstractmethod
    def server_update(self, state: S, total: U, context: RoundContext) -> S:
        """Return the state after a round, from the sum of the updates."""

    @abstractmethod
    def result(self, state: S) -> R_co:
        """Return what the state amounts to; FederationError if it amounts to nothing yet."""

    @property
    def requirements(self) -> Requirements:
        """What the plan around it must give or leave be."""
        return NO_NEEDS

    def broadcast(self, state: S, context: RoundContext) -> Message:
        """Return what every client of the cohort is told: nothing, unless overridden."""
        return NOTHING

    def read_update(self, parts: Message, context: RoundContext) -> U:
        """Return an upload ready to add; IntegrityError or UploadError if it is not acceptable.

        As its class declares, unless overridden. The turn names the client, unless a protection
        hides whose upload this is.
        """
        read: U = deserialize(self.upload_type, parts)
        return read

    def figures(self, state: S) -> Mapping[str, float]:
        """Return numbers by which a round can be judged: a loss, a score, the ridge chosen."""
        return {}

    def finished(self, state: S) -> bool:
        """Return whether no more rounds are needed, however many are planned."""
        return False

    def kept(self, state: S) -> Kept:
        """Return what a run's folder keeps beside the result."""
        return Kept()

    def tally(self, state: S) -> Tally[Any] | None:
        """Return the sum of what clients sent that the state is, None if it is none.

        A run's folder writes down its digest, and that of what each client sent where it is kept,
        so that anybody can compare them.
        """
        return None

    def alone(self, state: S) -> Algorithm[Any, Any, R_co]:
        """Return the algorithm for one who has all data, with choices as the state has them."""
        return self

    def save_state(self, state: S) -> Message:
        """Return the state as it is kept between rounds."""
        members = tuple(get_origin(one) or one for one in members_of(self.state_type))
        if state is not None and not isinstance(state, members):
            raise TypeError(
                f"{type(self).__name__} returned a {type(state).__name__} as its state, expected "
                f"{self.state_type}; annotate what server_update returns"
            )
        return serialize(state)

    def load_state(self, parts: Message) -> S:
        """Return the state that was kept."""
        state: S = deserialize(self.state_type | None, parts, trusted=True)
        return state

    def check_turn(self, data: Data, context: RoundContext) -> None:
        """Raise UploadError for a client that has nothing to add, before secrets are dealt."""

    def group_size(self, n_clients: int, n_threads: int) -> int:
        """Return how many clients of one machine to serve at once, if that costs less."""
        return 1

    def client_updates(
        self, received: Message, clients: Sequence[tuple[Data, RoundContext]]
    ) -> Sequence[Any]:
        """Return what each of several clients sends, as `client_update` would."""
        return [self.client_update(received, data, context) for data, context in clients]

    @property
    def carries(self) -> bool:
        """Whether clients carry their state from round to round, in the turn's memory.

        Their `client_update` then gets raw data, those that are new, and prepares them itself.
        """
        return False

    def sends(self, protections: Sequence[Any] = ()) -> str:
        """Return in one sentence what clients send under these protections, and why."""
        told = f"clients send {self.sent or f'what {type(self).__name__} asks of them'}"
        return protections[-1].says(told) if protections else told

    @property
    def messages(self) -> tuple[Kind, ...]:
        """The kinds of messages that clients send, as far as they are declared."""
        found = []
        for one in members_of(_hints(type(self).client_update).get("return")):
            if is_dataclass(get_origin(one) or one):
                found.append(kind_of(one))
        return tuple(found)

    @property
    def upload_type(self) -> Any:
        """The class of what clients send, as `client_update` or `server_update` say."""
        return _upload_type(type(self))

    @property
    def state_type(self) -> Any:
        """The class of the state, as the methods say; that of the uploads if they do not."""
        for method in (type(self).server_update, type(self).start):
            hint = _hints(method).get("return")
            if hint not in (None, types.NoneType, Any) and not isinstance(hint, TypeVar):
                return hint
        return self.upload_type


def not_derived(part: object, base: type) -> TypeError:
    """Return the error for a part of a plan, or an engine, that is not derived from its base.

    >>> print(not_derived(3, Algorithm))
    int is no Algorithm; write `class int(Algorithm)`, with Algorithm from catchment.federation: ...
    """
    name, wanted = type(part).__name__, base.__name__
    return TypeError(
        f"{name} is no {wanted}; write `class {name}({wanted})`, with {wanted} from "
        "catchment.federation: its methods stay as they are"
    )


@lru_cache(maxsize=256)
def _upload_type(made: type[Algorithm[Any, Any, Any]]) -> Any:
    for hint in (_hints(made.client_update).get("return"), _hints(made.server_update).get("total")):
        if all(is_dataclass(get_origin(one) or one) for one in members_of(hint)):
            return hint
    raise TypeError(
        f"{made.__name__}.client_update does not say what it returns; annotate it with the "
        "dataclass that clients send, or write read_update"
    )


@lru_cache(maxsize=1024)
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except NameError as error:
        raise TypeError(
            f"the types of {function.__qualname__} are not known here ({error}); define the "
            "classes at the top of a module, and import what they name"
        ) from error


@dataclass(frozen=True, eq=False)
class WeightedSum(Summable):
    """Arrays multiplied by a weight and summed; `mean` divides at the end.

    >>> import numpy as np
    >>> a, b = WeightedSum.of((np.array([1.0]),), 1.0), WeightedSum.of((np.array([4.0]),), 3.0)
    >>> (a + b).mean()
    (array([3.25]),)
    """

    KIND: ClassVar[Kind] = Kind(
        "weighted-sum",
        "parameters that the client fitted on its own data, multiplied by their weight, and the "
        "weight",
        (
            "how many rows the client has, if it is weighed by them",
            "which classes the client has: the parameters of a class it never saw show it",
            "a model of this one client's data, against which recordings can be tested",
        ),
    )

    arrays: Annotated[tuple[Array, ...], ANY_FLOAT]
    weight: Annotated[float, WEIGHT]
    n_clients: Annotated[int, CLIENTS] = 1

    @classmethod
    def of(cls, arrays: tuple[Array, ...], weight: float) -> Self:
        return cls(tuple(array * weight for array in arrays), weight)

    def mean(self) -> tuple[Array, ...]:
        if not self.weight > 0:
            raise FederationError("the clients' weights sum to nothing; there is no mean")
        return tuple(array / self.weight for array in self.arrays)

    def expect(self, *shapes: tuple[int, ...]) -> Self:
        """Return self; UploadError if its arrays have other shapes."""
        came = tuple(array.shape for array in self.arrays)
        if came != shapes:
            raise UploadError("shape", f"arrays of shapes {list(came)} came, not {list(shapes)}")
        return self


def client_weight(weighting: Weighting, rows: float) -> float:
    """Return what a client counts in an average, from the weight of its rows.

    >>> [client_weight(how, 4.0) for how in ("samples", "uniform", "printed")]
    [4.0, 1.0, 0.25]
    """
    if rows <= 0:
        raise UploadError("no-rows", "the client has no rows with a target")
    return {"samples": rows, "uniform": 1.0, "printed": 1.0 / rows}[weighting]


def check_weight(update: W, weighting: Weighting, client: str) -> W:
    """Return a client's weighted sum; UploadError if it weighs more than the plan's way gives it.

    >>> check_weight(WeightedSum((), 3.0), "uniform", "a")
    Traceback (most recent call last):
    catchment.errors.UploadError: the weight is 3; where clients are weighed uniform it is 1
    """
    weight, wrong = update.weight, ""
    if client and weighting == "uniform" and weight != 1:
        wrong = "where clients are weighed uniform it is 1"
    elif client and weighting == "printed" and weight > 1:
        wrong = "one over a number of rows is at most 1"
    if wrong:
        raise UploadError("weight", f"the weight is {weight:g}; {wrong}")
    return update


@dataclass(frozen=True, eq=False)
class Tally(Summable, Generic[V]):
    """A sum, and the values it is made of by client where the server is to keep them apart.

    Keep them only where clients must be seen one by one, and say so: a sum tells less. `by_group`
    are sums of groups of clients, which do not grow with the clients.

    >>> a, b = Tally(1, {"a": 1}), Tally(2, {"b": 2})
    >>> (a + b).total, dict((a + b).by_client)
    (3, {'a': 1, 'b': 2})
    >>> (Tally.in_group(1, 5) + Tally.in_group(2, 7) + Tally.in_group(3, 5)).by_group
    {5: 4, 7: 2}
    """

    total: V
    by_client: Annotated[Mapping[str, V], GATHERED]
    by_group: Annotated[Mapping[int, V], POOLED, LATER] = field(default_factory=dict)

    @classmethod
    def of(cls, value: V, client: str) -> Tally[V]:
        """Return what one client gave; kept apart only if it has a name."""
        return cls(value, {client: value} if client else {})

    @classmethod
    def in_group(cls, value: V, group: int) -> Tally[V]:
        """Return what one client of a group gave."""
        return cls(value, {}, {group: value})


def added_by_key(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return sums by key, in the order of the keys; those of a key in both are added.

    >>> added_by_key({"b": 1}, {"b": 2, "a": 3})
    {'a': 3, 'b': 3}
    """
    both = dict(old)
    for key, one in new.items():
        both[key] = both[key] + one if key in both else one
    return dict(sorted(both.items()))
