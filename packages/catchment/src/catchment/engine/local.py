"""All clients in this process: the default engine, on all cores, through the real codec.

And what the recordings of all clients have in common, whoever comes first.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, islice
from operator import neg
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from catchment.arrays import PositiveInt, check_type
from catchment.data.clients import Changed, LazyClients
from catchment.data.preprocessing import Preprocessing
from catchment.data.recording import Recording
from catchment.data.units import ALL
from catchment.errors import CatchmentError, DeviceError
from catchment.federation.algorithm import Data, Memory
from catchment.federation.client import SAYING, Elsewhere, Node, answer_together, devices_of
from catchment.federation.loop import BlockSum, Result, run
from catchment.federation.messages import Engine, Reply, Watch, check_client_names
from catchment.federation.plan import Plan
from catchment.federation.runs.ledger import Keeper
from catchment.federation.workflow import EVALUATION, Engines, Workflow
from catchment.parallel import count_threads, ordered_map
from catchment.readout.heads import united
from catchment.readout.model import has_target_per_step

if TYPE_CHECKING:
    from catchment.privacy.policy import Policy

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")
Source = Sequence[Any] | Callable[[], Iterable[Any]]
AnySource = Source | Elsewhere
log = logging.getLogger(__name__)
NOBODY = "there are no clients; pass at least one"


@dataclass(frozen=True, eq=False)
class LocalEngine(Engine, Generic[S, U, R]):
    """Clients as objects of this process; they share nothing with the server but messages.

    Parameters
    ----------
    plan
        What the clients agreed to.
    sources
        Each client's sequences, a function that makes them when the client is asked, or a device
        that has them.
    threads
        All cores if None; results do not depend on it.
    memories
        What each client remembers between messages, secrets included.
    policy
        What the clients' owners allow; the default policy if not given.
    units
        What clients' data are called in their ledgers, one name for all or by client.
    workers
        Processes in which blocks of clients are added; clients that must be asked one by one are
        asked in this one.
    """

    plan: Plan[S, U, R]
    sources: Mapping[str, AnySource]
    threads: int | None = None
    memories: dict[str, Memory] = field(default_factory=dict)
    policy: Policy | None = None
    units: Mapping[str, str] | str = ALL
    workers: int | None = None
    faults: list[Exception] = field(default_factory=list, init=False)

    def clients(self) -> Sequence[str]:
        return sorted(self.sources)

    def raise_fault(self, n_asked: int) -> None:
        # Data are somebody's own affair; what fails alike for everybody is the algorithm or map.
        if len(self.faults) >= n_asked and len(set(map(type, self.faults))) == 1:
            raise self.faults[0] from None

    def _heard(self, error: Exception) -> Exception:
        if not isinstance(error, SAYING):
            self.faults.append(error.with_traceback(None) if self.faults else error)
        return error

    @property
    def has_data(self) -> bool:
        return not devices_of(self.sources)

    def sums(
        self, message: bytes, blocks: Sequence[tuple[str, ...]]
    ) -> Iterator[BlockSum | None] | None:
        # What clients carry from round to round must stay where they are.
        if self.workers is None or len(blocks) < 2 or self.plan.algorithm.carries:
            return None
        # It imports this module: its workers have such an engine each.
        from catchment.engine.processes import sums_in_processes

        return sums_in_processes(self, message, blocks, self.workers)

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        size = self.plan.algorithm.group_size(len(requests), count_threads(self.threads))

        def answer(clients: Sequence[str]) -> list[Reply]:
            if len(clients) == 1:
                (client,) = clients
                return [Reply(client, self._node(client).answer(requests[client]))]
            return answer_together([*map(self._node, clients)], requests[clients[0]])

        groups: Iterable[Sequence[str]] = _groups(requests, size) if size > 1 else zip(requests)
        return chain.from_iterable(ordered_map(answer, groups, threads=self.threads))

    def counted(self, round_: int, clients: Sequence[str]) -> None:
        """Tell the clients whose data are elsewhere that their uploads of a round were counted.

        One that does not hear it now is told before it is next asked for anything.
        """
        for client in clients:
            source = self.sources[client]
            if not isinstance(source, Elsewhere):
                continue
            try:
                source.counted(self.plan, round_, self.memories.setdefault(client, {}))
            except CatchmentError as error:
                log.warning("%s was not told that round %d was counted: %s", client, round_, error)

    def _node(self, client: str) -> Node[S, U, R]:
        source = self.sources[client]
        away = source if isinstance(source, Elsewhere) else None
        data = away or data_of(source)
        if self.plan.masking is None and not (away or self.plan.algorithm.carries):
            return Node(client, self.plan, data, telling=self._heard)
        memory = self.memories.setdefault(client, {})
        if self.plan.masking is None:
            return Node(client, self.plan, data, memory, telling=self._heard)
        from catchment.privacy.ledger import PrivacyLedger
        from catchment.privacy.policy import Policy

        unit = self.units if isinstance(self.units, str) else self.units.get(client, ALL)
        ledger = PrivacyLedger(memory, self.policy or Policy(), unit)
        return Node(client, self.plan, data, memory, ledger, self._heard)


@runtime_checkable
class Workers(Protocol):
    """Worker processes of another kind, such as `catchment_fleet.ray.RayWorkers`."""

    @property
    def name(self) -> str:
        """What they are called in a run's facts."""

    def over(self, here: LocalEngine[Any, Any, Any]) -> Engine:
        """Return an engine whose blocks of clients these workers add."""


