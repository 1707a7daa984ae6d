"""Different reservoirs: when does it pay to make them alike?

NARMA-10, reservoirs of 200 units, one series cut into equal clients. For a sweep over alpha the
clients' reservoirs are moved toward a common one; the error on a test series is that of the
ensemble of local readouts, and of one readout from summed statistics ("aggregation"), used on the
first client's reservoir as in the published figures. A second table grows the number of clients.

The published figures stand beside ours; their series, lengths and ridge are not known exactly, so
the shape of the curves is what can be compared.

    python -m benchmarks.heterogeneous [--seeds 4]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from benchmarks.record import write
from catchment import Recording, Reservoir
from catchment.data import narma
from catchment.engine import run_locally
from catchment.features import EchoState
from catchment.federation import Plan
from catchment.federation.learn import FederatedRidge
from catchment.federation.measure import evaluate
from catchment.readout import Model
from catchment_research.learn import (
    AlignedRidge,
    Ensemble,
    ReservoirEnsemble,
    Stacking,
    joint_features,
)

UNITS, WASHOUT, TRAIN, TEST, RIDGE = 200, 50, 4000, 2000, 1e-6
ALPHAS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
CLIENTS = (2, 4, 8, 16, 32)
PUBLISHED_ALPHA = {
    0.0: {"ensemble": 0.184, "aggregation": 0.540},
    0.5: {"ensemble": 0.184, "aggregation": 0.539},
    0.8: {"ensemble": 0.181, "aggregation": 0.447},
    0.9: {"ensemble": 0.193, "aggregation": 0.388},
    1.0: {"ensemble": 0.206, "aggregation": 0.204},
}
PUBLISHED_CLIENTS = {
    2: {"central": 0.209, "local": 0.224, "ensemble": 0.192},
    4: {"central": 0.217, "local": 0.270, "ensemble": 0.217},
    8: {"central": 0.239, "local": 0.307, "ensemble": 0.218},
    16: {"central": 0.234, "local": 0.435, "ensemble": 0.240},
    32: {"central": 0.214, "local": 0.738, "ensemble": 0.361},
}

Clients = Mapping[str, list[Recording]]


def split(task: Recording, n_clients: int) -> Clients:
    """Return equal segments of one series."""
    assert task.y is not None
    cuts = np.linspace(0, task.n_steps, n_clients + 1).astype(int)
    return {
        f"client-{k:02d}": [Recording(task.u[a:b], task.y[a:b])]
        for k, (a, b) in enumerate(pairwise(cuts))
    }


def features(seed: int) -> EchoState:
    recipe = Reservoir(
        units=UNITS, inputs=1, spectral_radius=0.9, leak_rate=1.0, input_scaling=0.5, seed=seed
    )
    return EchoState.of(recipe, washout=WASHOUT)


def nrmse(model: Model | None, test: Recording) -> float:
    assert model is not None
    return evaluate(model, lambda: [test]).value


def at_alpha(alpha: float, seed: int) -> dict[str, float]:
    clients, test = split(narma(TRAIN, seed=seed), 8), narma(TEST, seed=1000 + seed)
    common = features(seed)
    algorithm = AlignedRidge(ridge=FederatedRidge(features=common, ridge=RIDGE), alpha=alpha)
    state = run_locally(Plan(algorithm=algorithm), clients).state
    members = ReservoirEnsemble(features=common, alpha=alpha, ridge=RIDGE)
    own = [nrmse(algorithm.model_of(state, name), test) for name in clients]
    return {
        "ensemble": nrmse(run_locally(Plan(algorithm=members), clients).model, test),
        "aggregation": own[0],
        "aggregation, mean of all clients' reservoirs": float(np.mean(own)),
    }


def with_clients(n_clients: int, seed: int) -> dict[str, float]:
    clients, test = split(narma(TRAIN, seed=seed), n_clients), narma(TEST, seed=1000 + seed)
    common = features(seed)
    exact = run_locally(Plan(algorithm=FederatedRidge(features=common, ridge=RIDGE)), clients).model
    algorithm = ReservoirEnsemble(features=common, ridge=RIDGE)
    state: Ensemble = run_locally(Plan(algorithm=algorithm), clients).result
    chosen = run_locally(Plan(algorithm=replace(algorithm, ridge="folds")), clients).result
    stacked = run_locally(Plan(algorithm=Stacking(ensemble=chosen)), clients).result
    found = {
        "central": nrmse(exact, test),
        "local": float(np.mean([nrmse(state.alone(name), test) for name in clients])),
        "ensemble": nrmse(state.model, test),
        "ensemble, ridge by folds": nrmse(chosen.model, test),
        "ensemble, stacked": nrmse(stacked.model, test),
    }
    if n_clients <= 4:
        joint = joint_features(list(state.features.values()))
        ridge = FederatedRidge(features=joint, ridge=RIDGE)
        found["joint statistics"] = nrmse(run_locally(Plan(algorithm=ridge), clients).model, test)
    return found


def by_seed(rows: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    return {name: [round(row[name], 6) for row in rows] for name in rows[0]}


def mean(rows: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: round(float(np.mean(values)), 4) for name, values in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    seeds = range(parser.parse_args().seeds)
    sweep = {alpha: by_seed([at_alpha(alpha, seed) for seed in seeds]) for alpha in ALPHAS}
    growth = {n: by_seed([with_clients(n, seed) for seed in seeds]) for n in CLIENTS}
    path = write(
        "heterogeneous",
        {
            "task": f"NARMA-10, {TRAIN} training and {TEST} test steps, washout {WASHOUT}",
            "units": UNITS,
            "ridge": RIDGE,
            "seeds": len(seeds),
            "measure": "NRMSE on the test series, mean over seeds",
            "alpha": {
                str(a): {"ours": mean(row), "by_seed": row, "published": PUBLISHED_ALPHA.get(a)}
                for a, row in sweep.items()
            },
            "clients": {
                str(n): {"ours": mean(row), "by_seed": row, "published": PUBLISHED_CLIENTS[n]}
                for n, row in growth.items()
            },
        },
    )
    for title, rows in (("alpha", sweep), ("clients", growth)):
        for key, row in rows.items():
            print(f"{title} {key}: " + ", ".join(f"{n} {v:.3f}" for n, v in mean(row).items()))
    print(f"results: {path}")


if __name__ == "__main__":
    main()
