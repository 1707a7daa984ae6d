"""Twelve pumps over twenty weeks: one wears, one is used differently. Which models help?

    python examples/fleet_over_weeks.py [--quick] [--picture weeks.png] [--results weeks.json]

Every week each pump hands in the statistics of that week. What is new is predicted first, by the
models of the weeks before, and then learned from. A pump's personal readout is solved from a
mixture of everybody's sums and its own, half and half. From week 9 on pump 3 takes more power each
week for the same work; from week 14 on pump 7 runs at other speeds. Naive: the mean power so far,
and the model of the first week for ever.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

import catchment as ct
from catchment.arrays import Array
from catchment.engine import run_locally
from catchment.federation import Plan
from catchment.federation.learn import FederatedRidge
from catchment.parallel import single_blas_thread
from catchment.readout import PersonalModels, RidgeStatistics

PUMPS, WEEKS, STEPS, FORGETTING, RIDGE = 12, 20, 250, 0.7, 1e-2
WORN, WEARS_FROM, MOVED, MOVED_FROM = 3, 9, 7, 14


def week_of(pump: int, week: int) -> ct.Recording:
    """Return a week of a pump: speed and pressure (T, 2), and the power (T, 1) that it took."""
    own, rng = np.random.default_rng([1, pump]), np.random.default_rng([2, pump, week])
    efficiency, friction = own.uniform(0.8, 1.2), own.uniform(0.1, 0.3)
    if pump == WORN and week >= WEARS_FROM:
        friction += 0.06 * (week - WEARS_FROM + 1)
    level = 1.0 if pump == MOVED and week >= MOVED_FROM else 0.0
    noise = rng.normal(size=(STEPS, 2))
    speed, pressure = np.zeros(STEPS), np.zeros(STEPS)
    for t in range(1, STEPS):
        speed[t] = 0.9 * speed[t - 1] + 0.2 * noise[t, 0]
        pressure[t] = 0.8 * pressure[t - 1] + 0.2 * (level + speed[t]) + 0.1 * noise[t, 1]
    speed += level
    power = efficiency * pressure + friction * speed**2 + 0.03 * rng.normal(size=STEPS)
    return ct.Recording(np.column_stack([speed, pressure]), power, name=f"week {week}")


@dataclass
class Fleet:
    """What is learned on from week to week: the sums of all weeks, and what the pumps carry."""

    algorithm: FederatedRidge
    state: Any = None
    memories: dict[str, Any] = field(default_factory=dict)
    fading: dict[str, RidgeStatistics] = field(default_factory=dict)  # by pump: old weeks fade

    def learn(self, new: Mapping[str, list[ct.Recording]]) -> dict[str, PersonalModels]:
        """Return the models after one more week; every pump sends the sums of what is new."""
        plan = Plan(algorithm=self.algorithm)
        done = run_locally(plan, new, memories=self.memories, onto=self.state)
        for name, sums in done.state.by_client.items():
            before = None if self.state is None else self.state.by_client[name]
            week = (sums if before is None else sums - before).floats
            old = self.fading.get(name)
            self.fading[name] = week if old is None else old.scaled(FORGETTING) + week
        self.state = done.state
        whole = {name: sums.floats for name, sums in done.state.by_client.items()}
        return {
            "forgets nothing": models_of(done.result, whole),
            f"forgetting {FORGETTING}": models_of(done.result, self.fading),
        }


def models_of(shared: ct.Model, by_pump: Mapping[str, RidgeStatistics]) -> PersonalModels:
    """Return the readout of everybody's sums, and one of each pump's own mixture."""
    every, own = reduce(add, by_pump.values()), {}
    for name, sums in by_pump.items():  # as if a pump had as many rows as all
        equal = sums.scaled(every.weight / sums.weight)
        own[name] = (every.scaled(0.5) + equal.scaled(0.5)).solve(RIDGE)
    return PersonalModels(replace(shared, readout=every.solve(RIDGE)), own)


def weekly_errors(n_weeks: int) -> tuple[dict[str, list[dict[str, float]]], list[list[str]]]:
    """Return NRMSE by pump ("" for all) in each week from the second on, and who drifted."""
    features = ct.EchoState(40, washout=20).build(2, per_step=True)
    fleet = Fleet(
        FederatedRidge(features=features, ridge=RIDGE, increments="new", false_positive_rate=0.02)
    )
    errors: dict[str, list[dict[str, float]]] = {}
    models: dict[str, PersonalModels] = {}
    changed: list[list[str]] = []
    past: list[Array] = []
    first: list[ct.Model] = []
    for week in range(1, n_weeks + 1):
        new = {f"pump {k}": [week_of(k, week)] for k in range(PUMPS)}
        if models:
            guesses: dict[str, Any] = {"first week's model": first[0]}
            for name, model in models.items():
                guesses |= {f"shared, {name}": model.model, f"personal, {name}": model}
            for name, guess in guesses.items():
                errors.setdefault(name, []).append(_scores(ct.evaluate(guess, new)))
            errors.setdefault("mean so far", []).append(_mean_errors(new, np.concatenate(past)))
        models = fleet.learn(new)
        first = first or [model.model for model in models.values()]
        past += [one.y for (one,) in new.values() if one.y is not None]
        found = fleet.algorithm.drifts(fleet.state)
        changed.append([f"{one.client} ({one.kind})" for one in found if one.round == week - 1])
    return errors, changed[1:]


def _scores(scores: ct.Scores) -> dict[str, float]:
    assert scores.total is not None
    return {"": scores.total.value, **{name: one.value for name, one in scores.by_client.items()}}


def _mean_errors(new: Mapping[str, list[ct.Recording]], past: Array) -> dict[str, float]:
    """Return the NRMSE of the mean of the past, for each pump and for all together."""
    targets = {name: one.y for name, (one,) in new.items() if one.y is not None}
    targets[""] = np.concatenate(list(targets.values()))
    return {
        n: float(np.sqrt(np.mean((y - past.mean()) ** 2)) / y.std()) for n, y in targets.items()
    }


def print_table(errors: dict[str, list[dict[str, float]]], changed: list[list[str]]) -> None:
    """Print week by week what each way erred, and who was noticed."""
    names = [name for name in errors if name.startswith(("shared", "personal"))]
    print("NRMSE of each week, predicted before it is learned from; who was noticed to change")
    print("week    " + "".join(f"{name:>27}" for name in names))
    for k, noticed in enumerate(changed):
        cells = "".join(f"{errors[name][k]['']:27.4f}" for name in names)
        print(f"{k + 2:4}    {cells}  {', '.join(noticed)}")
    for who in ("", f"pump {WORN}", f"pump {MOVED}"):
        print(f"\nmean NRMSE of {who or 'all pumps'}, weeks {WEARS_FROM} to {len(changed) + 1}")
        for name, weeks in errors.items():
            print(f"{name:30}  {np.mean([one[who] for one in weeks[WEARS_FROM - 2 :]]):.4f}")


def draw(errors: dict[str, list[dict[str, float]]], changed: list[list[str]], path: Path) -> None:
    """Draw the errors of all pumps and of the one that wears, and where drift was detected."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 6), layout="constrained")
    weeks = np.arange(2, len(changed) + 2)
    shown = [name for name in errors if name.startswith(("shared", "personal"))]
    panels = figure.subplots(2, 1, sharex=True)
    for axes, who in zip(panels, ("", f"pump {WORN}"), strict=True):
        detected = [
            week
            for week, found in zip(weeks, changed, strict=True)
            if any(text.startswith(f"{who} (") or not who for text in found)
        ]
        for week in detected:
            label = "drift detected" if week == detected[0] else ""
            axes.axvline(week, color="#6b7280", alpha=0.4, lw=3, zorder=0, label=label)
        for name in shown:
            style = "-" if "forgetting" in name else ":"
            color = "#0072b2" if name.startswith("personal") else "#d55e00"
            values = [one[who] for one in errors[name]]
            axes.plot(weeks, values, style, color=color, label=name)
        title = f"{who}, which wears from week {WEARS_FROM} on" if who else "all pumps"
        axes.set_title(title, loc="left")
        axes.set(ylabel="NRMSE of the new week", ylim=(0, None))
        axes.set_axisbelow(True)
        axes.grid(color="#e3e6ea", lw=0.6)
        axes.spines[:].set_color("#e3e6ea")
        axes.xaxis.get_major_locator().set_params(integer=True)
    panels[1].set_xlabel("week")
    lines, labels = panels[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="A fleet over weeks.")
    parser.add_argument("--quick", action="store_true", help="15 weeks instead of 20")
    parser.add_argument("--picture", type=Path, help="draw the weeks into this file")
    parser.add_argument("--results", type=Path, help="write all errors into this JSON file")
    asked = parser.parse_args()
    with single_blas_thread():  # many small systems: threads would only wait for each other
        errors, changed = weekly_errors(15 if asked.quick else WEEKS)
    print_table(errors, changed)
    if asked.results:
        kept = {"weeks from": 2, "NRMSE": errors, "changed": changed}
        asked.results.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if asked.picture:
        draw(errors, changed, asked.picture)


if __name__ == "__main__":
    main()
