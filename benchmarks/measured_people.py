"""Accuracy on people for docs/results.md and the README: all of ours, side by side.

Every ± is the standard deviation over seeds with n - 1; intervals are over people.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import families
from reproductions.anomaly_values import figures, load_anomaly
from reproductions.fedresprompt_values import load_prompts
from reproductions.forecast_study import of as forecasts_of
from reproductions.forecast_study import root_mean
from reproductions.intervals import deviation
from reproductions.life import MAIN, load_life, rmse
from reproductions.life_data import CAP
from reproductions.life_tables import PUBLISHED, over_engines
from reproductions.map_methods import NOTHING_SET
from reproductions.map_pooled import BOOSTED, LOGISTIC
from reproductions.map_values import MapsResult, Row, load_maps
from reproductions.per_class import macro_f1
from reproductions.study import load_result

ROOT = Path(__file__).parents[1]
RESULTS, BENCHMARKS = ROOT / "results", ROOT / "benchmarks" / "results"
SETS = {"uci_har": "UCI HAR", "motionsense": "MotionSense", "hhar": "HHAR", "wisdm_watch": "WISDM"}


def benchmark(name: str) -> Any:
    """Return what a benchmark kept."""
    return json.loads((BENCHMARKS / f"{name}.json").read_text(encoding="utf-8"))


def grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    >>> print(grid(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def shown(values: Sequence[float], digits: int = 1) -> str:
    """Return a mean, and the deviation over seeds with n - 1 where there are several.

    >>> shown([1.0, 3.0]), shown([2.0])
    ('2.0 ± 1.4', '2.0')
    """
    spread = f" ± {deviation(values):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


PEOPLE = {
    NOTHING_SET: "**default, nothing set: window statistics and random convolutions**",
    "default, 510": "the same, every person scaled alone",
    "window statistics": "window statistics only",
    "MiniRocket, 504": "MiniRocket, biases from noise",
    "Hydra, 512": "Hydra",
    "reservoir, chosen": "reservoir of 300 units, one of six, chosen by training people",
    "MiniRocket of aeon, pooled, 1008": "MiniRocket of aeon, 1 008 columns, pooled data",
    "QUANT of aeon, pooled": "QUANT of aeon, pooled data",
    LOGISTIC: "logistic regression on the 510 columns of the second row, pooled data",
    BOOSTED: "gradient boosting on the same, pooled data",
    "InceptionTime, pooled": "InceptionTime, pooled data, rate chosen by training people",
    "CNN by FedAvg": "1-d CNN by FedAvg, tuned over a few rates (WISDM: 30 epochs only)",
    "InceptionTime by FedAvg": "InceptionTime by FedAvg, tuned the same way",
}


def maps() -> MapsResult:
    return load_maps(RESULTS / "maps.json")


def of(result: MapsResult, name: str, method: str) -> Row:
    """Return a method's row on a set, which must be there."""
    row = result.row(name, method)
    if row is None:
        raise ValueError(f"results/maps.json has no {method} on {name}")
    return row


def people_table() -> str:
    """Return accuracy, worst person and bytes of every method."""
    result, lines = maps(), []
    for method, words in PEOPLE.items():
        rows = [result.row(name, method) for name in SETS]  # a slow one is not on every set
        if not any(rows):
            continue
        cells = [
            f"{100 * row.accuracy:.1f} ({100 * row.worst[1]:.1f}) / {_f1(row.macro_f1)}"
            if row
            else "-"
            for row in rows
        ]
        sizes = [row.largest("largest_up") / 1e6 for row in rows if row]
        lines.append([words, *cells, "-" if max(sizes) == 0 else _between(sizes)])
    names = [*list(SETS.values())[:3], "WISDM watch"]
    head = ["accuracy on unseen people, % (worst person) / macro-F1", *names, "MB sent per client"]
    return grid(head, lines)


def _f1(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}".removeprefix("0")


