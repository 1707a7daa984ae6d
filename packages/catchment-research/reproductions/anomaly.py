"""Anomalies on SKAB and NAB by their publishers' scoring: does memory help, does federation help?

Every cell is a family of feature rows with one learner and one seed. See `anomaly_skab` and
`anomaly_nab` for who chooses what; nobody's own labels choose anything for him.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from catchment.errors import ClippingWarning
from reproductions.anomaly_detectors import Learner, thresholds
from reproductions.anomaly_maps import NAB_FAMILIES, SKAB_FAMILIES, Option
from reproductions.anomaly_nab import nab_baselines, nab_cells
from reproductions.anomaly_skab import baselines, skab_cells, skab_scores
from reproductions.anomaly_values import AnomalyCell, AnomalyResult
from reproductions.data.anomalies import Series, load_nab, load_skab

TRACED = "5"  # the run whose scores the picture shows
SETS = ("skab", "nab")


@dataclass(frozen=True, kw_only=True)
class AnomalySettings:
    """How far to go: seeds of reservoirs, and how many clients of each set."""

    seeds: tuple[int, ...] = (0, 1, 2)
    most_clients: int | None = None
    families: tuple[str, ...] | None = None


QUICK = AnomalySettings(seeds=(0,), most_clients=4, families=("inputs",))


@dataclass(frozen=True)
class Job:
    """Some cells that are made together."""

    data: str
    family: str
    seed: int
    make: Callable[[], list[AnomalyCell]]


def anomaly(
    settings: AnomalySettings,
    *,
    directory: Path | None = None,
    sets: Sequence[str] = SETS,
    earlier: AnomalyResult | None = None,
    kept: Callable[[AnomalyResult], object] | None = None,
    began: Callable[[str, int, int], None] | None = None,
    quick: bool = False,
) -> AnomalyResult:
    """Return all cells, those of an earlier result with the same settings as they are.

    Parameters
    ----------
    kept
        Called with the result so far after each family.
    began
        Called with what is next, how many jobs are done and how many there are.
    """
    result = AnomalyResult(json.loads(json.dumps(asdict(settings))), quick=quick)
    if earlier is not None and earlier.settings == result.settings:
        result = replace(earlier, environment=result.environment)
    held = {"skab": load_skab, "nab": load_nab}
    data = {name: held[name](directory=directory)[: settings.most_clients] for name in sets}
    jobs = [job for name in sets for job in _jobs(name, data[name], settings)]
    with warnings.catch_warnings():
        # A run that is alarmed is far outside what it was scaled by; the page says what is cut off.
        warnings.simplefilter("ignore", ClippingWarning)
        for k, job in enumerate(jobs):
            if began is not None:
                began(f"{job.data}: {job.family}, seed {job.seed}", k, len(jobs))
            if any(
                (c.data, c.family, c.seed) == (job.data, job.family, job.seed) for c in result.cells
            ):
                continue
            result = replace(result, cells=(*result.cells, *job.make()))
            if kept is not None:
                kept(result)
        if "skab" in sets and not result.traces:
            result = replace(result, traces=traces(data["skab"]))
    return result


def _jobs(name: str, clients: Sequence[Series], settings: AnomalySettings) -> list[Job]:
    families = SKAB_FAMILIES if name == "skab" else NAB_FAMILIES
    cells = skab_cells if name == "skab" else nab_cells
    start = baselines if name == "skab" else nab_baselines
    jobs = [Job(name, "always alarmed", 0, partial(start, clients))]
    for family, options in families.items():
        if settings.families is not None and family not in settings.families:
            continue
        seeds = settings.seeds if any(one.drawn for one in options) else settings.seeds[:1]
        jobs += [Job(name, family, s, partial(cells, clients, family, s)) for s in seeds]
    return jobs


def traces(runs: Sequence[Series]) -> dict[str, dict[str, list[float]]]:
    """Return scores of one run over time, by inputs and by a reservoir, for the picture."""
    where = next((k for k, one in enumerate(runs) if one.name == TRACED), 0)
    run = runs[where]
    shown: dict[str, tuple[str, Learner]] = {
        "inputs, local": ("inputs", "local"),
        "inputs, federated": ("inputs", "federated"),
        "reservoir, federated": ("reservoir", "federated"),
    }
    found: dict[str, dict[str, list[float]]] = {}
    for name, (family, learner) in shown.items():
        option: Option = SKAB_FAMILIES[family][len(SKAB_FAMILIES[family]) // 2]
        scores, _ = skab_scores(runs, option, learner, 0, 1e-2)
        found[name] = {
            "scores": [round(float(s), 5) for s in scores[where].scores],
            "threshold": [thresholds(scores, 0.01)[where]],
        }
    start, end = run.windows[0]
    found["run"] = {
        "flow": [float(v) for v in run.u[:, -1]],
        "window": [float(start), float(end)],
        "learned": [float(run.n_train)],
    }
    return found
