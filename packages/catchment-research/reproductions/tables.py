"""Results as text: Markdown tables with the papers' figures beside ours, and what they show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

import numpy as np

from reproductions import incfed_tables, skew_tables
from reproductions.findings import findings
from reproductions.grids import grid
from reproductions.intervals import Interval, deviation, over_people
from reproductions.per_class import balanced, confusion, difference, interval, macro_f1, majority
from reproductions.published import SHARES, printed
from reproductions.study import SetResult, StudyResult, Value


def markdown(study: StudyResult) -> str:
    """Return a whole result as a Markdown document."""
    parts = [f"# {TITLES.get(study.name, study.name)}", _preamble(study)]
    for one in study.sets:
        parts += [f"## {one.name}", _about(one), *_sections(study.name, one), _traffic(one)]
        parts.append("\n".join(f"- {remark}" for remark in one.remarks))
    parts += ["## What it shows", "\n".join(f"- {line}" for line in findings(study))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _sections(study: str, one: SetResult) -> list[str]:
    if study == "skew":
        return skew_tables.sections(one)
    if study == "variance":
        return [pool_table(one), table(study, one), difference_table(study, one)]
    shown = incfed_tables.in_table(one) if study == "incfed" else one
    parts = [table(study, shown), difference_table(study, shown), training_table(study, shown)]
    parts += [confusion_table(one, method) for method in CONFUSED.get(study, ())]
    return [*parts, *(incfed_tables.sections(one) if study == "incfed" else [_selected(one)])]


# Methods whose classes are shown one by one.
CONFUSED = {"incfed": ("incfed", "fedavg-samples"), "unseen": ("incfed",)}
TITLES = {
    "incfed": "Readouts from sums, from averages, and from pooled data",
    "fedip": "Federated intrinsic plasticity before the exact readout",
    "skew": "What averages lose when clients differ",
    "variance": "Plasticity over several initializations",
    "unseen": "UCI HAR, the publisher's test subjects",
}


def table(study: str, one: SetResult) -> str:
    """Return a set's accuracies as a Markdown table, methods by rows and shares by columns.

    The last columns are of the largest share: all test people with an interval over them, the mean
    over classes of the share that is recognized, and that of F1.
    """
    last = one.shares[-1]
    shares = [f"{share:.0%}" for share in one.shares]
    people = f"{last:.0%}, over people"
    head = ["method", *shares, people, "balanced", "macro-F1", "spread over people"]
    rows = []
    for method in one.methods:
        known = interval(one, method, last)
        rows.append(
            [
                method,
                *(_entry(study, one, method, share) for share in one.shares),
                "-" if known is None else known.shown(),
                _number(balanced(one, method, last)),
                _f1(macro_f1(one, method, last)),
                _number(spread(one, method)),
            ]
        )
    always = majority(one, last)
    if always and "majority" not in one.methods:
        said = over_people(always)
        blank = ["" for _ in one.shares[:-1]]
        n, f1 = n_said(one), 2 * said.value / (1 + said.value)
        shown = [_number(said.value), said.shown(), _number(1 / n), _f1(f1 / n), "-"]
        rows.insert(0, ["majority", *blank, *shown])
    return grid(head, rows)


def pool_table(one: SetResult) -> str:
    """Return accuracies over draws of the reservoir: ways to adapt it by rows, poolings by columns.

    The cells' methods are named like `fedip / mean`.
    """
    ways = dict.fromkeys(method.split(" / ")[0] for method in one.methods)
    pools = dict.fromkeys(method.split(" / ")[1] for method in one.methods)
    rows = [
        [
            way,
            *(
                f"{_number(one.mean(f'{way} / {pool}', 1.0))} ± "
                f"{_number(one.deviation(f'{way} / {pool}', 1.0))}"
                for pool in pools
            ),
        ]
        for way in ways
    ]
    return grid([one.name, *pools], rows)


def spread(one: SetResult, method: str) -> float:
    """Return the deviation of the test people's accuracies, each over all repetitions."""
    found: dict[str, list[float]] = {}
    for cell in one.of(method, one.shares[-1]):
        for name, value in cell.by_subject.items():
            found.setdefault(name, []).append(value)
    return deviation([float(np.mean(values)) for values in found.values()])


