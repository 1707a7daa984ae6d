"""How often new clients without a fault are alarmed, where the truth is known."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter

import catchment as ct
from catchment import Array, Booleans
from catchment.features import FeatureMap
from catchment.federation.learn import FederatedAnomalyDetector

GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "anomalies.md"
N_CLIENTS, N_STEPS = 40, 400
INPUTS = ct.NVAR(delays=1, order=1, bits=None).build(2, per_step=True)


def series(rng: np.random.Generator, kind: str) -> Array:
    """Return the two channels of a client: all clients are drawn in the same way."""
    noise = rng.normal(size=(N_STEPS + 100, 2))
    if kind == "waves":
        time = np.arange(N_STEPS) / 6 + rng.uniform(0, 6)
        return np.column_stack([np.sin(time), np.cos(time)]) + 0.1 * noise[100:]
    if kind == "levels":
        return np.asarray(noise[100:] + 0.5 * rng.normal(size=2))
    memory = 0.8 if kind == "memory" else 0.0
    return np.asarray(lfilter([1.0], [1.0, -memory], noise, axis=0)[100:])


def alarms(kind: str, features: FeatureMap = INPUTS, rate: float = 0.05) -> Booleans:
    """Return the alarms (clients, rows) of as many new clients as have trained."""
    rng = np.random.default_rng(0)
    clients = {f"c{k}": [ct.Recording(series(rng, kind))] for k in range(N_CLIENTS)}
    algorithm = FederatedAnomalyDetector(
        features=features, false_positive_rate=rate, per_decade=512
    )
    detector = ct.federate(ct.Plan(algorithm=algorithm, rounds=2), clients).result
    return np.array([detector.predict(series(rng, kind)) for _ in range(N_CLIENTS)])


@pytest.mark.parametrize("kind", ["independent", "memory", "levels"])
def test_new_clients_are_alarmed_at_the_chosen_rate(kind: str) -> None:
    found = alarms(kind).mean(axis=1)
    # The threshold is off by what a quarter of the rows of as many clients leave open. Independent
    # rows have the binomial's spread, rows with a memory that of whole clients.
    spread = math.sqrt(0.05 * 0.95 / N_STEPS) if kind == "independent" else float(found.std())
    quarter = 2.0 if kind != "levels" else 1.0  # a level is as uncertain by a quarter of its rows
    margin = 3 * spread * math.hypot(1.0, quarter) / math.sqrt(N_CLIENTS)
    assert abs(found.mean() - 0.05) < margin < 0.04


def test_the_guide_says_what_the_first_steps_cost() -> None:
    shown = {}
    for washout in (0, 50):
        features = ct.EchoState(30, washout=washout).build(2, per_step=True)
        shown[washout] = alarms("waves", features, 0.01)
    words = (
        f"{100 * shown[0].mean():.1f} % of the rows are alarms instead of 1 %, and all of the "
        "first ten; with a washout of 50 steps "
        f"{100 * shown[50].mean():.1f} %"
    )
    assert shown[0][:, :10].all()
    assert words in " ".join(GUIDE.read_text(encoding="utf-8").split()), words
