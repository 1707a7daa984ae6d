"""IncFed's result as text: accuracies beside the paper's, choices, rounds, and confusions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from reproductions.grids import grid
from reproductions.intervals import Interval, paired
from reproductions.per_class import difference
from reproductions.published import INCFED_SELECTED
from reproductions.study import Selected, SetResult, StudyResult

EXACT, AVERAGE = "incfed", "fedavg-samples"
BASELINES = ("random", "majority")
ROUNDS = "rounds-"
CHOSEN_AT = ", chosen at "
NEAR = 0.005  # of the exact readout's accuracy: half a point


def in_table(one: SetResult) -> SetResult:
    """Return a set's result with the methods of the paper's own table only."""
    return replace(one, cells=tuple(cell for cell in one.cells if _is_in_table(cell.method)))


def _is_in_table(method: str) -> bool:
    return not method.startswith(ROUNDS) and CHOSEN_AT not in method


def sections(one: SetResult) -> list[str]:
    """Return the further tables of one set, each after a line that says what it is."""
    parts = []
    if one.selected:
        parts += ["What was selected (the paper's Tables III and IV).", selected(one)]
    if any(CHOSEN_AT in method for method in one.methods):
        parts += ["Recipes chosen with fewer training subjects, minus the table's.", chosen_at(one)]
    if rounds_of(one):
        parts += ["Averaging by rounds of gradient steps, all subjects, repetition 0.", rounds(one)]
    return parts


def selected(one: SetResult) -> str:
    """Return the recipes of every fold, and the paper's."""
    head = ["for", "fold", "units", "spectral radius", "leaking rate", "input scaling"]
    head += ["input connectivity", "recurrent connectivity", "training", "validation"]
    rows = []
    for chosen in sorted(one.selected, key=lambda c: (c.method, c.fold)):
        rows.append([chosen.method, str(chosen.fold), *_chosen(chosen)])
    for method, paper in INCFED_SELECTED.get(one.name, {}).items():
        values: list[float] = [paper.units, paper.spectral_radius, paper.leak_rate]
        values += [paper.input_scaling, paper.input_connectivity, paper.recurrent_connectivity]
        row = [f"{value:g}" for value in values]
        rows.append([method, "paper", *row, f"{paper.train:.2f}", f"{paper.validation:.2f}"])
    return grid(head, rows)


def _chosen(chosen: Selected) -> list[str]:
    recipe = json.loads(chosen.recipe)
    names = ("units", "spectral_radius", "leak_rate", "input_scaling")
    wiring = chosen.wiring or {"input": "-", "recurrent": "-"}
    return [
        *(f"{recipe[name]:.3g}" for name in names),
        str(wiring["input"]),
        str(wiring["recurrent"]),
        f"{100 * chosen.train:.2f}",
        f"{100 * chosen.validation:.2f}",
    ]


def chosen_at(one: SetResult) -> str:
    """Return what a choice from fewer subjects changes, at every share."""
    rows = []
    for method in one.methods:
        plain, _, at = method.partition(CHOSEN_AT)
        if not at:
            continue
        other = AVERAGE if plain == "fedavg" else plain
        changes = [one.difference(method, other, share).shown(sign=True) for share in one.shares]
        rows.append([f"{plain}, at {at}", *changes])
    return grid(["chosen for", *(f"{share:.0%}" for share in one.shares)], rows)


def rounds_of(one: SetResult) -> list[int]:
    """Return the rounds after which averaging by gradient steps was looked at."""
    return sorted(int(m.removeprefix(ROUNDS)) for m in one.methods if m.startswith(ROUNDS))


def behind(one: SetResult, n: int) -> Interval:
    """Return how far rounds of averaging are ahead of the exact readout of the same repetition."""
    return paired(one.counts(f"{ROUNDS}{n}", 1.0)[:1], one.counts(EXACT, 1.0)[:1])


def reached(one: SetResult) -> int | None:
    """Return the first of the rounds looked at in which averaging is near the exact readout.

    Near is within half a point of its test accuracy; None if no round is.
    """
    return next((n for n in rounds_of(one) if behind(one, n).value >= -NEAR), None)


