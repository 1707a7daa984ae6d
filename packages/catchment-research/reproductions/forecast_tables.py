"""The tables and the picture of the study of forecasts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reproductions import forecast_station as station
from reproductions import forecast_weather as weather
from reproductions.axes import WIDTH, dress
from reproductions.forecast_study import PUBLISHED, SOURCE, Cell, covered, of, root_mean
from reproductions.weather_trees import BOOSTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from catchment.report import Theme

OURS = {
    "values": "ours, ridge on 336 hours",
    "changes": "ours, on differences from the last value",
}
INTRODUCTION = """# Forecasts for many owners

    python -m reproductions forecast

Every figure of ours comes from one round of sums of the clients' rows. Beside it stands the same
fit on all rows in one place, made by numpy; the largest relative difference between their forecasts
of the test rows is given.
"""
STATION = """## A transformer station (ETTh1), seven channels, standardized MSE / MAE

The usual protocol: 8,640 hours to learn from, 2,880 to choose on, 2,880 to test on, each channel
standardized by its training hours, every test hour an origin. **Each of the seven channels is a
client**: they share one linear map from the last 336 hours of a channel to all hours ahead, which
is what the published linear models have, here solved exactly instead of trained. The ridge was
chosen on the validation hours at 96 hours among 1, 100, 1,000 and 10,000. Both forms of the target
were looked at on the test hours, and once before at other ridges, in a trial. **The second form,
differences from the last value, was written anew after a first full run had shown its test
figures**, so it had a second chance that the published models' rows do not tell of. The validation
hours prefer the first form at every horizon, the test hours the second at the longer ones: by the
rule that validation chooses, the row to quote is the first.
"""
WEATHER = """## Fifteen regions, temperature 1 to 24 hours ahead

