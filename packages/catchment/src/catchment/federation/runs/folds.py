"""What a run's folder says of a test by folds over clients."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

FACT = "folds"


@dataclass(frozen=True)
class Fold:
    """One fold: who was tested in it, on how many rows, and the score of those rows together.

    Parameters
    ----------
    worst
        The client with the worst score.
    untested
        Who could not be tested, and why.
    """

    clients: tuple[str, ...]
    rows: int
    score: float | None
    worst: str | None = None
    untested: Mapping[str, str] = field(default_factory=dict)


def folds_fact(folds: Iterable[Fold]) -> dict[str, str]:
    """Return the fact that a run's folder keeps of its folds."""
    return {FACT: json.dumps([asdict(one) for one in folds])}


def folds_of_run(facts: Mapping[str, str]) -> tuple[Fold, ...]:
    """Return the folds of a run's facts; none if it was tested otherwise.

    >>> folds_of_run(folds_fact([Fold(("ann",), 3, 0.5, "ann")]))[0].score
    0.5
    """
    return tuple(
        Fold(**{**one, "clients": tuple(one["clients"])})
        for one in json.loads(facts.get(FACT, "[]"))
    )


def folds_sentence(
    facts: Mapping[str, str],
    scores: Mapping[str, Mapping[str, float]],
    metric: str,
    *,
    who: str = "clients",
) -> str:
    """Return the score by folds, its range over them, and the worst client; nothing without folds.

    The first number is of all rows together, each predicted by a model that has not seen its
    client; the range is of the folds' own scores.

    Parameters
    ----------
    scores
        By client and metric; the client "" is all of them together.
    who
        What clients are called.

    >>> facts = folds_fact([Fold(("ann",), 2, 0.5, "ann"), Fold(("bob",), 2, 1.0, "bob")])
    >>> scores = {"": {"accuracy": 0.75}, "ann": {"accuracy": 0.5}, "bob": {"accuracy": 1.0}}
    >>> folds_sentence(facts, scores, "accuracy")
    '2 folds over clients: accuracy 0.75 (0.50 to 1.00), worst ann 0.50'
    """
    values = [one.score for one in folds_of_run(facts) if one.score is not None]
    if not values or metric not in scores.get("", {}):
        return ""
    said = f"{len(values)} folds over {who}: {metric} {scores[''][metric]:.2f}"
    worst = worst_client(scores, metric)
    said += f" ({min(values):.2f} to {max(values):.2f})"
    return f"{said}, worst {worst} {scores[worst][metric]:.2f}" if worst else said


def worst_client(scores: Mapping[str, Mapping[str, float]], metric: str) -> str:
    """Return the client with the worst score, the first by name of several; "" if there is none.

    >>> worst_client({"": {"NRMSE": 0.2}, "ann": {"NRMSE": 0.3}, "bob": {"NRMSE": 0.1}}, "NRMSE")
    'ann'
    """
    named = {name: one[metric] for name, one in scores.items() if name and metric in one}
    worst = min if metric == "accuracy" else max
    return worst(sorted(named), key=named.__getitem__, default="")