def summary_table() -> str:
    """Return the README's figures: one row a task, with its interval and the best of each family.

    What catchment has is what a user gets: of activities with nothing set.
    """
    result, lines = maps(), []
    for name, words in SETS.items():
        row = of(result, name, NOTHING_SET)
        low, high = row.interval
        best = families.activity(result, name)
        network, pooled = best[families.FEDAVG], best[families.POOLED_DATA]
        lines.append(
            [
                f"activity, {words}: accuracy on unseen people, % (macro-F1)",
                f"**{100 * row.accuracy:.1f}** ({100 * low:.1f} to {100 * high:.1f}; "
                f"{row.macro_f1:.3f})",
                f"{network.row} {100 * network.value:.1f}; "
                f"pooled {_short(pooled.row)} {100 * pooled.value:.1f}; "
                f"most frequent class {100 * best[families.FREQUENT].value:.1f}",
            ]
        )
    return grid(["task", "catchment", "baselines"], [*lines, *_other_tasks()])


def _short(method: str) -> str:
    """Return a pooled method's name without what is said before it.

    >>> _short("MiniRocket of aeon, pooled, 1008")
    'MiniRocket'
    """
    words = method.removesuffix(", 1008").removesuffix(", pooled").removesuffix(" of aeon")
    return words.replace(" on the default's columns", "")


def _other_tasks() -> Iterable[list[str]]:
    """Yield the rows of anomalies, remaining life and forecasts."""
    anomaly = load_anomaly(RESULTS / "anomaly.json")
    skab = figures(anomaly.of("skab", "trailing means", "federated"))
    best = families.skab(RESULTS / "anomaly.json")
    yield [
        "anomalies of a pump, SKAB: F1",
        f"**{skab.f1:.3f}** ({skab.low:.3f} to {skab.high:.3f})",
        f"trained locally {best[families.LOCAL].value:.3f}; "
        f"always-alarm {best[families.NO_DETECTOR].value:.3f}",
    ]
    life = load_life(RESULTS / "life.json")
    true = np.minimum(life.cycles_left, CAP)
    ours = np.mean([rmse(cell.predicted, true) for cell in life.of(MAIN)])
    low, high = over_engines(life.of(MAIN)[0], true)
    best = families.life(RESULTS / "life.json")
    yield [
        "remaining life of engines, C-MAPSS FD001: RMSE, cycles",
        f"**{ours:.1f}** ({low:.1f} to {high:.1f})",
        f"linear on lags {best[families.LINEAR].value:.1f}; pooled gradient boosting "
        f"{best[families.POOLED_DATA].value:.1f}; age alone {best[families.NO_SENSORS].value:.1f}; "
        f"published centralized CNN {PUBLISHED['deep CNN, Li et al. 2018'][0]:.1f}",
    ]
    cells = json.loads((RESULTS / "forecast.json").read_text("utf-8"))["cells"]
    error = root_mean(forecasts_of(cells, "weather", "+ personal readouts"), 6)
    best = families.weather(RESULTS / "forecast.json")
    yield [
        "temperature in 6 hours, 15 regions: RMSE, K",
        "**{:.2f}** ({:.2f} to {:.2f})".format(*error),
        f"trained locally {best[families.LOCAL].value:.2f}; pooled gradient boosting "
        f"{best[families.POOLED_DATA].value:.2f}; {best[families.NO_MODEL].row} "
        f"{best[families.NO_MODEL].value:.2f}",
    ]


def _between(sizes: Sequence[float]) -> str:
    low, high = (
        f"{size:.0f}" if size >= 10 else f"{size:.2g}" for size in (min(sizes), max(sizes))
    )
    return low if low == high else f"{low} to {high}"


def intervals_table() -> str:
    """Return the default with nothing set on every set: over seeds, and over people."""
    result, lines = maps(), []
    for name, words in SETS.items():
        row = of(result, name, NOTHING_SET)
        low, high = row.interval
        lines.append(
            [
                words,
                shown([100 * cell.accuracy for cell in row.cells], 2),
                f"{100 * low:.1f} to {100 * high:.1f}",
                _f1(row.macro_f1),
                f"{100 * row.worst[1]:.1f}",
                str(len(row.people)),
                f"{sum(row.cells[0].windows.values()):,}".replace(",", " "),
            ]
        )
    head = ["nothing set", "accuracy ± over seeds", "95 % over people", "macro-F1", "worst person"]
    return grid([*head, "people", "windows"], lines)


