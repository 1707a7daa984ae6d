"""Tables 1 and 2 of De Caro, Gallicchio, Bacciu, "Federated Adaptation of Reservoirs via Intrinsic
Plasticity", ESANN 2022.

The exact readout (IncFed) of a reservoir as drawn, against the exact readout of a reservoir whose
gains and shifts the same subjects adapted first (FedIP + IncFed). Configurations are chosen by the
validation people of a fold (`fedip_search`), and its test people are scored once. How much
adaptation can give depends on how a sequence's states become one row, so every pooling is searched
and reported by itself.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, product
from typing import Any

from catchment.engine import run_locally
from catchment.errors import FederationError
from catchment.features import EchoState, Reservoir
from catchment.features.echo_state import Pool
from catchment.federation import Plan, Record
from catchment.federation.learn import FederatedRidge
from catchment_lab.search import adapt
from reproductions.cells import Cell, Subjects, cell, exact, pooled_readout, read_subjects
from reproductions.fedip_search import SEARCHES, Explored, Judge, Key, Tried, decide, explore
from reproductions.people import Clients, People, together
from reproductions.pool import Deal
from reproductions.sent_back import sent_back
from reproductions.study import Began, Selected, SetResult, Traffic


@dataclass(frozen=True, kw_only=True)
class FedIPSettings:
    """How far to go.

    Parameters
    ----------
    trials
        Recipes in a fold, as many as in the paper: the same for IncFed and for every search of
        FedIP (`fedip_search.explore`).
    rounds
        The most that a rule is run; validation chooses how many.
    retrainings
        Reservoirs, and draws of subjects, over which a cell is averaged.
    shares
        Of the training subjects.
    pools
        How a sequence's states become one row.
    finalists
        Best trials of each method and pooling that are judged again, with reservoirs drawn anew.
    steps, search_steps, adapt_steps
        Of all subjects together, at most: for readouts of the table and of the search, and for the
        adaptation of reservoirs in both.
    most_units
        Reservoirs larger than this are left out of the paper's ranges.
    folds
        Groups of people, each of which is tested once (`people.rotations`).
    """

    trials: int = 30
    rounds: int = 10
    retrainings: int = 3
    shares: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
    pools: tuple[Pool, ...] = ("last", "mean", "mean_std")
    finalists: int = 2
    steps: int = 150_000
    search_steps: int = 45_000
    adapt_steps: int = 30_000
    most_units: int = 500
    seed: int = 0
    folds: int = 5


QUICK = FedIPSettings(
    trials=1,
    rounds=2,
    retrainings=2,
    shares=(0.5, 1.0),
    finalists=1,
    steps=60_000,
    search_steps=20_000,
    adapt_steps=10_000,
    most_units=200,
    folds=3,
)
ALL = 10**12
PAPER = FedIPSettings(finalists=1, steps=ALL, search_steps=ALL, adapt_steps=ALL)


def fedip(
    people: People, settings: FedIPSettings, began: Began | None = None, deal: Deal = map
) -> SetResult:
    """Return one fold's cells, methods named like `incfed-mean`, `fedip-paper-mean`.

    Parameters
    ----------
    began
        Called with a line of text as the parts begin.
    deal
        Does the trials and cells, here or on processes.
    """
    start = time.perf_counter()
    say = began or (lambda text: None)
    adapting = people.within(settings.adapt_steps).train
    people = people.within(settings.steps)
    judge = Judge(people.within(settings.search_steps), adapting, settings.pools)
    say(f"{people.name}: {settings.trials} trials")
    explored = explore(
        judge,
        trials=settings.trials,
        rounds=settings.rounds,
        most_units=settings.most_units,
        seed=settings.seed,
        deal=deal,
    )
    say(f"{people.name}: finalists")
    chosen = decide(judge, explored.tried, settings.finalists, deal)
    table = Table(people, adapting, settings, chosen)
    cells: list[Cell] = []
    for retraining in range(settings.retrainings):
        say(f"{people.name}: retraining {retraining + 1} of {settings.retrainings}")
        cells += table.cells(retraining, deal)
    selected = tuple(
        Selected.of(f"{method}-{pool}", c.recipe, c.validation, pool, c.adaptation, people.fold)
        for (method, pool), c in chosen.items()
    )
    result = SetResult.about(people, cells)
    return replace(
        result,
        selected=selected,
        traffic=table.traffic(),
        remarks=remarks(explored, table),
        seconds=time.perf_counter() - start,
    )


def remarks(explored: Explored, table: Table) -> tuple[str, ...]:
    """Return how many rules diverged, in the search and in the table."""
    lines = [
        f"{search} ranges, an update a {updates}, {equation} equation: "
        f"{below} of {n} rules took gains below zero, {out} were left out"
        for (search, updates, equation), (below, out, n) in explored.rules.items()
    ]
    for search in SEARCHES:
        if (f"fedip-{search}", table.settings.pools[0]) not in explored.tried:
            lines.append(f"{search} ranges: no rule was left, the cells are those of IncFed")
    if table.fell_back:
        lines.append(
            f"{table.fell_back} of {table.adapted} adaptations for the table diverged; their "
            "cells have the reservoir as drawn"
        )
    return tuple(lines)


class Table:
    """The cells of one fold for the configurations that its validation people chose."""

    def __init__(
        self,
        people: People,
        adapting: Clients,
        settings: FedIPSettings,
        chosen: dict[Key, Tried],
    ) -> None:
        self.people, self.adapting = people, adapting
        self.settings, self.chosen = settings, chosen
        self.fell_back = self.adapted = 0
        self.records: Sequence[Record] = ()

    def cells(self, retraining: int, deal: Deal = map) -> list[Cell]:
        """Return the cells of all methods, poolings and shares with one draw of reservoirs."""
        pools = self.settings.pools
        plain = [(self.chosen["incfed", pool], pool) for pool in pools]
        cells = list(chain(*deal(partial(self.plain, retraining), plain)))
        # Where no rule held, there is nothing but the reservoir as drawn.
        found = {
            (f"fedip-{search}", pool, share): replace(
                one, method=one.method.replace("incfed", f"fedip-{search}")
            )
            for search in SEARCHES
            for (pool, share), one in zip(
                product(pools, self.settings.shares), list(cells), strict=True
            )
        }
        # A reservoir that several poolings chose is adapted only once.
        jobs: dict[object, list[tuple[str, Pool, float, Tried]]] = {}
        for method, pool, share in found:
            if one := self.chosen.get((method, pool)):
                key = (one.recipe, one.adaptation, share)
                jobs.setdefault(key, []).append((method, pool, share, one))
        for outcome, records in deal(partial(self.after_adaptation, retraining), [*jobs.values()]):
            self.adapted += 1
            self.fell_back += not records
            self.records = records or self.records
            found |= outcome
        return [*cells, *found.values()]

    def plain(self, retraining: int, job: tuple[Tried, Pool]) -> list[Cell]:
        """Return the cells of a reservoir as drawn, for every share of the subjects."""
        chosen, pool = job
        features = EchoState.of(_drawn(chosen, retraining), input=False, pool=pool)
        read = read_subjects(features, self.people.everyone)
        return [
            share_cell(f"incfed-{pool}", read, self.people, share, retraining)
            for share in self.settings.shares
        ]

    def after_adaptation(
        self, retraining: int, job: Sequence[tuple[str, Pool, float, Tried]]
    ) -> tuple[dict[tuple[str, Pool, float], Cell], Sequence[Record]]:
        """Return cells of one reservoir that a share of the subjects adapted, and its records.

        There are no records if the adaptation diverged; the reservoir is then as drawn.
        """
        _, _, share, chosen = job[0]
        assert chosen.adaptation is not None
        reservoir, records = _drawn(chosen, retraining), tuple[Record, ...]()
        clients = {name: self.adapting[name] for name in self.people.share(share, retraining)}
        with suppress(FederationError):
            reservoir, records = adapt(reservoir, chosen.adaptation, clients)
        return {
            (method, pool, share): trained_cell(
                f"{method}-{pool}", reservoir, pool, self.people, share, retraining
            )
            for method, pool, share, _ in job
        }, records

    def traffic(self) -> tuple[Traffic, ...]:
        """Return what the last adaptation and a ridge cost."""
        pool = self.settings.pools[-1]
        ridge = FederatedRidge(
            features=EchoState.of(_drawn(self.chosen["incfed", pool], 0), input=False, pool=pool),
            ridge="gcv",
            classes=self.people.classes,
        )
        done = run_locally(Plan(algorithm=ridge), self.people.train)
        assert done.model is not None
        back = sent_back(done.model.readout, self.people.train)
        return (
            Traffic.of(f"plasticity ({self.settings.shares[-1]:.0%})", self.records),
            Traffic.of("ridge", done.records, back),
        )


def _drawn(chosen: Tried, retraining: int) -> Reservoir:
    return replace(chosen.recipe, seed=1000 + retraining)


def validated(reservoir: Reservoir, pool: Pool, people: People) -> float:
    """Return the accuracy on validation subjects of the exact readout at its best ridge."""
    return Judge(people, people.train, (pool,)).validated(reservoir)[pool]


def trained_cell(
    method: str, reservoir: Reservoir, pool: Pool, people: People, share: float, repetition: int
) -> Cell:
    """Return the cell of the exact readout of a reservoir on a share of the subjects."""
    names = people.share(share, repetition)
    needed = together({name: people.train[name] for name in names}, people.validation, people.test)
    read = read_subjects(EchoState.of(reservoir, input=False, pool=pool), needed)
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
        fold=people.fold,
    )


def described(settings: FedIPSettings) -> dict[str, Any]:
    """Return the settings, ready for JSON."""
    return {**asdict(settings), "shares": list(settings.shares), "pools": list(settings.pools)}
