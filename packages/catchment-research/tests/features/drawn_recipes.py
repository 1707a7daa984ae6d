"""Recipes of every shipped map, drawn from a number, and the hashes that no processor may change.

    python -m tests.features.drawn_recipes FIRST LAST

prints a line for each number: the map, its fingerprint, the digest of a sum of three clients, the
SHA-256 of a model file whose readout is given, and in fixed point that of one which is solved, its
ridge chosen. Numbers of the recordings are whole; nothing here needs a mathematical library, so
that whatever differs between two processors is the library's own doing.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Literal
from unittest.mock import patch

import numpy as np

import catchment
from catchment import Array, Preprocessing, Recording, Reservoir
from catchment.data import Scaler, calendar_columns
from catchment.features import (
    NVAR,
    AppendNorm,
    DefaultMap,
    DiagonalReservoir,
    EchoState,
    FeatureMap,
    FeatureUnion,
    Hydra,
    LogUniform,
    MiniRocket,
    MixedActivation,
    Pipeline,
    RandomFourierFeatures,
    RandomProjection,
    WindowStatistics,
)
from catchment.federation.learn import FederatedRidge, RidgeState
from catchment.readout import Model, Readout, accumulate, save, solved_model
from catchment_research.learn import aligned_reservoir as aligned
from catchment_research.learn import with_own_seed
from catchment_research.plasticity import IntrinsicPlasticity

CLASSES = ("a", "b", "c")
LARGE = 1000  # features
TOPOLOGIES = ("random", "small_world", "scale_free", "cycle_jumps", "orthogonal", "permutation")


def whole(rng: Random, shape: tuple[int, ...], below: int) -> Array:
    """Return integers from -below to below."""
    n = int(np.prod(shape))
    return np.array([rng.randint(-below, below) for _ in range(n)], dtype=np.float64).reshape(shape)


def echo_state(rng: Random, topology: str = "random", **more: object) -> EchoState:
    units = rng.randint(12, 150)
    settings: dict[str, object] = {
        "seed": rng.getrandbits(64),
        "topology": topology,
        "spectral_radius": rng.choice([0.5, 0.9, 0.95, 1.1, rng.uniform(0.1, 1.4)]),
        "leak_rate": rng.choice([1.0, 0.3, LogUniform(0.05, 1.0)]),
        "input_scaling": rng.choice([0.2, rng.uniform(0.05, 1.0)]),
        "washout": 5,
    }
    if topology == "random":
        settings |= rng.choice([{}, {"density": rng.uniform(0.1, 1.0)}, {"connections": 3}])
    if topology == "cycle_jumps":
        settings |= {"random_signs": rng.random() < 0.5, "jump_weight": rng.uniform(0.1, 1.0)}
    return EchoState(units, **settings | more)  # type: ignore[arg-type]  # checked there


def deep(rng: Random) -> EchoState:
    mixed = MixedActivation(tanh=0.4, sigmoid=0.2, sin=0.2, relu=0.1, identity=0.1)
    return EchoState(
        (rng.randint(20, 60), rng.randint(10, 40)),
        seed=rng.getrandbits(32),
        spectral_radius=(0.7, rng.uniform(0.3, 1.0)),
        activation=mixed if rng.random() < 0.5 else "tanh",
        washout=3,
    )


def in_float64(rng: Random) -> EchoState:
    return echo_state(rng, bits=None)


def diagonal(rng: Random) -> DiagonalReservoir:
    kind = rng.choice(["both", "products", "mix", "none"])
    memory = (rng.uniform(1.0, 3.0), rng.uniform(10.0, 60.0))
    units = 2 * rng.randint(10, 45)
    return DiagonalReservoir(units, rng.getrandbits(32), kind, memory=memory)  # type: ignore[arg-type]


def inner(rng: Random) -> FeatureMap:
    return echo_state(rng, rng.choice(["random", "small_world"]))


# By step or by recording, as the maps allow; None where both do.
Draw = Callable[[Random], FeatureMap]
DRAWS: dict[str, tuple[Draw, bool | None]] = {
    **{f"echo_state {name}": (lambda r, n=name: echo_state(r, n), None) for name in TOPOLOGIES},  # type: ignore[misc]
    "echo_state deep": (deep, None),
    "echo_state without grid": (in_float64, None),
    "diagonal": (diagonal, None),
    "nvar": (lambda r: NVAR(delays=r.randint(2, 6), order=r.choice([1, 2, 3])), True),
    "window_statistics": (lambda r: WindowStatistics(), False),
    "with_norm": (lambda r: AppendNorm(inner(r)), None),
    "minirocket": (lambda r: MiniRocket(84 * r.randint(1, 3), r.getrandbits(32)), False),
    "hydra": (lambda r: Hydra(128 * r.randint(1, 2), r.getrandbits(32)), False),
    "random_fourier": (
        lambda r: RandomFourierFeatures(
            inner(r), r.randint(20, 90), activation=r.choice(["cos", "relu"])
        ),
        None,
    ),
    "projected": (lambda r: RandomProjection(inner(r), 12, seed=r.getrandbits(32)), None),
    "row stride": (inner, True),
    "concat": (lambda r: FeatureUnion(inner(r), diagonal(r)), None),
    "default": (lambda r: DefaultMap(columns=200, seed=r.getrandbits(32)), None),
}
NAMES = (*DRAWS, "adapted", "from_matrices", "aligned")


def built(name: str, rng: Random, per_step: bool, us: list[Array]) -> FeatureMap:
    """Return a map of this kind for the recordings' channels."""
    I = us[0].shape[1]
    if name in DRAWS:
        return DRAWS[name][0](rng).build(I, per_step=per_step, classes=not per_step)
    described = echo_state(rng)
    reservoir = described.build(I, per_step=per_step, classes=not per_step).reservoir
    if name == "adapted":
        rule = IntrinsicPlasticity(learning_rate=0.002, epochs=2, washout=2)
        reservoir = rule.adapt(reservoir, us)
    elif name == "aligned":
        assert reservoir.is_drawn
        own = with_own_seed(reservoir, "b")
        reservoir = aligned(own, reservoir, rng.choice([0.0, 0.25, rng.random()]))
    else:
        N = rng.randint(10, 40)
        W, W_in = whole(rng, (N, N), 40) / 2**9, whole(rng, (N, I), 9) / 2**4
        reservoir = Reservoir.from_matrices(W, W_in, leak_rate=0.4, bits=20)
    return described.reading(reservoir, per_step=per_step, classes=not per_step)


