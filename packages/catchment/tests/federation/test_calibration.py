"""Intervals from errors that clients counted: what they hold, and what they are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catchment import (
    NVAR,
    Array,
    Model,
    Preprocessing,
    Recording,
    SecureAggregation,
    calibrate,
    federate,
    generate_keys,
    load,
)
from catchment.errors import FederationError
from catchment.features import Pipeline
from catchment.federation.learn import group_of
from catchment.readout import Intervals, Table, error_counts

Clients = Mapping[str, list[Recording]]


def machines(n: int, seed: int, *, steps: int = 40) -> dict[str, list[Recording]]:
    """Machines that wear at their own pace; far from the end their signal says little."""
    rng = np.random.default_rng(seed)
    found = {}
    for k in range(n):
        left = np.arange(float(steps))[::-1]
        signal = np.exp(-left / 15) * (1 + 0.2 * rng.normal()) + 0.1 * rng.normal(size=steps)
        inputs = np.column_stack([signal, rng.normal(size=steps)])
        one = Recording(inputs, np.column_stack([left, 2 * left]), channels=("heat", "noise"))
        found[f"m{seed}-{k:03d}"] = [one]
    return found


@pytest.fixture(scope="module")
def model() -> Model:
    return federate(Pipeline(Preprocessing(), NVAR(3, order=2)), machines(30, 1)).model


def errors_of(model: Model, clients: Clients) -> Array:
    """Absolute errors (n, K) in plain numpy, clients in the order of their names."""
    z, y = stacked(model, clients)
    return np.abs(z @ model.readout.weights + model.readout.intercept - y)


def test_widths_are_split_conformal_quantiles_of_all_clients_errors(model: Model) -> None:
    clients = machines(20, 2)
    found = calibrate(model, clients)
    assert found.intervals is not None
    errors = np.sort(errors_of(model, clients), axis=0)
    for coverage in (0.5, 0.9, 0.99):
        exact = errors[math.ceil((len(errors) + 1) * coverage) - 1]
        width = found.intervals.half_widths(coverage)[:, 0]
        assert (width >= exact).all()  # never too narrow...
        assert (width <= exact * 10 ** (1 / 128) + 1e-12).all()  # ...nor wider than a bin
        low, high = found.interval(np.zeros((1, 2)), coverage)
        np.testing.assert_array_equal(np.concatenate([-low, high]), [width, width])


def test_bands_have_widths_of_their_own(model: Model) -> None:
    clients = machines(20, 2)
    found = calibrate(model, clients, cuts=(15.0,)).intervals
    assert found is not None
    errors = errors_of(model, clients)
    said = np.concatenate([model.predict(many[0]) for _, many in sorted(clients.items())])
    widths = found.half_widths(0.9)
    for k in range(2):
        for band, inside in enumerate((said[:, k] <= 15.0, said[:, k] > 15.0)):
            some = np.sort(errors[inside, k])
            exact = some[math.ceil((len(some) + 1) * 0.9) - 1]
            assert exact <= widths[k, band] <= exact * 10 ** (1 / 128) + 1e-12
    low, high = found.around(np.array([[5.0, 50.0]]), 0.9)
    np.testing.assert_allclose(((high - low) / 2)[0], [widths[0, 0], widths[1, 1]])


def test_one_row_of_each_client_covers_new_clients(model: Model) -> None:
    # Over draws of calibration machines, the share of new machines' rows that lie inside.
    covered = []
    new = machines(60, 99)
    y = np.concatenate([many[0].y for _, many in sorted(new.items()) if many[0].y is not None])
    said = np.concatenate([model.predict(many[0]) for _, many in sorted(new.items())])
    for draw in range(12):
        one = calibrate(model, machines(19, 100 + draw), rows=1, seed=draw)
        assert one.intervals is not None
        assert one.intervals.errors.n_values.tolist() == [19, 19]
        low, high = one.interval(said, 0.9)
        covered.append(((low <= y) & (y <= high)).mean())
    assert 0.86 < np.mean(covered) < 0.97


def test_a_run_is_calibrated_by_readouts_without_the_client() -> None:
    clients = machines(12, 3)
    run = federate(Pipeline(Preprocessing(), NVAR(2, order=1)), clients, ridge=1e-3)
    known: Model = calibrate(run, clients)
    found = known.intervals
    assert found is not None
    names, known = sorted(clients), run.model
    expected = []
    for group in sorted(set(map(group_of, names))):
        left_out = [name for name in names if group_of(name) == group]
        # The readout by hand: standardized features, an intercept, a ridge on the sum of squares.
        z, y = stacked(known, {name: clients[name] for name in names if name not in left_out})
        spread = z.std(axis=0)
        spread[spread == 0] = 1.0
        centered = (z - z.mean(axis=0)) / spread
        gram = centered.T @ centered + 1e-3 * np.eye(z.shape[1])
        W = np.linalg.solve(gram, centered.T @ (y - y.mean(axis=0)))
        z_out, y_out = stacked(known, {name: clients[name] for name in left_out})
        said = (z_out - z.mean(axis=0)) / spread @ W + y.mean(axis=0)
        expected.append(np.abs(said - y_out))
    errors = np.sort(np.concatenate(expected), axis=0)
    rank = math.ceil((len(errors) + 1) * 0.9) - 1
    width = found.half_widths(0.9)[:, 0]
    assert (errors[rank] <= width * (1 + 1e-9)).all()
    assert (width <= errors[rank] * 10 ** (1 / 128) * (1 + 1e-9)).all()


def stacked(model: Model, clients: Clients) -> tuple[Array, Array]:
    every = [model.preprocessing.apply(many)[0] for _, many in sorted(clients.items())]
    z = np.concatenate(model.features.rows([one.u for one in every]))
    return z, np.concatenate([one.y for one in every if one.y is not None])


def test_secure_aggregation_gives_the_same_intervals(model: Model) -> None:
    clients = machines(10, 4)
    plain = calibrate(model, clients).intervals
    hidden = calibrate(
        model, clients, protections=[SecureAggregation(generate_keys(clients))]
    ).intervals
    assert plain is not None
    assert hidden is not None
    np.testing.assert_array_equal(plain.half_widths(0.9), hidden.half_widths(0.9))


def test_intervals_are_kept_with_the_model_and_written_beside_predictions(
    model: Model, tmp_path: Path
) -> None:
    made = calibrate(model, machines(20, 2), cuts=(10.0, 30.0))
    made = replace(made, channels=("heat", "noise"), columns={"target": "left\nboth"})
    kept = load(made.save(tmp_path / "model.safetensors"))
    assert isinstance(kept, Model)
    said = np.array([[5.0, 12.0], [40.0, 80.0]])
    np.testing.assert_array_equal(made.interval(said, 0.8), kept.interval(said, 0.8))
    file = tmp_path / "new.csv"
    (recording,) = machines(1, 5)["m5-000"]
    np.savetxt(file, recording.u, delimiter=",", header="heat,noise", comments="")
    table = Table(kept, coverage=0.8)
    assert table.header()[-3:] == ["both", "both_low", "both_high"]
    rows = np.array([row[-2:] for row in table.rows(file)], dtype=np.float64)
    low, high = made.interval(made.predict(recording), 0.8)
    np.testing.assert_allclose(rows, np.c_[low[:, 1], high[:, 1]], rtol=1e-5)


def test_what_cannot_be_calibrated_is_refused(model: Model) -> None:
    clients = machines(10, 6)
    run = federate(NVAR(2, order=1), clients, ridge=1e-3)
    with pytest.raises(ValueError, match="trained by other clients than these, such as 'm6-009'"):
        calibrate(run, dict(list(clients.items())[:9]))
    hidden = federate(
        NVAR(2, order=1),
        clients,
        ridge=1e-3,
        protections=[SecureAggregation(generate_keys(clients))],
    )
    with pytest.raises(FederationError, match="calibrate on clients that did not train"):
        calibrate(hidden, clients)
    with pytest.raises(ValueError, match="each larger than the last"):
        calibrate(model, clients, cuts=(3.0, 1.0))
    few = Intervals(error_counts(np.zeros((3, 1)), np.ones((3, 1)), [0.5, 2.0]))
    assert few.half_widths(0.9)[0, 0] == np.inf  # three errors say nothing about nine in ten