NINE, ALONE, ONE = "the publisher's nine", "each person alone", "one for all, federated"
BY_PEOPLE = "ridge by training people"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of ours on UCI HAR, and what another may have otherwise."""

    what: str
    accuracy: str
    over_people: str = "-"
    macro_f1: str = "-"
    tested: str = NINE
    scale: str = ALONE
    chose: str = BY_PEOPLE
    source: str

    def cells(self) -> list[str]:
        return list(asdict(self).values())


def uci_har_table() -> str:
    """Return every figure of ours on UCI HAR side by side, with what differs."""
    figures = [
        *_of_maps(),
        _of_study("unseen", "incfed", "reservoir of 500 units, mean and deviation"),
        _of_study("incfed", "incfed", "reservoir chosen as in the paper"),
        _of_example(),
        _of_prompts(),
        _of_personal(),
    ]
    head = ["what", "accuracy ± over seeds", "95 % over people", "macro-F1", "tested on", "scale"]
    return grid([*head, "who chose", "from"], [figure.cells() for figure in figures])


def _of_maps() -> list[Figure]:
    rows = (
        (NOTHING_SET, "**default map, nothing set: the figure to quote**", BY_PEOPLE),
        ("default, 510", "default map, 510 columns", BY_PEOPLE),
        ("window statistics", "window statistics", BY_PEOPLE),
        ("reservoir, chosen", "reservoir of 300 units", "recipe and ridge by training people"),
        ("reservoir, documented", "the reservoir of `unseen`, one segment", BY_PEOPLE),
        ("reservoir, default", "reservoir of 200 units, nothing set", BY_PEOPLE),
    )
    figures, result = [], maps()
    for method, words, chose in rows:
        row = of(result, "uci_har", method)
        low, high = row.interval
        figures.append(
            Figure(
                what=words,
                accuracy=shown([100 * cell.accuracy for cell in row.cells]),
                over_people=f"{100 * low:.1f} to {100 * high:.1f}",
                macro_f1=_f1(row.macro_f1),
                scale=ONE if method == NOTHING_SET else ALONE,
                chose=chose,
                source="results/maps.json",
            )
        )
    return figures


def _of_study(name: str, method: str, words: str) -> Figure:
    """Return the figure of a study on people, with everybody training."""
    found = next(s for s in load_result(RESULTS / f"{name}.json").sets if s.name == "uci_har")
    cells = found.of(method, 1.0)
    tested = {person for cell in cells for person in cell.by_subject}
    over = found.interval(method, 1.0) if all(cell.confusions for cell in cells) else None
    return Figure(
        what=words,
        accuracy=shown([100 * value for value in found.values(method, 1.0)]),
        over_people=f"{100 * over.low:.1f} to {100 * over.high:.1f}" if over else "-",
        macro_f1=_f1(macro_f1(found, method, 1.0)),
        tested=NINE if name == "unseen" and len(tested) == 9 else f"{len(tested)} people",
        chose="recipe, pooling and ridge by validation people",
        source=f"results/{name}.json",
    )


def _of_example() -> Figure:
    kept = benchmark("examples")["examples"]["uci_har"]
    value, spread = (100 * number for number in kept["reservoir, N = 120, federated"])
    return Figure(
        what="reservoir of 120 units, spread leaks, two halves",
        accuracy=f"{value:.1f} ± {spread:.1f}",
        macro_f1=_f1(kept["its macro-F1"][0]),
        scale=ONE,
        chose="settings and ridge by training people",
        source="`examples/uci_har.py`",
    )


def _of_prompts() -> Figure:
    cells = load_prompts(RESULTS / "fedresprompt.json").of("uci_har", "ridge")
    return Figure(
        what="plain readout beside prompts",
        accuracy=shown([100 * cell.test for cell in cells]),
        macro_f1=_f1(float(np.mean([cell.macro_f1 for cell in cells]))),
        chose="sizes by validation people",
        source="results/fedresprompt.json",
    )


def _of_personal() -> Figure:
    (row, *_) = (row for row in benchmark("personal")["rows"] if row["data"] == "uci_har")
    return Figure(
        what="shared readout of 150 units, before it is made personal",
        accuracy=f"{100 * row['shared']:.1f}",
        macro_f1=_f1(row["macro_f1_shared"]),
        tested=f"all {row['n_subjects']} in four folds, their later halves",
        scale=ONE,
        source="benchmarks/results/personal.json",
    )
