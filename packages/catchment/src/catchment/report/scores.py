"""Pictures and tables of a run: its rounds, and how well it serves its clients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from html import escape

import numpy as np

from catchment.arrays import Array
from catchment.federation.runs.drawn import MOST_RECORDINGS, DrawnRecording
from catchment.federation.runs.read import Run
from catchment.federation.workflow import PLASTICITY, TRAINING
from catchment.report.charts import Line, dot_chart, line_chart, signal_chart
from catchment.report.headline import fold_scores, judged_by_labels, metric_name, worst_client
from catchment.report.pages import figure, score, scrolling, table


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


MOST_CLIENTS = 30  # in a chart with a row each
SOME_CLIENTS = 20  # of more than that: the worst, below a mark for each
MOST_MARKS = 2000  # of clients without a row
FEW_CLIENTS = 9  # in a chart no taller than others
MOST_OUTPUTS = 3
MOST_BESIDE = 10  # classes of a confusion that has half of the page
SHARES, ERRORS = (0.0, 1.0), (0.0, math.inf)


def client_scores(run: Run) -> Iterator[str]:
    """Yield a chart of every test client's score, the worst first."""
    values = {name: found[run.metric] for name, found in run.scores.items() if name}
    if not values:
        return
    worst, _ = worst_client(run)
    more, called = run.metric == "accuracy", metric_name(run)
    order = sorted(values, key=lambda n: (math.isnan(values[n]), values[n]), reverse=not more)
    if not more:  # those without a score come last in either order
        order.sort(key=lambda name: math.isnan(values[name]))
    shown, note, every = order, "", list[float]()
    if len(order) > MOST_CLIENTS:
        shown, every = order[:SOME_CLIENTS], _places(list(values.values()))
        note = f" All {len(order):,} are marked above; the worst {SOME_CLIENTS} have a row."
    chart = dot_chart(
        shown,
        [values[name] for name in shown],
        label=f"{called} of every test client",
        x_label=called,
        marked=worst,
        whole=run.scores.get("", {}).get(run.metric),
        every=every,
        write=lambda value: score(value, run.metric, digits=3),
        tick=_tick(run.metric),
        limits=SHARES if more else ERRORS,
    )
    line = f"The line is the {called} of all rows together."
    alike = len(order) > 1 and min(values.values()) == max(values.values())
    first = "All are alike." if alike else f"The worst first: {worst}."
    text = f"{first} {line}{note}"
    yield figure("Every client", chart, text, kind="tall" if len(shown) > FEW_CLIENTS else "")


def _places(values: list[float]) -> list[float]:
    """Return values as they are, of very many one for each place where there is any.

    >>> len(_places([k / 1e5 for k in range(100_000)]))
    1001
    """
    if len(values) <= MOST_MARKS:
        return values
    known = np.array([value for value in values if math.isfinite(value)])
    low, wide = known.min(initial=math.inf), np.ptp(known) if len(known) else 0.0
    if not wide > 0:
        return list(map(float, known[:1]))
    places = np.unique(np.rint((known - low) / wide * 1000))
    return [float(low + place / 1000 * wide) for place in places]


def folds(run: Run) -> Iterator[str]:
    """Yield a chart of the score of every fold, where the run was tested by folds."""
    values = fold_scores(run)
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return
    mean = sum(known) / len(known)
    ends = " to ".join(score(end, run.metric) for end in (min(known), max(known)))
    chart = dot_chart(
        [f"fold {k}" for k in range(1, len(values) + 1)],
        values,
        label=f"{run.metric} of every fold",
        x_label=run.metric,
        whole=mean,
        whole_name="mean",
        write=lambda value: score(value, run.metric, digits=3),
        tick=_tick(run.metric),
        limits=SHARES if run.metric == "accuracy" else ERRORS,
    )
    text = f"Mean {score(mean, run.metric)}, from {ends}. In each fold a model of the other folds "
    yield figure("Folds", chart, f"{text}is tested on clients that it has not seen.")


def signals(run: Run, number: int) -> Iterator[str]:
    """Yield signals of the clients served worst and best, with what was predicted."""
    worst, _ = worst_client(run)
    for one in reversed(run.drawn):
        how = "worst" if one.client == worst else "best"
        title = f"Served {how}: {one.client}" if len(run.drawn) > 1 else f"Signals of {one.client}"
        anchor = f"signals-{number}" if one.client == worst else ""
        yield figure(title, signal_chart(one), _drawn_caption(run, one), anchor=anchor)


