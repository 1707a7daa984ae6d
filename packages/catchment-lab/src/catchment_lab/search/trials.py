"""Which recipe? Random or Bayesian search, judged on validation clients, resumed and pruned.

A trial draws a recipe, and a rule of plasticity where the space has one. Clients are added in
growing shares: their statistics add to the sum, the sum is solved for a whole path of ridges, and
the best of them on the validation clients is the trial's score so far. A trial that lies below the
median of the others at the same share is given up. So the ridge is never searched for: it costs no
pass over the data.

A device makes the rows and sums the statistics, which in fixed point are the very ones of the CPU.
They are solved, and the validation rows scored, on the CPU: so a search finds the same on any
device.

Trials are kept by optuna, in a file if one is named; a search that was stopped goes on where it
was, and several processes may work on one file.

`catchment search plan.toml`: the ranges in a plan's [search], searched on the plan's clients.

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

import json
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import reduce
from itertools import chain
from operator import add
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tomli_w

from catchment import Array, PositiveFloat, PositiveInt
from catchment.arrays import check_fields
from catchment.data import Recording, cohorts
from catchment.engine import data_of, run_locally
from catchment.errors import FederationError, MissingExtraError
from catchment.features import FeatureMap, Reservoir
from catchment.federation import Plan, Record, targets_of
from catchment.plans import PlanFile, read
from catchment.plugins import plugin
from catchment.readout import (
    ClassCounts,
    RidgeStatistics,
    accumulate,
    device_for,
    path_errors,
    ridge_grid,
    solve_path,
    torch_form,
)
from catchment_lab.search.space import Adaptation, PlasticitySpace, Space

try:
    import optuna
except ImportError as error:
    raise MissingExtraError("lab", needed_for="searches") from error

Clients = Mapping[str, list[Recording]]
LEAST_RIDGE = 3e-4  # of the features' own scale: below it rounding shows in the ninth digit
Judged = tuple[float, float]  # the best score of a path of ridges on validation clients, its ridge
Map = Callable[[Reservoir], FeatureMap]
Watch = Callable[["Trial"], None]
SPACE = Space()
RANGES = ("spectral_radius", "leak_rate", "input_scaling", "connections", "input_connections")


def ridges_of(total: RidgeStatistics, n_ridges: int = 16) -> Array:
    """Return the ridges that validation chooses from."""
    greatest = float(ridge_grid(total, 2)[-1])
    return np.geomspace(LEAST_RIDGE * greatest / 10, greatest, n_ridges)


def summed(
    features: FeatureMap, clients: Sequence[list[Recording]], device: str | None = None
) -> RidgeStatistics:
    """Return the sum of clients' statistics; on a device all their recordings run side by side."""
    if device_for(features, device) is None:
        return reduce(add, (accumulate(features, each, threads=1) for each in clients))
    return accumulate(features, chain.from_iterable(clients), device=device)


@dataclass(frozen=True, eq=False)
class ClassJudge:
    """Rows (n, F) of validation clients and their one-hot targets (n, K): judges by accuracy."""

    z: Array
    y: Array

    @classmethod
    def of(cls, features: FeatureMap, clients: Clients, device: str | None = None) -> ClassJudge:
        """Return the rows of all clients whose target is known."""
        every = list(chain.from_iterable(clients.values()))
        inputs, place = [s.u for s in every], device_for(features, device)
        if place is None:
            zs = features.rows(inputs, threads=1)
        else:
            zs = torch_form().device_rows(place, features, inputs)
        washout = features.washout if features.per_step else None
        y = np.concatenate([targets_of(s, len(zs[k]), washout, k) for k, s in enumerate(every)])
        known = ~np.isnan(y).any(axis=1)
        return cls(np.concatenate(zs)[known], y[known])

    def judged(self, total: RidgeStatistics) -> Judged:
        """Return the best accuracy of readouts solved from a sum; of equals, the stiffer's."""
        ridges = ridges_of(total)
        path = solve_path(total, ridges)
        together = self.z @ np.hstack([readout.weights for readout in path])  # once for all
        parts = zip(np.split(together, len(path), axis=1), path, strict=True)
        scores = (part + one.intercept for part, one in parts)
        values = [ClassCounts.of_scores(self.y, each).accuracy for each in scores]
        k = max(range(len(values)), key=lambda k: (values[k], k))
        return values[k], float(ridges[k])


@dataclass(frozen=True, eq=False)
class NumberJudge:
    """The sum of validation clients' statistics: judges by NRMSE."""

    held: RidgeStatistics

    @classmethod
    def of(cls, features: FeatureMap, clients: Clients, device: str | None = None) -> NumberJudge:
        """Return the sum over all clients."""
        return cls(summed(features, list(clients.values()), device))

    def judged(self, total: RidgeStatistics) -> Judged:
        """Return the least NRMSE of readouts solved from a sum."""
        ridges = ridges_of(total)
        held, errors = self.held, path_errors(self.held, solve_path(total, ridges))
        variance = held.target_moments() / held.weight
        varied = variance > 0  # the mean is over the outputs that vary
        values = np.sqrt(errors[:, varied] / held.weight / variance[varied]).mean(axis=1)
        k = int(values.argmin())
        return float(values[k]), float(ridges[k])


