"""The anomaly study as a page: tables of both sets, published figures, and what they show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from reproductions.anomaly_findings import findings
from reproductions.anomaly_published import nab_published, skab_published
from reproductions.anomaly_values import AnomalyCell, AnomalyResult, difference, figures
from reproductions.grids import grid

LEARNED = {
    "local": "local: one's own sums",
    "federated": "federated: everybody's sums",
    "left out": "federated, without the run judged",
    "personal": "personal: everybody's covariance about one's own mean",
}


def markdown(result: AnomalyResult) -> str:
    """Return the page."""
    return "\n\n".join(part for part in _parts(result) if part) + "\n"


def write(result: AnomalyResult, folder: Path) -> tuple[Path, ...]:
    """Write the result as JSON, as a page and, where matplotlib is, as a picture; return where."""
    from catchment.errors import MissingExtraError

    stem = "anomaly-quick" if result.quick else "anomaly"
    data, page, picture = (folder / f"{stem}.{end}" for end in ("json", "md", "png"))
    result.save(data)
    page.write_text(markdown(result), encoding="utf-8")
    try:
        from reproductions.anomaly_pictures import draw
    except MissingExtraError:
        return data, page
    if not result.traces:
        return data, page
    draw(result).savefig(picture, dpi=110)
    return data, page, picture


def _parts(result: AnomalyResult) -> Iterator[str]:
    yield "# Anomalies on SKAB and NAB (`anomaly`)"
    seeds = ", ".join(map(str, result.settings["seeds"]))
    where = result.environment
    yield (
        f"`python -m reproductions anomaly`; seeds {seeds} of reservoirs; "
        f"{where.get('platform', '')} {where.get('machine', '')}, CPU. A client sends the sums of "
        "its rows once and a histogram of their scores once; the score of a row is its squared "
        "Mahalanobis distance over the number of columns."
    )
    if any(cell.data == "skab" for cell in result.cells):
        yield from _skab(result)
    if any(cell.data == "nab" for cell in result.cells):
        yield from _nab(result)
    yield "## Exactness"
    yield _exactness(result)
    if not result.quick:
        yield "## What it shows"
        yield "\n".join(f"- {line}" for line in findings(result))


def _skab(result: AnomalyResult) -> Iterator[str]:
    runs = len(next(cell for cell in result.cells if cell.data == "skab").auroc)
    yield f"## SKAB: {runs} runs of valve1, a run a client"
    yield (
        "Learned from the first 400 rows of each run, judged on the rest (the publisher's *strict* "
        "protocol). F1, false and missed alarms are over the rows of all runs, the interval over "
        "runs drawn with replacement. The option of a family, the shrinkage (0.001 or 0.1), the "
        "averaging of scores (none or 30 rows) and the rate of false alarms by which the threshold "
        "is set (5, 2 or 1 %) for the even runs were chosen by the labeled odd runs, by F1, and "
        "the other way round; AUROC is the mean over runs, with the setting that the other runs' "
        "AUROC chose. *At 1 %*: F1 where the threshold is always at one false alarm in a hundred. "
        "Whatever the learner, the rows that set its threshold are held out: each quarter of the "
        "400 is scored by sums, and by a readout, without it. "
        "The lists of options were made after looking at all runs, so figures are a little kind to "
        "every family. Change points are not scored. *kB up* is the sums of the rows that are "
        "scored: of forecast errors a round of the sums of their regressors comes before it, which "
        "is left out here and is as large as that of lags or of a reservoir, plus the inputs as "
        "targets."
    )
    yield grid(
        [
            "rows",
            "learner",
            "F1",
            "false alarms, %",
            "missed, %",
            "at 1 %",
            "AUROC",
            "columns",
            "kB up",
            "F1 against inputs, same learner",
        ],
        [_skab_row(result, cells) for cells in _groups(result, "skab")],
    )
    yield skab_published()


def _skab_row(result: AnomalyResult, cells: Sequence[AnomalyCell]) -> list[str]:
    first, known, plain = cells[0], figures(cells), figures(cells, "plain")
    inputs = result.of("skab", "inputs", first.learner)
    gain = "-"
    if inputs and first.family != "inputs" and first.learner in LEARNED:
        value, low, high = difference(cells, list(inputs) * len(cells))
        gain = f"{value:+.3f} ({low:+.3f} to {high:+.3f})"
    return [
        first.family,
        LEARNED.get(first.learner, first.learner),
        f"{known.f1:.3f} ({known.low:.3f} to {known.high:.3f})",
        f"{100 * known.false_positive_rate:.1f}",
        f"{100 * known.missed:.1f}",
        f"{plain.f1:.3f}",
        f"{np.mean([cell.mean_auroc for cell in cells]):.3f}",
        str(first.columns or "-"),
        f"{first.upload_bytes / 1000:.1f}" if first.upload_bytes else "0",
        gain,
    ]


def _nab(result: AnomalyResult) -> Iterator[str]:
    files = len(next(cell for cell in result.cells if cell.data == "nab").auroc)
    yield f"## NAB: {files} files of three folders, a file a client"
    yield (
        "Learned from the probation (15 % of a file, 750 rows at most), scored by NAB: 0 is no "
        "alarm at all, 100 perfect. *Tuned*: settings and threshold are those that score best on "
        "the same files, as NAB's own tables have them. *Other files*: the other half of the files "
        "chose both. *Quantile*: the settings of other files, the threshold at one false alarm in "
        "a thousand rows of the probation, by federated quantiles (local: by one's own). Inputs "
        "are cut off at 60 deviations of the probation. What is done with scores was made up after "
        "looking at all files."
    )
    head = [
        "rows",
        "learner",
        "tuned: standard",
        "low FP",
        "low FN",
        "other files: standard",
        "low FP",
        "low FN",
        "quantile: standard",
        "AUROC",
    ]
    yield grid(head, [_nab_row(cells) for cells in _groups(result, "nab")])
    yield nab_published()


def _nab_row(cells: Sequence[AnomalyCell]) -> list[str]:
    names = [
        f"{how}, {p}" for how in ("tuned", "other files") for p in ("standard", "low FP", "low FN")
    ]
    shown = []
    for name in (*names, "quantile, standard"):
        known = [cell.figures[name] for cell in cells if name in cell.figures]
        shown.append(f"{np.mean(known):.1f}" if known else "-")
    rank = np.mean([cell.mean_auroc for cell in cells])
    first = cells[0]
    return [first.family, first.learner, *shown, f"{rank:.3f}"]


def _exactness(result: AnomalyResult) -> str:
    known = [cell.difference for cell in result.cells if cell.difference is not None]
    if not known:
        return "No federated cell was run."
    return (
        f"Scores of all rows by the federated sums are those of the pooled rows, computed by numpy "
        f"from the stacked rows without any sums: the largest relative difference over "
        f"{len(known)} federated cells is {max(known):.1e}, rows before the washout "
        "left out. Of forecast errors it is the scores of the errors that are compared, not the "
        "readout that made them."
    )


def _groups(result: AnomalyResult, data: str) -> list[tuple[AnomalyCell, ...]]:
    keys = dict.fromkeys((c.family, c.learner) for c in result.cells if c.data == data)
    return [result.of(data, *key) for key in keys]
