"""Bytes against accuracy: what an upload of statistics costs beside one of a readout.

Every row is a full run through the codec: bytes are those of the messages, errors are on held-out
data. Tasks: NARMA-10 forecasts, synthetic wearables (many windows per client, and a few), and UCI
HAR if it is at hand.

    python -m benchmarks.communication
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.record import write
from catchment import Recording, Reservoir
from catchment.data import ACTIVITIES, contiguous, narma, synthetic_wearables
from catchment.engine import run_locally
from catchment.errors import MissingDataError
from catchment.features import EchoState
from catchment.federation import Plan
from catchment.federation.learn import FederatedRidge, ReadoutAveraging
from catchment.federation.measure import Evaluation
from catchment.readout import Model, RidgeStatistics
from reproductions.places import load

Clients = Mapping[str, Sequence[Recording]]


@dataclass(frozen=True, eq=False)
class Task:
    name: str
    features: EchoState
    train: Clients
    test: Clients
    ridge: float
    classes: tuple[str, ...] | None = None


def tasks() -> list[Task]:
    series = EchoState.of(Reservoir(units=200, inputs=1, leak_rate=1.0, seed=1), washout=50)
    train, test = contiguous(narma(6000, seed=1), 8), {"test": [narma(2000, seed=2)]}
    users = synthetic_wearables(n_users=12, windows_per_user=120, seed=1)
    wearable = Reservoir(units=150, inputs=6, leak_rate=0.3, seed=1)
    pooled = EchoState.of(wearable, pool="mean_std")
    many = {name: windows[:100] for name, windows in users.items()}
    few = {name: windows[:12] for name, windows in users.items()}
    held_out = {name: windows[100:] for name, windows in users.items()}
    found = [
        Task("NARMA-10, ridge 1e-6", series, train, test, 1e-6),
        Task("NARMA-10, ridge 1e-2", series, train, test, 1e-2),
        Task("wearables, 100 windows each", pooled, many, held_out, 1e-1, ACTIVITIES),
        Task("wearables, 12 windows each", pooled, few, held_out, 1e-1, ACTIVITIES),
    ]
    try:
        data = load("uci_har")
    except MissingDataError:
        return found
    har = Reservoir(units=250, inputs=9, leak_rate=0.3, seed=1)
    features = EchoState.of(har, pool="mean_std")
    return [*found, Task("UCI HAR", features, data.train, data.test, 1e-1, data.classes)]


def run(task: Task) -> dict[str, dict[str, float]]:
    algorithm = FederatedRidge(features=task.features, ridge=task.ridge, classes=task.classes)
    result = run_locally(Plan(algorithm=algorithm), task.train)
    rows = {
        "packed float64": {
            "bytes per client": result.records[0].bytes_up / len(task.train),
            "score": score(result.model, task.test),
        }
    }
    averaged = run_locally(
        Plan(
            algorithm=ReadoutAveraging(
                features=task.features, ridge=task.ridge, classes=task.classes
            )
        ),
        task.train,
    )
    assert averaged.model is not None
    rows["readout averaging"] = {
        "bytes per client": averaged.records[0].bytes_up / len(task.train),
        "score": score(averaged.model, task.test),
    }
    return rows


def score(model: Model, test: Clients) -> float:
    total = run_locally(Plan(algorithm=Evaluation(model_under_test=model)), test).state.total
    assert total is not None
    return total.value


def published_count() -> dict[str, object]:
    """Return the floats of one upload at 500 units and 6 outputs, and its real bytes."""
    statistics = RidgeStatistics.zero(500, 6, "f" * 64)
    return {
        "units": 500,
        "outputs": 6,
        "full Gram and cross moments, as published": 500 * 500 + 500 * 6,
        "packed Gram and cross moments": statistics.gram.size + statistics.cross.size,
        "sums, counts and target moments": 2 + 500 + 6 + statistics.target_gram.size,
        "bytes of the message": len(statistics.parts().to_bytes()),
    }


def main() -> None:
    measured = {}
    for task in tasks():
        rows = run(task)
        measured[task.name] = {
            "clients": len(task.train),
            "features": task.features.n_features,
            "ridge": task.ridge,
            "score is": "accuracy" if task.classes else "NRMSE",
            "uploads": {
                name: {key: float(f"{value:.6g}") for key, value in row.items()}
                for name, row in rows.items()
            },
        }
        print(task.name)
        for name, row in rows.items():
            print(f"  {name:26}" + "  ".join(f"{key} {value:.4g}" for key, value in row.items()))
    path = write("communication", {"floats": published_count(), "tasks": measured})
    print(f"results: {path}")


if __name__ == "__main__":
    main()