def adapt(
    reservoir: Reservoir, adaptation: Adaptation, clients: Mapping[str, list[Recording]]
) -> tuple[Reservoir, tuple[Record, ...]]:
    """Return the reservoir that clients adapted together, and the records of the rounds."""
    federated = plugin("plasticity", "fedip")
    algorithm = federated(reservoir=reservoir, rule=adaptation.rule)
    # A client whose plasticity diverges is refused; all must have answered.
    plan = Plan(algorithm=algorithm, rounds=adaptation.rounds, min_clients=len(clients))
    result = run_locally(plan, clients)
    return result.result, result.records


@dataclass(frozen=True)
class Trial:
    """One trial: what was drawn, and what it scored; a pruned one has the score it stopped at."""

    number: int
    state: Literal["complete", "pruned", "failed", "running"]
    score: float
    ridge: float
    settings: dict[str, float]
    seconds: float


@dataclass(frozen=True, eq=False)
class SearchResult:
    """All trials, and the best one as a recipe ready to use."""

    metric: str
    trials: tuple[Trial, ...]
    best: Trial
    reservoir: Reservoir
    adaptation: Adaptation | None

    def save(self, path: Path) -> None:
        """Write the result as JSON."""
        from catchment.cli import finite

        content = {
            "metric": self.metric,
            "recipe": json.loads(self.reservoir.to_json()),
            "adaptation": None if self.adaptation is None else asdict(self.adaptation),
            "best": asdict(self.best),
            "trials": [asdict(trial) for trial in self.trials],
        }
        path.write_bytes((json.dumps(finite(content), indent=1) + "\n").encode())


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How a search goes.

    Parameters
    ----------
    trials
        How many in all, those of an earlier run of the same search included.
    sampler
        "bayes" draws near what did well (a tree of Parzen estimators), "random" independently.
    shares
        Of the training clients, growing to 1, at which a trial is judged and may be given up.
    prune
        Whether to give trials up.
    workers
        Trials at a time. With more than one, a search is not repeated draw by draw.
    seed
        Of the draws, and of the order in which clients are added.
    """

    trials: PositiveInt = 30
    sampler: Literal["bayes", "random"] = "bayes"
    shares: tuple[PositiveFloat, ...] = (0.25, 0.5, 1.0)
    prune: bool = True
    workers: PositiveInt = 1
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if list(self.shares) != sorted(set(self.shares)) or self.shares[-1:] != (1.0,):
            raise ValueError(f"shares are {self.shares}; pass growing shares, the last of them 1")


SETTINGS = SearchSettings()


def search(
    train: Clients,
    validation: Clients,
    *,
    features: Map,
    classes: tuple[str, ...] | None = None,
    space: Space = SPACE,
    base: Reservoir | None = None,
    settings: SearchSettings = SETTINGS,
    storage: Path | None = None,
    watch: Watch | None = None,
    device: str | None = None,
) -> SearchResult:
    """Return the best recipe of a space for the clients at hand.

    Parameters
    ----------
    train, validation
        Sequences by client; a trial is trained on the ones and judged on the others.
    features
        Makes the feature map of a reservoir.
    classes
        Names of the outputs: trials are judged by accuracy. Without, by NRMSE.
    space
        What is drawn.
    base
        What is not drawn.
    storage
        File that keeps the trials; a search that is there already goes on.
    watch
        Called with every trial as it ends.
    device
        "cuda", or "cuda:1", to compute rows and statistics on a GPU; the search finds the same. If
        None, what CATCHMENT_DEVICE names for a map in fixed point.

    >>> from catchment.data import narma
    >>> from catchment.features import EchoState
    >>> clients = {f"c{k}": [narma(200, seed=k)] for k in range(3)}
    >>> found = search(
    ...     {"c0": clients["c0"], "c1": clients["c1"]}, {"c2": clients["c2"]},
    ...     features=lambda reservoir: EchoState.of(reservoir, washout=20),
    ...     space=Space(units=(20,)), settings=SearchSettings(trials=2, shares=(1.0,)))
    >>> found.metric, len(found.trials)
    ('NRMSE', 2)
    """
    task = Task(dict(train), dict(validation), features, classes, space, base, settings, device)
    with _quiet():
        study = _study(task, storage)
        left = settings.trials - sum(
            trial.state.is_finished() for trial in study.get_trials(deepcopy=False)
        )
        lock = threading.Lock()

        def ended(_: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
            if watch:
                with lock:
                    watch(_trial(trial))

        if left > 0:
            study.optimize(
                task.objective, n_trials=left, n_jobs=settings.workers, callbacks=[ended]
            )
    return _result(task, study)


@dataclass(frozen=True, eq=False)
class Task:
    """A search with its data: how one trial is run."""

    train: dict[str, list[Recording]]
    validation: dict[str, list[Recording]]
    features: Map
    classes: tuple[str, ...] | None
    space: Space
    base: Reservoir | None
    settings: SearchSettings
    device: str | None = None

    def __post_init__(self) -> None:
        if not self.train or not self.validation:
            raise ValueError(
                f"there are {len(self.train)} training and {len(self.validation)} validation "
                "clients; a search needs at least one of each"
            )
        both = sorted(set(self.train) & set(self.validation))
        if both:
            raise ValueError(f"client {both[0]} both trains and validates; keep them apart")

    @property
    def n_inputs(self) -> int:
        return int(next(iter(self.train.values()))[0].u.shape[1])

    @property
    def metric(self) -> str:
        return "accuracy" if self.classes else "NRMSE"

    def drawn(self, trial: optuna.trial.BaseTrial) -> tuple[Reservoir, Adaptation | None]:
        return self.space.draw(trial, inputs=self.n_inputs, base=self.base)

    def objective(self, trial: optuna.Trial) -> float:
        reservoir, adaptation = self.drawn(trial)
        score = float("nan")
        for step, (value, ridge) in enumerate(self.scores(reservoir, adaptation)):
            score = value
            trial.report(score, step)
            trial.set_user_attr("ridge", ridge)
            last = step == len(self.settings.shares) - 1
            if self.settings.prune and not last and trial.should_prune():
                raise optuna.TrialPruned
        return score

    def scores(self, reservoir: Reservoir, adaptation: Adaptation | None) -> Iterator[Judged]:
        """Yield the score and the ridge at each share of the training clients."""
        names = sorted(self.train)
        order = np.random.default_rng([self.settings.seed, 7]).permutation(len(names))
        total: RidgeStatistics | None = None
        judge: ClassJudge | NumberJudge | None = None
        features, done = self.features(reservoir), 0
        for share in self.settings.shares:
            n = max(1, round(share * len(names)))
            group = {names[k]: self.train[names[k]] for k in order[:n]}
            if adaptation is None:
                fresh = [self.train[names[k]] for k in order[done:n]]
            else:
                try:
                    adapted, _ = adapt(reservoir, adaptation, group)
                except FederationError as error:
                    raise optuna.TrialPruned(str(error)) from error
                fresh, total, judge = list(group.values()), None, None
                features = self.features(adapted)
            if total is None or fresh:  # of few clients two shares may be the same ones
                part = summed(features, fresh, self.device)
                total = part if total is None else total + part
            # The validation clients' rows are the same at every share of one reservoir.
            if judge is None:
                kind = ClassJudge if self.classes else NumberJudge
                judge = kind.of(features, self.validation, self.device)
            done = n
            yield judge.judged(total)


def _study(task: Task, storage: Path | None) -> optuna.Study:
    settings = task.settings
    sampler: optuna.samplers.BaseSampler
    if settings.sampler == "bayes":
        sampler = optuna.samplers.TPESampler(seed=settings.seed)
    else:
        sampler = optuna.samplers.RandomSampler(seed=settings.seed)
    kept: optuna.storages.BaseStorage | None = None
    if storage is not None:
        from optuna.storages.journal import JournalFileBackend

        kept = optuna.storages.JournalStorage(JournalFileBackend(str(storage)))
    study = optuna.create_study(
        storage=kept,
        study_name="catchment",
        load_if_exists=True,
        sampler=sampler,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=0),
        direction="maximize" if task.classes else "minimize",
    )
    about = _about(task)
    known = study.user_attrs.get("about")
    if known is None:
        study.set_user_attr("about", about)
    elif known != about:
        raise ValueError(
            f"{storage} holds a search of other clients or another space; name another file"
        )
    return study


def _about(task: Task) -> str:
    """Return what two runs must agree on in order to be one search."""
    counts = {
        part: {name: len(sequences) for name, sequences in sorted(clients.items())}
        for part, clients in (("train", task.train), ("validation", task.validation))
    }
    base = None if task.base is None else task.base.to_json()
    return json.dumps(
        [counts, task.space.described(), list(task.settings.shares), base, task.metric]
    )


def _trial(frozen: optuna.trial.FrozenTrial) -> Trial:
    states: dict[str, Literal["complete", "pruned", "failed", "running"]] = {
        "COMPLETE": "complete",
        "PRUNED": "pruned",
        "FAIL": "failed",
    }
    seconds = frozen.duration.total_seconds() if frozen.duration else 0.0
    score = float("nan") if frozen.value is None else float(frozen.value)
    return Trial(
        frozen.number,
        states.get(frozen.state.name, "running"),
        score,
        float(frozen.user_attrs.get("ridge", float("nan"))),
        {name: float(value) for name, value in frozen.params.items()},
        seconds,
    )


def _result(task: Task, study: optuna.Study) -> SearchResult:
    trials = tuple(_trial(trial) for trial in study.get_trials(deepcopy=False))
    if not any(trial.state == "complete" for trial in trials):
        raise FederationError(
            f"none of {len(trials)} trials was finished; widen the space or lower the rates"
        )
    best = study.best_trial
    recipe, adaptation = task.drawn(optuna.trial.FixedTrial(best.params))
    return SearchResult(task.metric, trials, _trial(best), recipe.prepared(), adaptation)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep optuna from writing a line per trial; callers watch instead."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


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
