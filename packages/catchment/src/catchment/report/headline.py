"""The words of a report: who trained, the figures in short, what left, and others beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from typing import Any

from catchment.federation.measure.baselines import Comparison, Row
from catchment.federation.messages import LeftOut, Record, left_out
from catchment.federation.runs.explain import Explanation, Sent, explain, say_bytes, thin_clients
from catchment.federation.runs.folder import PLAN
from catchment.federation.runs.read import Run
from catchment.federation.workflow import EVALUATION, TRAINING
from catchment.report.pages import listed, named, score, table

MOST_NAMED = 3  # clients that were left out
MOST_LINES = 12  # of the data's summary
DELIVERY = "delivery"


def title_of(run: Run) -> str:
    """Return what a run is called."""
    return run.facts.get("title") or run.folder.name


def worst_client(run: Run) -> tuple[str, float]:
    """Return the test client with the worst score, and the score; "" if nobody has one."""
    values = {
        name: found[run.metric]
        for name, found in run.scores.items()
        if name and not math.isnan(found.get(run.metric, math.nan))
    }
    if not values:
        return "", math.nan
    name = (min if run.metric == "accuracy" else max)(values, key=values.__getitem__)
    return name, values[name]


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


def notes(run: Run, number: int) -> str:
    """Return what nobody should overlook: damage, who was left out, whose inputs can be rebuilt."""
    texts = [f"<b>DAMAGED: {escape('; '.join(run.damage))}</b>"] if run.damage else []
    if "finished" not in run.facts:
        texts.append("<b>The run is not finished.</b> What is here may still change.")
    texts += _left_out(run, number)
    for fact, words in (("untested", "The model is not tested"), ("undelivered", "Not delivered")):
        if run.facts.get(fact):
            texts.append(f"<b>{words}:</b> {escape(run.facts[fact])}")
    if thin := thin_clients(run):
        texts.append(f"<b>{escape(thin)}</b>")
    return "".join(f'<div class="note">{text}</div>' for text in texts)


def tiles(run: Run, link: str) -> str:
    """Return the figures of a run in short.

    Parameters
    ----------
    link
        Where the page says more of the worst client; "" if it does not.
    """
    up, down, seconds = run.totals()
    training = run.rounds.get(TRAINING, ())
    trained_up = sum(record.bytes_up for record in training)
    n = max((record.n_used for record in training), default=0)
    shown = []
    if "" in run.scores:
        folds = f", in {len(_folds(run))} folds" if _folds(run) else ""
        total = score(run.scores[""][run.metric], run.metric)
        shown.append((total, f"{escape(metric_name(run))}, all test clients{folds}"))
        name, value = worst_client(run)
        if name:
            more = f' <a href="#{link}">why?</a>' if link else ""
            shown.append((score(value, run.metric), f"worst client: {named(name)}{more}"))
    shown += [
        (str(len(training)), "round of training" if len(training) == 1 else "rounds of training"),
        *([(say_bytes(trained_up // n), "sent by each client in training")] if n else []),
        (say_bytes(up), f"sent up in all; {say_bytes(down)} down"),
        (f"{seconds:.1f} s", "in all rounds"),
    ]
    cells = (f'<div class="tile"><b>{escape(a)}</b><span>{b}</span></div>' for a, b in shown)
    return f'<div class="tiles">{"".join(cells)}</div>'


def summary(run: Run) -> str:
    """Return what was seen in the data, where the run wrote it down."""
    lines = [_marked(str(line)) for line in json.loads(run.facts.get("summary", "[]"))]
    if not lines:
        return ""
    shown = f"<h3>The data</h3>{listed(lines[:MOST_LINES])}"
    if len(lines) <= MOST_LINES:
        return shown
    more = f"<summary>{len(lines) - MOST_LINES} more lines about the data</summary>"
    return f"{shown}<details>{more}{listed(lines[MOST_LINES:])}</details>"


def _marked(line: str) -> str:
    """Return a line of the terminal as a page says it.

    >>> _marked("  x p7.csv is empty"), _marked("  ! p3 has 3 rows")
    ('left out: p7.csv is empty', 'warning: p3 has 3 rows')
    """
    mark, _, rest = line.strip().partition(" ")
    return {"x": f"left out: {rest}", "!": f"warning: {rest}"}.get(mark, line.strip())


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


def _left_out(run: Run, number: int) -> list[str]:
    """Return who did not train or was not tested, and why; nothing if nobody was left out."""
    training = run.rounds.get(TRAINING, ())
    fewest = min(training, key=lambda record: record.n_used - record.n_asked, default=None)
    found: dict[str, LeftOut] = {}
    for one in sorted(left_out(run.rounds), key=lambda one: one.stage != TRAINING):
        found.setdefault(one.client, one)
    for name, reason in _untested(run).items():
        found.setdefault(name, LeftOut(name, EVALUATION, "", reason))
    silent = 0
    if fewest is not None:
        silent = fewest.n_asked - fewest.n_used - len({r.client for r in fewest.refused})
    if not found and silent <= 0:
        return []
    who = "" if fewest is None else f"<b>{escape(_of(fewest))} trained</b>"
    told = [_sentence(one) for one in list(found.values())[:MOST_NAMED]]
    if len(found) > MOST_NAMED:
        more = len(found) - MOST_NAMED
        told.append(f'<a href="#refused-{number}">{more:,} more were left out</a>')
    if silent > 0:
        told.append(f"{silent:,} did not answer to the end")
    if len(told) > 1:
        return [f"{who}<ul>{''.join(f'<li>{one}</li>' for one in told)}</ul>"]
    return ["; ".join([*([who] if who else []), *told])]


def _sentence(one: LeftOut) -> str:
    how = {EVALUATION: "was not tested", DELIVERY: "did not get the model"}
    return f"{named(one.client)} {how.get(one.stage, 'was left out')}: {escape(one.reason)}"


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


def left(run: Run) -> str:
    """Return what left the clients, what it tells, and what never left."""
    explained = explain(run)
    cards = "".join(map(_sent, explained.up))
    return (
        f"<h3>What left the clients</h3>{cards or '<p>Nothing yet.</p>'}"
        '<p class="note"><b>Statistics are not anonymous.</b> Only differential privacy gives a '
        "bound on what can be learned about a client or a recording.</p>"
        f"<h3>What is bounded by differential privacy</h3>{listed(explained.bounded)}"
        f"<h3>What never left</h3>{_never(explained)}{_kept(explained)}"
        f"<h3>What came to the clients</h3>{listed(explained.down) or '<p>Nothing yet.</p>'}"
    )


def what_was_run(run: Run) -> str:
    """Return the settings and fingerprints of a run, and its plan."""
    shown = {label: run.facts[name] for name, label in _FACTS.items() if run.facts.get(name)}
    items = "".join(
        f"<dt>{escape(label)}</dt><dd><code>{escape(text)}</code></dd>"
        for label, text in shown.items()
    )
    plan = run.folder / PLAN
    text = plan.read_text(encoding="utf-8") if plan.is_file() else ""
    inside = f"<summary>The plan, to run this again</summary><pre>{escape(text)}</pre>"
    again = f"<details>{inside}</details>" if text else ""
    known = f"<dl>{items}</dl>" if items else "<p>Nothing is written down yet.</p>"
    return f"<h3>What was run</h3>{known}{again}"


def _sent(one: Sent) -> str:
    if one.kind is None:
        told = "<p>What is in it is not described here: assume that all of it can be read.</p>"
    else:
        told = f"<p>It holds {escape(one.kind.holds)}. Whoever reads it learns:</p>"
        told += listed(one.kind.tells)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in one.notes)
    heading = f"<h4>{escape(one.stage)}: {escape(one.purpose)}</h4>"
    return f'<div class="sent">{heading}<p>{escape(one.sentence())}</p>{told}{notes}</div>'


def _never(explained: Explanation) -> str:
    texts = list(explained.never)
    if explained.unknown:
        texts.append(f"not known: there are messages of kind {', '.join(explained.unknown)}")
    return listed(texts)


def _kept(explained: Explanation) -> str:
    if not explained.kept:
        return ""
    heading = "<h3>What the run's folder has of clients, beside their messages</h3>"
    return heading + listed(explained.kept)