def hashes(number: int) -> dict[str, str | None]:
    """Return what a drawn recipe is on every processor."""
    rng = Random(number)
    name = NAMES[number % len(NAMES)]
    by_step = DRAWS[name][1] if name in DRAWS else None
    per_step = rng.random() < 0.5 if by_step is None else by_step
    I = rng.randint(2, 4)
    with_clock = rng.random() < 0.25
    raw = [[_recording(rng, I, per_step, with_clock) for _ in range(2)] for _ in range(3)]
    preprocessing = Preprocessing(scale=Scaler.fit([one for data in raw for one in data]))
    clients = [preprocessing.apply(data) for data in raw]
    features = built(name, rng, per_step, [one.u for data in clients for one in data])
    exact = features.feature_bits is not None
    stride = rng.randint(2, 5) if name == "row stride" else 1
    how: dict[str, Any] = {"classes": not per_step, "row_stride": stride}
    parts = [accumulate(features, data, **how) for data in clients]
    total = parts[2] + parts[0] + parts[1]
    K = total.n_targets
    weights = whole(rng, (features.n_features, K), 999) / 2**7
    model = Model(
        Pipeline(preprocessing, features),
        Readout(weights, np.zeros(K), 0.5),
        None if per_step else CLASSES,
        total if exact else None,
    )
    return {
        "map": name,
        "fingerprint": features.fingerprint,
        "sum": total.digest() if exact else None,
        "file": file_hash(model),
        "solved": file_hash(solved(preprocessing, features, clients, number, stride))
        if exact
        else None,
    }


def solved(
    preprocessing: Preprocessing,
    features: FeatureMap,
    clients: list[list[Recording]],
    number: int,
    stride: int,
) -> Model:
    """Return the model of three clients, its ridge chosen by them, or by the sum if it must be.

    Of a large map it is given, for time's sake. Targets that are numbers have noise of their own:
    without any, held-out errors are rounding.
    """
    classes, rng = None if features.per_step else CLASSES, Random(f"noise {number}")
    ridge: Literal["auto"] | float = "auto" if features.n_features < LARGE else 0.5
    algorithm = FederatedRidge(features=features, ridge=ridge, classes=classes, row_stride=stride)
    if features.per_step:
        clients = [[_noisy(one, rng) for one in data] for data in clients]
    how: dict[str, Any] = {"classes": not features.per_step, "row_stride": stride}
    parts = [accumulate(features, data, **how) for data in clients]
    total = parts[2] + parts[0] + parts[1]
    state = algorithm.solved(RidgeState(total, dict(zip("abc", parts, strict=True))))
    assert state.readout is not None
    pipeline = Pipeline(preprocessing, features)
    return solved_model(pipeline, total, state.readout, state.choice, classes=classes)


def _noisy(recording: Recording, rng: Random) -> Recording:
    assert recording.y is not None
    return replace(recording, y=recording.y + whole(rng, recording.y.shape, 99) / 2**9)


def file_hash(model: Model) -> str:
    """Return the SHA-256 of a model's file as the release of the record would name itself in it."""
    recorded = patch.object(catchment, "__version__", "0.2.0")
    with recorded, tempfile.TemporaryDirectory() as folder:
        content = save(model, Path(folder) / "model").read_bytes()
    return hashlib.sha256(content).hexdigest()


def _recording(rng: Random, I: int, per_step: bool, with_clock: bool) -> Recording:
    u = whole(rng, (rng.randint(60, 90), I), 3000) / 2**10
    if with_clock:
        times: Array = np.arange(len(u), dtype=np.float64) * 977.0
        timed = Recording(u, times=times, epoch=1.7e9 + rng.randint(0, 10**8))
        u = np.hstack([u, calendar_columns(timed, ("hour", "weekday", "season"))])
    if per_step:
        return Recording(u, u[:, :1] / 4.0)
    label = np.eye(len(CLASSES))[rng.randrange(len(CLASSES))]
    return Recording(u, label, per_step=False)


def main() -> None:
    first, last = map(int, sys.argv[1:])
    warnings.simplefilter("ignore")
    for number in range(first, last):
        print(json.dumps(hashes(number)), flush=True)


if __name__ == "__main__":
    main()
