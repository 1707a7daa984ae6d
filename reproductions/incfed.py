"""Tables III to VI of Bacciu et al., "Federated Reservoir Computing Neural Networks", IJCNN 2021.

Four ways to train a readout on a share of the subjects, tested on subjects nobody trained on:
guessing, the pooled rows in one place, the average of readouts that subjects solve alone (FedAvg),
and the exact sum of statistics (IncFed). One random search serves FedAvg and IncFed, each of which
takes its own best recipe; the ridge is chosen on the validation subjects without another pass.

Eq. 5 prints weights that favour small clients; FedAvg is therefore run with three weightings.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from catchment.engine.local import run_locally
from catchment.features.echo_state.pooling import Pool
from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.federation.learn.averaging import ReadoutAveraging
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.measure.baselines import Guess
from catchment.federation.plan import Plan
from catchment.readout.readout import Readout
from catchment.search.cells import (
    WEIGHTINGS,
    Cell,
    Chosen,
    Subjects,
    averaged_path,
    averaged_paths,
    best_of,
    cell,
    exact,
    pooled_readout,
    read_subjects,
    ridges_of,
    summed,
)
from catchment.search.space import Random, Space
from reproductions.people import People, together
from reproductions.spaces import INCFED_HAR, INCFED_WESAD
from reproductions.study import Began, Selected, SetResult, Traffic

FEDAVG = {weighting: f"fedavg-{weighting}" for weighting in WEIGHTINGS}


@dataclass(frozen=True, kw_only=True)
class IncFedSettings:
    """How far to go.

    Parameters
    ----------
    trials
        Recipes tried.
    repetitions
        Reservoirs, and draws of subjects, over which a cell is averaged.
    shares
        Of the training subjects.
    pool
        How a sequence's states become one row. The mean of W x(t) over a sequence is W times the
        mean state, so "mean" is a vote of the readout at every step.
    steps, search_steps
        Of all subjects together, at most: in the table, and in the search.
    folds
        Groups of people, each of which is tested once (`people.rotations`).
    """

    trials: int = 20
    repetitions: int = 3
    shares: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
    pool: Pool = "mean"
    steps: int = 1_000_000
    search_steps: int = 300_000
    seed: int = 0
    folds: int = 5


QUICK = IncFedSettings(trials=3, repetitions=2, steps=100_000, search_steps=50_000, folds=3)


def incfed(people: People, settings: IncFedSettings, began: Began | None = None) -> SetResult:
    """Return one data set's cells, with the recipes that were selected and what they cost.

    Parameters
    ----------
    began
        Called with a line of text as the parts begin.
    """
    start = time.perf_counter()
    say = began or (lambda text: None)
    people = people.within(settings.steps)
    selected = select(people.within(settings.search_steps), settings, say)
    cells: list[Cell] = []
    traffic: tuple[Traffic, ...] = ()
    for repetition in range(settings.repetitions):
        say(f"{people.name}: repetition {repetition + 1} of {settings.repetitions}")
        found, read = repeated(people, settings, selected, repetition)
        cells += found
        if repetition == 0:
            traffic = measured(people, settings, selected, read)
    result = SetResult.about(people, cells)
    chosen = tuple(
        Selected.of(method, recipe, value, settings.pool)
        for method, (recipe, value) in selected.items()
    )
    seconds = time.perf_counter() - start
    return replace(result, selected=chosen, traffic=traffic, seconds=seconds)


def space_of(name: str) -> Space:
    """Return the paper's ranges for a data set: those of its HAR for HHAR, of WESAD for others.

    >>> space_of("hhar").units
    (100, 500)
    """
    return INCFED_HAR if name == "hhar" else INCFED_WESAD


def select(people: People, settings: IncFedSettings, say: Began) -> dict[str, tuple[Recipe, float]]:
    """Return the recipe with the best validation accuracy for IncFed, and the one for FedAvg."""
    chooser = Random(np.random.default_rng([settings.seed, 1]))
    best: dict[str, tuple[Recipe, float]] = {}
    for trial in range(settings.trials):
        say(f"{people.name}: trial {trial + 1} of {settings.trials}")
        recipe, _ = space_of(people.name).draw(chooser, inputs=len(people.channels))
        recipe = replace(recipe, seed=settings.seed + trial)
        features = features_of(recipe, settings)
        train = read_subjects(features, people.train)
        validation = read_subjects(features, people.validation)
        ridges = ridges_of(summed(train))
        averaged = best_of(averaged_path(train, ridges), ridges, validation)
        values = {"incfed": exact(train, validation).accuracy, "fedavg": averaged.accuracy}
        for method, value in values.items():
            if method not in best or value > best[method][1]:
                best[method] = recipe, value
    return best


def features_of(recipe: Recipe, settings: IncFedSettings) -> EchoStateMap:
    return EchoStateMap(Reservoir.from_recipe(recipe), input=False, pool=settings.pool)


def repeated(
    people: People,
    settings: IncFedSettings,
    selected: dict[str, tuple[Recipe, float]],
    repetition: int,
) -> tuple[list[Cell], dict[str, Subjects]]:
    """Return the cells of one repetition, and what its subjects were read as."""
    everyone = together(people.train, people.validation, people.test)
    read: dict[str, Subjects] = {}
    for method, (recipe, _) in selected.items():
        fresh = replace(recipe, seed=1000 + repetition)
        read[method] = read_subjects(features_of(fresh, settings), everyone)
    cells = []
    for share in settings.shares:
        names = people.share(share, repetition)
        cells += _share_cells(people, read, names, share, repetition)
    return cells, read


def _share_cells(
    people: People,
    read: dict[str, Subjects],
    names: tuple[str, ...],
    share: float,
    repetition: int,
) -> list[Cell]:
    cells = [_guessed(people, share, repetition)]
    train, validation, test = _parts(people, read["incfed"], names)
    federated = exact(train, validation)
    pooled = pooled_readout(train, federated.ridge)
    where: dict[str, Any] = {"share": share, "repetition": repetition}
    at_one_place = Chosen(pooled, federated.ridge, federated.accuracy)
    cells.append(cell("centralised", at_one_place, train=train, test=test, **where))
    cells.append(cell("incfed", federated, train=train, test=test, pooled=pooled, **where))
    train, validation, test = _parts(people, read["fedavg"], names)
    ridges = ridges_of(summed(train))
    for weighting, path in averaged_paths(train, ridges).items():
        averaged = best_of(path, ridges, validation)
        cells.append(cell(FEDAVG[weighting], averaged, train=train, test=test, **where))
    return cells


def _parts(
    people: People, read: Subjects, names: tuple[str, ...]
) -> tuple[Subjects, Subjects, Subjects]:
    return (
        {name: read[name] for name in names},
        {name: read[name] for name in people.validation},
        {name: read[name] for name in people.test},
    )


def _guessed(people: People, share: float, repetition: int) -> Cell:
    plan = Plan(algorithm=Guess(how="random", classes=people.classes), seed=repetition)
    scores = run_locally(plan, people.test).state
    assert scores.total is not None
    by_subject = {name: score.value for name, score in scores.by_client.items()}
    nan = float("nan")
    return Cell("random", share, repetition, scores.total.value, nan, nan, by_subject, nan)


def measured(
    people: People,
    settings: IncFedSettings,
    selected: dict[str, tuple[Recipe, float]],
    read: dict[str, Subjects],
) -> tuple[Traffic, ...]:
    """Return what the plans cost when they are run whole, and check that they give the same.

    The readouts of the table are solved from statistics kept in memory; here the real protocol runs
    on all training subjects, through its codec, and must give the same readouts.
    """
    traffic = []
    for method in ("incfed", "fedavg"):
        features = features_of(replace(selected[method][0], seed=1000), settings)
        train = {name: read[method][name] for name in people.train}
        ridges = ridges_of(summed(train))
        ridge = float(ridges[len(ridges) // 2])
        algorithm: Any
        if method == "incfed":
            algorithm = FederatedRidge(features=features, ridge=ridge, classes=people.classes)
            ours = summed(train).solve(ridge)
        else:
            algorithm = ReadoutAveraging(features=features, ridge=ridge, classes=people.classes)
            ours = averaged_path(train, np.array([ridge]))[0]
        result = run_locally(Plan(algorithm=algorithm), people.train)
        assert result.model is not None
        refuse_difference(method, ours, result.model.readout)
        traffic.append(Traffic.of(method, result.records))
    return tuple(traffic)


def refuse_difference(method: str, ours: Readout, protocol: Readout) -> None:
    """Raise ArithmeticError if the protocol's readout is not the one solved from memory."""
    scale = float(np.abs(ours.weights).max())
    apart = float(np.abs(ours.weights - protocol.weights).max())
    if not apart <= 1e-8 * scale:
        raise ArithmeticError(
            f"the protocol of {method} gave weights {apart:g} away from those of the table; "
            "one of them is wrong"
        )


def described(settings: IncFedSettings) -> dict[str, Any]:
    """Return the settings, ready for JSON."""
    return {**asdict(settings), "shares": list(settings.shares)}