MOST_APART = 100_000  # test clients whose scores are kept one by one
MANY_TESTED = (
    "%d clients are tested: their score is kept together, not client by client; test fewer, such "
    'as test = 0.01 with test_of = "clients" in [data], to see how each fares'
)


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalClients(Engines):
    """All clients of a workflow in this process.

    Nothing leaves anyone here, so that the test shows every client's score by itself, even where
    the training is hidden in sums. Under noise those who are tested have not trained, and no bound
    holds for them.

    Parameters
    ----------
    clients
        Who trains.
    others
        By stage: who takes part in it, where that is not who trains.
    threads, workers, memories, policy, units
        As of `run_locally`.
    """

    clients: Mapping[str, AnySource]
    others: Mapping[str, Mapping[str, AnySource]] = field(default_factory=dict)
    threads: int | None = None
    workers: int | Workers | None = None
    memories: dict[str, Memory] = field(default_factory=dict)
    policy: Policy | None = None
    units: Mapping[str, str] | str = ALL

    @property
    def name(self) -> str:
        return self.workers.name if isinstance(self.workers, Workers) else "local"

    def allowed(self, stage: str, plan: Plan[Any, Any, Any]) -> Plan[Any, Any, Any]:
        if stage != EVALUATION:
            return plan
        n_tested = len(self.others[stage])
        if n_tested > MOST_APART:
            log.warning(MANY_TESTED, n_tested)
        algorithm: Any = plan.algorithm
        tested = replace(algorithm, store_per_client=n_tested <= MOST_APART)
        return replace(plan, algorithm=tested, protections=())

    def engine(self, stage: str, plan: Plan[Any, Any, Any]) -> Engine:
        clients, workers = self.others.get(stage, self.clients), self.workers
        how = (self.threads, self.memories, self.policy, self.units)
        if isinstance(workers, Workers):
            return workers.over(LocalEngine(plan, clients, *how))
        check_type(workers, PositiveInt | None, "workers")
        return LocalEngine(plan, clients, *how, None if workers == 1 else workers)


def _groups(requests: Mapping[str, bytes], size: int) -> Iterator[list[str]]:
    """Yield runs of up to `size` clients that were sent the same request."""
    for _, alike in groupby(requests, requests.__getitem__):
        while group := list(islice(alike, size)):
            yield group


def data_of(source: AnySource) -> Data:
    """Return a client's data as a function; TypeError if they are on a device."""
    if isinstance(source, Elsewhere):
        raise TypeError(
            f"{source!r} has its data for itself, and they are wanted here; leave the device out"
        )
    return source if callable(source) else partial(iter, source)


def run_locally(
    plan: Plan[S, U, R],
    clients: Mapping[str, AnySource],
    *,
    threads: int | None = None,
    keeper: Keeper[S] | None = None,
    watch: Watch | None = None,
    memories: dict[str, Memory] | None = None,
    policy: Policy | None = None,
    journal: Any = None,
    onto: S | None = None,
    workers: int | Workers | None = None,
    units: Mapping[str, str] | str = ALL,
) -> Result[S, R]:
    """Return the result of a plan on clients of this process.

    Parameters
    ----------
    plan
        What is run.
    clients
        By name: sequences, or a function that makes them when asked (so that only the clients
        being served are in memory), or a `EdgeClient`.
    threads
        All cores if None; results do not depend on it.
    memories
        What each client remembers between messages, its private key for secure aggregation
        included; if not given, what a `SecureAggregation(generate_keys(...))` of the plan holds.
    policy
        What the clients' owners allow; the default policy if not given.
    journal
        Writes down the steps of a masked round, so that one cut short goes on in its middle.
    onto
        The state of an earlier run, with which this one begins.
    workers
        Processes that serve many clients, in blocks of 256; this process alone if None or 1.
        Results do not depend on it. `RayWorkers` are on Ray.
    units
        What clients' data are called in their ledgers of releases, one name for all or by client;
        data of one name are one unit, which must not change once it went into an exact sum.
    """
    if not clients:
        raise ValueError(NOBODY)
    check_client_names(clients)
    if memories is None:
        memories = {} if plan.masking is None else plan.masking.memories
    here = LocalClients(
        clients=clients,
        threads=threads,
        workers=workers,
        memories=memories,
        policy=policy,
        units=units,
    )
    engine = here.engine("", plan)
    return run(plan, engine, keeper=keeper, watch=watch, journal=journal, onto=onto)


