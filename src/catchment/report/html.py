"""A run as one HTML file that works offline: no script, no font, no picture from elsewhere.

It reads the run's folder and nothing else. Colours follow the reader's choice of light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path

import numpy as np

from catchment.arrays import Array
from catchment.federation.course import PLASTICITY, TRAINING
from catchment.federation.measure.comparison import Comparison, Row
from catchment.federation.runs.explain import Explanation, Sent, aloud, explain, say_bytes
from catchment.federation.runs.maps import map_scores, said
from catchment.federation.runs.read import Run, read_run
from catchment.federation.runs.write import PLAN
from catchment.files import replace_file
from catchment.report.charts import Line, dot_chart, line_chart
from catchment.report.page import figure, page, score, table
from catchment.report.served import served_section

MOST_CLIENTS = 30  # in a chart with a row each
MOST_ROUNDS = 30
MOST_OUTPUTS = 3


def write_report(folders: Sequence[str | Path], path: str | Path) -> Path:
    """Write a report about one or more runs to a file, and return its path.

    Parameters
    ----------
    folders
        Folders of runs, the first one first.
    path
        The file; it is replaced if it exists.
    """
    if not folders:
        raise ValueError("there are no runs; pass at least one folder")
    text = render([read_run(folder) for folder in folders])
    replace_file(Path(path), text.encode())
    return Path(path)


def render(runs: Sequence[Run]) -> str:
    """Return the page about some runs."""
    title = _title(runs[0]) if len(runs) == 1 else "Runs side by side"
    links = "".join(f'<a href="#run-{k}">{escape(_title(run))}</a>' for k, run in enumerate(runs))
    nav = f"<nav>{links}</nav>" if len(runs) > 1 else ""
    body = "".join(_article(run, k, alone=len(runs) == 1) for k, run in enumerate(runs))
    version = escape(runs[0].facts.get("catchment", ""))
    footer = (
        f"<footer>Written by catchment {version} from the run's folder. This file needs nothing "
        "else and sends nothing anywhere.</footer>"
    )
    return page(title, f"<header><h1>{escape(title)}</h1>{nav}</header>{body}{footer}")


def _article(run: Run, number: int, *, alone: bool) -> str:
    sections = (
        _tiles(run),
        _compared(run),
        _pictures(run),
        served_section(run),
        _course(run),
        _confused(run),
        _left(run),
        _rounds(run),
        _maps(run),
        _flagged(run),
        _refused(run),
        _facts(run),
    )
    heading = "" if alone else f"<h2>{escape(_title(run))}</h2>"
    lead = f'<p class="lead">{escape(_lead(run))}</p>'
    said = "".join(f'<p class="note"><b>{escape(text)}</b></p>' for text in aloud(run))
    return f'<article id="run-{number}">{heading}{lead}{said}{"".join(sections)}</article>'


def _title(run: Run) -> str:
    return run.facts.get("title") or run.folder.name


def _lead(run: Run) -> str:
    facts = run.facts
    when = facts.get("started", "")[:10]
    state = "" if "finished" in facts else " The run is not finished."
    words = [
        f"{facts.get('algorithm', 'A plan')} on {facts.get('source', 'data')}",
        f"{facts.get('train_clients', '?')} clients trained",
        f"{facts.get('test_clients', '?')} were tested",
    ]
    return ", ".join(words) + (f", {when}." if when else ".") + state


def _tiles(run: Run) -> str:
    up, down, seconds = run.totals()
    training = run.rounds.get("training", ())
    trained_up = sum(record.bytes_up for record in training)
    n = max((record.n_used for record in training), default=0)
    tiles = []
    if "" in run.scores:
        tiles.append((score(run.scores[""][run.metric], run.metric), f"{run.metric}, all clients"))
        name, value = _worst(run)
        if name:
            tiles.append((score(value, run.metric), f"worst client: {name}"))
    tiles += [
        (str(len(training)), "round of training" if len(training) == 1 else "rounds of training"),
        (say_bytes(trained_up // n) if n else "-", "sent by each client in training"),
        (say_bytes(up), f"sent up in all; {say_bytes(down)} down"),
        (f"{seconds:.1f} s", "in all rounds"),
    ]
    cells = (
        f'<div class="tile"><b>{escape(a)}</b><span>{escape(b)}</span></div>' for a, b in tiles
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def _compared(run: Run) -> str:
    if run.comparison is None:
        return ""
    metric = run.comparison.rows[0].metric
    own = run.facts.get("own_row", "")
    head = ("", metric, "worst client", "spread", "sent up", "rounds", "seconds", "")
    numbers = (1, 3, 4, 5, 6)
    rows = [_compared_row(row, run.comparison, metric, own) for row in run.comparison]
    better = "more is better" if metric == "accuracy" else "less is better, 1 is the mean"
    text = (
        f"{metric[0].upper()}{metric[1:]}: {better}. Spread is the standard deviation over clients."
    )
    return (
        f"<h3>Compared with other ways</h3>{table(head, rows, numbers, 'compare')}"
        f'<p class="muted">{text} Bytes are those of training.</p>'
    )


def _compared_row(row: Row, among: Comparison, metric: str, own: str) -> tuple[str, Sequence[str]]:
    scores = [r.score for r in among if math.isfinite(r.score)]
    longest = 1.0 if metric == "accuracy" else max(scores, default=1.0) or 1.0
    share = min(1.0, row.score / longest) if math.isfinite(row.score) else 0.0
    bar = f'<span class="bar"><i style="width:{100 * share:.1f}%"></i></span>'
    cells = (
        escape(row.name),
        score(row.score, metric) + bar,
        f"{score(row.worst, metric)}<small>{escape(row.worst_client)}</small>",
        "-" if math.isnan(row.spread) else f"± {score(row.spread, metric, digits=2)}",
        say_bytes(row.bytes_up) if row.bytes_up else "-",
        str(row.rounds) if row.rounds else "-",
        f"{row.seconds:.1f}",
        f'<span class="muted">{escape(row.note)}</span>',
    )
    return ("own" if row.name == own else ""), cells


def _pictures(run: Run) -> str:
    figures = [*_client_chart(run), *_path_chart(run), *_forecast_charts(run)]
    return f'<div class="charts">{"".join(figures)}</div>' if figures else ""


def _client_chart(run: Run) -> Iterable[str]:
    values = {name: s[run.metric] for name, s in run.scores.items() if name}
    if not values:
        return
    best_last = run.metric == "accuracy"
    worst, _ = _worst(run)
    order = sorted(values, key=lambda n: (math.isnan(values[n]), values[n]), reverse=not best_last)
    shown, note = order[:MOST_CLIENTS], ""
    if len(order) > MOST_CLIENTS:
        note = f" The worst {MOST_CLIENTS} of {len(order)} are drawn."
    chart = dot_chart(
        shown,
        [values[name] for name in shown],
        label=f"{run.metric} of every test client",
        x_label=run.metric,
        marked=worst,
        whole=run.scores[""][run.metric],
        write=lambda value: score(value, run.metric, digits=3),
        tick=lambda value: f"{100 * value:.3g} %" if best_last else f"{value:.3g}",
    )
    caption = f"The worst first: {worst}. The line is the {run.metric} of all rows together.{note}"
    yield figure("Every client", chart, caption)


def _path_chart(run: Run) -> Iterable[str]:
    if run.path is None or not np.isfinite(run.path.errors).any():
        return
    path = run.path
    lines = [Line(path.ridges, path.errors[:, k], "faint") for k in range(len(path.outputs))]
    mean = Line(path.ridges, path.errors.mean(axis=1), "s0", "mean of the outputs")
    chosen = path.chosen[:1] if len(path.chosen) == 1 else ()
    chart = line_chart(
        [*(lines if len(lines) > 1 else []), mean],
        label="error on left-out clients for every ridge tried",
        x_label="ridge",
        y_label="mean squared error",
        log_x=True,
        log_y=_spans_decades(path.errors),
        marks=[(ridge, f"chosen: {ridge:.3g}") for ridge in chosen],
    )
    yield figure(
        "Choosing the ridge", chart, "Error on what was left out, for every ridge on the path."
    )


def _forecast_charts(run: Run) -> Iterable[str]:
    drawn = run.forecast
    if drawn is None:
        return
    steps = np.arange(len(drawn.target), dtype=np.float64)
    for k, output in enumerate(drawn.outputs[:MOST_OUTPUTS]):
        chart = line_chart(
            [
                Line(steps, drawn.target[:, k], "s0", "true"),
                Line(steps, drawn.predicted[:, k], "s1", "predicted"),
            ],
            label=f"true and predicted values of {drawn.client}",
            x_label="step",
            y_label=output,
        )
        yield figure(
            "Predictions",
            chart,
            f"The worst test client, {drawn.client}. Where clients are elsewhere, this picture "
            "stays with them.",
        )


def _course(run: Run) -> str:
    """Return every figure of the stages that learn: drawn over their rounds, or as a number."""
    charts, single = [], []
    for stage in (PLASTICITY, TRAINING):
        records = run.rounds.get(stage, ())
        for name in dict.fromkeys(name for record in records for name in record.figures):
            values = np.array([record.figures.get(name, math.nan) for record in records])
            known = values[np.isfinite(values)]
            if len(known) > 1:
                charts.append(_figure_chart(stage, name, values))
            elif len(known) == 1:
                single.append(("", (escape(stage), escape(name), _said(name, float(known[0])))))
    if not charts and not single:
        return ""
    drawn = f'<div class="charts">{"".join(charts)}</div>' if charts else ""
    listed = table(("stage", "figure", "value"), single, (2,), "") if single else ""
    return f"<h3>Round by round</h3>{drawn}{listed}"


def _figure_chart(stage: str, name: str, values: Array) -> str:
    chart = line_chart(
        [Line(np.arange(1.0, len(values) + 1), values, "s0")],
        label=f"{name} after every round of {stage}",
        x_label="round",
        y_label=name,
        whole_x=True,
    )
    known = values[np.isfinite(values)]
    first, last = (_said(name, float(value)) for value in known[[0, -1]])
    heading = escape(f"{name[0].upper()}{name[1:]}")
    return figure(heading, chart, f"{stage.capitalize()}: from {first} to {last}.")


def _said(name: str, value: float) -> str:
    return score(value, "accuracy" if "accuracy" in name else name)


def _confused(run: Run) -> str:
    if run.confusion is None:
        return ""
    counts = run.confusion
    totals = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    head = "".join(f"<th><span>{escape(name)}</span></th>" for name in run.classes)
    rows = []
    for name, row, shares in zip(run.classes, counts, counts / totals, strict=True):
        cells = "".join(
            f'<td style="--share:{share:.3f}"{" class=dark" if share > 0.6 else ""}>{count}</td>'
            for count, share in zip(row, shares, strict=True)
        )
        rows.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    return (
        '<h3>What is taken for what</h3><div class="scroll"><table class="confusion">'
        f"<thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        '<p class="muted">Rows are true classes, columns what the model said; counts over all test '
        "clients.</p>"
    )


def _left(run: Run) -> str:
    explained = explain(run)
    cards = "".join(map(_sent, explained.up))
    down = "".join(f"<li>{escape(text)}</li>" for text in explained.down)
    return (
        f"<h3>What left the clients</h3>{cards or '<p>Nothing yet.</p>'}"
        '<p class="note"><b>Statistics are not anonymous.</b> Only differential privacy gives a '
        "bound on what can be learned about a client or a recording.</p>"
        f"<h3>What is bounded by differential privacy</h3>{_listed(explained.bounded)}"
        f"<h3>What never left</h3>{_never(explained)}{_kept(explained)}"
        f"<h3>What came to the clients</h3><ul>{down}</ul>"
    )


def _sent(one: Sent) -> str:
    if one.kind is None:
        told = "<p>What is in it is not described here: assume that all of it can be read.</p>"
    else:
        items = "".join(f"<li>{escape(text)}</li>" for text in one.kind.tells)
        told = f"<p>It holds {escape(one.kind.holds)}. Whoever reads it learns:</p><ul>{items}</ul>"
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in one.notes)
    heading = f"<h4>{escape(one.stage)}: {escape(one.purpose)}</h4>"
    return f'<div class="sent">{heading}<p>{escape(one.sentence())}</p>{told}{notes}</div>'


def _never(explained: Explanation) -> str:
    texts = list(explained.never)
    if explained.unknown:
        texts.append(f"not known: there are messages of kind {', '.join(explained.unknown)}")
    return _listed(texts)


def _kept(explained: Explanation) -> str:
    if not explained.kept:
        return ""
    heading = "<h3>What the run's folder has of clients, beside their messages</h3>"
    return heading + _listed(explained.kept)


def _listed(texts: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def _rounds(run: Run) -> str:
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
    listed = table(head, rows, range(1, 8), "")
    if len(rows) > MOST_ROUNDS:
        listed = f"<details><summary>All {len(rows)} rounds</summary>{listed}</details>"
    return f"<h3>Rounds</h3>{listed}"


def _maps(run: Run) -> str:
    scores = map_scores(run.facts)
    if not scores:
        note = run.facts.get("map_note", "")
        return f"<p>{escape(note)}</p>" if note else ""
    rows = [
        ("own" if name == run.facts.get("map_chosen") else "", (escape(name), said(score)))
        for name, score in scores.items()
    ]
    listed = table(("feature map", "NRMSE on clients left out"), rows, (1,), "")
    return (
        f"<h3>Feature maps that were tried</h3>{listed}<p>The first was chosen. Every client sent "
        "the statistics of all of them in one message.</p>"
    )


def _flagged(run: Run) -> str:
    if not run.flags:
        return ""
    items = "".join(f"<li>{escape(str(flag))}</li>" for flag in run.flags)
    return (
        f"<h3>Clients that stand out</h3><ul>{items}</ul><p>Their data are in the sum. Someone who "
        "is different looks like this, and so does someone who sends false statistics.</p>"
    )


def _refused(run: Run) -> str:
    refused = [
        ("", (escape(stage), str(record.round + 1), *map(escape, (r.client, r.code, r.reason))))
        for stage, records in run.rounds.items()
        for record in records
        for r in record.refused
    ]
    if not refused:
        return ""
    listed = table(("stage", "round", "client", "code", "reason"), refused[:100], (1,), "")
    more = f"<p>{len(refused) - 100} more are in the ledger.</p>" if len(refused) > 100 else ""
    return f"<h3>Answers that were not used</h3>{listed}{more}"


def _facts(run: Run) -> str:
    names = {
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
    shown = {label: run.facts[name] for name, label in names.items() if run.facts.get(name)}
    items = "".join(
        f"<dt>{escape(label)}</dt><dd><code>{escape(text)}</code></dd>"
        for label, text in shown.items()
    )
    plan = run.folder / PLAN
    text = plan.read_text(encoding="utf-8") if plan.is_file() else ""
    inside = f"<summary>The plan, to run this again</summary><pre>{escape(text)}</pre>"
    again = f"<details>{inside}</details>" if text else ""
    return f"<h3>What was run</h3><dl>{items}</dl>{again}"


def _worst(run: Run) -> tuple[str, float]:
    values = {
        n: s[run.metric] for n, s in run.scores.items() if n and not math.isnan(s[run.metric])
    }
    if not values:
        return "", math.nan
    pick: Callable[..., str] = min if run.metric == "accuracy" else max
    name = pick(values, key=values.__getitem__)
    return name, values[name]


def _spans_decades(errors: Array) -> bool:
    known = errors[np.isfinite(errors)]
    return bool(known.min() > 0 and known.max() > 30 * known.min())