def ridge_path(run: Run) -> Iterator[str]:
    """Yield the error of every ridge that was tried."""
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


def forecasts(run: Run) -> Iterator[str]:
    """Yield the worst client's true and predicted numbers that no other picture shows."""
    drawn = run.forecast
    if drawn is None:
        return
    steps = np.arange(len(drawn.target), dtype=np.float64)
    for k, output in enumerate(drawn.outputs[:MOST_OUTPUTS]):
        if k == 0 and any(one.client == drawn.client for one in run.drawn):
            continue
        chart = line_chart(
            [
                Line(steps, drawn.target[:, k], "s0", "true"),
                Line(steps, drawn.predicted[:, k], "s1", "predicted"),
            ],
            label=f"true and predicted values of {drawn.client}",
            x_label="step",
            y_label=output,
        )
        caption = f"The worst test client, {drawn.client}. Where clients are elsewhere, this "
        yield figure("Predictions", chart, f"{caption}picture stays with them.")


def confusion(run: Run) -> Iterator[str]:
    """Yield the table of true against predicted classes, shaded by share of the true class."""
    if run.confusion is None:
        return
    counts = run.confusion
    totals = counts.sum(axis=1)
    head = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in run.classes)
    rows = []
    for k, (name, row, total) in enumerate(zip(run.classes, counts, totals, strict=True)):
        cells = "".join(
            f'<td style="--share:{count / max(total, 1):.3f}">{count}</td>' for count in row
        )
        right = score(row[k] / total, "accuracy") if total else "-"
        first = f'<th scope="row" title="{escape(name)}">{escape(name)}</th>'
        rows.append(f'<tr>{first}{cells}<td class="n">{right}</td></tr>')
    shown = scrolling(
        f'<table class="confusion"><thead><tr><td></td>{head}<th scope="col"><span>right</span>'
        f"</th></tr></thead><tbody>{''.join(rows)}</tbody></table>",
        "What is taken for what",
        broad=len(run.classes) > 5,
    )
    text = "Rows are true classes, columns what the model said; counts over all test clients."
    if np.count_nonzero(totals) == 1:
        (only,) = np.flatnonzero(totals)
        text += f" All are of one class, {run.classes[only]}, so that a score says little."
    kind = "wide" if len(run.classes) > MOST_BESIDE else ""
    yield figure("What is taken for what", shown, text, kind=kind)


def _drawn_caption(run: Run, one: DrawnRecording) -> str:
    value = run.scores.get(one.client, {}).get(run.metric, math.nan)
    known = f"{run.metric[:1].upper()}{run.metric[1:]} {score(value, run.metric)}. "
    if one.threshold is not None:
        return _alarms_caption(run, one)
    if not one.names_classes:
        what = one.output or "the target"
        return f"{known}Above, raw signals; below, {what} as it was and as it was predicted."
    known_spans = sum(span.truth is not None for span in one.spans)
    wrong = f"{one.n_wrong} of {known_spans} stretches are wrong" if one.n_wrong else "No mistake"
    if not np.isnan(one.signals).all(axis=1).any():  # nothing parts two recordings
        return f"{known}Raw signals of one recording. {wrong} here."
    some = f"{known}Raw signals of up to {MOST_RECORDINGS} recordings, one after the other. "
    return f"{some}{wrong} here, where recordings with mistakes are drawn first, up to half of all."


def _alarms_caption(run: Run, one: DrawnRecording) -> str:
    """Return what is seen of a detector: alarms, and mistakes only where there are labels."""
    value = score(run.scores.get(one.client, {}).get(run.metric, math.nan), run.metric)
    seen = "Raw signals, and below them scores over time with the threshold."
    if judged_by_labels(run):
        return f"{value} of the rows are as they are labelled. {seen}"
    return f"{value} of the rows are without an alarm; if all are normal, others are false. {seen}"


def _tick(metric: str) -> Callable[[float], str]:
    if metric == "accuracy":
        return lambda value: f"{100 * value:.3g} %"
    return lambda value: f"{value:.3g}"


def _spans_decades(errors: Array) -> bool:
    known = errors[np.isfinite(errors)]
    return bool(known.min() > 0 and known.max() > 30 * known.min())
