"""What the page says, held against what catchment says of the same settings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from catchment.features.echo_state import common_radius, raw_matrix

TOLERANCE = 1e-6


def same(found: ArrayLike, expected: ArrayLike, name: str, tolerance: float = TOLERANCE) -> None:
    """See that two arrays differ by less than a share of the largest value."""
    one, other = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    assert one.shape == other.shape, name
    apart = np.abs(one - other).max() / np.abs(other).max()
    assert apart < tolerance, f"{name} differs by {apart:.1e}"


def run_python(text: str) -> dict[str, Any]:
    """Run the lines that the page offers, and return what they leave."""
    names: dict[str, Any] = {"__name__": "copied"}
    exec(compile(text, "copied", "exec"), names)
    return names


def check(told: dict[str, Any], names: dict[str, Any]) -> None:
    """Compare all numbers of a page with those of the Python lines it offers."""
    model, run, past = names["model"], names["run"], names["past"]
    reservoir = model.features.reservoir
    (layer,), (wiring,) = reservoir.layers, reservoir.layer_settings
    assert told["past"] == len(past)
    same(told["series"], names["series"], "series", 1e-15)
    same(told["input"], layer.W_in.values, "input weights", 1e-15)
    same(told["bias"], layer.bias, "biases", 1e-15)
    if wiring.wiring.topology == "random":
        assert told["radius"] == common_radius(raw_matrix(wiring))[0], "spectral radius"
    scaler = run.model.preprocessing.scale
    same([told["mean"], told["deviation"]], [*scaler.mean, *scaler.scale], "scale", 1e-12)
    states = reservoir.states(scaler(past[:, None]))
    for one in told["states"]:
        same(one["x"], states[one["step"]], f"state {one['step']}")
    _check_clients(told, run, names["ridge"])
    readout = model.readout
    same(told["shown"]["weights"], readout.weights[:, 0], "readout of who is in")
    same(told["shown"]["intercept"], readout.intercept[0], "intercept")
    same(told["forecast"], names["forecast"], "forecast")
    same(told["error"], names["error"], "error")
    np.testing.assert_allclose(
        told["memory"]["per_delay"], names["memory"].per_delay, rtol=0, atol=TOLERANCE
    )
    same(told["memory"]["total"], names["memory"].total, "memory capacity")


def _check_clients(told: dict[str, Any], run: Any, ridge: float) -> None:
    state = run.training.state
    for k, one in enumerate(told["clients"]):
        sums = state.by_client[f"client-{k + 1}"]
        assert one["rows"] == sums.n_rows
        same(one["cross"], sums.cross[:, 0], "C")
        same(one["gram_sum"], sums.gram.sum(), "G")
        alone = sums.solve(ridge)
        same(one["weights"], alone.weights[:, 0], f"readout of client {k + 1} alone")
    for name in ("total", "pooled"):
        same(told[name]["weights"], run.model.readout.weights[:, 0], f"readout: {name}")
    assert max(told["differences"]) < TOLERANCE
