"""Tables 1 and 2 of De Caro, Gallicchio, Bacciu, "Federated Adaptation of Reservoirs via Intrinsic
Plasticity", ESANN 2022.

The exact readout (IncFed) of a reservoir as drawn, against the exact readout of a reservoir whose
gains and shifts the same subjects adapted first (FedIP + IncFed). Both are searched with the same
recipes, and each takes its best by validation accuracy. How much adaptation can give depends on how
a sequence's states become one row, so every pooling is searched and reported by itself.

The paper's eq. 2 is not the gradient it is meant to be; the corrected rule is used.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from catchment.engine.local import run_locally
from catchment.errors import FederationError
from catchment.features.echo_state.pooling import Pool
from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.messages import Record
from catchment.federation.plan import Plan
from catchment.search.adapt import adapt
from catchment.search.cells import (
    Cell,
    Subjects,
    cell,
    exact,
    pooled_readout,
    read_subjects,
)
from catchment.search.space import Adaptation, Random, Space
from reproductions.people import People, together
from reproductions.spaces import FEDIP_HHAR, FEDIP_WESAD
from reproductions.study import Began, Selected, SetResult, Traffic

METHODS = ("incfed", "fedip")


@dataclass(frozen=True, kw_only=True)
class FedIPSettings:
    """How far to go.

    Parameters
    ----------
    trials, rules
        Recipes tried, and rules of plasticity tried with each; the paper has 30 of both together.
    retrainings
        Reservoirs, and draws of subjects, over which a cell is averaged.
    shares
        Of the training subjects.
    pools
        How a sequence's states become one row.
    finalists
        Best trials of each method and pooling that are judged again, with reservoirs drawn anew.
    steps, search_steps
        Of all subjects together, at most: in the table, and in the search.
    most_units
        Reservoirs larger than this are left out of the paper's ranges.
    folds
        Groups of people, each of which is tested once (`people.rotations`).
    """

    trials: int = 12
    rules: int = 3
    retrainings: int = 3
    shares: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
    pools: tuple[Pool, ...] = ("last", "mean", "mean_std")
    finalists: int = 3
    steps: int = 600_000
    search_steps: int = 250_000
    most_units: int = 200
    seed: int = 0
    folds: int = 5


QUICK = FedIPSettings(
    trials=3,
    rules=1,
    retrainings=2,
    shares=(0.5, 1.0),
    finalists=1,
    steps=60_000,
    search_steps=30_000,
    folds=3,
)


@dataclass(frozen=True)
class Configuration:
    """A recipe, the rule by which it adapts if it does, and its validation accuracy."""

    recipe: Recipe
    adaptation: Adaptation | None
    validation: float


Tried = dict[tuple[str, Pool], list[Configuration]]


def fedip(people: People, settings: FedIPSettings, began: Began | None = None) -> SetResult:
    """Return one data set's cells for every pooling, methods named like `fedip-mean`.

    Parameters
    ----------
    began
        Called with a line of text as the parts begin.
    """
    start = time.perf_counter()
    say = began or (lambda text: None)
    people = people.within(settings.steps)
    few = people.within(settings.search_steps)
    tried, failed = explore(few, settings, say)
    chosen = {key: decide(few, key[1], found, settings) for key, found in tried.items()}
    cells: list[Cell] = []
    traffic: tuple[Traffic, ...] = ()
    for retraining in range(settings.retrainings):
        for pool in settings.pools:
            say(f"{people.name}: {pool}, retraining {retraining + 1} of {settings.retrainings}")
            cells += _incfed_cells(people, settings, chosen["incfed", pool], pool, retraining)
            found, costs = _fedip_cells(people, settings, chosen["fedip", pool], pool, retraining)
            cells += found
            traffic = traffic or costs
    selected = tuple(
        Selected.of(f"{method}-{pool}", c.recipe, c.validation, pool, c.adaptation)
        for (method, pool), c in chosen.items()
    )
    remarks = (f"{failed} of {settings.trials * settings.rules} rules of plasticity diverged",)
    result = SetResult.about(people, cells)
    seconds = time.perf_counter() - start
    return replace(result, selected=selected, traffic=traffic, remarks=remarks, seconds=seconds)


def space_of(name: str, most_units: int) -> Space:
    """Return the paper's ranges for a data set, larger reservoirs left out.

    >>> space_of("wesad", 300).units
    (200, 300)
    """
    space = FEDIP_WESAD if name == "wesad" else FEDIP_HHAR
    return replace(space, units=tuple(n for n in space.units if n <= most_units))


def explore(people: People, settings: FedIPSettings, say: Began) -> tuple[Tried, int]:
    """Return all configurations by method and pooling, and how many rules diverged."""
    chooser = Random(np.random.default_rng([settings.seed, 2]))
    space = space_of(people.name, settings.most_units)
    tried: Tried = {}
    failed = 0
    for trial in range(settings.trials):
        say(f"{people.name}: trial {trial + 1} of {settings.trials}")
        recipe, adaptation = space.draw(chooser, inputs=len(people.channels))
        recipe = replace(recipe, seed=settings.seed + trial)
        assert space.plasticity is not None
        more = [space.plasticity.draw(chooser) for _ in range(settings.rules - 1)]
        for rule in (None, adaptation, *more):
            try:
                found = judged(people, recipe, rule, settings.pools)
            except FederationError:
                failed += 1
                continue
            method = "incfed" if rule is None else "fedip"
            for pool, one in found.items():
                tried.setdefault((method, pool), []).append(one)
    if ("fedip", settings.pools[0]) not in tried:
        raise FederationError(f"plasticity diverged in all {failed} trials on {people.name}")
    return tried, failed


def judged(
    people: People, recipe: Recipe, rule: Adaptation | None, pools: Sequence[Pool]
) -> dict[Pool, Configuration]:
    """Return a recipe's validation accuracy with every pooling, adapted if there is a rule."""
    reservoir = Reservoir.from_recipe(recipe)
    if rule is not None:
        reservoir, _ = adapt(reservoir, rule, people.train)
    return {pool: Configuration(recipe, rule, validated(reservoir, pool, people)) for pool in pools}


