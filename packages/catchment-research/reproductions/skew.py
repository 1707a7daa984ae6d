"""What averaging loses when clients differ: one set of windows, dealt ever more unevenly.

The windows of a split's training people are dealt to as many clients as there are people, by shares
of each class drawn from a Dirichlet distribution: at alpha .05 a client has hardly more than one
class, at 10 nearly all alike. Beside these there are the people themselves, clients dealt at
random, and one client who has everything. Test people stay unseen people.

The exact sum (IncFed) cannot depend on the dealing, and the study refuses to go on if it does; nor
can plasticity from summed moments. Averages can: of readouts solved alone, of readouts trained by
rounds, and of gains and shifts (FedIP). Recipe, rule and training are chosen once in each split, on
its validation people with the people as clients, and stay: only the dealing changes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from itertools import product
from operator import add
from typing import Any

import numpy as np

from catchment.data import Recording
from catchment.engine import run_locally
from catchment.errors import FederationError
from catchment.features import EchoState, Reservoir
from catchment.features.echo_state import Pool
from catchment.federation import Limits, Plan, RoundContext, WeightedSum
from catchment_lab.search import Adaptation, Space
from catchment_research.plasticity import (
    FederatedPlasticity,
    IntrinsicPlasticity,
    MomentPlasticity,
    plasticity_of,
)
from reproductions.cells import Cell, Chosen, Subjects, cell, exact, read_subjects
from reproductions.dealings import (
    PEOPLE,
    dealt,
    label_distance,
    largest_gap,
    refuse_dependence,
    regrouped,
)
from reproductions.incfed import averaged
from reproductions.iterative import Averaging, best_curve
from reproductions.people import Clients, People
from reproductions.spaces import Random
from reproductions.study import Began, Measure, Selected, SetResult

SPACE = Space(spectral_radius=(0.3, 0.99), connections=None, input_connections=None)


@dataclass(frozen=True, kw_only=True)
class SkewSettings:
    """How far to go.

    Parameters
    ----------
    alphas
        Concentrations of the Dirichlet distributions, the most uneven first.
    trials
        Recipes tried.
    rules
        Means and widths of plasticity's target that validation chooses from.
    relative_rate, epochs, rounds
        Of plasticity; the learning rate is divided by the square of the width.
    initializations, judging
        Reservoirs drawn, and how many of them judge the rules.
    pools
        How a sequence's states become one row; averages of readouts have the first only.
    averaging_rounds, local_steps, rates
        Of readouts trained by gradient steps; validation chooses steps and rate.
    steps
        Of all subjects together, at most.
    folds
        Groups of people, each of which is tested once (`people.rotations`).
    """

    alphas: tuple[float, ...] = (0.05, 0.1, 0.3, 1.0, 10.0)
    units: int = 100
    trials: int = 8
    rules: tuple[tuple[float, float], ...] = ((0.0, 0.1), (0.0, 0.3), (0.3, 0.3), (0.3, 0.6))
    relative_rate: float = 1e-2
    epochs: int = 3
    rounds: int = 4
    initializations: int = 5
    judging: int = 2
    pools: tuple[Pool, ...] = ("mean", "last")
    averaging_rounds: int = 200
    local_steps: tuple[int, ...] = (1, 10, 100)
    rates: tuple[float, ...] = (0.3, 1.0, 1.9)
    steps: int = 200_000
    seed: int = 0
    folds: int = 5


QUICK = SkewSettings(
    alphas=(0.1, 10.0),
    units=30,
    trials=2,
    rules=((0.0, 0.3),),
    epochs=1,
    rounds=2,
    initializations=2,
    judging=1,
    averaging_rounds=20,
    local_steps=(10,),
    rates=(1.0,),
    steps=20_000,
    folds=3,
)
PAPER = SkewSettings(steps=10**10)


def skew(people: People, settings: SkewSettings, began: Began | None = None) -> SetResult:
    """Return one split's cells, methods named like `fedip / alpha 0.1 / mean`.

    Parameters
    ----------
    began
        Called with a line of text as the parts begin.
    """
    start = time.perf_counter()
    say = began or (lambda text: None)
    people = people.within(settings.steps)
    recipe, accuracy = chosen_recipe(people, settings)
    adaptation = chosen_rule(people, settings, recipe, say)
    dealings = dealt(people, settings.alphas, settings.seed)
    cells: list[Cell] = []
    measures = [
        Measure("label distance", name, label_distance(clients), fold=people.fold)
        for name, clients in dealings.items()
    ]
    for draw in range(settings.initializations):
        say(f"{people.name}: initialization {draw + 1} of {settings.initializations}")
        study = Draw(people, settings, drawn(recipe, draw), adaptation, draw)
        found, more = study.compared(dealings)
        cells += found
        measures += more
    selected = Selected.of(
        "incfed, fedip", recipe, accuracy, "/".join(settings.pools), adaptation, people.fold
    )
    return replace(
        SetResult.about(people, cells),
        selected=(selected,),
        measures=tuple(measures),
        seconds=time.perf_counter() - start,
    )


def drawn(recipe: Reservoir, draw: int) -> Reservoir:
    """Return one of the reservoirs that are compared."""
    return replace(recipe, seed=1000 + draw)


def chosen_recipe(people: People, settings: SkewSettings) -> tuple[Reservoir, float]:
    """Return the recipe whose exact readouts do best on the validation people, over poolings."""
    chooser = Random(np.random.default_rng([settings.seed, 2]))
    space = replace(SPACE, units=(settings.units,))
    tried = []
    for trial in range(settings.trials):
        recipe, _ = space.draw(chooser, inputs=len(people.channels))
        recipe = replace(recipe, seed=settings.seed + trial)
        tried.append((recipe, validated(recipe, people, settings)))
    return max(tried, key=lambda one: one[1])


def validated(reservoir: Reservoir, people: People, settings: SkewSettings) -> float:
    """Return the mean accuracy over poolings of exact readouts on the validation people."""
    values = []
    for pool in settings.pools:
        features = EchoState.of(reservoir, input=False, pool=pool)
        train = read_subjects(features, people.train)
        values.append(exact(train, read_subjects(features, people.validation)).accuracy)
    return float(np.mean(values))


def chosen_rule(
    people: People, settings: SkewSettings, recipe: Reservoir, say: Began
) -> Adaptation:
    """Return the rule that does best on the validation people with the people as clients."""
    best: tuple[float, Adaptation] | None = None
    for mean, std in settings.rules:
        say(f"{people.name}: plasticity to mean {mean:g} and width {std:g}")
        rule = IntrinsicPlasticity(
            target_mean=mean,
            target_std=std,
            learning_rate=settings.relative_rate * std**2,
            epochs=settings.epochs,
        )
        adaptation = Adaptation(rule, settings.rounds)
        values = []
        for draw in range(settings.judging):
            try:
                reservoir, _ = adapted(drawn(recipe, draw), adaptation, people.train)
            except (FederationError, ArithmeticError):  # the rule diverged
                values.append(0.0)
            else:
                values.append(validated(reservoir, people, settings))
        if best is None or np.mean(values) > best[0]:
            best = float(np.mean(values)), adaptation
    assert best is not None
    return best[1]


def adapted(
    reservoir: Reservoir, adaptation: Adaptation, clients: Clients
) -> tuple[Reservoir, tuple[float, float]]:
    """Return the reservoir after FedIP, and how far clients drifted apart in the first round.

    The drift is the mean squared distance of clients' gains, and of their shifts, from the average
    that the server makes of them, weighted as the server weighs.
    """
    algorithm = FederatedPlasticity(reservoir=reservoir, rule=adaptation.rule)
    state = algorithm.start()
    drift = (float("nan"), float("nan"))
    for k in range(adaptation.rounds):
        context = RoundContext(k, tuple(sorted(clients)))
        sent = algorithm.broadcast(state, context)
        updates = [
            algorithm.client_update(sent, _given(clients[name]), replace(context, client=name))
            for name in context.cohort
        ]
        if k == 0:
            drift = apart(updates)
        state = algorithm.server_update(state, reduce(add, updates), context)
    return algorithm.result(state), drift


def _given(sequences: list[Recording]) -> Any:
    return lambda: sequences


def apart(updates: Sequence[WeightedSum]) -> tuple[float, float]:
    """Return the mean squared distances of clients' gains and shifts from their mean.

    >>> apart([WeightedSum.of((np.array([x]), np.array([0.0])), 1.0) for x in (0.0, 2.0)])
    (1.0, 0.0)
    """
    weights = np.array([update.weight for update in updates])
    found = []
    for k in range(2):
        values = np.array([update.mean()[k] for update in updates])
        mean = weights @ values / weights.sum()
        found.append(float(weights @ ((values - mean) ** 2).mean(axis=1) / weights.sum()))
    return found[0], found[1]


@dataclass(frozen=True)
class Draw:
    """One draw of the reservoir, compared over all dealings."""

    people: People
    settings: SkewSettings
    reservoir: Reservoir
    adaptation: Adaptation
    repetition: int

    def compared(self, dealings: Mapping[str, Clients]) -> tuple[list[Cell], list[Measure]]:
        """Return the cells of every method and dealing, and how far clients drifted apart."""
        cells, measures = [], []
        for pool in self.settings.pools:
            cells += self._readouts(pool, dealings)
        by_moments = self._by_moments(dealings)
        for pool in self.settings.pools:
            cells.append(self._exact_cell(f"moments / any / {pool}", by_moments, pool))
        for name, clients in dealings.items():
            reservoir, (gains, shifts) = adapted(self.reservoir, self.adaptation, clients)
            for pool in self.settings.pools:
                cells.append(self._exact_cell(f"fedip / {name} / {pool}", reservoir, pool))
            measures += [self._measure("gains", name, gains), self._measure("shifts", name, shifts)]
        return cells, measures

    def _measure(self, what: str, dealing: str, value: float) -> Measure:
        return Measure(f"drift of {what}", dealing, value, self.repetition, self.people.fold)

    def _cell(self, method: str, chosen: Chosen, train: Subjects, test: Subjects) -> Cell:
        return cell(
            method,
            chosen,
            train=train,
            test=test,
            share=1.0,
            repetition=self.repetition,
            fold=self.people.fold,
        )

    def _read(self, reservoir: Reservoir, pool: Pool) -> tuple[Subjects, Subjects, Subjects]:
        people, features = self.people, EchoState.of(reservoir, input=False, pool=pool)
        read = read_subjects(features, people.everyone)
        train, validation, test = (
            {name: read[name] for name in part}
            for part in (people.train, people.validation, people.test)
        )
        return train, validation, test

    def _exact_cell(self, method: str, reservoir: Reservoir, pool: Pool) -> Cell:
        train, validation, test = self._read(reservoir, pool)
        return self._cell(method, exact(train, validation), train, test)

    def _readouts(self, pool: Pool, dealings: Mapping[str, Clients]) -> list[Cell]:
        """Return the cells of readouts of the reservoir as it was drawn."""
        train, validation, test = self._read(self.reservoir, pool)
        chosen = exact(train, validation)
        as_dealt = {name: regrouped(train, self.people, deal) for name, deal in dealings.items()}
        gap = largest_gap(chosen, as_dealt.values(), test)
        cells = [replace(self._cell(f"incfed / any / {pool}", chosen, train, test), gap=gap)]
        if pool != self.settings.pools[0]:
            return cells
        training = self._training(train, validation, chosen.ridge)
        for name, clients in as_dealt.items():
            one_shot = averaged(clients, validation)
            cells.append(self._cell(f"fedavg / {name} / {pool}", one_shot, clients, test))
            by_rounds = self._workflow(clients, validation, chosen.ridge, [training])
            cells.append(self._cell(f"rounds / {name} / {pool}", by_rounds[1], clients, test))
        return cells

    def _training(self, train: Subjects, validation: Subjects, ridge: float) -> Averaging:
        tried = [
            Averaging(local_steps=n, learning_rate=rate)
            for n, rate in product(self.settings.local_steps, self.settings.rates)
        ]
        return self._workflow(train, validation, ridge, tried)[0]

    def _workflow(
        self, train: Subjects, validation: Subjects, ridge: float, tried: Sequence[Averaging]
    ) -> tuple[Averaging, Chosen]:
        rounds = (self.settings.averaging_rounds,)
        curve = best_curve(train, validation, ridge=ridge, rounds=rounds, tried=tried)
        return curve.averaging, curve.last

    def _by_moments(self, dealings: Mapping[str, Clients]) -> Reservoir:
        """Return the reservoir by summed moments, which no dealing may change."""
        rule = self.adaptation.rule
        algorithm = MomentPlasticity(reservoir=self.reservoir, rule=rule)
        # A round of moments is one pass where one of plasticity is several. Clients are of very
        # different size by design.
        limits = Limits(over_median=1e9)
        plan = Plan(algorithm=algorithm, rounds=2 * self.adaptation.rounds, limits=limits)
        found = run_locally(plan, dealings[PEOPLE]).result
        if self.repetition == 0:
            other = run_locally(plan, next(iter(dealings.values()))).result
            distance = max(
                float(np.abs(a - b).max())
                for a, b in zip(plasticity_of(found), plasticity_of(other), strict=True)
            )
            refuse_dependence("moments", distance)
        return found


def described(settings: SkewSettings) -> dict[str, Any]:
    """Return the settings, ready for JSON."""
    return {
        name: [list(item) if isinstance(item, tuple) else item for item in value]
        if isinstance(value, tuple)
        else value
        for name, value in asdict(settings).items()
    }
