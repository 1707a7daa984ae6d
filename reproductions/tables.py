"""Results as text: Markdown tables with the papers' figures beside ours, and what they show."""

from __future__ import annotations

from typing import Literal

import numpy as np

from reproductions import incfed_tables, skew_tables
from reproductions.findings import findings
from reproductions.grids import grid
from reproductions.intervals import Interval, over_people
from reproductions.per_class import balanced, confusion, difference, interval, majority
from reproductions.published import printed
from reproductions.study import SetResult, StudyResult


def markdown(study: StudyResult) -> str:
    """Return a whole result as a Markdown document."""
    parts = [f"# {TITLES.get(study.name, study.name)}", _preamble(study)]
    for one in study.sets:
        own = OWN.get(study.name)
        parts += [f"## {one.name}", _about(one)]
        parts += _sections(study.name, one) if own is None else own(one)
        parts.append(_traffic(one))
        parts.append("\n".join(f"- {remark}" for remark in one.remarks))
    parts += ["## What it shows", "\n".join(f"- {line}" for line in findings(study))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _sections(study: str, one: SetResult) -> list[str]:
    parts = [table(study, one), difference_table(study, one)]
    parts += [confusion_table(one, method) for method in CONFUSED.get(study, ())]
    return [*parts, _selected(one)]


# Studies that have a module for their tables.
OWN = {"incfed": incfed_tables.sections, "skew": skew_tables.sections}
# Methods whose classes are shown one by one.
CONFUSED = {"unseen": ("incfed",)}
TITLES = {
    "incfed": "Readouts from sums, from averages, and from pooled data",
    "fedip": "Federated intrinsic plasticity before the exact readout",
    "skew": "What averages lose when clients differ",
    "variance": "Plasticity over several initialisations",
    "unseen": "UCI HAR, the publisher's test subjects",
}


def table(study: str, one: SetResult) -> str:
    """Return a set's accuracies as a Markdown table, methods by rows and shares by columns.

    The last columns are of the largest share: all test people with an interval over them, and the
    mean over classes of the share that is recognised.
    """
    last = one.shares[-1]
    shares = [f"{share:.0%}" for share in one.shares]
    head = ["method", *shares, f"{last:.0%}, over people", "balanced", "spread over people"]
    rows = []
    for method in one.methods:
        known = interval(one, method, last)
        spread = np.mean([c.spread for c in one.of(method, last)] or [np.nan])
        rows.append(
            [
                method,
                *(_entry(study, one, method, share) for share in one.shares),
                "-" if known is None else known.shown(),
                _number(balanced(one, method, last)),
                _number(float(spread)),
            ]
        )
    always = majority(one, last)
    if always and "majority" not in one.methods:
        said = over_people(always)
        blank = ["" for _ in one.shares[:-1]]
        rows.insert(
            0,
            ["majority", *blank, _number(said.value), said.shown(), _number(1 / n_said(one)), "-"],
        )
    return grid(head, rows)


def n_said(one: SetResult) -> int:
    """Return how many classes the test people have."""
    counts = confusion(one, one.methods[0], one.shares[-1])
    return len(one.classes) if counts is None else int((counts.confusion.sum(axis=1) > 0).sum())


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{100 * value:.1f}"


def _entry(
    study: str, one: SetResult, method: str, share: float, what: Literal["test", "train"] = "test"
) -> str:
    mean, deviation = one.mean(method, share, what), one.deviation(method, share, what)
    if np.isnan(mean):
        return "-"
    text = f"{100 * mean:.2f}" + ("" if np.isnan(deviation) else f" ± {100 * deviation:.2f}")
    paper = printed(study, one.name, method, share) if what == "test" else None
    return text if paper is None else f"{text} ({paper:.2f})"


def difference_table(study: str, one: SetResult) -> str:
    """Return paired differences in points with intervals over people, bold where they are settled.

    Nothing if the study compares no two methods, or nobody's counts are known.
    """
    rows = []
    for method, other in pairs(study, one):
        found = [difference(one, method, other, share) for share in one.shares]
        if any(found):
            rows.append([f"{method} - {other}", *map(_shown, found)])
    head = ["difference in points", *(f"{share:.0%}" for share in one.shares)]
    return grid(head, rows) if rows else ""


def _shown(found: Interval | None) -> str:
    if found is None:
        return "-"
    text = found.shown(sign=True)
    return f"**{text}**" if found.settled else text


def pairs(study: str, one: SetResult) -> list[tuple[str, str]]:
    """Return the comparisons that a study is about, each as a method and what it is set against."""
    match study:
        case "incfed":
            return [("incfed", method) for method in one.methods if method.startswith("fedavg")]
        case "fedip":
            found = [(method, f"incfed{method[5:]}") for method in one.methods]
            return [(a, b) for a, b in found if a.startswith("fedip-") and b in one.methods]
        case "variance":
            found = [(method, f"none / {method.split(' / ')[1]}") for method in one.methods]
            return [(a, b) for a, b in found if a != b]
    return []


def confusion_table(one: SetResult, method: str) -> str:
    """Return how often each class was said, in per cent of each true class; nothing if unknown."""
    counts = confusion(one, method, one.shares[-1])
    if counts is None:
        return ""
    table = counts.confusion / np.maximum(counts.confusion.sum(axis=1, keepdims=True), 1)
    rows = [
        [name, *(f"{100 * value:.0f}" for value in row)]
        for name, row in zip(one.classes, table, strict=True)
    ]
    return grid([f"{method}: true \\ said", *one.classes], rows)


def _preamble(study: StudyResult) -> str:
    e = study.environment
    kind = "A quick run" if study.quick else "A full run"
    return (
        "Test accuracy in per cent on people nobody trained on: mean ± standard deviation (n - 1) "
        "over repetitions, of the mean over folds where there are several. *Over people* counts "
        "the sequences of all test people, with a 95 % interval over people and repetitions drawn "
        "with replacement; differences are paired by both, and bold where their interval leaves "
        "out 0. With fewer than about ten people intervals are too narrow. *Balanced* is the mean "
        "of the classes' recalls, *spread* the deviation of the people's accuracies, *majority* "
        f"always the most frequent class.{_brackets(study)}\n\n{kind} of {study.seconds:.0f} s, "
        f"the last part on {e.get('cores')} cores "
        f"({e.get('platform')}), {str(e.get('date'))[:10]}: catchment {e.get('catchment')}, Python "
        f"{e.get('python')}, numpy {e.get('numpy')}. Settings: "
        + ", ".join(f"{key} {value}" for key, value in study.settings.items())
        + "."
    )


def _brackets(study: StudyResult) -> str:
    """Return what the figures in brackets are, and on whose data; nothing if there are none."""
    beside = [
        one
        for one in study.sets
        if any(printed(study.name, one.name, m, s) for m in one.methods for s in one.shares)
    ]
    if not beside:
        return ""
    others = [one.name for one in beside if is_stand_in(one)]
    text = " In brackets the paper's figure where it has one"
    if not others:
        return f"{text}."
    return f"{text}; the data of {' and '.join(others)} are not the paper's: see the notes."


def is_stand_in(one: SetResult) -> bool:
    """Return whether a set was not read from its publisher's own files."""
    return any("compact form" in note for note in one.notes)


def _about(one: SetResult) -> str:
    folds = {cell.fold for cell in one.cells}
    s = one.subjects
    known = {name for cell in one.cells for name in cell.by_subject}
    if len(folds) > 1:
        people = (
            f"{len(known)} people tested, in {len(folds)} folds; in each about {s['train']} train, "
            f"{s['validation']} validate and {s['test']} test"
        )
    else:
        people = f"{s['train']} people train, {s['validation']} validate, {s['test']} test"
    return (
        f"{people}; {one.n_sequences:,} sequences of {len(one.classes)} classes; "
        f"{one.seconds:.0f} s. " + " ".join(f"{note}." for note in one.notes)
    )


def _selected(one: SetResult) -> str:
    if not one.selected:
        return ""
    folded = len({chosen.fold for chosen in one.selected}) > 1
    rows = []
    for chosen in one.selected:
        rule = chosen.adaptation
        text = "-"
        if rule is not None and isinstance(rule["rule"], dict):
            r = rule["rule"]
            text = (
                f"mean {r['target_mean']:.2g}, std {r['target_std']:.3g}, "
                f"rate {r['learning_rate']:.2g}, {r['epochs']} epochs, {rule['rounds']} rounds"
            )
        rows.append(
            [
                chosen.method + (f", fold {chosen.fold}" if folded else ""),
                f"{100 * chosen.validation:.2f}",
                chosen.pool,
                _recipe(chosen.recipe),
                text,
            ]
        )
    return grid(["selected for", "validation", "pool", "recipe", "plasticity"], rows)


def _recipe(text: str) -> str:
    import json

    recipe = json.loads(text)
    names = ("units", "spectral_radius", "leak_rate", "input_scaling", "connections")
    return ", ".join(
        f"{name.replace('_', ' ')} {_short(recipe[name])}" for name in names if recipe.get(name)
    )


def _short(value: object) -> str:
    if isinstance(value, list):
        return "/".join(_short(item) for item in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _traffic(one: SetResult) -> str:
    """Return what the plans cost; what comes down includes the model that is sent back."""
    rows = []
    for t in one.traffic:
        n = max(t.n_clients, 1) * 1024
        rows.append(
            [
                t.method,
                str(t.n_clients),
                str(t.rounds),
                f"{t.bytes_up / n:.1f}",
                f"{(t.bytes_down + t.bytes_back) / n:.1f}",
                f"{t.bytes_back / n:.1f}" if t.bytes_back else "not counted",
                f"{t.seconds:.1f}",
            ]
        )
    head = [
        "plan",
        "clients",
        "rounds",
        "KiB up each",
        "KiB down each",
        "of it the model sent back",
    ]
    return grid([*head, "seconds"], rows) if rows else ""
