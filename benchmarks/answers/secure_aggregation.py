"""Sums that leave the range: Flower's SecAgg+ beside secure aggregation of ours, on the same
numbers.

    python -m benchmarks.answers.secure_aggregation            # results/answers_secagg.json, 2 min
    python -m benchmarks.answers.secure_aggregation --clients 12 --out /tmp     # small

Every client of a case has the same numbers, so the true average is plain to see. Needs flwr and
cryptography.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import catchment as ct
from benchmarks.answers.flower_secagg import secagg_average
from benchmarks.record import RESULTS, write
from catchment import Array
from catchment.errors import TooFewClientsError
from catchment.federation import Algorithm, Data, RoundContext
from catchment.wire import ROWS, Message, Shape


@dataclass(frozen=True)
class Weighted:
    """What a client sends: its examples and its numbers times them."""

    n: Annotated[int, ROWS]
    total: Annotated[Array, Shape("features")]


@dataclass(frozen=True)
class WeightedAverage(Algorithm[Weighted | None, Weighted, Weighted | None]):
    """The weighted average of everybody's numbers; a row of a recording is an example."""

    def start(self) -> Weighted | None:
        return None

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Weighted:
        (recording,) = data()
        return Weighted(recording.n_steps, recording.n_steps * recording.u[0])

    def server_update(
        self, state: Weighted | None, total: Weighted, context: RoundContext
    ) -> Weighted:
        return total

    def result(self, state: Weighted | None) -> Weighted | None:
        return state


@dataclass(frozen=True)
class Case:
    """Numbers of every client, how many examples it has, and what is set."""

    name: str
    issue: str
    numbers: Sequence[float]
    examples: int = 1000
    many: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


CASES = (
    Case("all within the range", "", (0.1, 2.0, 7.9)),
    Case("numbers above 8", "flwrlabs/flower#4982", (0.1, 2.0, 20.0)),
    Case("3 000 examples a client", "", (0.1, 2.0, 4.0), 3000),
    Case(
        "clipping_range=-8",
        "flwrlabs/flower#7633",
        (0.1, 2.0, 4.0),
        settings={"clipping_range": -8.0},
    ),
    Case("1 100 clients", "fedbiomed/fedbiomed#1210", (0.1, 2.0, 7.9), many=True),
)


def hidden_sum(
    numbers: Sequence[float], examples: int, n_clients: int, **settings: Any
) -> Weighted:
    """Return the sum that the server of secure aggregation sees."""
    u = np.tile(np.asarray(numbers, float), (examples, 1))
    people = {f"client-{k:04d}": [ct.Recording(u)] for k in range(n_clients)}
    secure = ct.SecureAggregation(ct.generate_keys(people), min_clients=10, **settings)
    plan = ct.Plan(algorithm=WeightedAverage(), protections=(secure,))
    found = ct.federate(plan, people).result
    assert isinstance(found, Weighted)
    return found


def row(case: Case, n_clients: int) -> dict[str, Any]:
    """Return both averages of a case beside the true one."""
    vector = np.asarray(case.numbers, float)
    theirs, said = secagg_average(
        [vector] * n_clients, [case.examples] * n_clients, **case.settings
    )
    ours = hidden_sum(case.numbers, case.examples, n_clients)
    true = [math.fsum([case.examples * x] * n_clients) for x in case.numbers]
    return {
        "case": case.name,
        "issue": case.issue,
        "clients": n_clients,
        "true": list(case.numbers),
        "flower": [round(float(x), 4) for x in theirs],
        "flower warns": said,
        "catchment": [float(x) for x in ours.total / ours.n],
        "sum exact to the bit": ours.total.tolist() == true,
    }


def refused(n_clients: int) -> str:
    """Return what clients say whose numbers could wrap a ring made for averages up to 8."""
    try:
        hidden_sum([100.0], 1000, n_clients, bits=64, bound=8.0 * 1000 * n_clients)
    except TooFewClientsError as error:
        return str(error)
    raise AssertionError("a sum that could wrap was not refused")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=10, help="of the cases that name no number")
    parser.add_argument("--many", type=int, default=1100, help="clients of the last case")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    rows = [row(case, given.many if case.many else given.clients) for case in CASES]
    write(
        "answers_secagg",
        {"flwr": version("flwr"), "cases": rows, "refused": refused(given.clients)},
        folder=given.out,
    )


if __name__ == "__main__":
    main()
