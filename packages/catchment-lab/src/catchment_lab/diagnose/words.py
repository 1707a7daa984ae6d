"""How one person is served, in plain words for the terminal, and as a page with drawings."""

from __future__ import annotations

import math
import textwrap
from html import escape
from pathlib import Path

import numpy as np

from catchment.federation.runs import Run
from catchment.report import dot_chart, figure, page, score
from catchment.wire import replace_file
from catchment_lab.diagnose.drawing import signal_chart
from catchment_lab.diagnose.served import RATE, ChannelShift, Served, read_served

NOTHING = "nothing"
FAR_RATE = 1.15
FEW_ROWS = 50
UNITS = {
    "m/s² for g": 9.80665,
    "thousandths of a unit": 1000.0,
    "degrees for radians": 180 / np.pi,
    "km/h for m/s": 3.6,
    "hundredths of a unit": 100.0,
}
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
        "What stands out": standing_out(one),
        "Confusions": confusion_lines(one),
        "Their recordings beside the others'": [
            f"{q.name}: {_short(q.own)}; the others' median is {_short(q.others)}"
            for q in one.quantities
        ],
        "Their classes": class_lines(one),
        "Their worst recordings": [f"recording {w.number + 1}: {w.words}" for w in one.worst],
    }


def served_section(run: Run) -> str:
    """Return what a run's folder says of its worst client; nothing if it says nothing."""
    one = read_served(run.folder)
    if one is None:
        return ""
    worse = "worse than the others" if one.is_badly_served else "worst"
    return (
        f"<h3>Why is {escape(one.client)} served {worse}?</h3>{_told(one)}"
        '<p class="muted">For another client: catchment diagnose RUN --client NAME</p>'
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


def _told(one: Served, chart: str = "") -> str:
    """Return the score, what there is to say, and the worst recordings drawn."""
    first, *rest = score_lines(one)
    lead = f'<p><b>{escape(first)}</b></p><p class="muted">{escape(". ".join(rest))}</p>'
    drawn = "".join(
        figure(f"Recording {worst.number + 1}", signal_chart(drawn), worst.words)
        for worst, drawn in zip(one.worst, one.drawn, strict=False)
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
    return textwrap.fill(line, 100, initial_indent="  ", subsequent_indent="    ")


def score_lines(one: Served) -> list[str]:
    """Return the score, its place among all, and which model it is of."""
    if math.isnan(one.value):
        return [one.how, *one.notes]
    n, median = len(one.others) + 1, one.median
    rows = f"{one.rows} row{'' if one.rows == 1 else 's'}"
    own, theirs = (score(value, one.metric, digits=3) for value in (one.value, median))
    text = f"{one.metric} {own} of {rows}"
    if n > 1:
        text += f": {_place(one, n)}; the others' median is {theirs}"
    return [text, one.how, *one.notes]


def _place(one: Served, n: int) -> str:
    place = one.place
    if len({one.value, *one.others.values()}) == 1:
        return f"the same for all {n}"
    if place in (1, n):
        return f"the {'worst' if place == 1 else 'best'} of {n}"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10 if place % 100 not in (11, 12, 13) else 0)
    return f"the {place}{ending or 'th'} worst of {n}"


def standing_out(one: Served) -> list[str]:
    """Return what differs from the others, a sentence each: where to look first, and no proof.

    >>> alike = {"ann": 0.9, "ben": 0.92, "cem": 0.88}
    >>> standing_out(Served("dan", "accuracy", 0.5, 6, "", alike))
    ['3 of 6 rows are right: the true accuracy may be 18.8 % to 81.2 %']
    """
    if math.isnan(one.value):
        return []
    if not one.others:
        return [f"{NOTHING}: nobody else was tested, so that there is nothing to compare with"]
    if not one.is_badly_served and not (one.more_is_better and one.gap > 0.03):
        return [f"{NOTHING}: {one.client} is served as well as the others"]
    lines = [
        f"{q.name}: {_short(q.own)} where the others have {_short(q.others)}; write rate = "
        f"{_short(q.others)} into [preprocessing], which brings all to one"
        for q in one.quantities
        if q.name == RATE and not 1 / FAR_RATE < q.own / q.others < FAR_RATE
    ]
    far = [c for c in one.channels if c.stands_out or c.missing > max(0.15, 3 * c.others_missing)]
    lines += map(channel_line, sorted(far, key=lambda c: -c.far)[:MOST_SHOWN])
    lines += confusion_lines(one, mostly=True)
    having = [c.name for c in one.classes if c.rows]
    if len(having) == 1 and len(one.classes) > 1:
        lines.append(f"all their rows are {having[0]}: one class alone decides their score")
    if one.more_is_better and 0 < one.rows < FEW_ROWS:
        right, z = round(one.value * one.rows), 1.959963984540054  # Wilson 1927, of 95 %
        middle, n = right + z * z / 2, one.rows + z * z
        reach = z * math.sqrt(right * (1 - right / one.rows) + z * z / 4)
        low, high = (score(abs(end) / n, "accuracy") for end in (middle - reach, middle + reach))
        lines.append(
            f"{right} of {one.rows} rows are right: the true accuracy may be {low} to {high}"
        )
    return lines or [
        f"{NOTHING} among what is compared here, though {one.client} is served worse than usual"
    ]


def confusion_lines(one: Served, *, mostly: bool = False) -> list[str]:
    """Return the confusions that cost most, beside how often others have them.

    Parameters
    ----------
    mostly
        Only classes most of whose rows are taken for another one, unlike the others'.
    """
    counts, others = one.confusion, one.others_confusion
    if counts is None:
        return []
    sizes = counts.sum(axis=1)
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_SHOWN]
    lines = []
    for i, j in zip(*np.unravel_index(order, counts.shape), strict=True):
        n, known = counts[i, j], others is not None and others[i].sum()
        usual = others[i, j] / others[i].sum() if others is not None and known else 0.0
        most = sizes[i] >= 5 and n > 0.5 * sizes[i] and n > 2 * usual * sizes[i]
        if wrong[i, j] and (most or not mostly):
            text = f"{one.names[i]} predicted as {one.names[j]}: {n} of {sizes[i]}"
            beside = f" ({100 * n / sizes[i]:.0f} %; others {100 * usual:.0f} %)"
            lines.append(text + (beside if known else ""))
    return lines or ([] if mostly else ["nothing: every row is right"])


