"""Workers on Ray, for whatever takes `workers`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catchment.engine import ONE_THREAD, LocalEngine
from catchment_fleet.ray.engine import RayEngine, Tasks
from catchment_fleet.ray.start import ready_ray


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
    tree
        Numbers of servers below the server and of nodes below each; no tree if None.
    """

    n: int | None = None
    address: str | None = None
    tree: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.n is not None and self.n < 1:
            raise ValueError(f"n is {self.n} workers; pass 1 or more, or None for all CPUs")
        if self.tree is not None and (len(self.tree) != 2 or min(self.tree) < 1):
            raise ValueError(
                f"tree is {self.tree}; pass two numbers from 1 on: servers, and nodes below each"
            )
        if self.tree is not None and self.n is not None:
            raise ValueError("a tree says how many processes there are; leave the workers out")

    @property
    def name(self) -> str:
        """What they are called in a run's facts."""
        return "ray" if self.tree is None else f"ray, tree {self.tree[0]}x{self.tree[1]}"

    def over(self, here: LocalEngine[Any, Any, Any]) -> RayEngine:
        """Return an engine whose blocks of clients these workers add."""
        n_nodes = self.n if self.tree is None else self.tree[0] * self.tree[1]
        ray = ready_ray(address=self.address, cpus=n_nodes, env=ONE_THREAD)
        if self.tree is not None:
            from catchment_fleet.ray.tree import Tree

            return RayEngine(here, ray, Tree(*self.tree))
        return RayEngine(here, ray, Tasks(self.n or int(ray.cluster_resources()["CPU"])))
