"""A run as one HTML file that works offline: no script, no font, no picture from elsewhere.

It reads the run's folder and nothing else. What the page says is in `run.jinja`, a template of
Jinja, which calls the functions here: words about who trained, the figures in short and what left,
and pictures of its rounds and of how well it serves its clients. Colors follow the reader's choice
of light or dark, and color-blind readers tell them apart: those of series are by Okabe and Ito
(2008), ordered by contrast with the page.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from catchment.arrays import Array
from catchment.federation.measure.baselines import Row
from catchment.federation.messages import Record, Refusal, fewest, in_turns, turns
from catchment.federation.messages import left_out as refused_in
from catchment.federation.runs.folder import PLAN, RunFolder
from catchment.federation.runs.ledger import explain, map_scores, say_bytes, thin_clients
from catchment.federation.runs.read import Run, folds_of_run, lasting, read_run
from catchment.federation.runs.read import worst_client as worst_of
from catchment.federation.workflow import DELIVERY, EVALUATION, PLASTICITY, TRAINING
from catchment.plugins import installed, plugin
from catchment.report.charts import Line, dot_chart, line_chart
from catchment.wire.messages import replace_file

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
MOST_NAMED = 3  # clients that were left out
MOST_CLIENTS = 30  # in a chart with a row each
SOME_CLIENTS = 20  # of more than that: the worst, below a mark for each
MOST_MARKS = 2000  # of clients without a row
FEW_CLIENTS = 9  # in a chart no taller than others
SHARES, ERRORS = (0.0, 1.0), (0.0, math.inf)
MOST_ROUNDS = 30  # that are shown at once
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
TERMS = {
    "held-out error": "Held-out error: of each client, by a readout trained without it.",
    "NRMSE": "NRMSE: RMSE over the targets' standard deviation; the mean has 1.",
    "candidates": "Candidates: maps or settings that were still being compared.",
    "ridge": "Ridge: how strongly weights are held near zero.",
    "rows": "Rows: the windows, recordings or steps used for training.",
    "weight norm": "Weight norm: the length of all weights together.",
    "shrinkage": "Shrinkage: how far the covariance is pulled to the identity, 0 to 1.",
    "threshold": "Threshold: the score above which there is an alarm.",
}


@dataclass(frozen=True)
class Theme:
    """Colors by their use, as hexadecimal strings."""

    page: str
    text: str
    muted: str
    grid: str
    series: tuple[str, ...]
    diverging: tuple[str, str, str, str, str]  # negative to positive, the middle near the page
    warning: str  # of words
    deepest: float  # most of the first series in a cell, in percent, on which text is still read


LIGHT = Theme(
    page="#ffffff",
    text="#1f2328",
    muted="#6b7280",
    grid="#e3e6ea",
    series=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
    diverging=("#b35806", "#f1a340", "#e6e6e6", "#6ba6cd", "#08519c"),
    warning="#b34700",
    deepest=65,
)
DARK = Theme(
    page="#14181d",
    text="#e6e9ed",
    muted="#9aa3ad",
    grid="#2c333b",
    series=("#56b4e9", "#e69f00", "#2bc499", "#e59ac0", "#f0e442", "#ff7f3f"),
    diverging=("#ffb366", "#c7701f", "#3a424b", "#3d86bd", "#8fd0ff"),
    warning="#f0a030",
    deepest=40,
)


def theme(dark: bool) -> Theme:
    """Return the colors for a light or a dark page.

    >>> theme(dark=False).page
    '#ffffff'
    """
    return DARK if dark else LIGHT


def page(title: str, body: str) -> str:
    """Return a whole page that asks no one for anything: its policy forbids it to.

    >>> page("A & B", "<p>text</p>")[:35]
    '<!doctype html><html lang="en"><hea'
    """
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(title)}</title><style>{style()}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def figure(title: str, inside: str, caption: str = "", *, kind: str = "") -> str:
    """Return a chart or a table with a heading above and a sentence below.

    One that is "wide" has the whole width of the page, one that is "tall" two others beside it.

    >>> figure("A & B", "", "text")
    '<figure><h3>A &amp; B</h3><figcaption>text</figcaption></figure>'
    """
    marks = f' class="{kind}"' if kind else ""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure{marks}><h3>{escape(title)}</h3>{inside}{below}</figure>"


def named(name: str) -> str:
    """Return a name that cannot change the words around it, in whichever direction it is written.

    >>> named("a<b")
    '<bdi>a&lt;b</bdi>'
    """
    return f"<bdi>{escape(name)}</bdi>" if name else ""


def score(value: float, metric: str, digits: int = 4) -> str:
    """Return a score as people say it.

    >>> score(0.5, "accuracy"), score(0.5, "NRMSE"), score(math.nan, "NRMSE")
    ('50.0 %', '0.5', '-')
    """
    if math.isnan(value):
        return "-"
    return f"{100 * value:.1f} %" if metric == "accuracy" else f"{value:.{digits}g}"


def style() -> str:
    """Return the style sheet of pages, light and dark.

    >>> "prefers-color-scheme: dark" in style()
    True
    """
    css = (resources.files("catchment.report") / "report.css").read_text(encoding="utf-8")
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}"
    return f":root {{ {_variables(LIGHT)} }} {dark} {css}"


def _variables(theme: Theme) -> str:
    series = {f"s{k}": color for k, color in enumerate(theme.series)}
    colors = {name: getattr(theme, name) for name in ("page", "text", "muted", "grid")}
    colors |= {"cell": theme.grid, "warn": theme.warning, "deep": f"{theme.deepest:g}%"}
    return " ".join(f"--{name}: {color};" for name, color in (colors | series).items())


def write_report(folders: Sequence[str | Path | RunFolder], path: str | Path) -> Path:
    """Write a report about one or more runs to a file, and return its path.

    Parameters
    ----------
    folders
        Folders of runs, the first one first; or runs in memory.
    path
        The file; it is replaced if it exists.
    """
    if not folders:
        raise ValueError("there are no runs; pass at least one folder")
    replace_file(Path(path), render([read_run(folder) for folder in folders]).encode())
    return Path(path)


def render(runs: Sequence[Run]) -> str:
    """Return the page about some runs."""
    title = title_of(runs[0]) if len(runs) == 1 else "Runs side by side"
    return page(title, _templates().get_template("run.jinja").render(title=title, runs=runs))


@cache
def _templates() -> Environment:
    """Return what reads templates, with the functions that they call."""
    made = Environment(autoescape=True, undefined=StrictUndefined, loader=FunctionLoader(_source))
    made.globals |= {
        one.__name__: one
        for one in (title_of, worst_client, metric_name, lead,
                    fold_scores, left_out, data_lines, bar,
                    refusals, settings, explain, thin_clients, map_scores,
                    score, lasting)
    }  # fmt: skip
    made.globals |= {
        "named": lambda name: Markup(named(name)),
        "size": say_bytes,
        "nan": math.nan,
        "most_rounds": MOST_ROUNDS,
        "pictures": lambda run: _joined(client_scores(run), folds(run), ridge_path(run)),
        "round_figures": lambda run: _joined(figures_by_round(run)),
        "served_section": _served,
    }
    return made


def _source(name: str) -> str:
    lines = (resources.files("catchment.report") / name).read_text(encoding="utf-8").splitlines()
    return "".join(map(str.strip, lines))


def _joined(*figures: Iterable[str]) -> Markup:
    """Return pictures one after the other, in two columns: so none has an empty half beside it."""
    return Markup("".join(chain(*figures)))


def _served(run: Run, number: int) -> Markup:
    """Return why the worst client is badly served, where the run kept what that takes."""
    if "served" not in installed("reports"):
        return Markup()
    told = plugin("reports", "served").served_section(run)
    return Markup(f'<section id="served-{number}">{told}</section>' if told else "")


def title_of(run: Run) -> str:
    """Return what a run is called."""
    return run.facts.get("title") or run.folder.name


def worst_client(run: Run) -> tuple[str, float]:
    """Return the test client with the worst score, and the score; "" if nobody has one."""
    name = worst_of(run.scores, run.metric)
    return name, run.scores[name][run.metric] if name else math.nan


def metric_name(run: Run) -> str:
    """Return what the metric is called: of a detector without labels it is no accuracy."""
    bare = run.confusion is None or sum(row.any() for row in run.confusion) < 2
    return (
        "share without an alarm" if bare and run.facts.get("algorithm") == "anomaly" else run.metric
    )


def lead(run: Run) -> str:
    """Return in one sentence what was run, and on how many clients of those asked."""
    facts, trained = run.facts, _fewest(run)[1]
    if len({record.n_used for record in in_turns(run.rounds.get(TRAINING, ()))}) > 1:
        trained = f"at least {trained}"
    n, tested = sum(bool(name) for name in run.scores), "nobody was tested"
    for one in run.rounds.get(EVALUATION, ())[-1:]:
        tested = f"{_share(one)} {'was' if one.n_used == 1 else 'were'} tested"
    if n and EVALUATION not in run.rounds:
        tested = f"{n:,} were tested, each by a model that had not seen them"
    what = f"{facts.get('algorithm', 'A plan')} on {facts.get('source', 'data')}"
    words = (what, trained or "nobody has trained yet", tested, facts.get("started", "")[:10])
    return f"{', '.join(filter(None, words))}."


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
    scores = (one.score for one in folds_of_run(run.facts))
    return [math.nan if value is None else value for value in scores]


def _fewest(run: Run) -> tuple[Record | None, str]:
    """Return the round of the training with the fewest answers, and how many trained in it."""
    training = run.rounds.get(TRAINING, ())
    one = fewest(training)
    if one is None:
        return None, ""
    clients = "client" if one.n_asked == 1 else "clients"
    return one, f"{_share(one)} {clients} trained{turns(training)}"


def _share(record: Record) -> str:
    whole = "" if record.n_used == record.n_asked else f" of {record.n_asked:,}"
    return f"{record.n_used:,}{whole}"


def left_out(run: Run, number: int) -> tuple[str, list[Markup]]:
    """Return how many trained, and who did not or was not tested, and why, if anybody."""
    fewest, trained = _fewest(run)
    found: dict[str, Refusal] = {}
    for one in sorted(refused_in(run.rounds), key=lambda one: one.stage != TRAINING):
        found.setdefault(one.client, one)
    for fold in folds_of_run(run.facts):
        for name, reason in fold.untested.items():
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
    return trained, told


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


def settings(run: Run) -> tuple[dict[str, str], str]:
    """Return settings and fingerprints of a run by what they are called, and its plan's text."""
    shown = {label: run.facts[name] for name, label in _FACTS.items() if run.facts.get(name)}
    plan = run.folder / PLAN
    return shown, plan.read_text(encoding="utf-8") if plan.is_file() else ""


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
                single.append(f"<dt>{escape(name)}, {escape(stage)}</dt><dd>{told}</dd>")
    if single:
        every = {name for records in run.rounds.values() for one in records for name in one.figures}
        terms = " ".join(words for name, words in TERMS.items() if name in every)
        yield figure("Figures of the rounds", f"<dl>{''.join(single)}</dl>", terms)


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


