"""Servers below the server: nodes add blocks of clients, servers add what their nodes have added.

    server  <-  3 servers  <-  4 nodes each  <-  blocks of 256 clients

All are processes of their own. Integers have one sum, however they are added, so a server
sends one sum up for all blocks of its batch. Where numbers are not whole the order of a sum
is part of the result: then servers hand the sums of single blocks on, and the server adds them in
their order. Either way the bits are those of one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle, islice
from typing import Any

from catchment.federation import BlockSum
from catchment.federation import joined as joined_blocks
from catchment_fleet.ray.engine import (
    AHEAD,
    MOST_RETRIES,
    Agreed,
    Found,
    Rows,
    in_order,
    sum_of_row,
)

MOST_BLOCKS = 16  # of one node in one batch: what is lost where a server dies, and seen at once
# They occupy no CPU while they wait, as Ray has it: else nothing could run beside a tree.
ACTOR = {"max_restarts": -1, "max_task_retries": MOST_RETRIES, "scheduling_strategy": "SPREAD"}


@dataclass(frozen=True)
class Tree:
    """So many servers below the server, and so many nodes below each of them."""

    n_servers: int
    n_nodes: int

    def __call__(self, agreed: Agreed, rows: Rows, n_rows: int) -> Iterator[BlockSum | None]:
        """Yield sums of all rows in their order, of several rows at a time where that may be."""
        import ray

        here = ray.get_runtime_context()
        servers = _servers(ray, here.get_job_id() + here.get_node_id(), self)
        size = min(self.n_nodes * MOST_BLOCKS, -(-n_rows // self.n_servers))
        batches = iter(lambda: list(islice(rows, size)), [])
        begun = (one.add.remote(agreed, s) for one, s in zip(cycle(servers), batches))
        whole = False
        try:
            yield from in_order(ray, begun, AHEAD * self.n_servers)
            whole = True
        finally:
            if not whole:  # nobody waits for sums that are under way
                _servers.cache_clear()


@lru_cache(maxsize=1)
def _servers(ray: Any, session: str, tree: Tree) -> list[Any]:
    """Return the servers of a tree, which wait for the next round or run; they live while known.

    Parameters
    ----------
    session
        Of Ray: another one has none of these processes.
    """
    server = ray.remote(_Server).options(**ACTOR)
    return [server.remote(tree.n_nodes) for _ in range(tree.n_servers)]


class _Node:
    """Adds blocks of clients; a process of its own."""

    def add(self, agreed: Agreed, row: bytes) -> Found:
        """Return the sum of a block."""
        return sum_of_row(agreed, row)


class _Server:
    """Adds what nodes have added; a process of its own, and so is each of its nodes."""

    def __init__(self, n_nodes: int) -> None:
        import ray

        node: Any = ray.remote(_Node).options(**ACTOR)
        self.nodes = [node.remote() for _ in range(n_nodes)]

    def add(self, agreed: Agreed, rows: Sequence[bytes]) -> list[Found]:
        """Return the sum of a batch of blocks, or of each of them where they have an order."""
        import ray

        pairs = zip(cycle(self.nodes), rows, strict=False)
        return joined(ray.get([node.add.remote(agreed, row) for node, row in pairs]))


def joined(found: Sequence[Found]) -> list[Found]:
    """Return blocks in a row as one, if they add to each other and their sum has no order.

    >>> joined([BlockSum(("ann",)), None])[1] is None
    True
    """
    blocks = [one for one in found if isinstance(one, BlockSum)]
    one = joined_blocks(blocks) if len(blocks) == len(found) else None
    return list(found) if one is None else [one]
