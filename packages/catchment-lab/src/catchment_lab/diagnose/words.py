"""How one person is served, in plain words: for the terminal, and sentences for the page."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable

import numpy as np

from catchment_lab.diagnose.reasons import said
from catchment_lab.diagnose.records import Served
from catchment_lab.diagnose.repairs import times
from catchment_lab.diagnose.shift import ChannelShift

HEURISTIC = (
    "These are rules of thumb, the likeliest first: they say where to look and prove nothing."
)
NOTHING = "Nothing stands out"
MOST_SHOWN = 6


def served_in_words(one: Served) -> str:
    """Return all that is known of how a person is served, as text for a terminal."""
    parts: list[tuple[str, Iterable[str]]] = [
        ("", score_lines(one)),
        ("Likely reasons", conclusion_lines(one)),
        ("What was taken for what", confusion_lines(one)),
        ("Their recordings beside the others'", quantity_lines(one)),
        ("Their channels", map(channel_line, far_channels(one))),
        ("Their features", feature_lines(one)),
        ("Their classes", class_lines(one)),
        ("A readout of their own", personal_lines(one)),
        ("Their worst recordings", (f"recording {w.number + 1}: {w.words}" for w in one.worst)),
    ]
    lines = [f"How {one.client} is served"]
    for heading, found in parts:
        listed = list(found)
        if listed:
            lines += ["", *([heading] if heading else []), *map(_wrapped, listed)]
    return "\n".join(lines) + "\n"


def _wrapped(line: str) -> str:
    begin = "     " if line[:1].isdigit() or line.startswith(" ") else "  "
    return textwrap.fill(line, 100, initial_indent="  ", subsequent_indent=begin + "  ")


def score_lines(one: Served) -> list[str]:
    """Return the score, its place among all, and which model it is of."""
    if math.isnan(one.value):
        return [one.how, *one.notes]
    n, median = len(one.others) + 1, one.evidence.median
    rows = f"{one.rows} row{'' if one.rows == 1 else 's'}"
    text = f"{one.metric} {said(one.value, one.metric)} of {rows}"
    if n > 1:
        text += f": {_place(one.place)} of {n}; the others' median is {said(median, one.metric)}"
    return [text, one.how, *one.notes]


def _place(place: int) -> str:
    if place == 1:
        return "the worst"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10 if place % 100 not in (11, 12, 13) else 0)
    return f"the {place}{ending or 'th'} worst"


def conclusion_lines(one: Served) -> list[str]:
    """Return likely reasons with what supports them and what to do, or that nothing stands out."""
    if math.isnan(one.value):
        return []
    if not one.others:
        return [f"{NOTHING}: nobody else was tested, so that there is nothing to compare with."]
    if not one.is_badly_served:
        return [f"{NOTHING}: {one.client} is served about as the others are."]
    if not one.reasons:
        return [
            f"{NOTHING}: {one.client} is served worse than usual, and none of the faults that are "
            "looked for here (turned sensor, unit, rate, level, labels, classes, gaps, few rows) "
            "explains it."
        ]
    lines = []
    for k, reason in enumerate(one.reasons, start=1):
        lines += [f"{k}. {reason.name}: {reason.words}", f"   To do: {reason.action}."]
    return [*lines, HEURISTIC]


def confusion_lines(one: Served) -> list[str]:
    """Return the confusions that cost most, beside how often others have them."""
    counts, others = one.confusion, one.others_confusion
    if counts is None:
        return []
    sizes = counts.sum(axis=1)
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_SHOWN]
    lines = []
    for i, j in zip(*np.unravel_index(order, counts.shape), strict=True):
        if not wrong[i, j]:
            break
        text = f"{one.names[i]} taken for {one.names[j]}: {counts[i, j]} of {sizes[i]}"
        if others is not None and others[i].sum():
            text += f" ({100 * counts[i, j] / sizes[i]:.0f} %; of the others' "
            text += f"{100 * others[i, j] / others[i].sum():.0f} %)"
        lines.append(text)
    return lines or ["nothing: every row is right"]


def quantity_lines(one: Served) -> list[str]:
    """Return how many recordings there are, how long and how fast."""
    return [
        f"{q.name}: {_short(q.own)}; the others' median is {_short(q.others)}"
        for q in one.quantities
    ]


def far_channels(one: Served) -> list[ChannelShift]:
    """Return the channels that stand out, the furthest first; the furthest one if none does."""
    order = sorted(one.channels, key=lambda c: -_far(c))
    return [c for c in order if c.stands_out][:MOST_SHOWN] or order[:1]


def _far(c: ChannelShift) -> float:
    return max(abs(c.mean_shift), abs(c.spread_shift))


def channel_line(c: ChannelShift) -> str:
    """Return in a sentence how a channel differs from the others'.

    >>> print(channel_line(ChannelShift("ax", 2, 1, 5, 3.1, 3.1, 7, 0.6, 0.1, 0.2, 0, 0, 1)))
    ax has 3.1 times the spread of the others; its mean is 2 (theirs 1), 5.0 between-person
    deviations above; Kolmogorov-Smirnov distance 0.60 (between others 0.10, at most 0.20)
    """
    way = "above" if c.mean_shift > 0 else "below"
    text = (
        f"{c.name} has {times(c.spread_ratio)} times the spread of the others; its mean is "
        f"{_short(c.mean)} (theirs {_short(c.others_mean)}), {abs(c.mean_shift):.1f} "
        f"between-person deviations {way}; Kolmogorov-Smirnov distance {c.distance:.2f} (between "
        f"others {c.usual:.2f}, at most {c.most:.2f})"
    )
    if not c.stands_out:
        text += "; no channel stands out, this one lies furthest"
    if c.missing > 0.01 or c.others_missing > 0.01:
        text += f"; {100 * c.missing:.0f} % missing (theirs {100 * c.others_missing:.0f} %)"
    return text


def feature_lines(one: Served) -> list[str]:
    """Return how far the features lie off, and which lie furthest."""
    f = one.features
    if f is None:
        return []
    lines = [
        f"a typical feature lies {f.distance:.2f} deviations from the others' mean; of another "
        f"person it is {f.usual:.2f}, at most {f.most:.2f}"
    ]
    named = ", ".join(f"{name} ({by:+.1f})" for name, by in f.furthest)
    return [*lines, f"furthest: {named}"] if named else lines


def class_lines(one: Served) -> list[str]:
    """Return the classes that they lack or have far more or less of."""
    lines = [
        f"{c.name}: none; the others have {100 * c.others:.0f} %"
        for c in one.classes
        if not c.rows and c.others > 0.02
    ]
    lines += [
        f"{c.name}: {100 * c.share:.0f} %; the others have {100 * c.others:.0f} %"
        for c in one.classes
        if c.rows and abs(c.share - c.others) > max(0.05, 0.5 * c.others)
    ]
    return lines or (["about as the others'"] if one.classes else [])


def personal_lines(one: Served) -> list[str]:
    """Return what readouts of their own give on later recordings."""
    p = one.personal
    if p is None:
        return []
    lines = [
        f"on the later half of their recordings ({p.rows} rows) the shared readout gives "
        f"{said(p.shared, one.metric)}; continued on the {p.labels} labelled rows of the earlier "
        f"half it gives {said(p.own, one.metric)}"
    ]
    if math.isnan(p.alone):
        return [*lines, "a model of theirs alone cannot be made from so few rows"]
    return [
        *lines,
        f"a model of theirs alone, from the same rows, gives {said(p.alone, one.metric)}",
    ]


def _short(value: float) -> str:
    return "not known" if math.isnan(value) else f"{value:.3g}"
