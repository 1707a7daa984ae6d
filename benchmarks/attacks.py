"""What a curious server recovers: our own attacks, measured.

    python -m benchmarks.attacks [--quick]

Sensor-like channels (a slow wander and a wave), 100 units. Every number is a median over several
generated clients; an attack that fails here may succeed with more effort.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from benchmarks import record
from catchment import Array
from catchment.features import EchoState, Reservoir
from catchment.readout import RidgeStatistics, accumulate
from catchment_lab.audit import (
    Drive,
    Setting,
    Walk,
    area_under_curve,
    correlation,
    generated,
    leverage,
    membership_score,
    place_of,
    window_of,
)

Numbers = dict[str, object]


def features(
    inputs: int, leak_rate: float = 0.3, units: int = 100, **settings: object
) -> EchoState:
    recipe = Reservoir(units=units, inputs=inputs, leak_rate=leak_rate, seed=1)
    return EchoState.of(recipe, input=False, **settings)  # type: ignore[arg-type]


def counts_from_moments(statistics: RidgeStatistics) -> Array:
    """Return the class counts (K,) from G and C alone, as if sums had not been sent.

    diag(C' G^+ C) is exact while there are no more rows than features.

    >>> z, y = np.eye(3)[:2], np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> counts_from_moments(RidgeStatistics.from_states(z, y)).round(9)
    array([2., 0.])
    """
    G, C = statistics.moments(intercept=False)
    return np.asarray((C * (np.linalg.pinv(G, hermitian=True) @ C)).sum(axis=0))


def recovered(found: list[Array], u: Array) -> tuple[float, float]:
    """Return the share of steps that are right to 5 % of the inputs' size, and their error."""
    scale = float(np.sqrt(np.mean(u**2)))
    known, errors = np.zeros(len(u), dtype=bool), [0.0]
    for segment in found:
        place, error = place_of(segment, u)
        if error < 0.05 * scale:
            known[place : place + len(segment)] = True
            errors.append(error / scale)
    return float(known.mean()), max(errors)


def sequences(repeats: int) -> Numbers:
    """One sequence of T steps, by inputs, leak and washout."""
    out: Numbers = {}
    for inputs, leak_rate, washout in (
        (1, 1.0, 0),
        (1, 0.3, 0),
        (3, 1.0, 0),
        (3, 0.3, 0),
        (1, 1.0, 30),
    ):
        F = features(inputs, leak_rate, washout=washout)
        drive, row = Drive(F), {}
        for rows in (10, 30, 60, 90, 150, 500, 2000):
            shares, errors, fits, chance = [], [], [], []
            for k in range(repeats):
                setting = Setting(features=F, steps=rows + washout, seed=k)
                (data,) = generated(setting, 0)
                walk = Walk(drive, accumulate(F, [data]))
                found = (
                    walk.fragments(rows) if washout else walk.sequences(rows if walk.exact else 50)
                )
                share, error = recovered(found, data.u[washout:])
                shares.append(share)
                errors.append(error)
                (other,) = generated(setting, 1)
                for segment in found[:1] if not washout else []:
                    fits.append(correlation(segment, data.u))
                    chance.append(correlation(segment, other.u))
            row[str(rows)] = {
                "steps recovered": round(float(np.median(shares)), 3),
                "error": float(f"{np.median(errors):.1e}"),
            }
            if fits:
                row[str(rows)]["correlation"] = round(float(np.median(fits)), 3)
                row[str(rows)]["with somebody else"] = round(float(np.median(chance)), 3)
        out[f"{inputs} inputs, leak {leak_rate:g}, washout {washout}"] = row
    return out


def lossy(repeats: int) -> Numbers:
    """What rounding and small noise on a plain upload hide."""
    F = features(3, 1.0)
    drive, out = Drive(F), {}
    for name in ("float64", "float32", "noise 1e-9", "noise 1e-6", "noise 1e-4"):
        fits = []
        for k in range(repeats):
            (data,) = generated(Setting(features=F, steps=30, seed=k), 0)
            s = accumulate(F, [data])
            rng = np.random.default_rng(k)
            gram, sums = s.gram, s.feature_sum
            if name == "float32":
                gram, sums = (a.astype(np.float32).astype(np.float64) for a in (gram, sums))
            elif name.startswith("noise"):
                size = float(name.split()[1]) * np.abs(gram).max()
                gram = gram + size * rng.normal(size=gram.shape)
                sums = sums + size * rng.normal(size=sums.shape)
            # A tolerant walk: the least misfit counts, not whether it is small.
            walk = Walk(drive, replace(s, gram=gram, feature_sum=sums), guesses=24, fit=np.inf)
            found = walk.sequences(30)
            fits.append(max((correlation(f, data.u) for f in found), default=0.0))
        out[name] = round(float(np.median(fits)), 3)
    return dict(out)


def sums(repeats: int) -> Numbers:
    """Clients recovered from secure aggregation, by the rows of all together (101 directions)."""
    F, out = features(1, 1.0), {}
    for n, steps in ((2, 10), (5, 10), (3, 20), (5, 15), (8, 10), (9, 10), (10, 10), (20, 30)):
        hits = []
        for k in range(repeats):
            setting = Setting(features=F, steps=steps, n_clients=n, seed=k)
            people = [generated(setting, c)[0] for c in range(n)]
            total = reduce(add, [accumulate(F, [p]) for p in people])
            walk = Walk(Drive(F), total, guesses=6 * n)
            found = [*walk.sequences(steps), *walk.fragments(steps)] if walk.exact else []
            hits.append(sum(recovered(found, p.u)[0] > 0.2 for p in people))
        out[f"{n} clients of {steps} rows"] = f"{int(np.median(hits))} of {n}"
    return dict(out)


def labels() -> Numbers:
    """Error of class counts from the Gram and cross moments alone; sums give them exactly."""
    F, out = features(3), {}
    for rows in (50, 100, 150, 300, 1000):
        setting = Setting(features=F, steps=25, sequences=rows // 25, n_classes=4)
        s = accumulate(F, generated(setting, 0))
        error = np.abs(counts_from_moments(s) - s.target_sum).sum() / s.target_sum.sum()
        out[str(rows)] = float(f"{error:.1e}")
    return dict(out)


def windows(repeats: int) -> Numbers:
    """Correlation of a window with what its pooled features give."""
    out: Numbers = {}
    for pool in ("mean", "last", "mean_std"):
        for inputs, steps in ((1, 10), (1, 30), (3, 10), (3, 20)):
            F = features(inputs, 1.0, pool=pool)
            fits = []
            for k in range(repeats):
                (data,) = generated(Setting(features=F, steps=steps, seed=k), 0)
                found, _ = window_of(F(data.u)[0], Drive(F), steps, guesses=2)
                fits.append(correlation(found, data.u))
            out[f"{pool}, {inputs} x {steps}"] = round(float(np.median(fits)), 4)
    return out


def membership(sizes: tuple[int, ...]) -> Numbers:
    """AUC of a client in the sum of K of 100 rows each, and of a row in one client's statistics."""
    F, clients, rows = features(3), {}, {}
    for n in sizes:
        setting = Setting(features=F, steps=100, n_clients=n)
        people = [accumulate(F, generated(setting, k)) for k in range(n)]
        total = reduce(add, people)
        inside = np.array([membership_score(total, s) for s in people[:60]])
        strangers = [accumulate(F, generated(setting, 10**6 + k)) for k in range(60)]
        outside = np.array([membership_score(total, s) for s in strangers])
        clients[str(n)] = {
            "AUC": round(area_under_curve(inside, outside), 3),
            "proved absent": round(float((outside > 1 + 1e-9).mean()), 3),
        }
    for multiple in (1, 2, 5, 20):
        setting = Setting(features=F, steps=100 * multiple)
        (own,), (other,) = generated(setting, 0), generated(setting, 1)
        s = accumulate(F, [own])
        area = area_under_curve(leverage(s, F(own.u)[:400]), leverage(s, F(other.u)[:400]))
        rows[f"{multiple} rows per unit"] = round(area, 3)
    return {"clients": clients, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer clients, fewer repeats")
    quick = parser.parse_args().quick
    repeats = 2 if quick else 5
    jobs: dict[str, Callable[[], Numbers]] = {
        "class counts without sums": labels,
        "sequences": lambda: sequences(repeats),
        "lossy uploads": lambda: lossy(repeats),
        "secure aggregation": lambda: sums(repeats),
        "windows": lambda: windows(2 if quick else 3),
        "membership": lambda: membership((2, 5, 20) if quick else (2, 5, 20, 100, 300)),
    }
    results: dict[str, object] = {"units": 100, "repeats": repeats}
    for name, job in jobs.items():
        results[name] = job()
        print(name, results[name], flush=True)
    print(record.write("attacks", results))


if __name__ == "__main__":
    main()
