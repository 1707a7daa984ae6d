"""What the anomaly study shows, in sentences whose numbers come from its cells."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from reproductions.anomaly_published import NAB_FINAL, SKAB_STRICT, on_these_files
from reproductions.anomaly_values import AnomalyResult, difference, figures


def findings(result: AnomalyResult) -> Iterator[str]:
    """Yield the sentences of the sets that were run."""
    if result.of("skab", "reservoir", "federated"):
        yield from _skab(result)
    if result.of("nab", "reservoir", "federated"):
        yield from _nab(result)


def _skab(result: AnomalyResult) -> Iterator[str]:
    def known(family: str, learner: str) -> tuple[float, float]:
        cells = result.of("skab", family, learner)
        return figures(cells).f1, float(np.mean([cell.mean_auroc for cell in cells]))

    always = known("always alarmed", "-")[0]
    local = figures(result.of("skab", "inputs", "local"))
    shared = figures(result.of("skab", "inputs", "federated"))
    value, low, high = difference(
        result.of("skab", "inputs", "federated"), result.of("skab", "inputs", "local")
    )
    yield (
        f"**SKAB, inputs alone**: a run by itself has F1 {local.f1:.3f} at "
        f"{100 * local.false_positive_rate:.0f} % false alarms, where alarming always has "
        f"{always:.3f}; everybody's sums have {shared.f1:.3f} at "
        f"{100 * shared.false_positive_rate:.0f} %, and miss {100 * shared.missed:.0f} % instead "
        f"of {100 * local.missed:.0f} %. F1 changes by {value:+.3f} ({low:+.3f} to {high:+.3f}): "
        f"{_sure(low, high)}."
    )
    value, low, high = difference(
        result.of("skab", "reservoir", "federated"), result.of("skab", "reservoir", "local")
    )
    yield (
        f"**With a reservoir federation matters**: {value:+.3f} F1 ({low:+.3f} to {high:+.3f}: "
        f"{_sure(low, high)}) against a run by itself."
    )
    for family in ("trailing means", "reservoir"):
        cells = result.of("skab", family, "federated")
        value, low, high = difference(
            cells, list(result.of("skab", "inputs", "federated")) * len(cells)
        )
        mean, rank = known(family, "federated")
        yield (
            f"**Memory ({family}, federated)**: F1 {mean:.3f}, {value:+.3f} against inputs "
            f"({low:+.3f} to {high:+.3f}: {_sure(low, high)}), AUROC {rank:.3f}."
        )
    for learner in ("federated", "personal"):
        units, means = (result.of("skab", f, learner) for f in ("reservoir", "trailing means"))
        value, low, high = difference(units, list(means) * len(units))
        yield (
            f"**A reservoir against exponential means of the eight inputs ({learner})**: "
            f"{value:+.3f} F1 ({low:+.3f} to {high:+.3f}: {_sure(low, high)})."
        )
    errors, _ = known("forecast errors, reservoir", "federated")
    drift, _ = known("inputs, drift taken off", "federated")
    window, _ = known("window statistics", "federated")
    yield (
        f"**What does not help, federated**: taking a slow mean off the inputs ({drift:.3f}), "
        f"window statistics ({window:.3f}, though they rank well), forecast errors of a reservoir "
        f"({errors:.3f})."
    )
    best = max(SKAB_STRICT.values())[0]
    yield (
        f"The best published F1 is {best:.2f}, over 34 runs and without tuning; ours are over 16 "
        "of them with settings that other labeled runs chose, so neither beats the other by this."
    )


def _nab(result: AnomalyResult) -> Iterator[str]:
    def mean(family: str, learner: str, name: str) -> float:
        cells = result.of("nab", family, learner)
        return float(np.mean([cell.figures[name] for cell in cells]))

    random = mean("random", "-", "tuned, standard")
    own, all_ = (mean("inputs", who, "tuned, standard") for who in ("local", "federated"))
    units = [mean("reservoir", who, "tuned, standard") for who in ("local", "federated")]
    yield (
        f"**NAB, federation gains nothing.** Tuned as NAB tunes, "
        f"inputs score {own:.1f} alone and {all_:.1f} together, a reservoir {units[0]:.1f} and "
        f"{units[1]:.1f}; random scores have {random:.1f}."
    )
    best = max(NAB_FINAL, key=on_these_files)
    honest = [
        mean(family, learner, "other files, standard")
        for family in ("inputs", "lags", "trailing means", "reservoir", "forecast errors, lags")
        for learner in ("local", "federated", "personal")
    ]
    yield (
        f"**What is normal at the start is not enough on NAB**: with settings and threshold from "
        f"other files the best of {len(honest)} rows of the table has "
        f"{max(honest):.1f}; on the same files {best} has "
        f"{on_these_files(best):.1f}, Numenta's HTM {on_these_files('Numenta HTM'):.1f} and the "
        f"windowed Gaussian {on_these_files('Windowed Gaussian'):.1f}, with "
        "thresholds tuned on all files. The windowed Gaussian, run again here, goes on learning "
        "through a file; of the others that was not checked."
    )


def _sure(low: float, high: float) -> str:
    return "settled" if low > 0 or high < 0 else "not settled"
