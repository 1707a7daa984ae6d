"""An engine whose blocks of clients are added on Ray.

The plan is put into Ray's object store once, the request once in every round, and clients that must
be asked one by one are asked in this process. Blocks of clients go out in batches, a task each, and
their sums come back in order. Only so many are under way at a time: memory does not grow with the
number of clients.

Workers on Ray, for whatever takes `workers`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

from catchment.engine import ONE_THREAD, AnySource, LocalEngine, batches, sources_of, sum_sources
from catchment.errors import CatchmentError, FederationError
from catchment.federation import BlockSum, Engine, Plan, Reply
from catchment_fleet.ray.start import in_one_line, ready_ray

MOST_RETRIES = 3  # of a block whose worker died
AHEAD = 2  # tasks under way for each worker
AnyPlan = Plan[Any, Any, Any]
Sources = Mapping[str, AnySource]
Blocks = Sequence[tuple[str, ...]]
Found = list[BlockSum | None] | Exception


@dataclass(frozen=True, eq=False)
class Agreed:
    """Where in Ray's object store is what all blocks of a round share.

    `sources` is a mapping that makes its clients when they are asked for, None if it is a plain
    dict: every batch then has those of its own clients.
    """

    plan: Any
    message: Any
    sources: Any = None


@dataclass(frozen=True, eq=False)
class RayEngine(Engine):
    """Clients of a `LocalEngine` whose blocks are added on Ray.

    Parameters
    ----------
    here
        Has the clients, and asks those that must be asked one by one.
    ray
        The module, started.
    workers
        Tasks at a time.
    """

    here: LocalEngine[Any, Any, Any]
    ray: Any
    workers: int

    def clients(self) -> Sequence[str]:
        return self.here.clients()

    @property
    def has_data(self) -> bool:
        return self.here.has_data

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        return self.here.ask(requests)

    def counted(self, round_: int, clients: Sequence[str]) -> None:
        """Tell the clients whose data are elsewhere that their uploads of a round were counted."""
        self.here.counted(round_, clients)

    def sums(self, message: bytes, blocks: Blocks) -> Iterator[BlockSum | None]:
        """Yield the sums of the blocks, in their order."""
        if len(blocks) < 2 or self.here.plan.algorithm.carries:
            yield from (None for _ in blocks)
            return
        from ray.exceptions import RayError

        agreed = Agreed(self._plan, self.ray.put(message), self._sources)
        add: Any = self.ray.remote(add_blocks).options(num_cpus=1, max_retries=MOST_RETRIES)
        sent = (pickled(self._batch(blocks)) for blocks in batches(blocks, self.workers))
        begun = (add.remote(agreed, batch) for batch in sent)
        under_way = deque(islice(begun, AHEAD * self.workers))
        try:
            while under_way:
                found = self.ray.get(under_way.popleft())
                under_way.extend(islice(begun, 1))
                if isinstance(found, Exception):
                    raise found
                yield from found
        except RayError as error:
            raise _in_our_words(error) from error

    @cached_property
    def _plan(self) -> Any:
        self.here.plan.fingerprint()  # travels with the plan, so that no worker makes it again
        return self.ray.put(self.here.plan)

    @cached_property
    def _sources(self) -> Any:
        sources = self.here.sources
        return None if isinstance(sources, dict) else self.ray.put(sources)

    def _batch(self, blocks: Blocks) -> tuple[Blocks, Sources | None]:
        """Return blocks, with their clients' sources unless all share a mapping that has them."""
        return blocks, None if self._sources is not None else sources_of(self.here.sources, blocks)


def _in_our_words(error: Exception) -> CatchmentError:
    """Return what Ray raised as one sentence, and an error of ours in a worker as it was."""
    from ray import exceptions

    cause = error.cause if isinstance(error, exceptions.RayTaskError) else error
    if isinstance(cause, CatchmentError):
        return cause
    dead = (
        exceptions.WorkerCrashedError,
        exceptions.OutOfMemoryError,
        exceptions.NodeDiedError,
        exceptions.RayActorError,
    )
    if isinstance(cause, dead):
        return FederationError(
            f"Ray gave up ({type(cause).__name__}): some blocks of 256 clients were begun "
            f"{MOST_RETRIES + 1} times and their worker died each time, most likely for want of "
            "memory; use fewer workers"
        )
    return FederationError(f"Ray gave up ({type(cause).__name__}): {in_one_line(cause)}")


def pickled(value: object) -> bytes:
    """Return a value as bytes, functions without a name included."""
    from ray import cloudpickle

    found: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return found


def add_blocks(agreed: Agreed, batch: bytes) -> Found:
    """Return the sums of a batch, or what went wrong; this runs in a worker."""
    from ray import cloudpickle

    try:
        blocks, sources = cloudpickle.loads(batch)
        if sources is None and agreed.sources is not None:
            sources = sources_of(_shared(agreed.sources), blocks)
        if sources is None:
            return [None] * len(blocks)
        return sum_sources(_shared(agreed.plan), _shared(agreed.message), sources, blocks)
    except Exception as error:
        # As a value: raised, it would come back without its type, in many lines of Ray's.
        return error


@lru_cache(maxsize=4)
def _shared(place: Any) -> Any:
    """Return what lies in the object store, read once in every worker."""
    import ray

    return ray.get(place)


@dataclass(frozen=True)
class RayWorkers:
    """Worker processes of Ray, which is started when it is first needed.

    Ray runs on in this process until `ray.shutdown()` or the end of the program. One that was
    started before is used as it is, whatever the address.

    Parameters
    ----------
    n
        Blocks of clients that are added at a time; as many as Ray has CPUs if None.
    address
        Of a cluster: `auto`, `host:port` or `ray://host:port`; this machine if None. Workers there
        must have catchment installed, the same version.
    """

    n: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.n is not None and self.n < 1:
            raise ValueError(f"n is {self.n} workers; pass 1 or more, or None for all CPUs")

    @property
    def name(self) -> str:
        """What they are called in a run's facts."""
        return "ray"

    def over(self, here: LocalEngine[Any, Any, Any]) -> RayEngine:
        """Return an engine whose blocks of clients these workers add."""
        ray = ready_ray(address=self.address, cpus=self.n, env=ONE_THREAD)
        return RayEngine(here, ray, self.n or int(ray.cluster_resources()["CPU"]))
