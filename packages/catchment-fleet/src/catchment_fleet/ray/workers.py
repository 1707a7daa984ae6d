"""Workers on Ray, for whatever takes `workers`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catchment.engine import ONE_THREAD, LocalEngine
from catchment_fleet.ray.engine import RayEngine
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