Each region is a client. Of every four weeks the first two train, the third calibrates the
intervals and chooses the ridge (10, 100, 1,000 or 10,000), the fourth is tested on; maps were not
chosen. RMSE in K over all regions, 95 % intervals by drawing regions; reservoirs are means over
{seeds} seeds. Regions were composed from different years, so the weekday says nothing and is left
out. A first trial, with the reservoir of one seed and ridges chosen by clients, was looked at on
the test weeks; nothing but the choice of the ridge was changed after it. No published figure for
these files is known to us.
"""


def markdown(result: dict[str, Any]) -> str:
    """Return the page of a result."""
    cells: list[Cell] = result["cells"]
    parts = [INTRODUCTION, _setting(result), STATION, _station(cells), SOURCE]
    parts += [
        WEATHER.format(seeds=result["seeds"]),
        _weather(cells),
        "### Intervals",
        _coverage(cells),
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _setting(result: dict[str, Any]) -> str:
    return (
        f"CPU, {result['machine']}; Python {result['python']}, numpy {result['numpy']}. Largest "
        f"difference from the pooled fit: {largest_gap(result['cells']):.1e}."
    )


def largest_gap(cells: Sequence[Cell]) -> float:
    """Return the largest relative difference between federated and pooled forecasts."""
    return max(float(cell["gap"]) for cell in cells if cell.get("gap") is not None)


def _station(cells: Sequence[Cell]) -> str:
    horizons = sorted({cell["horizon"] for cell in cells if cell["task"] == "station"})
    rows = [["", *(f"{h} h" for h in horizons)]]
    for name in (*station.NAIVE, *station.FORMS):
        found = {cell["horizon"]: cell["test"] for cell in of(cells, "station", name)}
        shown = [_pair((found[h]["mse"], found[h]["mae"])) if h in found else "" for h in horizons]
        rows.append([OURS.get(name, f"repeat the {name}"), *shown])
    for form in station.FORMS:
        found = {cell["horizon"]: cell["validation"] for cell in of(cells, "station", form)}
        shown = [_pair((found[h]["mse"], found[h]["mae"])) if h in found else "" for h in horizons]
        rows.append([f"{OURS[form]}, on the validation hours", *shown])
    for name, figures in PUBLISHED.items():
        rows.append([f"{name}, as quoted", *(_pair(figures[h]) for h in horizons)])
    return _table(rows)


def _weather(cells: Sequence[Cell]) -> str:
    rows = [["", "features", *(f"{h} h" for h in weather.HORIZONS), "from pooled"]]
    for name in _names(cells):
        own = of(cells, "weather", name)
        shown = [f"{value:.3f} ({low:.3f} to {high:.3f})" for value, low, high in _all(own)]
        gaps = [cell["gap"] for cell in own if cell["gap"] is not None]
        gap = f"{max(gaps):.0e}" if gaps else ""
        rows.append([name, str(own[0]["features"] or ""), *shown, gap])
    return _table(rows)


def _all(cells: Sequence[Cell]) -> list[tuple[float, float, float]]:
    return [root_mean(cells, h) for h in weather.HORIZONS]


def _coverage(cells: Sequence[Cell]) -> str:
    rows = [["share of test hours inside (worst region; mean width, K)"]]
    rows[0] += [f"{h} h" for h in weather.HORIZONS]
    for name in _names(cells):
        own = of(cells, "weather", name)
        for coverage in map(str, weather.COVERAGES):
            if coverage not in next(iter(own[0]["by_client"].values()))["inside"]:
                continue
            shown = []
            for h in weather.HORIZONS:
                share, worst, width = covered(own, coverage, h)
                shown.append(f"{100 * share:.1f} ({100 * worst:.1f}; {width:.1f})")
            rows.append([f"{name}, {100 * float(coverage):g} %", *shown])
    return _table(rows)


def _names(cells: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(cell["contender"] for cell in cells if cell["task"] == "weather"))


def _pair(figures: tuple[float, float]) -> str:
    return f"{figures[0]:.3f} / {figures[1]:.3f}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---", *("---:" for _ in head[1:])], *rest]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def written(path: Path) -> list[Path]:
    """Write the page and the picture beside a result, and return their paths."""
    result = json.loads(path.read_text())
    page = path.with_suffix(".md")
    page.write_text(markdown(result))
    return [page, drawn(result, path.with_suffix(".png"))]


LINES = {  # of the errors: the color's place in the palette, and style
    "lags of the temperature": (5, "o-"),
    "+ calendar": (4, "o-"),
    "+ other channels": (2, "o-"),
    "+ reservoir": (3, "o-"),
    "+ personal readouts": (0, "o-"),
    weather.ALONE: (1, "s-"),
    BOOSTED: (None, "D--"),
}


def _draw_errors(ax: Axes, cells: Sequence[Cell], colors: Theme) -> None:
    """Draw errors as parts of that of the lags: in kelvin the lines would lie on each other."""
    base = [value for value, _, _ in _all(of(cells, "weather", "lags of the temperature"))]
    for name, (place, style) in LINES.items():
        values = [value for value, _, _ in _all(of(cells, "weather", name))]
        parts = [100 * value / lags for value, lags in zip(values, base, strict=True)]
        color = colors.muted if place is None else colors.series[place]
        ax.plot(range(len(base)), parts, style, color=color, label=name, lw=1.6, ms=5)
    ax.set_ylabel("RMSE, % of that of the lags", color=colors.text)
    ax.set_title("error", loc="left", color=colors.text)
    ax.legend(frameon=False, labelcolor=colors.text, loc="center left", bbox_to_anchor=(1, 0.5))


def _draw_coverage(ax: Axes, cells: Sequence[Cell], colors: Theme) -> None:
    own = of(cells, "weather", "+ personal readouts")
    hours = range(len(weather.HORIZONS))
    for color, coverage in zip(colors.series, weather.COVERAGES, strict=False):
        found = [covered(own, str(coverage), h) for h in weather.HORIZONS]
        asked = f"{100 * coverage:g} % intervals"
        ax.axhline(100 * coverage, color=color, lw=1, ls="--")
        ax.plot(hours, [100 * one[0] for one in found], "o-", color=color, label=asked)
        ax.plot(hours, [100 * one[1] for one in found], "o:", color=color, label="worst region")
    ax.set_ylabel("test hours inside (%)", color=colors.text)
    ax.set_title("coverage of the personal readouts' intervals", loc="left", color=colors.text)
    ax.legend(frameon=False, labelcolor=colors.text, loc="center left", bbox_to_anchor=(1, 0.5))


def drawn(result: dict[str, Any], path: Path) -> Path:
    """Draw the errors of the weather by horizon, and how often intervals held."""
    from matplotlib.figure import Figure

    from catchment.report import theme

    colors = theme(False)
    figure = Figure(figsize=(WIDTH, 6), layout="constrained", facecolor=colors.page)
    above, below = figure.subplots(2, 1)
    for ax in (above, below):
        dress(ax, colors)
        ax.set_xticks(range(len(weather.HORIZONS)), [str(h) for h in weather.HORIZONS])
    _draw_errors(above, result["cells"], colors)
    _draw_coverage(below, result["cells"], colors)
    below.set_xlabel("hours ahead", color=colors.text)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return path
