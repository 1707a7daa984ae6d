"""AutoETS and AutoTheta on the series of `lags`, in an environment of their own.

    python -m reproductions.lags_classical series.npz              here: writes the series
    python lags_classical.py series.npz lags_classical.json        there, with statsforecast

They are fitted anew at every origin, to the last 1,000 values of one series, which takes seconds
each: so there are four origins, spread evenly over the test part, and the study has the errors of
every contender at the same four.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

LAST = 1_000  # values that a model is fitted to
MODELS = ("AutoETS", "AutoTheta")


def write_series(path: Path) -> None:
    """Write every set's series, origins, horizons and season for the other environment."""
    from reproductions.lags_study import SETS, few_origins, load

    held: dict[str, Any] = {}
    for name in SETS:
        one = load(name, None)
        held[f"{name}/series"] = np.stack([*one.series.values()])
        held[f"{name}/origins"] = few_origins(one)
        held[f"{name}/horizons"] = np.array(one.horizons)
        held[f"{name}/season"] = np.array(one.season or 1)
    np.savez_compressed(path, **held)


def errors(x: Any, origins: Any, h: int, season: int, model: str) -> list[Any]:
    """Return squared errors (h,) of forecasts from every origin of a series."""
    from statsforecast import models  # type: ignore[import-not-found]

    made = []
    for origin in origins:
        known = x[max(0, origin + 1 - LAST) : origin + 1]
        fitted = getattr(models, model)(season_length=season)
        said = fitted.forecast(np.ascontiguousarray(known), h)["mean"]
        made.append((x[origin + 1 : origin + 1 + h] - said) ** 2)
    return made


def main(source: Path, target: Path) -> None:
    """Fit both models on all sets and write their errors, set by set as they end."""
    held = np.load(source)
    cells: list[dict[str, Any]] = []
    for name in sorted({key.split("/")[0] for key in held.files}):
        series, origins, horizons, season = (
            held[f"{name}/{part}"] for part in ("series", "origins", "horizons", "season")
        )
        for model in MODELS:
            found = []
            for x in series:
                found += errors(x, origins, int(max(horizons)), int(season), model)
            squares = np.mean(found, axis=0)
            for h in horizons.tolist():
                cell = {"set": name, "contender": model, "horizon": h, "few": squares[:h].mean()}
                cells.append(cell)
            target.write_text(json.dumps({"cells": cells}, indent=1))


if __name__ == "__main__":
    places = [Path(word) for word in sys.argv[1:]]
    write_series(*places) if len(places) == 1 else main(*places)
