"""The tables that the page of experiments quotes from results on people."""

from __future__ import annotations

from reproductions.grids import grid
from reproductions.incfed_tables import AVERAGE, CHOSEN_AT, EXACT, reached, rounds_of
from reproductions.per_class import balanced, macro_f1
from reproductions.skew_tables import ANY, dealings, gain, measured, pools
from reproductions.study import SetResult, StudyResult

SHOWN = {"majority": "largest class", EXACT: "exact sum", AVERAGE: "average"}


def incfed_accuracies(study: StudyResult) -> str:
    """Return each set's accuracies: tests by share, then people, classes and training."""
    shares = study.sets[0].shares
    head = ["set", "method", *(f"{share:.0%}" for share in shares)]
    head += ["100%, over people", "balanced", "macro-F1", f"training, {shares[0]:.0%} and 100%"]
    rows = []
    for one in study.sets:
        for method, name in SHOWN.items():
            last = one.shares[-1]
            known = [100 * one.mean(method, share, "train") for share in (one.shares[0], last)]
            rows.append(
                [
                    one.name,
                    name,
                    *(_mean(one, method, share) for share in one.shares),
                    one.interval(method, last).shown(),
                    f"{100 * balanced(one, method, last):.1f}",
                    f"{macro_f1(one, method, last):.3f}",
                    " and ".join(f"{value:.1f}" for value in known),
                ]
            )
    return grid(head, rows)


def incfed_differences(study: StudyResult) -> str:
    """Return each set's paired differences: sum and average, rounds, and choices from fewer."""
    shares = study.sets[0].shares
    head = ["set", "people", *(f"sum - average, {share:.0%}" for share in shares)]
    head += ["rounds to near", "chosen at 25%, sum", "chosen at 25%, average"]
    rows = []
    for one in study.sets:
        gaps = [one.difference(EXACT, AVERAGE, share).shown(sign=True) for share in shares]
        n = reached(one)
        near = f"not in {rounds_of(one)[-1]:,}" if n is None else f"{n:,}"
        few = [
            one.difference(f"{method}{CHOSEN_AT}25%", other, 1.0).shown(sign=True)
            for method, other in (("incfed", EXACT), ("fedavg", AVERAGE))
        ]
        people = str(one.interval(EXACT, 1.0).n_people)
        rows.append([one.name, people, *gaps, near, *few])
    return grid(head, rows)


def _mean(one: SetResult, method: str, share: float) -> str:
    text = f"{100 * one.mean(method, share):.1f}"
    return text if method == "majority" else f"{text} ± {100 * one.deviation(method, share):.1f}"


def skew_gains(study: StudyResult) -> str:
    """Return for each set and dealing what averages have, and what plasticity adds."""
    names = pools(study.sets[0])
    head = ["set", "dealing", "label distance", "exact sum", "average", "by rounds"]
    head += [f"FedIP adds, {pool}" for pool in names] + ["drift of gains"]
    rows = []
    for one in study.sets:
        first = pools(one)[0]
        exact = _mean(one, f"incfed / {ANY} / {first}", 1.0)
        for name in dealings(one):
            rows.append(
                [
                    one.name,
                    name,
                    f"{measured(one, 'label distance', name):.2f}",
                    exact,
                    _mean(one, f"fedavg / {name} / {first}", 1.0),
                    _mean(one, f"rounds / {name} / {first}", 1.0),
                    *(gain(one, f"fedip / {name}", pool).shown(sign=True) for pool in pools(one)),
                    f"{measured(one, 'drift of gains', name):.4f}",
                ]
            )
        added = [gain(one, f"moments / {ANY}", pool).shown(sign=True) for pool in pools(one)]
        rows.append([one.name, "any: moments", "-", exact, "-", "-", *added, "-"])
    return grid(head, rows)


def skew_deviations(study: StudyResult) -> str:
    """Return for each set and pooling the deviation over initializations, by dealing."""
    names = dealings(study.sets[0])
    rows = []
    for one in study.sets:
        for pool in pools(one):
            ways = [f"incfed / {ANY}", f"moments / {ANY}", *(f"fedip / {name}" for name in names)]
            values = [100 * one.deviation(f"{way} / {pool}", 1.0) for way in ways]
            rows.append([one.name, pool, *(f"{value:.2f}" for value in values)])
    return grid(["set", "pooled by", "no plasticity", "moments", *names], rows)
