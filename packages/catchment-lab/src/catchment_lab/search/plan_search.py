"""`catchment search plan.toml`: the ranges in a plan's [search], searched on the plan's clients.

    [search]
    trials = 30
    validation = 0.25                  # share of the training clients that judge
    sampler = "bayes"
    units = [100, 200]                 # options; the others are ranges
    spectral_radius = [0.1, 0.99]
    leak_rate = [0.1, 1.0]
    input_scaling = [0.1, 1.0]

    [search.plasticity]                # only if reservoirs are to adapt
    target_std = [0.05, 0.9]

What [search] does not name keeps the plan's value. The test clients of the plan are not touched.
Protections are not used: whatever the plan says of noise does not hold for what a search chooses.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import tomli_w

from catchment.data import cohorts
from catchment.engine import data_of
from catchment.features import FeatureMap, Reservoir
from catchment.plans import PlanFile, read
from catchment_lab.search.space import PlasticitySpace, Space
from catchment_lab.search.trials import SearchResult, SearchSettings, Watch, search

RANGES = ("spectral_radius", "leak_rate", "input_scaling", "connections", "input_connections")
_SETTINGS = {"validation", *(field.name for field in fields(SearchSettings))}


@dataclass(frozen=True)
class PlanSearch:
    """A plan's [search], read: how to search, what share validates, and where to look."""

    settings: SearchSettings
    validation: float
    space: Space


def read_search(file: PlanFile, *, per_step: bool = False) -> PlanSearch:
    """Return the [search] of a plan; what it leaves out is fixed at the plan's own value.

    Parameters
    ----------
    per_step
        Whether every step has a target of its own, by which the plan's defaults differ.

    >>> from catchment.plans import parse_plan
    >>> plan = parse_plan('[data]\\nsource = "wearables"\\n[features]\\nunits = 50\\n'
    ...                   '[search]\\ntrials = 5\\nleak_rate = [0.1, 0.9]\\n')
    >>> found = read_search(plan)
    >>> found.settings.trials, found.space.units, found.space.leak_rate
    (5, (50,), (0.1, 0.9))
    """
    table = dict(file.search)
    validation = table.pop("validation", 0.25)
    if not isinstance(validation, float) or not 0 < validation < 1:
        raise ValueError(f"validation in [search] is {validation!r}; pass a share between 0 and 1")
    plasticity = table.pop("plasticity", None)
    own = {field.name for field in fields(SearchSettings)}
    settings = read(SearchSettings, {k: v for k, v in table.items() if k in own}, "[search]")
    ranges = {k: v for k, v in table.items() if k not in own}
    recipe = _described(file).reservoir_for(1, per_step=per_step)
    left = [name for name in RANGES if name not in ranges]
    known: dict[str, object] = {name: _fixed(recipe, name) for name in left}
    known["units"] = (recipe.units,)
    made = read(Space, ranges, "[search]", {k: v for k, v in known.items() if k not in ranges})
    if plasticity is not None:
        made = replace(made, plasticity=read(PlasticitySpace, plasticity, "[search.plasticity]"))
    return PlanSearch(settings, validation, made)


def _described(file: PlanFile) -> Any:
    if file.map_name != "echo_state":
        raise ValueError(
            f"map in [features] is {file.map_name!r}, and a search is one for reservoirs; use "
            'map = "echo_state", or choose between maps with map = "auto"'
        )
    return file.maps[0]


def _fixed(recipe: Reservoir, name: str) -> object:
    """Return a setting as a range of one value, or None where the plan leaves it open."""
    value = getattr(recipe, name)
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise ValueError(f"{name} is {value!r} in [features]; give a range for it in [search]")
    return (value, value)


def search_plan(
    file: PlanFile,
    *,
    data: Path | None = None,
    storage: Path | None = None,
    watch: Watch | None = None,
    device: str | None = None,
) -> SearchResult:
    """Return the best recipe for a plan's training clients, some of which judge.

    Parameters
    ----------
    data
        Directory of public data sets; the usual ones if not given.
    storage
        File that keeps the trials.
    watch
        Called with every trial as it ends.
    device
        Where rows and statistics are computed, as for `search`.
    """
    if not set(file.search) - _SETTINGS:
        raise ValueError(
            "the plan has no ranges to search; write them into [search], such as "
            "spectral_radius = [0.1, 0.99] and leak_rate = [0.1, 1.0]"
        )
    held = file.load_data(data)
    described, per_step = _described(file), file.workflow(held.about).per_step
    found, classes = read_search(file, per_step=per_step), held.about.classes is not None
    raw = {name: list(data_of(source)()) for name, source in held.train.items()}
    preprocessing = file.preprocessing
    if not preprocessing.is_fitted:
        moments = [preprocessing.moments(recordings) for _, recordings in sorted(raw.items())]
        preprocessing = preprocessing.fitted(reduce(add, moments))
    clients = {name: preprocessing.apply(recordings) for name, recordings in raw.items()}
    n_inputs = preprocessing.n_inputs(len(held.about.channels))
    if len(clients) < 2:
        raise ValueError("the plan has one training client; a search needs some to judge")
    train, validation, _ = cohorts(
        sorted(clients), validation=found.validation, test=0, seed=found.settings.seed
    )

    def features(reservoir: Reservoir) -> FeatureMap:
        read: FeatureMap = described.reading(reservoir, per_step=per_step, classes=classes)
        return read

    return search(
        {name: clients[name] for name in train},
        {name: clients[name] for name in validation},
        features=features,
        classes=held.about.classes,
        space=found.space,
        base=described.reservoir_for(n_inputs, per_step=per_step, classes=classes),
        settings=found.settings,
        storage=storage,
        watch=watch,
        device=device,
    )


def advice(result: SearchResult) -> Mapping[str, object]:
    """Return the settings of the best trial as they would stand in [features]."""
    names = ("units", *RANGES)
    values = {name: getattr(result.reservoir, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def tuned_plan(file: PlanFile, result: SearchResult) -> str:
    """Return the plan with the settings of the best trial, in TOML; comments are not kept.

    It has no [search] any more, and says how the settings were found.
    """
    tables = tomllib.loads(file.text)
    del tables["search"]
    # Without a search a plan may have another map by default.
    tables["features"] = {"map": "echo_state", **tables.get("features", {}), **advice(result)}
    if result.adaptation is not None:
        rule, rounds = result.adaptation.rule, result.adaptation.rounds
        tables["plasticity"] = {"name": "fedip", "rounds": rounds, "rule": asdict(rule)}
    finished = sum(trial.state == "complete" for trial in result.trials)
    said = (
        f"# [features] is the best of {len(result.trials)} trials ({finished} to the end): "
        f"{result.metric} {result.best.score:.4f} on validation clients."
    )
    return f"{said}\n{tomli_w.dumps(tables)}"