def training_table(study: str, one: SetResult) -> str:
    """Return accuracies on the training people, for the paper that has them too; else nothing."""
    shares = [share for share in one.shares if share in SHARES]
    if study != "incfed" or not shares:
        return ""
    rows = [
        [method, *(_entry(study, one, method, share, "train") for share in shares)]
        for method in one.methods
        if not np.isnan(one.mean(method, shares[-1], "train"))
    ]
    return grid(["training accuracy", *(f"{share:.0%}" for share in shares)], rows)


def n_said(one: SetResult) -> int:
    """Return how many classes the test people have."""
    counts = confusion(one, one.methods[0], one.shares[-1])
    return len(one.classes) if counts is None else int((counts.confusion.sum(axis=1) > 0).sum())


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{100 * value:.1f}"


def _f1(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def _entry(
    study: str, one: SetResult, method: str, share: float, what: Literal["test", "train"] = "test"
) -> str:
    mean, sd = one.mean(method, share, what), one.deviation(method, share, what)
    if np.isnan(mean):
        return "-"
    text = f"{100 * mean:.2f}" + ("" if np.isnan(sd) else f" ± {100 * sd:.2f}")
    paper = printed(study, one.name, method, share, what)
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
            found = [(method, f"incfed-{method.split('-')[-1]}") for method in one.methods]
            return [(a, b) for a, b in found if a.startswith("fedip-") and b in one.methods]
        case "skew":
            found = [(m, f"incfed / any / {m.rpartition(' / ')[2]}") for m in one.methods]
            return [(a, b) for a, b in found if a != b and b in one.methods]
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
        "Test accuracy in per cent on unseen people: mean ± standard deviation (n - 1) "
        "over repetitions, of the mean over folds where there are several. *Over people* counts "
        "the sequences of all test people, with a 95 % interval over people and repetitions drawn "
        "with replacement; differences are paired by both, and bold where their interval leaves "
        "out 0. With fewer than about ten people intervals are too narrow. *Balanced* is the mean "
        "of the classes' recalls, *macro-F1* that of their F1, *spread* the deviation of the "
        "people's accuracies, *majority* always the most frequent class."
        f"{_brackets(study)}\n\n{kind} of {study.seconds:.0f} s, "
        f"the last part on {e.get('cores')} cores "
        f"({e.get('platform')}), {str(e.get('date'))[:10]}: catchment {e.get('catchment')}, Python "
        f"{e.get('python')}, numpy {e.get('numpy')}. Settings: "
        + ", ".join(f"{key} {value}" for key, value in study.settings.items())
        + "."
        + _without_people(study)
    )


def _without_people(study: StudyResult) -> str:
    """Return that there are no intervals over people, where a run did not keep what they need."""
    if not study.sets or any(cell.confusions for one in study.sets for cell in one.cells):
        return ""
    return (
        "\n\n**This run did not keep what each person's sequences were taken for: there are no "
        f"intervals over people.** `python -m reproductions {study.name}` makes them."
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
    rows = [
        [
            chosen.method + (f", fold {chosen.fold}" if folded else ""),
            _number(chosen.validation),
            _number(chosen.train),
            chosen.pool,
            ", ".join([_recipe(chosen.recipe), *_pairs(chosen.wiring or {})]),
            _rule(chosen.adaptation),
        ]
        for chosen in one.selected
    ]
    head = ["selected for", "validation", "training", "pool", "recipe", "plasticity"]
    return grid(head, rows)


def _rule(adaptation: dict[str, Value] | None) -> str:
    rule = None if adaptation is None else adaptation["rule"]
    if adaptation is None or not isinstance(rule, dict):
        return "-"
    return (
        f"mean {rule['target_mean']:.2g}, std {rule['target_std']:.3g}, "
        f"rate {rule['learning_rate']:.2g}, {rule['epochs']} epochs, {adaptation['rounds']} rounds"
        + _reading(rule)
    )


def _reading(rule: Mapping[str, Value]) -> str:
    """Return how a rule departs from an update a step by the corrected equation."""
    once = ", one update a batch" if rule.get("updates") == "batch" else ""
    return once + (", as printed" if rule.get("equation") == "printed" else "")


def _pairs(values: Mapping[str, Value]) -> list[str]:
    return [f"{name.replace('_', ' ')} {_short(value)}" for name, value in values.items()]


def _recipe(text: str) -> str:
    recipe = json.loads(text)
    names = ("units", "spectral_radius", "leak_rate", "input_scaling", "connections")
    return ", ".join(_pairs({name: recipe[name] for name in names if recipe.get(name)}))


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
                f"{t.bytes_back / n:.1f}" if t.bytes_back else "none counted",
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
