"""The study of uneven clients as text: what each method has at every dealing of the windows."""

from __future__ import annotations

import json

import numpy as np

from reproductions.grids import grid
from reproductions.intervals import Interval
from reproductions.per_class import macro_f1
from reproductions.study import SetResult, StudyResult

ANY = "any"
EVEN = "iid"


def pools(one: SetResult) -> tuple[str, ...]:
    """Return the poolings that a result has."""
    return tuple(dict.fromkeys(method.split(" / ")[2] for method in one.methods))


def dealings(one: SetResult) -> tuple[str, ...]:
    """Return the dealings of a result, the most uneven first."""
    named = (method.split(" / ")[1] for method in one.methods)
    return tuple(name for name in dict.fromkeys(named) if name != ANY)


def measured(one: SetResult, name: str, dealing: str) -> float:
    """Return the mean of a measure over folds and initializations."""
    values = [m.value for m in one.measures if m.name == name and m.method == dealing]
    return float(np.mean(values)) if values else float("nan")


def gain(one: SetResult, method: str, pool: str) -> Interval:
    """Return how far a method is ahead of the exact readout of reservoirs as drawn."""
    return one.difference(f"{method} / {pool}", f"incfed / {ANY} / {pool}", 1.0)


def sections(one: SetResult) -> list[str]:
    """Return the tables of one set."""
    parts = [
        "Label distance: how far clients' classes are from all together (total variation). Drift: "
        "mean squared distance of clients' gains and shifts from the server's average after the "
        "first round.",
        _measures(one),
    ]
    for pool in pools(one):
        parts += [
            f"Pooled by {pool}: test accuracy ± deviation over initializations, in brackets the "
            "macro-F1 of all test windows together, and what plasticity adds to the exact readout, "
            "over people and initializations.",
            _accuracies(one, pool),
        ]
    return [*parts, "What was selected.", _selected(one)]


def _measures(one: SetResult) -> str:
    rows = [
        [
            name,
            f"{measured(one, 'label distance', name):.3f}",
            f"{measured(one, 'drift of gains', name):.2e}",
            f"{measured(one, 'drift of shifts', name):.2e}",
        ]
        for name in dealings(one)
    ]
    return grid(["dealing", "label distance", "drift of gains", "drift of shifts"], rows)


def _accuracies(one: SetResult, pool: str) -> str:
    kinds = [k for k in ("fedavg", "rounds", "fedip") if _has(one, k, pool)]
    titles = {"fedavg": "average of readouts", "rounds": "average by rounds", "fedip": "FedIP"}
    head = ["dealing", "exact sum", *(titles[kind] for kind in kinds), "FedIP adds"]
    rows = []
    for name in dealings(one):
        values = [_entry(one, f"{kind} / {name} / {pool}") for kind in kinds]
        added = gain(one, f"fedip / {name}", pool).shown(sign=True)
        rows.append([name, _entry(one, f"incfed / {ANY} / {pool}"), *values, added])
    last = _entry(one, f"moments / {ANY} / {pool}")
    blank = ["-"] * (len(kinds) - 1)
    added = gain(one, f"moments / {ANY}", pool).shown(sign=True)
    rows.append(["moments, any", _entry(one, f"incfed / {ANY} / {pool}"), *blank, last, added])
    return grid(head, rows)


def _has(one: SetResult, kind: str, pool: str) -> bool:
    return any(m.startswith(f"{kind} / ") and m.endswith(f" / {pool}") for m in one.methods)


def _entry(one: SetResult, method: str) -> str:
    spread, f1 = 100 * one.deviation(method, 1.0), macro_f1(one, method, 1.0)
    return f"{100 * one.mean(method, 1.0):.2f} ± {spread:.2f} ({f1:.3f})"


def _selected(one: SetResult) -> str:
    rows = []
    for chosen in one.selected:
        recipe, rule = json.loads(chosen.recipe), chosen.adaptation or {}
        names = ("spectral_radius", "leak_rate", "input_scaling")
        inner = rule.get("rule")
        target = inner if isinstance(inner, dict) else {}
        rows.append(
            [
                str(chosen.fold),
                *(f"{recipe[name]:.3g}" for name in names),
                f"{target.get('target_mean')}",
                f"{target.get('target_std')}",
                f"{100 * chosen.validation:.2f}",
            ]
        )
    head = ["fold", "spectral radius", "leaking rate", "input scaling", "target mean"]
    return grid([*head, "target width", "validation, before plasticity"], rows)


def findings(study: StudyResult) -> list[str]:
    """Return what the result shows, one sentence each."""
    lines = []
    for one in study.sets:
        lines.append(
            f"{one.name}: exact scores differ by at most {one.largest_gap:.0e} between dealings"
        )
        worst = dealings(one)[0]
        for pool in pools(one):
            lines.append(_gain_sentence(one, worst, pool))
        first = pools(one)[0]
        lost = one.difference(f"fedavg / {worst} / {first}", f"fedavg / {EVEN} / {first}", 1.0)
        ratio = measured(one, "drift of gains", worst) / measured(one, "drift of gains", EVEN)
        lines += [
            f"{one.name}: one-shot averages of readouts have {lost.shown(sign=True)} points at "
            f"{worst} against {EVEN}",
            f"{one.name}: gains drift {ratio:.1f} times as far apart at {worst} as at {EVEN}",
        ]
    return lines


def _gain_sentence(one: SetResult, worst: str, pool: str) -> str:
    at_worst, at_even = (gain(one, f"fedip / {name}", pool) for name in (worst, EVEN))
    change = one.difference(f"fedip / {worst} / {pool}", f"fedip / {EVEN} / {pool}", 1.0)
    spread = " and ".join(
        f"{100 * one.deviation(f'fedip / {name} / {pool}', 1.0):.2f} at {name}"
        for name in (worst, EVEN)
    )
    plain = 100 * one.deviation(f"incfed / {ANY} / {pool}", 1.0)
    return (
        f"{one.name}, {pool}: FedIP adds {at_worst.shown(sign=True)} points at {worst}, "
        f"{at_even.shown(sign=True)} at {EVEN}; between the two {change.shown(sign=True)}. "
        f"Deviation over initializations {spread}, {plain:.2f} without plasticity"
    )