def client_scores(run: Run) -> Iterator[str]:
    """Yield a chart of every test client's score, the worst first."""
    values = {name: found[run.metric] for name, found in run.scores.items() if name}
    if not values:
        return
    (worst, _), called = worst_client(run), metric_name(run)
    sign = 1 if run.metric == "accuracy" else -1  # those without a score come last in either order
    order = sorted(values, key=lambda name: (math.isnan(values[name]), sign * values[name]))
    shown, note, every = order, "", list[float]()
    if len(order) > MOST_CLIENTS:
        shown, every = order[:SOME_CLIENTS], _places(list(values.values()))
        note = f" All {len(order):,} are marked above; the worst {SOME_CLIENTS} have a row."
    told: dict[str, Any] = {"marked": worst, "every": every}
    told["whole"] = run.scores.get("", {}).get(run.metric)
    chart = _dots(run, {name: values[name] for name in shown}, called, "test client", **told)
    line = f"The line is the {called} of all rows together."
    alike = len(order) > 1 and min(values.values()) == max(values.values())
    first = "All are alike." if alike else f"Worst first: {worst}."
    text = f"{first} {line}{note}"
    yield figure("Every client", chart, text, kind="tall" if len(shown) > FEW_CLIENTS else "")


def _dots(run: Run, values: Mapping[str, float], called: str, of: str, **more: Any) -> str:
    """Return a chart of scores, a row for each name."""
    accuracy = run.metric == "accuracy"
    return dot_chart(
        [*values],
        [*values.values()],
        label=f"{called} of every {of}",
        x_label=called,
        write=lambda value: score(value, run.metric, digits=3),
        tick=lambda value: f"{100 * value:.3g} %" if accuracy else f"{value:.3g}",
        limits=SHARES if accuracy else ERRORS,
        **more,
    )


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
    shown = {f"fold {k}": value for k, value in enumerate(values, start=1)}
    chart = _dots(run, shown, run.metric, "fold", whole=mean, whole_name="mean")
    text = f"Mean {score(mean, run.metric)}, from {ends}. In each fold a model of the other folds "
    yield figure("Folds", chart, f"{text}is tested on clients that it has not seen.")


def ridge_path(run: Run) -> Iterator[str]:
    """Yield the error of every ridge that was tried."""
    if run.path is None or not np.isfinite(run.path.errors).any():
        return
    path, known = run.path, run.path.errors[np.isfinite(run.path.errors)]
    lines = [Line(path.ridges, path.errors[:, k], "faint") for k in range(len(path.outputs))]
    mean = Line(path.ridges, path.errors.mean(axis=1), "s0", "mean of the outputs")
    chosen = path.chosen[:1] if len(path.chosen) == 1 else ()
    chart = line_chart(
        [*(lines if len(lines) > 1 else []), mean],
        label="error on left-out clients for every ridge tried",
        x_label="ridge",
        y_label="mean squared error",
        log_x=True,
        log_y=bool(known.min() > 0 and known.max() > 30 * known.min()),
        marks=[(ridge, f"chosen: {ridge:.3g}") for ridge in chosen],
    )
    yield figure("Choosing the ridge", chart, "Error on left-out data for every ridge tried.")
