"""Which recipe, rule and number of rounds for FedIP: judged on the validation people of a fold.

Every recipe is tried as drawn, which is a trial of IncFed, and with a rule of each of three
searches, so that all methods choose from the same recipes. "paper" draws what Table 1 of De Caro et
al. has (target mean 0, width .005 to .15, rate .01, 3, 5 or 10 epochs) and tries each draw in four
readings of the algorithm: an update at every step or one a batch, by the corrected equation or the
printed one. Most of that takes gains through zero, which is counted, and let happen there only; so
"relative" draws the same but for the rate, which is relative to the variance of the target; half of
its rules update at every step and half once a batch. "wide" draws other target means and wider
targets too, for a single epoch.

The paper does not say how many rounds it ran: a rule is judged after several numbers of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

import numpy as np

from catchment.errors import FederationError
from catchment.features import EchoState, Reservoir
from catchment.features.echo_state import Pool
from catchment.federation import Rows
from catchment.readout import RidgeStatistics
from catchment_lab.search import Adaptation, PlasticitySpace, Space, adapt
from catchment_research.plasticity import IntrinsicPlasticity, plasticity_of
from reproductions.cells import Subject, exact
from reproductions.people import Clients, People
from reproductions.pool import Deal
from reproductions.spaces import FEDIP_HHAR, FEDIP_PAPER, FEDIP_RELATIVE, FEDIP_WESAD, Random

SEARCHES = ("paper", "relative", "wide")
READINGS = tuple(product(("step", "batch"), ("corrected", "printed")))
LOOKS = (1, 2, 4, 10)
FRESH = (2000,)  # seeds with which finalists are drawn anew


@dataclass(frozen=True)
class Tried:
    """A recipe, the rule by which it adapts if it does, and validation accuracies by rounds."""

    recipe: Reservoir
    rule: IntrinsicPlasticity | None
    by_rounds: Mapping[int, float]

    @property
    def rounds(self) -> int:
        """The number of rounds that does best; of equals, the least."""
        return max(sorted(self.by_rounds), key=lambda n: (self.by_rounds[n], -n))

    @property
    def validation(self) -> float:
        return self.by_rounds[self.rounds]

    @property
    def adaptation(self) -> Adaptation | None:
        return None if self.rule is None else Adaptation(self.rule, self.rounds)


Key = tuple[str, Pool]


@dataclass(eq=False)
class Explored:
    """All that was tried, by method and pooling, and what became of the rules in each reading.

    `rules` counts those that took gains below zero, those that were left out because they diverged
    (or, where gains must be positive, reached zero), and all.
    """

    tried: dict[Key, list[Tried]] = field(default_factory=dict)
    rules: dict[tuple[str, ...], tuple[int, int, int]] = field(default_factory=dict)

    def add(
        self, method: str, recipe: Reservoir, rule: IntrinsicPlasticity | None, found: Curves
    ) -> None:
        for pool, by_rounds in found.items():
            self.tried.setdefault((method, pool), []).append(Tried(recipe, rule, by_rounds))

    def tally(self, reading: tuple[str, ...], *, below: bool = False, out: bool = False) -> None:
        before = self.rules.get(reading, (0, 0, 0))
        self.rules[reading] = before[0] + below, before[1] + out, before[2] + 1


Curves = dict[Pool, dict[int, float]]
Job = tuple[Reservoir, IntrinsicPlasticity | None, Sequence[int]]


@dataclass(frozen=True, eq=False)
class Judge:
    """The people of a search.

    Parameters
    ----------
    people
        Whose readouts are trained and judged.
    adapting
        The training subjects with the sequences by which reservoirs adapt.
    pools
        Every pooling is judged.
    """

    people: People
    adapting: Clients
    pools: tuple[Pool, ...]

    def plain(self, recipe: Reservoir) -> Curves:
        """Return the accuracies of a reservoir as drawn."""
        found = self.validated(recipe)
        return {pool: {0: value} for pool, value in found.items()}

    def adapted(
        self, recipe: Reservoir, rule: IntrinsicPlasticity, looks: Sequence[int]
    ) -> tuple[Curves, bool]:
        """Return the accuracies after numbers of rounds, and whether gains went below zero.

        FederationError if the rule diverges.
        """
        reservoir, done = recipe, 0
        curves: Curves = {pool: {} for pool in self.pools}
        for rounds in looks:
            reservoir, _ = adapt(reservoir, Adaptation(rule, rounds - done), self.adapting)
            done = rounds
            for pool, value in self.validated(reservoir).items():
                curves[pool][rounds] = value
        return curves, bool((plasticity_of(reservoir)[0] < 0).any())

    def validated(self, reservoir: Reservoir) -> dict[Pool, float]:
        """Return the accuracy on validation subjects with every pooling."""
        train = read_pools(reservoir, self.people.train, self.pools)
        validation = read_pools(reservoir, self.people.validation, self.pools)
        return {
            pool: exact({"": train[pool]}, {"": validation[pool]}).accuracy for pool in self.pools
        }


def read_pools(
    reservoir: Reservoir, clients: Clients, pools: Sequence[Pool]
) -> dict[Pool, Subject]:
    """Return all clients' rows together, and their statistics, with several poolings.

    Means are the first half of means and deviations, and are not read twice.
    """
    together = [recording for name in sorted(clients) for recording in clients[name]]
    rows = {}
    for pool in pools:
        if pool != "mean" or "mean_std" not in pools:
            features = EchoState.of(reservoir, input=False, pool=pool)
            rows[pool] = Rows.of(features, together).pair
    if "mean" in pools and "mean" not in rows:
        z, y = rows["mean_std"]
        rows["mean"] = z[:, : reservoir.n_units], y
    return {p: Subject(z, y, RidgeStatistics.from_states(z, y)) for p, (z, y) in rows.items()}


def space_of(name: str, most_units: int) -> Space:
    """Return the paper's ranges of recipes for a data set, larger reservoirs left out.

    >>> space_of("wesad", 300).units
    (200, 300)
    """
    space = FEDIP_WESAD if name == "wesad" else FEDIP_HHAR
    return replace(space, units=tuple(n for n in space.units if n <= most_units))


def paper_rules(chooser: Random) -> list[IntrinsicPlasticity]:
    """Return one draw from the paper's ranges of plasticity, in all its readings."""
    drawn = even(FEDIP_PAPER, chooser)
    return [
        replace(drawn, updates=updates, equation=equation, gains="any")  # type: ignore[arg-type]
        for updates, equation in READINGS
    ]


