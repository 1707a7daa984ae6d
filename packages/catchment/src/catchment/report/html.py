"""A run as one HTML file that works offline: no script, no font, no picture from elsewhere.

It reads the run's folder and nothing else. What the page says is in `run.jinja`, a template of
Jinja; its pictures are those of `catchment.report.scores`. Colours follow the reader's choice of
light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib import resources
from itertools import chain
from pathlib import Path

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from catchment.federation.runs.explain import explain, say_bytes, thin_clients
from catchment.federation.runs.read import Run, map_scores, read_run
from catchment.files import replace_file
from catchment.plugins import installed, plugin
from catchment.report import headline, scores
from catchment.report.pages import named, page, score

MOST_ROUNDS = 30  # that are shown at once


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
    title = headline.title_of(runs[0]) if len(runs) == 1 else "Runs side by side"
    return page(title, _templates().get_template("run.jinja").render(title=title, runs=runs))


@cache
def _templates() -> Environment:
    """Return what reads templates, with the functions that they call."""
    made = Environment(autoescape=True, undefined=StrictUndefined, loader=FunctionLoader(_source))
    made.globals |= {
        one.__name__: one
        for one in (headline.title_of, headline.worst_client, headline.metric_name, headline.lead,
                    headline.fold_scores, headline.left_out, headline.data_lines, headline.bar,
                    headline.refusals, headline.settings, explain, thin_clients, map_scores,
                    score)
    }  # fmt: skip
    made.globals |= {
        "named": lambda name: Markup(named(name)),
        "size": say_bytes,
        "nan": math.nan,
        "most_rounds": MOST_ROUNDS,
        "pictures": _pictures,
        "served_section": _served,
        "link": _link,
    }
    return made


def _source(name: str) -> str:
    lines = (resources.files("catchment.report") / name).read_text(encoding="utf-8").splitlines()
    return "".join(map(str.strip, lines))


def _pictures(run: Run, number: int) -> Markup:
    """Return all pictures in two columns, so that none has an empty half beside it."""
    folds, path = list(scores.folds(run)), list(scores.ridge_path(run))
    figures = chain(
        scores.client_scores(run),
        # The best and the worst stand beside each other, below one row of two.
        folds or path,
        scores.signals(run, number),
        path if folds else [],
        scores.forecasts(run),
        scores.confusion(run),
        scores.figures_by_round(run),
    )
    return Markup("".join(figures))


def _served(run: Run, number: int) -> Markup:
    """Return why the worst client is badly served, where the run kept what that takes."""
    if "served" not in installed("reports"):
        return Markup()
    told = plugin("reports", "served").served_section(run)
    return Markup(f'<section id="served-{number}">{told}</section>' if told else "")


def _link(run: Run, number: int, served: str) -> str:
    """Return where the page says more of the worst client; "" if it does not."""
    drawn = any(one.client == headline.worst_client(run)[0] for one in run.drawn)
    return f"served-{number}" if served else f"signals-{number}" if drawn else ""
