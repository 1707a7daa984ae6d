"""The words of a report: who trained, the figures in short, what left, and others beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from catchment.federation.measure.baselines import Row
from catchment.federation.messages import Record, Refusal
from catchment.federation.messages import left_out as refused_in
from catchment.federation.runs.folder import PLAN
from catchment.federation.runs.read import Run
from catchment.federation.runs.read import worst_client as worst_of
from catchment.federation.workflow import EVALUATION, TRAINING
from catchment.report.pages import named

MOST_NAMED = 3  # clients that were left out
DELIVERY = "delivery"


def title_of(run: Run) -> str:
    """Return what a run is called."""
    return run.facts.get("title") or run.folder.name


def worst_client(run: Run) -> tuple[str, float]:
    """Return the test client with the worst score, and the score; "" if nobody has one."""
    name = worst_of(run.scores, run.metric)
    return name, run.scores[name][run.metric] if name else math.nan


def judged_by_labels(run: Run) -> bool:
    """Return whether test rows are of more than one class, so that a detector can be wrong twice.

    Without labels all rows of a detector's test are taken for normal.
    """
    return run.confusion is not None and sum(row.any() for row in run.confusion) > 1


def metric_name(run: Run) -> str:
    """Return what the metric is called: of a detector without labels it is no accuracy."""
    detects = any(one.threshold is not None for one in run.drawn)
    return "share without an alarm" if detects and not judged_by_labels(run) else run.metric


def lead(run: Run) -> str:
    """Return in one sentence what was run, and on how many clients of those asked."""
    facts = run.facts
    when = facts.get("started", "")[:10]
    words = [
        f"{facts.get('algorithm', 'A plan')} on {facts.get('source', 'data')}",
        _trained(run.rounds.get(TRAINING, ())),
        _tested(run),
        *([when] if when else []),
    ]
    return f"{', '.join(words)}."


def data_lines(run: Run) -> list[str]:
    """Return what was seen in the data, where the run wrote it down, as a page says it."""
    lines = []
    for line in json.loads(run.facts.get("summary", "[]")):
        mark, _, rest = str(line).strip().partition(" ")
        marked = {"x": f"left out: {rest}", "!": f"warning: {rest}"}
        lines.append(marked.get(mark, str(line).strip()))
    return lines


def fold_scores(run: Run) -> list[float]:
    """Return the score of each fold, where a run was tested by folds and wrote them down."""
    scores = (one.get("score") if isinstance(one, dict) else one for one in _folds(run))
    return [math.nan if value is None else float(value) for value in scores]


def _folds(run: Run) -> list[Any]:
    """Return what is known of each fold: its score, or that among other things by name."""
    found: list[Any] = json.loads(run.facts.get("folds", "[]"))
    return found


def _untested(run: Run) -> dict[str, str]:
    """Return whom no fold could test, and why."""
    found: dict[str, str] = {}
    for one in _folds(run):
        if isinstance(one, dict):
            found |= one.get("untested", {})
    return found


def _trained(training: Sequence[Record]) -> str:
    fewest = min(training, key=lambda record: record.n_used - record.n_asked, default=None)
    if fewest is None:
        return "nobody has trained yet"
    least = "at least " if len({record.n_used for record in training}) > 1 else ""
    return f"{least}{_of(fewest)} trained"


def _tested(run: Run) -> str:
    records = run.rounds.get(EVALUATION, ())
    if records:
        one = records[-1]
        return f"{_share(one)} {'was' if one.n_used == 1 else 'were'} tested"
    n = sum(bool(name) for name in run.scores)
    return (
        f"{n:,} were tested, each by a model that had not seen them" if n else "nobody was tested"
    )


def _of(record: Record) -> str:
    return f"{_share(record)} {'client' if record.n_asked == 1 else 'clients'}"


def _share(record: Record) -> str:
    if record.n_used == record.n_asked:
        return f"{record.n_used:,}"
    return f"{record.n_used:,} of {record.n_asked:,}"


def left_out(run: Run, number: int) -> tuple[str, list[Markup]]:
    """Return how many trained, and who did not or was not tested, and why, if anybody."""
    training = run.rounds.get(TRAINING, ())
    fewest = min(training, key=lambda record: record.n_used - record.n_asked, default=None)
    found: dict[str, Refusal] = {}
    for one in sorted(refused_in(run.rounds), key=lambda one: one.stage != TRAINING):
        found.setdefault(one.client, one)
    for name, reason in _untested(run).items():
        found.setdefault(name, Refusal(name, "", reason, EVALUATION))
    silent = 0
    if fewest is not None:
        silent = fewest.n_asked - fewest.n_used - len({r.client for r in fewest.refused})
    how = {EVALUATION: "was not tested", DELIVERY: "did not get the model"}
    told = []
    for one in list(found.values())[:MOST_NAMED]:
        about = (Markup(named(one.client)), how.get(one.stage, "was left out"), one.reason)
        told.append(Markup("{} {}: {}").format(*about))
    if len(found) > MOST_NAMED:
        more = f'<a href="#refused-{number}">{len(found) - MOST_NAMED:,} more were left out</a>'
        told.append(Markup(more))
    if silent > 0:
        told.append(Markup(f"{silent:,} did not answer to the end"))
    return "" if fewest is None else f"{_of(fewest)} trained", told


def refusals(run: Run) -> list[tuple[str, int, Refusal]]:
    """Return the answers that were not used, each with its stage and its round."""
    return [
        (stage, record.round, one)
        for stage, records in run.rounds.items()
        for record in records
        for one in record.refused
    ]


def bar(row: Row, run: Run) -> float:
    """Return the share of the longest bar that the bar of a row of the comparison has."""
    scores = [one.score for one in run.comparison or () if math.isfinite(one.score)]
    longest = 1.0 if row.metric == "accuracy" else max(scores, default=1.0) or 1.0
    return min(1.0, row.score / longest) if math.isfinite(row.score) else 0.0


_FACTS = {
    "map": "feature map",
    "map_label": "what it is",
    "units": "reservoir units",
    "n_features": "features",
    "features_fingerprint": "features' fingerprint",
    "plan_fingerprint": "plan's fingerprint",
    "model_sha256": "model file, SHA-256",
    "scaling": "scaling of inputs",
    "started": "started",
    "finished": "finished",
}


def settings(run: Run) -> tuple[dict[str, str], str]:
    """Return settings and fingerprints of a run by what they are called, and its plan's text."""
    shown = {label: run.facts[name] for name, label in _FACTS.items() if run.facts.get(name)}
    plan = run.folder / PLAN
    return shown, plan.read_text(encoding="utf-8") if plan.is_file() else ""