def rounds(one: SetResult) -> str:
    """Return accuracy and bytes by rounds."""
    units = np.mean([json.loads(c.recipe)["units"] for c in one.selected if c.method == EXACT])
    each = 2 * (units + 1) * len(one.classes) * 8 / 1024
    rows = [
        [
            str(n),
            f"{100 * one.mean(f'{ROUNDS}{n}', 1.0):.2f}",
            behind(one, n).shown(sign=True),
            f"{n * each:,.0f}",
        ]
        for n in rounds_of(one)
    ]
    return grid(["rounds", "test", "minus the exact sum", "KiB each, both ways"], rows)


def never_said(one: SetResult) -> Iterator[str]:
    """Yield a sentence for each method that, in some training, never says a class it was shown."""
    for method in in_table(one).methods:
        if method in BASELINES or method == "centralized":
            continue
        for k, name in enumerate(one.classes):
            found = [(share, *_silent(one, method, share, k)) for share in one.shares]
            where = [
                f"at {share:.0%}" if silent == n else f"in {silent} of {n} trainings at {share:.0%}"
                for share, silent, n in found
                if silent
            ]
            if where:
                yield f"{one.name}: {method} never says {name} {', '.join(where)}"


def _silent(one: SetResult, method: str, share: float, k: int) -> tuple[int, int]:
    """Return in how many trainings a class that occurs is never predicted, and of how many."""
    counts = [cell.confusion.confusion for cell in one.of(method, share) if cell.confusions]
    occurs = [c for c in counts if c[k].sum() > 0]
    return sum(c[:, k].sum() == 0 for c in occurs), len(counts)


def findings(study: StudyResult) -> list[str]:
    """Return what the result shows, one sentence each."""
    known = [one for one in study.sets if difference(one, EXACT, AVERAGE, one.shares[-1])]
    if not known:
        return []
    better, worse, n = ahead_in(known)
    lines = [
        f"the exact sum is ahead of the average by samples in {better} of {n} sets and shares and "
        f"behind in {worse}, counting differences whose interval over people leaves out zero"
    ]
    for one in known:
        lines += [_ahead_sentence(one), _training_sentence(one)]
        if rounds_of(one):
            lines.append(_rounds_sentence(one))
        lines += never_said(one)
    return lines


def _ahead_sentence(one: SetResult) -> str:
    last = one.shares[-1]
    gap = one.difference(EXACT, AVERAGE, last)
    settled = "settled" if gap.settled else "not settled"
    return (
        f"{one.name}: {EXACT} is {gap.shown(sign=True)} points ahead of {AVERAGE} at {last:.0%} "
        f"({gap.n_people} people; {settled})"
    )


def _training_sentence(one: SetResult) -> str:
    def curve(method: str) -> str:
        first, last = one.mean(method, one.shares[0], "train"), one.mean(method, 1.0, "train")
        return f"{100 * first:.1f} to {100 * last:.1f}"

    return (
        f"{one.name}: from {one.shares[0]:.0%} to 100% of the subjects training accuracy goes from "
        f"{curve(AVERAGE)} (average) and {curve(EXACT)} (exact sum)"
    )


def _rounds_sentence(one: SetResult) -> str:
    n, last = reached(one), rounds_of(one)[-1]
    if n is None:
        when = f"comes within half a point of the exact sum in none of the rounds, up to {last}"
    elif n == 1:
        when = "is within half a point of the exact sum in the first round"
    else:
        when = f"is first within half a point of the exact sum after {n} rounds"
    at_last = behind(one, last).shown(sign=True)
    return (
        f"{one.name}: averaging by gradient steps {when}; after {last} it is {at_last} points off"
    )


def ahead_in(sets: Sequence[SetResult]) -> tuple[int, int, int]:
    """Return how many sets and shares have the exact sum ahead, how many behind, of how many.

    Only differences whose interval over people leaves out zero are counted.
    """
    gaps = [one.difference(EXACT, AVERAGE, share) for one in sets for share in one.shares]
    better = sum(gap.settled and gap.value > 0 for gap in gaps)
    return better, sum(gap.settled and gap.value < 0 for gap in gaps), len(gaps)
