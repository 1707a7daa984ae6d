"""The load of many houses up to a day ahead, with a price known ahead, a calendar and intervals.

    python examples/forecast_many.py [--quick]

The houses are made up here: what each draws follows the hour, the weekday, the cold and a price
that is published a day before; how strongly differs from house to house. They learn together in one
round, each then moves the shared readout a little toward its own data, and houses that took no
part say how wide the intervals must be. Naive: the same hour yesterday.
"""

from __future__ import annotations

import argparse

import numpy as np

import catchment as ct
from catchment.arrays import Array
from catchment.federation.learn import PersonalReadouts
from catchment.readout import PersonalModels, forecasts

HORIZONS = (1, 6, 24)
CHANNELS = ("load", "cold", "price")
MONDAY = 1_704_067_200.0  # 1 January 2024
WASHOUT = 48


def house(seed: int, number: int, n_days: int) -> ct.Recording:
    """Return a house's hours: kilowatts, degrees below 18, and the price of each hour."""
    rng = np.random.default_rng([seed, number])
    hours = np.arange(24 * n_days, dtype=np.float64)
    day, weekend = 2 * np.pi * hours / 24, (hours // 24) % 7 >= 5
    slow = np.convolve(rng.normal(size=len(hours) + 71), np.ones(72) / 72, "valid")
    cold = 10 - 4 * np.sin(day - 2.5) + 12 * slow
    price = 0.3 + 0.1 * np.sin(2 * day) + 0.08 * rng.normal(size=len(hours))
    evening, heating, thrift = rng.uniform(0.3, 1.0), rng.uniform(0.02, 0.1), rng.uniform(0.5, 2)
    load = 1.5 + evening * np.sin(day - 4) + heating * cold - thrift * price + 0.4 * weekend
    load = load + 0.15 * rng.normal(size=len(hours))
    u = np.stack([load, cold, price], axis=1)
    return ct.Recording(u, times=3600 * hours, channels=CHANNELS, epoch=MONDAY)


def truth(recording: ct.Recording) -> Array:
    """Return the load at each horizon (T, H), of all hours that have them after the washout."""
    load, last = recording.u[:, 0], recording.n_steps - max(HORIZONS)
    return np.stack([load[WASHOUT + h : last + h] for h in HORIZONS], axis=1)


def personal(model: ct.Model, houses: dict[str, list[ct.Recording]]) -> PersonalModels:
    """Return the model with a readout of each house's own beside the shared one."""
    ridge = ct.FederatedRidge(features=model.features, ridge=float(model.readout.ridge))
    plan = ct.Plan(
        algorithm=PersonalReadouts(ridge=ridge), rounds=2, preprocessing=model.preprocessing
    )
    made: PersonalModels = ct.federate(plan, houses).result
    return made.prepared_by(model.preprocessing, model.channels)


def run(seed: int, n_houses: int, n_days: int) -> tuple[dict[str, Array], Array]:
    """Return the root mean squared errors (H,) by method, and the share inside 90 % intervals."""
    whole = {f"house {k:02d}": house(seed, k, n_days + 14) for k in range(n_houses)}
    cut = 24 * n_days
    past = {name: [one.part(0, cut)] for name, one in whole.items()}
    later = {name: one.part(cut - WASHOUT, one.n_steps) for name, one in whole.items()}
    others = {f"other {k:02d}": [house(seed, 100 + k, n_days)] for k in range(n_houses)}

    preprocessing = ct.Preprocessing(
        horizon=HORIZONS, predicted=("load",), known=("price",), calendar=("hour", "weekday")
    )
    lags = ct.NVAR(delays=24, order=1, washout=WASHOUT)
    shared = ct.calibrate(
        ct.federate(ct.Pipeline(preprocessing, lags), past, ridge=10.0).model, others
    )
    own = personal(shared, past)

    squares: dict[str, list[Array]] = {"same hour yesterday": [], "shared": [], "personal": []}
    inside = []
    for name, recording in later.items():
        y, n = truth(recording), -max(HORIZONS)
        load = recording.u[:, 0]
        back = [np.roll(load, (24 - h) % 24)[WASHOUT:n] for h in HORIZONS]
        said = {
            "same hour yesterday": np.stack(back, axis=1),
            "shared": shared.predict(recording)[:n],
            "personal": own.predict(recording, client=name)[:n],
        }
        for method, one in said.items():
            squares[method].append(((one - y) ** 2).mean(axis=0))
        low, high = shared.interval(said["shared"], coverage=0.9)
        inside.append(((low <= y) & (y <= high)).mean(axis=0))
    _show(shared, whole["house 00"], cut)
    return {name: np.sqrt(np.mean(one, axis=0)) for name, one in squares.items()}, np.mean(
        inside, 0
    )


def _show(model: ct.Model, recording: ct.Recording, cut: int) -> None:
    """Print what comes after an hour: of the next day only the price is known."""
    u = recording.u[: cut + 24].copy()
    u[cut:, :2] = np.nan
    times = None if recording.times is None else recording.times[: cut + 24]
    now = ct.Recording(u, times=times, channels=CHANNELS, epoch=recording.epoch)
    (ahead,) = forecasts(model, [now], coverage=0.9)
    assert ahead.lower is not None
    assert ahead.upper is not None
    for k, moment in enumerate(ahead.moments()):
        low, value, high = (float(one[k, 0]) for one in (ahead.lower, ahead.values, ahead.upper))
        came = recording.u[cut - 1 + ahead.horizons[k], 0]
        print(f"{moment}  {value:5.2f} kW ({low:.2f} to {high:.2f}), came {came:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Forecasts for many houses.")
    parser.add_argument("--quick", action="store_true", help="fewer houses and days")
    quick = parser.parse_args().quick
    errors, inside = run(0, 6 if quick else 12, 28 if quick else 84)
    print("\nRMSE in kW".ljust(24) + "".join(f"{h:>7} h" for h in HORIZONS))
    for name, one in (*errors.items(), ("inside 90 % intervals", inside)):
        print(f"{name:22} " + " ".join(f"{value:8.4f}" for value in one))


if __name__ == "__main__":
    main()