def relative_rule(chooser: Random, trial: int) -> IntrinsicPlasticity:
    """Return a draw from the paper's ranges with a rate relative to the target's variance.

    Its updates are by step and by batch in turn.
    """
    return even(FEDIP_RELATIVE[trial % len(FEDIP_RELATIVE)], chooser)


def even(space: PlasticitySpace, chooser: Random) -> IntrinsicPlasticity:
    """Return a rule whose width is drawn evenly from its range, not from the range's logarithm.

    Narrow targets diverge most, so this is the friendlier reading of the paper's range.
    """
    rule: IntrinsicPlasticity = space.draw(chooser).rule
    std = chooser.suggest_float("target_std", *space.target_std)
    rate = space.learning_rate or rule.learning_rate * (std / rule.target_std) ** 2
    return replace(rule, target_std=std, learning_rate=rate)


def explore(
    judge: Judge,
    *,
    trials: int,
    rounds: int,
    most_units: int,
    seed: int,
    deal: Deal = map,
) -> Explored:
    """Return what recipes and rules give, drawn at random.

    Parameters
    ----------
    trials
        Recipes, each without plasticity and with a rule of every search.
    rounds
        The most that a rule is run; of the wide ranges, as many as are drawn.
    deal
        Judges the trials, here or on processes.
    """
    chooser = Random(np.random.default_rng([seed, 2]))
    space = space_of(judge.people.name, most_units)
    looks = [n for n in LOOKS if n <= rounds]
    jobs: list[tuple[str, Job]] = []
    for trial in range(trials):
        recipe, wide = space.draw(chooser, inputs=len(judge.people.channels))
        assert wide is not None
        recipe = replace(recipe, seed=seed + trial)
        jobs.append(("incfed", (recipe, None, ())))
        jobs += [("fedip-paper", (recipe, rule, looks)) for rule in paper_rules(chooser)]
        jobs.append(("fedip-relative", (recipe, relative_rule(chooser, trial), looks)))
        few = [n for n in looks if n <= wide.rounds]
        jobs.append(("fedip-wide", (recipe, wide.rule, few)))
    found = Explored()
    outcomes = deal(partial(judged, judge), [job for _, job in jobs])
    for (method, (recipe, rule, _)), outcome in zip(jobs, outcomes, strict=True):
        if outcome is not None:
            found.add(method, recipe, rule, outcome[0])
        if rule is not None:
            reading = (method.removeprefix("fedip-"), rule.updates, rule.equation)
            found.tally(reading, below=bool(outcome and outcome[1]), out=outcome is None)
    return found


def judged(judge: Judge, job: Job) -> tuple[Curves, bool] | None:
    """Return the accuracies of a recipe with a rule or as drawn, and whether gains went below zero.

    None if the rule diverges within its rounds.
    """
    recipe, rule, looks = job
    if rule is None:
        return judge.plain(recipe), False
    try:
        return judge.adapted(recipe, rule, looks)
    except FederationError:
        return None


def decide(
    judge: Judge, tried: Mapping[Key, Sequence[Tried]], finalists: int, deal: Deal = map
) -> dict[Key, Tried]:
    """Return for each method and pooling the finalist that does best over reservoirs drawn anew.

    The best of many trials owes part of its score to its own draw of the reservoir. A rule that
    diverges with another draw scores 0 there.
    """
    best = {
        key: sorted(found, key=lambda one: -one.validation)[:finalists]
        for key, found in tried.items()
    }
    if finalists < 2:
        return {key: found[0] for key, found in best.items()}
    # Poolings often have the same finalists, which adapt but once.
    looks = {(one.recipe, one.rule): one.by_rounds for found in best.values() for one in found}
    jobs: list[Job] = [
        (replace(recipe, seed=seed), rule, sorted(by_rounds))
        for (recipe, rule), by_rounds in looks.items()
        for seed in FRESH
    ]
    outcomes = iter(deal(partial(judged, judge), jobs))
    again = {pair: [next(outcomes) for _ in FRESH] for pair in looks}
    chosen = {}
    for (method, pool), found in best.items():
        ranked = []
        for one in found:
            scores = {
                n: [
                    score,
                    *(out[0][pool][n] if out else 0.0 for out in again[one.recipe, one.rule]),
                ]
                for n, score in one.by_rounds.items()
            }
            mean = {n: float(np.mean(values)) for n, values in scores.items()}
            ranked.append(replace(one, by_rounds=mean))
        chosen[method, pool] = max(ranked, key=lambda one: one.validation)
    return chosen
