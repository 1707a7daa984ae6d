"""Why one person is served as they are, as a section of a run's report and as a page of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from pathlib import Path

import numpy as np

from catchment import Integers, replace_file
from catchment.federation.runs import Run
from catchment.report import dot_chart, figure, page, score, signal_chart, table
from catchment_lab.diagnose.reasons import said
from catchment_lab.diagnose.records import Served, read_served
from catchment_lab.diagnose.repairs import times
from catchment_lab.diagnose.words import (
    HEURISTIC,
    channel_line,
    class_lines,
    conclusion_lines,
    far_channels,
    feature_lines,
    personal_lines,
    score_lines,
)

MOST_CLIENTS = 30  # in the chart of scores
MOST_CLASSES = 12  # in a table of confusions


def served_section(run: Run) -> str:
    """Return what a run's folder says of its worst client; nothing if it says nothing."""
    one = read_served(run.folder)
    if one is None:
        return ""
    worse = "worse than the others" if one.is_badly_served else "worst"
    return (
        f"<h3>Why is {escape(one.client)} served {worse}?</h3>{_summary(one)}{_drawn(one)}"
        f"<details><summary>The numbers behind it</summary>{_numbers(one)}</details>"
        '<p class="muted">Of anybody else: catchment explain RUN --client NAME</p>'
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
        f"<header><h1>{escape(title)}</h1></header><article>{_summary(one)}{_chart(one)}"
        f"{_drawn(one)}{_numbers(one)}</article><footer>This file needs nothing else and sends "
        "nothing anywhere. It has raw signals of one person.</footer>"
    )
    replace_file(Path(path), page(title, body).encode())
    return Path(path)


def _summary(one: Served) -> str:
    """Return the score and likely reasons."""
    first, *rest = score_lines(one)
    lead = f'<p><b>{escape(first)}</b></p><p class="muted">{escape(". ".join(rest))}</p>'
    if not one.reasons:
        return lead + "".join(f"<p>{escape(line)}</p>" for line in conclusion_lines(one))
    items = "".join(
        f"<li><b>{escape(reason.name)}</b>: {escape(reason.words)}. <i>To do:</i> "
        f"{escape(reason.action)}.</li>"
        for reason in one.reasons
    )
    return f'{lead}<h4>Likely reasons</h4><ol>{items}</ol><p class="note">{escape(HEURISTIC)}</p>'


def _chart(one: Served) -> str:
    """Return everybody's score, the person's marked."""
    values = {**one.others, one.client: one.value}
    known = {name: value for name, value in values.items() if not math.isnan(value)}
    if len(known) < 2:
        return ""
    worst_first = sorted(known, key=known.__getitem__, reverse=not one.evidence.more_is_better)
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
    return f'<div class="charts">{figure("Beside the others", chart, caption)}</div>'


def _drawn(one: Served) -> str:
    figures = [
        figure(f"Recording {worst.number + 1}", signal_chart(drawn), worst.words)
        for worst, drawn in zip(one.worst, one.drawn, strict=False)
    ]
    if not figures:
        return ""
    heading = f"<h4>The worst recordings of {escape(one.client)}</h4>"
    return f'{heading}<div class="charts">{"".join(figures)}</div>'


def _numbers(one: Served) -> str:
    parts = (
        _confusions(one),
        _quantities(one),
        _channels(one),
        _listed("Features", feature_lines(one)),
        _classes(one),
        _listed("A readout of their own", personal_lines(one)),
    )
    return "".join(parts)


def _listed(heading: str, lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<h4>{heading}</h4><ul>{items}</ul>" if items else ""


def _confusions(one: Served) -> str:
    if one.confusion is None:
        return ""
    both = [(one.client, one.confusion), ("the others", one.others_confusion)]
    # Classes that neither has say nothing; of many, those that cost the person most are shown.
    sizes = sum(counts.sum(axis=0) + counts.sum(axis=1) for _, counts in both if counts is not None)
    wrong = one.confusion.sum(axis=0) + one.confusion.sum(axis=1) - 2 * np.diag(one.confusion)
    known = [int(k) for k in np.argsort(-wrong, kind="stable") if np.asarray(sizes)[k]]
    shown = sorted(known[:MOST_CLASSES])
    names = [one.names[k] for k in shown]
    tables = "".join(
        f"<figure><h4>{escape(who)}</h4>{_matrix(counts[np.ix_(shown, shown)], names)}</figure>"
        for who, counts in both
        if counts is not None
    )
    return (
        f'<h4>What is taken for what</h4><div class="charts">{tables}</div>'
        '<p class="muted">Rows are true classes, columns what the model said.</p>'
    )


def _matrix(counts: Integers, names: list[str]) -> str:
    head = "".join(f"<th><span>{escape(name)}</span></th>" for name in names)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rows = "".join(
        f"<tr><th>{escape(name)}</th>"
        + "".join(
            f'<td style="--share:{share:.3f}"{" class=dark" if share > 0.6 else ""}>{count}</td>'
            for count, share in zip(row, part, strict=True)
        )
        + "</tr>"
        for name, row, part in zip(names, counts, shares, strict=True)
    )
    return (
        f'<div class="scroll"><table class="confusion"><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _quantities(one: Served) -> str:
    rows = [("", (escape(q.name), _number(q.own), _number(q.others))) for q in one.quantities]
    head = ("", escape(one.client), "the others' median")
    return f"<h4>Recordings</h4>{table(head, rows, (1, 2), '')}" if rows else ""


def _channels(one: Served) -> str:
    if not one.channels:
        return ""
    head = (
        *("channel", "mean", "theirs", "in deviations", "times their spread"),
        *("KS distance", "between others", "at most"),
    )
    rows = [
        (
            "own" if c.stands_out else "",
            (
                *(escape(c.name), _number(c.mean), _number(c.others_mean), f"{c.mean_shift:+.1f}"),
                *(times(c.spread_ratio), f"{c.distance:.2f}", f"{c.usual:.2f}", f"{c.most:.2f}"),
            ),
        )
        for c in one.channels
    ]
    words = "".join(f"<li>{escape(channel_line(c))}</li>" for c in far_channels(one))
    return (
        f"<h4>Channels</h4><ul>{words}</ul>{table(head, rows, range(1, 8), '')}"
        '<p class="muted">Deviations are those of the means between people. KS is the two-sample '
        "Kolmogorov-Smirnov statistic of this person and the rest, then the median and the largest "
        "of another person and the rest.</p>"
    )


def _classes(one: Served) -> str:
    if not one.classes:
        return ""
    rows = [
        (
            "",
            (
                escape(c.name),
                str(c.rows),
                said(c.share, "accuracy"),
                said(c.others, "accuracy"),
            ),
        )
        for c in one.classes
    ]
    head = ("class", "rows", "share", "the others'")
    return f"{_listed('Classes', class_lines(one))}{table(head, rows, (1, 2, 3), '')}"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"