def all_classes(
    known: tuple[str, ...] | None, clients: Mapping[str, AnySource]
) -> tuple[str, ...] | None:
    """Return the classes that are known and those that clients name beside them."""
    found = [first_recording(name, clients[name]).classes for name in _some(clients)]
    return united(known, *found) or None


def placed(
    clients: Mapping[str, AnySource],
    classes: tuple[str, ...] | None,
    workflow: Workflow | None = None,
) -> Mapping[str, AnySource]:
    """Return clients whose targets are in the columns of these classes, where they are named.

    Devices are those of a workflow then, if there is one.
    """
    if classes is None and workflow is None:
        return clients
    if isinstance(clients, LazyClients):
        if classes is None:
            return clients
        change: Any = partial(partial, _in_columns, classes=classes)
        return Changed(clients, change)
    found: dict[str, AnySource] = {}
    for name, one in clients.items():
        if not isinstance(one, Elsewhere):
            found[name] = one if classes is None else partial(_in_columns, one, classes)
        else:
            found[name] = one if workflow is None else one.within(workflow, of_plan_file=False)
    return found


def _in_columns(source: Source, classes: tuple[str, ...]) -> Iterator[Any]:
    """Yield a client's recordings, with targets in the columns of these classes."""
    for recording in data_of(source)():
        yield recording.among(classes) if isinstance(recording, Recording) else recording


LOOKED_AT = 9  # clients whose source is a function and is called to see what they have


@dataclass(frozen=True)
class Shared:
    """What recordings of all clients have in common."""

    channels: tuple[str, ...] | int
    classes: tuple[str, ...] | None
    per_step: bool
    n_targets: int = 1


def shared_by(
    clients: Mapping[str, AnySource],
    preprocessing: Preprocessing,
    classes: Sequence[str] | None = None,
) -> Shared:
    """Return what the first recordings of most clients have in common, whoever comes first.

    Those that cannot be read are left to the run, which names them. Devices are asked only if there
    are no recordings here, and know their classes by number: `classes` are their names.
    """
    if not clients:
        raise ValueError(NOBODY)
    devices = devices_of(clients)
    if len(devices) == len(clients):
        return _shared_by_devices([*devices.values()], classes)
    found: Counter[Shared] = Counter()
    failed: Exception | None = None
    for name in _some(clients):
        try:
            first = first_recording(name, clients[name])
            channels = first.channels or first.n_inputs
            per_step = has_target_per_step(preprocessing, first)
            if first.y is not None:
                n_targets = first.y.shape[-1]
            elif preprocessing.horizon is not None:
                n_targets = preprocessing.n_targets(channels)
            else:
                n_targets = first.n_inputs
            found[Shared(channels, first.classes, per_step, n_targets)] += 1
        except Exception as error:
            failed = failed or error
    if failed is not None and not found:
        raise failed
    return min(zip(map(neg, found.values()), map(repr, found), found, strict=True))[2]


def _shared_by_devices(devices: Sequence[Elsewhere], classes: Sequence[str] | None) -> Shared:
    """Return what the first device that answers says of itself."""
    failed: DeviceError | None = None
    for device in devices:
        try:
            said = device.hello()
        except DeviceError as error:
            failed = failed or error
        else:
            if said.classes and classes is None:
                raise ValueError(
                    f"all clients are devices, which know their {said.outputs} classes by number; "
                    "pass their names, classes=(...), in the order of the plan"
                )
            return Shared(said.channels, None, said.per_step, said.outputs)
    assert failed is not None
    raise failed


def _some(clients: Mapping[str, AnySource]) -> list[str]:
    """Return the clients that are in memory, and some of the others, spread over all names."""
    here: list[str] = []
    called: list[str] = []
    if isinstance(clients, LazyClients):
        called = sorted(clients)
    else:
        for name in sorted(clients):
            if not isinstance(clients[name], Elsewhere):
                (called if callable(clients[name]) else here).append(name)
    return here + called[:: max(1, len(called) // LOOKED_AT)]


def first_recording(name: str, source: AnySource) -> Recording:
    """Return the first recording of a client; TypeError if it holds something else."""
    for recording in data_of(source)():
        if not isinstance(recording, Recording):
            raise TypeError(
                f"client {name} holds a {type(recording).__name__}; pass Recording(inputs, targets)"
            )
        return recording
    raise ValueError("no client has a recording; pass at least one")