def channel_line(c: ChannelShift) -> str:
    """Return in a sentence how a channel differs from the others', and which unit would do that.

    >>> print(channel_line(ChannelShift("ax", 2, 1, 5, 2.1, 2.1, 7, 0, 0, 1.2)))
    ax has 2.1 times the others' spread; its mean is 2 (theirs 1), 5.0 between-person deviations
    above
    """
    text = f"{c.name} has {times(c.spread_ratio)} times the others' spread"
    ratio = abs(math.log(c.spread_ratio)) if c.spread_ratio > 0 else 0.0
    near = [unit for unit, factor in UNITS.items() if abs(ratio - math.log(factor)) < 0.25]
    if near:
        text += f" (another unit? {near[0]} is {times(UNITS[near[0]])})"
    text += (
        f"; its mean is {_short(c.mean)} (theirs {_short(c.others_mean)}), "
        f"{abs(c.mean_shift):.1f} between-person deviations "
        f"{'above' if c.mean_shift > 0 else 'below'}"
    )
    if c.missing > 0.01 or c.others_missing > 0.01:
        text += f"; {100 * c.missing:.0f} % missing (theirs {100 * c.others_missing:.1f} %)"
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


def times(factor: float) -> str:
    """Return a factor as people say it.

    >>> times(9.8123), times(1234.5), times(0.01234)
    ('9.81', '1,234', '0.0123')
    """
    return f"{factor:,.0f}" if factor >= 100 else f"{factor:.3g}"
