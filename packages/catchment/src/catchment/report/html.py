"""A run as one HTML file that works offline: no script, no font, no picture from elsewhere.

It reads the run's folder and nothing else. Colours follow the reader's choice of light or dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import chain
from pathlib import Path

from catchment.federation.runs.read import Run, read_run
from catchment.files import replace_file
from catchment.plugins import installed, plugin
from catchment.report import headline, scores
from catchment.report.headline import beside, compared, title_of
from catchment.report.pages import page


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
    alone = len(runs) == 1
    title = title_of(runs[0]) if alone else "Runs side by side"
    body = "".join(_article(run, k, alone=alone) for k, run in enumerate(runs))
    version = escape(runs[0].facts.get("catchment", ""))
    footer = (
        f"<footer>Written by catchment {version} from the run's folder. This file needs nothing "
        "else and sends nothing anywhere.</footer>"
    )
    nav = "" if alone else beside(runs)
    return page(title, f"<header><h1>{escape(title)}</h1></header>{nav}{body}{footer}")


def _article(run: Run, number: int, *, alone: bool) -> str:
    served = _served(run, number)
    drawn = any(one.client == headline.worst_client(run)[0] for one in run.drawn)
    link = f"served-{number}" if served else f"signals-{number}" if drawn else ""
    sections = (
        headline.notes(run, number),
        headline.tiles(run, link),
        headline.summary(run),
        compared(run),
        _pictures(run, number),
        served,
        headline.left(run),
        scores.rounds(run),
        scores.maps(run),
        scores.flagged(run),
        scores.drifted(run),
        scores.refused(run, number),
        headline.what_was_run(run),
    )
    # A heading above the sections is there for those who go from heading to heading.
    unseen = '<h2 class="unseen">Results</h2>'
    heading = unseen if alone else f"<h2>{escape(title_of(run))}</h2>"
    lead = f'<p class="lead">{escape(headline.lead(run))}</p>'
    return f'<article id="run-{number}">{heading}{lead}{"".join(sections)}</article>'


def _pictures(run: Run, number: int) -> str:
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
    inside = "".join(figures)
    return f'<div class="charts">{inside}</div>' if inside else ""


def _served(run: Run, number: int) -> str:
    """Return why the worst client is badly served, where the run kept what that takes."""
    if "served" not in installed("reports"):
        return ""
    told = plugin("reports", "served").served_section(run)
    return f'<section id="served-{number}">{told}</section>' if told else ""
