"""How one person is served, in plain words for the terminal, and as a page with drawings."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from catchment import replace_file
from catchment.federation.runs import DrawnRecording, Run
from catchment.report import dot_chart, figure, page, score, signal_chart
from catchment_lab.diagnose.compare import ChannelShift
from catchment_lab.diagnose.reasons import Served, said, times
from catchment_lab.diagnose.served import read_served

HEURISTIC = (
    "These are rules of thumb, the likeliest first: they say where to look and prove nothing."
)
NOTHING = "Nothing stands out"
MOST_SHOWN = 6
MOST_CLIENTS = 30  # in the chart of scores


def served_in_words(one: Served) -> str:
    """Return all that is known of how a person is served, as text for a terminal."""
    lines = [f"How {one.client} is served", "", *map(_wrapped, score_lines(one))]
    for heading, found in _parts(one).items():
        if found:
            lines += ["", heading, *map(_wrapped, found)]
    return "\n".join(lines) + "\n"


def _parts(one: Served) -> dict[str, list[str]]:
    """Return what there is to say after the score, by heading."""
    return {
        "Likely reasons": conclusion_lines(one),
        "What was taken for what": confusion_lines(one),
        "Their recordings beside the others'": [
            f"{q.name}: {_short(q.own)}; the others' median is {_short(q.others)}"
            for q in one.quantities
        ],
        "Their channels": list(map(channel_line, far_channels(one))),
        "Their classes": class_lines(one),
        "Their worst recordings": [f"recording {w.number + 1}: {w.words}" for w in one.worst],
    }


def served_section(run: Run) -> str:
    """Return what a run's folder says of its worst client; nothing if it says nothing."""
    one = read_served(run.folder)
    if one is None:
        return ""
    worse = "worse than the others" if one.is_badly_served else "worst"
    # What the report has drawn already is not drawn again.
    there = [drawn.signals for drawn in run.drawn]
    new = [
        None if any(np.array_equal(drawn.signals, other, True) for other in there) else drawn
        for drawn in one.drawn
    ]
    return (
        f"<h3>Why is {escape(one.client)} served {worse}?</h3>{_told(one, drawings=new)}"
        '<p class="muted">Of anybody else: catchment diagnose RUN --client NAME</p>'
    )


def write_served_page(one: Served, path: str | Path) -> Path:
    """Write a page about how one person is served, and return its path.

    Parameters
    ----------
    path
        The file; it is replaced if it exists.
    """
    title = f"How {one.client} is served"
    body = (
        f"<header><h1>{escape(title)}</h1></header><article>{_told(one, _chart(one))}</article>"
        "<footer>This file needs nothing else and sends nothing anywhere. It has raw signals of "
        "one person.</footer>"
    )
    replace_file(Path(path), page(title, body).encode())
    return Path(path)


def _told(
    one: Served, chart: str = "", drawings: Sequence[DrawnRecording | None] | None = None
) -> str:
    """Return the score, what there is to say, and the worst recordings drawn."""
    first, *rest = score_lines(one)
    lead = f'<p><b>{escape(first)}</b></p><p class="muted">{escape(". ".join(rest))}</p>'
    drawn = "".join(
        figure(f"Recording {worst.number + 1}", signal_chart(drawn), worst.words)
        for worst, drawn in zip(one.worst, drawings or one.drawn, strict=False)
        if drawn is not None
    )
    lists = []
    for heading, lines in _parts(one).items():
        items = "".join(f"<li>{escape(line)}</li>" for line in lines)
        lists.append(f"<h4>{escape(heading)}</h4><ul>{items}</ul>" if items else "")
    return f'{lead}{lists[0]}<div class="charts">{chart}{drawn}</div>{"".join(lists[1:])}'


def _chart(one: Served) -> str:
    """Return everybody's score, the person's marked."""
    values = {**one.others, one.client: one.value}
    known = {name: value for name, value in values.items() if not math.isnan(value)}
    if len(known) < 2:
        return ""
    worst_first = sorted(known, key=known.__getitem__, reverse=not one.more_is_better)
    shown = worst_first[:MOST_CLIENTS]
    if one.client in known and one.client not in shown:
        shown[-1] = one.client
    chart = dot_chart(
        shown,
        [known[name] for name in shown],
        label=f"{one.metric} of every client",
        x_label=one.metric,
        marked=one.client,
        write=lambda value: score(value, one.metric, digits=3),
        tick=lambda value: f"{100 * value:.3g} %" if one.metric == "accuracy" else f"{value:.3g}",
        limits=(0.0, 1.0 if one.metric == "accuracy" else math.inf),
    )
    caption = "The worst first; the others as the run's own test had them."
    return figure("Beside the others", chart, caption)


def _wrapped(line: str) -> str:
    begin = "     " if line[:1].isdigit() or line.startswith(" ") else "  "
    return textwrap.fill(line, 100, initial_indent="  ", subsequent_indent=begin + "  ")


def score_lines(one: Served) -> list[str]:
    """Return the score, its place among all, and which model it is of."""
    if math.isnan(one.value):
        return [one.how, *one.notes]
    n, median = len(one.others) + 1, one.median
    rows = f"{one.rows} row{'' if one.rows == 1 else 's'}"
    text = f"{one.metric} {said(one.value, one.metric)} of {rows}"
    if n > 1:
        text += f": {_place(one, n)}; the others' median is {said(median, one.metric)}"
    return [text, one.how, *one.notes]


def _place(one: Served, n: int) -> str:
    place = one.place
    if len({one.value, *one.others.values()}) == 1:
        return f"the same for all {n}"
    if place in (1, n):
        return f"the {'worst' if place == 1 else 'best'} of {n}"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10 if place % 100 not in (11, 12, 13) else 0)
    return f"the {place}{ending or 'th'} worst of {n}"


def conclusion_lines(one: Served) -> list[str]:
    """Return likely reasons with what supports them and what to do, or that nothing stands out."""
    if math.isnan(one.value):
        return []
    if not one.others:
        return [f"{NOTHING}: nobody else was tested, so that there is nothing to compare with."]
    if not one.is_badly_served and not one.reasons:
        return [f"{NOTHING}: {one.client} is served about as the others are."]
    if not one.reasons:
        return [
            f"{NOTHING}: {one.client} is served worse than usual, and none of the faults that are "
            "looked for here (unit, rate, labels, classes, gaps, few rows, unlike inputs) explains "
            "it."
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


def far_channels(one: Served) -> list[ChannelShift]:
    """Return the channels that stand out, the furthest first; the furthest one if none does."""
    order = sorted(one.channels, key=lambda c: -_far(c))
    return [c for c in order if c.stands_out][:MOST_SHOWN] or order[:1]


def _far(c: ChannelShift) -> float:
    return max(abs(c.mean_shift), abs(c.spread_shift))


def channel_line(c: ChannelShift) -> str:
    """Return in a sentence how a channel differs from the others'.

    >>> print(channel_line(ChannelShift("ax", 2, 1, 5, 3.1, 3.1, 7, 0.6, 0.1, 0.2, 0, 0)))
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


def _short(value: float) -> str:
    return "not known" if math.isnan(value) else times(value)
