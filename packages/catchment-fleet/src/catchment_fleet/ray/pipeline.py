"""Blocks of clients through a pipeline of Ray Data: rows in, the sum of each row out, in order.

A row is a block of 256 clients, pickled. Several rows make a block
of Ray's own, so that its scheduler, which takes some 10 ms for each, is no limit. At most as many
tasks as there are workers run at a time, and Ray holds back where sums are not taken as fast as
they are made: memory does not grow with the number of clients.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from catchment.federation import BlockSum
from catchment_fleet.ray.engine import (
    MOST_RETRIES,
    Agreed,
    Rows,
    pickled,
    sum_of_row,
    unless_failed,
)
from catchment_fleet.ray.start import of_ray_ignored

MOST_ROWS = 8  # of one task
TASKS = 8  # per worker, if there is enough to do


@dataclass(frozen=True)
class Pipeline:
    """Ray Data on so many workers."""

    workers: int

    def __call__(self, agreed: Agreed, rows: Rows, n_rows: int) -> Iterator[BlockSum | None]:
        """Yield the sum of each row, in their order."""
        from ray.util.client import ray as client

        if client.is_connected():  # type: ignore[no-untyped-call]
            return _from_afar(self.workers, agreed, rows)
        return self._sums(agreed, rows, n_rows)

    def _sums(self, agreed: Agreed, rows: Rows, n_rows: int) -> Iterator[BlockSum | None]:
        import ray.data
        from ray.data.read_api import from_blocks

        # Where a run is, and what went wrong with it, is said by whoever runs it.
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        with of_ray_ignored():
            context = ray.data.DataContext.get_current().copy()
            context.enable_progress_bars = False
            context.execution_options.preserve_order = True
            with ray.data.DataContext.current(context):
                blocks = list(_tables(rows, rows_per_task(n_rows, self.workers)))
                made = from_blocks(blocks).map_batches(
                    Accumulate(agreed),
                    batch_size=1,
                    batch_format="pyarrow",
                    compute=ray.data.TaskPoolStrategy(self.workers),
                    num_cpus=1,
                    max_retries=MOST_RETRIES,
                )
                del blocks
                batches = iter(made.iter_batches(batch_size=None, batch_format="pyarrow"))
        for batch in batches:
            for found in batch["sum"]:
                yield unless_failed(ray.cloudpickle.loads(found.as_buffer()))


def _from_afar(workers: int, agreed: Agreed, rows: Rows) -> Iterator[BlockSum | None]:
    """Yield the sums of a pipeline that is run on the cluster: over `ray://` Ray Data cannot."""
    import ray

    driver: Any = ray.remote(_Driver).options(num_cpus=0).remote(workers, agreed, list(rows))
    while some := ray.get(driver.some.remote()):
        yield from some


class _Driver:
    """Has a pipeline; a process of the cluster."""

    def __init__(self, workers: int, agreed: Agreed, rows: Sequence[bytes]) -> None:
        self.sums = Pipeline(workers)(agreed, iter(rows), len(rows))

    def some(self) -> list[BlockSum | None]:
        """Return the next sums, none if there are no more."""
        return list(islice(self.sums, MOST_ROWS))


@dataclass(frozen=True, eq=False)
class Accumulate:
    """Adds the clients of rows; this runs in a worker."""

    agreed: Agreed

    def __call__(self, rows: Any) -> Any:
        import pyarrow as pa

        found = [sum_of_row(self.agreed, row.as_buffer()) for row in rows["sources"]]
        return _table("sum", [pickled(one) for one in found], pa)


def rows_per_task(n_rows: int, workers: int) -> int:
    """Return how many blocks of clients one task adds.

    >>> rows_per_task(40, 2), rows_per_task(4000, 16)
    (2, 8)
    """
    return max(1, min(MOST_ROWS, n_rows // (TASKS * workers)))


def _tables(rows: Rows, size: int) -> Iterator[Any]:
    import pyarrow as pa

    while some := list(islice(rows, size)):
        yield _table("sources", some, pa)


def _table(name: str, values: Sequence[bytes], pa: Any) -> Any:
    return pa.table({name: pa.array(values, pa.large_binary())})
