"""The rounds of a run: their figures, who answered, who was refused, and what was chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

import numpy as np

from catchment.arrays import Array
from catchment.federation.course import PLASTICITY, TRAINING
from catchment.federation.runs.explain import say_bytes
from catchment.federation.runs.maps import map_scores, said
from catchment.federation.runs.read import Run
from catchment.report.charts import Line, line_chart
from catchment.report.page import figure, named, score, table

MOST_ROUNDS = 30
MOST_REFUSED = 100
MOST_DRIFTS = 30
SHARES = (0.0, 1.0)


def figures_by_round(run: Run) -> Iterator[str]:
    """Yield every figure of the stages that learn: drawn over their rounds, or as a number."""
    single = []
    for stage in (PLASTICITY, TRAINING):
        records = run.rounds.get(stage, ())
        for name in dict.fromkeys(name for record in records for name in record.figures):
            values = np.array([record.figures.get(name, math.nan) for record in records])
            known = values[np.isfinite(values)]
            if len(known) > 1:
                yield _figure_chart(stage, name, values)
            elif len(known) == 1:
                told = _said(name, float(known[0]))
                single.append(("", (escape(name), escape(stage), told)))
    if single:
        heading = "Figures of the rounds"
        yield figure(heading, table(("figure", "stage", "value"), single, (2,), "", heading))


def rounds(run: Run) -> str:
    """Return the table of rounds: who was asked and used, seconds and bytes."""
    head = ("stage", "round", "asked", "used", "refused", "seconds", "up", "down")
    rows = [
        (
            "",
            (
                escape(stage),
                str(record.round + 1),
                f"{record.n_asked:,}",
                f"{record.n_used:,}",
                str(len(record.refused)) if record.refused else "-",
                f"{record.seconds:.2f}",
                say_bytes(record.bytes_up),
                say_bytes(record.bytes_down),
            ),
        )
        for stage, records in run.rounds.items()
        for record in records
    ]
    if not rows:
        return "<h3>Rounds</h3><p>No round is finished yet.</p>"
    listed = table(head, rows, range(1, 8), "", "Rounds")
    if len(rows) > MOST_ROUNDS:
        listed = f"<details><summary>All {len(rows)} rounds</summary>{listed}</details>"
    return f"<h3>Rounds</h3>{listed}"


def maps(run: Run) -> str:
    """Return the feature maps that were tried, or why none was."""
    scores = map_scores(run.facts)
    if not scores:
        note = run.facts.get("map_note", "")
        return f"<p>{escape(note)}</p>" if note else ""
    rows = [
        ("own" if name == run.facts.get("map_chosen") else "", (escape(name), said(score)))
        for name, score in scores.items()
    ]
    heading = "Feature maps that were tried"
    listed = table(("feature map", "NRMSE on clients left out"), rows, (1,), "", heading)
    return (
        f"<h3>{heading}</h3>{listed}<p>The first was chosen. Every client sent "
        "the statistics of all of them in one message.</p>"
    )


def flagged(run: Run) -> str:
    """Return the clients whose data are unlike those of the others."""
    if not run.flags:
        return ""
    items = "".join(f"<li>{escape(str(flag))}</li>" for flag in run.flags)
    return (
        f"<h3>Clients that stand out</h3><ul>{items}</ul><p>Their data are in the sum. Someone who "
        "is different looks like this, and so does someone who sends false statistics.</p>"
    )


def drifted(run: Run) -> str:
    """Return whose new data stood out from their earlier ones; nothing if nobody's did."""
    if not run.drifts:
        return ""
    latest = sorted(run.drifts, key=lambda one: -one.round)[:MOST_DRIFTS]
    items = "".join(f"<li>{escape(str(one))}</li>" for one in latest)
    return (
        f"<h3>Clients that changed</h3><ul>{items}</ul><p>The latest first. Their new data are in "
        "the sum. p is the chance of such a change where nothing has changed: of many that are "
        "judged, some stand out by chance.</p>"
    )


def refused(run: Run, number: int) -> str:
    """Return the answers that were not used, and why."""
    found = [
        (
            "",
            (
                named(r.client),
                escape(stage),
                str(record.round + 1),
                *map(escape, (r.code, r.reason)),
            ),
        )
        for stage, records in run.rounds.items()
        for record in records
        for r in record.refused
    ]
    if not found:
        return ""
    heading = "Answers that were not used"
    head = ("client", "stage", "round", "code", "reason")
    listed = table(head, found[:MOST_REFUSED], (2,), "", heading)
    left = len(found) - MOST_REFUSED
    more = f"<p>{left:,} more are in the ledger.</p>" if left > 0 else ""
    return f'<h3 id="refused-{number}">{heading}</h3>{listed}{more}'


def _figure_chart(stage: str, name: str, values: Array) -> str:
    chart = line_chart(
        [Line(np.arange(1.0, len(values) + 1), values, "s0")],
        label=f"{name} after every round of {stage}",
        x_label="round",
        y_label=name,
        whole_x=True,
        limits=SHARES if "accuracy" in name else (-math.inf, math.inf),
    )
    known = values[np.isfinite(values)]
    first, last = (_said(name, float(value)) for value in known[[0, -1]])
    heading = f"{name[0].upper()}{name[1:]}"
    return figure(heading, chart, f"{stage.capitalize()}: from {first} to {last}.")


def _said(name: str, value: float) -> str:
    return score(value, "accuracy" if "accuracy" in name else name)
