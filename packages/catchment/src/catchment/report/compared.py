"""The table of a run's own way to learn beside others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from catchment.federation.course import TRAINING
from catchment.federation.measure.baselines import Comparison, Row
from catchment.federation.runs.explain import say_bytes
from catchment.federation.runs.read import Run
from catchment.report.headline import title_of, worst_client
from catchment.report.page import named, score, table

# Ways that learn from data of those whom they are tested on.
PERSONAL = frozenset({"personalised"})
USES_LABELS = "uses labels of the new people"
HEAD = ("way to learn", "", "worst client", "spread", "sent up", "rounds", "seconds", "remark")


def compared(run: Run) -> str:
    """Return a run's own way beside others, with what each costs; nothing if it stands alone."""
    own = run.facts.get("own_row", "")
    if run.comparison is None or [row.name for row in run.comparison] == [own]:
        return ""
    metric = run.comparison.rows[0].metric
    rows = [_row(row, run.comparison, metric, own) for row in run.comparison]
    better = "more is better" if metric == "accuracy" else "less is better, 1 is the mean"
    text = (
        f"{metric[0].upper()}{metric[1:]}: {better}. Spread is the standard deviation over clients."
    )
    head = (HEAD[0], escape(metric), *HEAD[2:])
    shown = table(head, rows, (1, 3, 4, 5, 6), "compare", "Compared with other ways")
    return (
        f"<h3>Compared with other ways</h3>{shown}"
        f'<p class="muted">{escape(text)} Bytes are those of training.</p>'
    )


def beside(runs: Sequence[Run]) -> str:
    """Return several runs in one table, each with a link to what the page says of it."""
    rows = []
    for k, run in enumerate(runs):
        total = run.scores.get("", {}).get(run.metric, math.nan)
        worst, value = worst_client(run)
        training = run.rounds.get(TRAINING, ())
        sent = say_bytes(sum(record.bytes_up for record in training)) if training else "-"
        cells = (
            f'<a href="#run-{k}">{escape(title_of(run))}</a>',
            f"{score(total, run.metric)}<small>{escape(run.metric)}</small>",
            f"{score(value, run.metric)}<small>{named(worst)}</small>",
            sent,
            str(len(training)) if training else "-",
            escape(run.facts.get("started", "")[:10]) or "-",
        )
        rows.append(("", cells))
    head = ("run", "score", "worst client", "sent up in training", "rounds", "day")
    return f"<nav>{table(head, rows, (1, 3, 4), 'compare', 'Runs')}</nav>"


def _row(row: Row, among: Comparison, metric: str, own: str) -> tuple[str, Sequence[str]]:
    scores = [r.score for r in among if math.isfinite(r.score)]
    longest = 1.0 if metric == "accuracy" else max(scores, default=1.0) or 1.0
    share = min(1.0, row.score / longest) if math.isfinite(row.score) else 0.0
    bar = f'<span class="bar"><i style="width:{100 * share:.1f}%"></i></span>'
    labels = f'<small class="warn">{USES_LABELS}</small>' if row.name in PERSONAL else ""
    cells = (
        escape(row.name) + labels,
        score(row.score, metric) + bar,
        f"{score(row.worst, metric)}<small>{named(row.worst_client)}</small>",
        "-" if math.isnan(row.spread) else f"± {score(row.spread, metric, digits=2)}",
        say_bytes(row.bytes_up) if row.bytes_up else "-",
        str(row.rounds) if row.rounds else "-",
        f"{row.seconds:.1f}",
        f'<span class="muted">{escape(row.note)}</span>',
    )
    return ("own" if row.name == own else ""), cells