def decide(
    people: People, pool: Pool, tried: Sequence[Configuration], settings: FedIPSettings
) -> Configuration:
    """Return the finalist that does best on average over reservoirs drawn anew.

    The best of many trials owes part of its score to its own draw of the reservoir.
    """
    order = sorted(tried, key=lambda one: -one.validation)[: settings.finalists]
    finalists = []
    for one in order:
        values = [one.validation]
        for seed in (2000, 2001)[: 2 * (settings.finalists > 1)]:
            try:
                again = judged(people, replace(one.recipe, seed=seed), one.adaptation, (pool,))
                values.append(again[pool].validation)
            except FederationError:
                values.append(0.0)
        finalists.append(replace(one, validation=float(np.mean(values))))
    return max(finalists, key=lambda one: one.validation)


def validated(reservoir: Reservoir, pool: Pool, people: People) -> float:
    """Return the accuracy on validation subjects of the exact readout at its best ridge."""
    features = EchoStateMap(reservoir, input=False, pool=pool)
    train = read_subjects(features, people.train)
    return exact(train, read_subjects(features, people.validation)).accuracy


def round_by_round(
    reservoir: Reservoir, adaptation: Adaptation, pool: Pool, people: People
) -> list[tuple[Reservoir, float]]:
    """Return the reservoir and its validation accuracy before plasticity and after each round.

    A round and a ridge are two plans, run in turns. Averaging has no memory, so the rounds are the
    same as those of one long plan.
    """
    found = [(reservoir, validated(reservoir, pool, people))]
    for _ in range(adaptation.rounds):
        reservoir, _ = adapt(reservoir, replace(adaptation, rounds=1), people.train)
        found.append((reservoir, validated(reservoir, pool, people)))
    return found


def _incfed_cells(
    people: People, settings: FedIPSettings, chosen: Configuration, pool: Pool, retraining: int
) -> list[Cell]:
    reservoir = Reservoir.from_recipe(replace(chosen.recipe, seed=1000 + retraining))
    features = EchoStateMap(reservoir, input=False, pool=pool)
    everyone = together(people.train, people.validation, people.test)
    read = read_subjects(features, everyone)
    method = f"incfed-{pool}"
    return [share_cell(method, read, people, share, retraining) for share in settings.shares]


def _fedip_cells(
    people: People, settings: FedIPSettings, chosen: Configuration, pool: Pool, retraining: int
) -> tuple[list[Cell], tuple[Traffic, ...]]:
    reservoir = Reservoir.from_recipe(replace(chosen.recipe, seed=1000 + retraining))
    assert chosen.adaptation is not None
    cells: list[Cell] = []
    records: Sequence[Record] = ()
    for share in settings.shares:
        clients = {name: people.train[name] for name in people.share(share, retraining)}
        adapted, records = adapt(reservoir, chosen.adaptation, clients)
        cells.append(trained_cell(f"fedip-{pool}", adapted, pool, people, share, retraining))
    ridge = FederatedRidge(
        features=EchoStateMap(reservoir, input=False, pool=pool),
        ridge="gcv",
        classes=people.classes,
    )
    traffic = (
        Traffic.of(f"plasticity ({settings.shares[-1]:.0%})", records),
        Traffic.of("ridge", run_locally(Plan(algorithm=ridge), people.train).records),
    )
    return cells, traffic if retraining == 0 else ()


def trained_cell(
    method: str, reservoir: Reservoir, pool: Pool, people: People, share: float, repetition: int
) -> Cell:
    """Return the cell of the exact readout of a reservoir on a share of the subjects."""
    names = people.share(share, repetition)
    needed = together({name: people.train[name] for name in names}, people.validation, people.test)
    read = read_subjects(EchoStateMap(reservoir, input=False, pool=pool), needed)
    return share_cell(method, read, people, share, repetition)


def share_cell(method: str, read: Subjects, people: People, share: float, repetition: int) -> Cell:
    """Return the cell of the exact readout on a share of subjects that are read already."""
    train = {name: read[name] for name in people.share(share, repetition)}
    federated = exact(train, {name: read[name] for name in people.validation})
    return cell(
        method,
        federated,
        train=train,
        test={name: read[name] for name in people.test},
        share=share,
        repetition=repetition,
        pooled=pooled_readout(train, federated.ridge),
    )


def described(settings: FedIPSettings) -> dict[str, Any]:
    """Return the settings, ready for JSON."""
    return {**asdict(settings), "shares": list(settings.shares), "pools": list(settings.pools)}
