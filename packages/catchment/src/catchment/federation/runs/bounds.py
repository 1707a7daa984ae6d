"""What differential privacy bounds in a run: for whom, against whom, and how far.

An epsilon without its delta says nothing, and one without the number of clients little. Both are
read from the settings of a run's stages, never from messages: what a client writes into its own is
its own word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catchment.federation.runs.read import Run, Stage


@dataclass(frozen=True)
class Bound:
    """A bound on what the releases of a stage tell of one client, or of one of its sequences.

    Parameters
    ----------
    n_clients
        Most clients in a sum of the stage.
    by_clients
        Whether the clients add the noise, within a secure sum; else the server does.

    >>> print(Bound("training", 1.0, 1e-5, "client", 120, by_clients=False))
    training: to whoever sees the model, epsilon 1 at delta 1e-05 for each of 120 clients. To the
    server, no bound: what it is sent is exact, but for being clipped, and it adds the noise itself.
    """

    stage: str
    epsilon: float
    delta: float
    unit: str
    n_clients: int
    by_clients: bool

    def __str__(self) -> str:
        whom = f"{self.n_clients:,} clients"
        each = f"each of {whom}" if self.unit == "client" else f"each {self.unit} of {whom}"
        size = f"epsilon {self.epsilon:g} at delta {self.delta:g} for {each}"
        if self.by_clients:
            return (
                f"{self.stage}: to the server and to whoever sees the model, {size}, unless more "
                "of them than the plan counts on tell the server their noise."
            )
        return (
            f"{self.stage}: to whoever sees the model, {size}. To the server, no bound: what it is "
            "sent is exact, but for being clipped, and it adds the noise itself."
        )


def bounds_of(run: Run) -> tuple[Bound, ...]:
    """Return the bounds that hold in a run, stage by stage."""
    return tuple(bound for stage in run.stages for bound in _of(run, stage))


def _of(run: Run, stage: Stage) -> Iterator[Bound]:
    n_clients = max((record.n_used for record in run.rounds.get(stage.name, ())), default=0)
    for protection in stage.settings.get("Plan", {}).get("protections", ()):
        for settings in protection.values():
            match settings:
                case {"epsilon": float() | int() as epsilon, "delta": float() as delta, **rest}:
                    unit, by_clients = str(rest.get("unit", "client")), rest.get("distributed")
                    about = (stage.name, epsilon, delta, unit, n_clients)
                    yield Bound(*about, by_clients=by_clients is True)
