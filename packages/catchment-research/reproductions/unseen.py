"""How well the library does on people it has never seen: UCI HAR, the publisher's test subjects.

Recipes, poolings and depths are drawn at random and judged on the 21 training subjects alone, by
five folds of whole subjects: the statistics of the fold are taken off the sum, which is exact and
costs no further pass. The best one is then trained on all 21 and tested on the other nine. Within a
run the test subjects choose nothing; docs/research/unseen.md says how often they were seen before.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from catchment import Array, ordered_map
from catchment.features import EchoState, Reservoir
from catchment.features.echo_state import Pool
from catchment.readout import RidgeStatistics, solve_path
from catchment_lab.search import ridges_of
from reproductions.cells import Cell, Chosen, Subjects, cell, pooled_readout, read_subjects, summed
from reproductions.people import People, together
from reproductions.study import Began, Selected, SetResult


@dataclass(frozen=True, kw_only=True)
class UnseenSettings:
    """How far to go.

    Parameters
    ----------
    trials
        Configurations tried.
    folds
        Groups of training subjects that are left out in turn.
    units
        Sizes of reservoirs, halved between two layers where there are two.
    seeds
        Reservoirs of the best configuration that are tested.
    steps
        Of all subjects together, at most.
    """

    trials: int = 8
    folds: int = 5
    units: tuple[int, ...] = (500,)
    seeds: int = 3
    steps: int = 10_000_000
    seed: int = 0


QUICK = UnseenSettings(trials=2, folds=3, units=(60,), seeds=2, steps=80_000)


def unseen(people: People, settings: UnseenSettings, began: Began | None = None) -> SetResult:
    """Return the cells of the best configuration, one for each seed.

    Parameters
    ----------
    people
        Training and validation subjects are one group here.
    began
        Called with a line of text as the parts begin.
    """
    start = time.perf_counter()
    say = began or (lambda text: None)
    people = people.within(settings.steps)
    known = together(people.train, people.validation)
    rng = np.random.default_rng([settings.seed, 3])
    best: tuple[float, EchoState] | None = None
    for trial in range(settings.trials):
        say(f"{people.name}: trial {trial + 1} of {settings.trials}")
        features = drawn(rng, settings, len(people.channels), trial)
        value = crossed(read_subjects(features, known), settings.folds)[0]
        if best is None or value > best[0]:
            best = value, features
    assert best is not None
    value, features = best
    cells = []
    for seed in range(settings.seeds):
        say(f"{people.name}: seed {seed + 1} of {settings.seeds}")
        cells.append(final_cell(reseeded(features, 1000 + seed), known, people, settings, seed))
    pool = f"{features.pool}, {features.segments} segments"
    chosen = Selected.of("incfed", features.reservoir, value, pool)
    result = SetResult.about(people, cells)
    return replace(result, selected=(chosen,), seconds=time.perf_counter() - start)


def drawn(rng: np.random.Generator, settings: UnseenSettings, inputs: int, trial: int) -> EchoState:
    """Return a random feature map: one or two layers, pooled in one of a few ways."""
    units = int(rng.choice(settings.units))
    deep = bool(rng.random() < 0.5)
    first, second = (float(a) for a in (rng.uniform(0.2, 1.0), rng.uniform(0.05, 0.4)))
    ways: tuple[tuple[Pool, int], ...] = (("mean_std", 1), ("mean_std", 1), ("mean", 2))
    recipe = Reservoir(
        units=(units // 2, units // 2) if deep else units,
        inputs=inputs,
        leak_rate=(first, second) if deep else first,
        spectral_radius=float(rng.uniform(0.3, 1.0)),
        input_scaling=float(np.exp(rng.uniform(np.log(0.1), np.log(1.5)))),
        bias_scaling=float(rng.choice([0.2, 0.5])),
        seed=settings.seed + trial,
    )
    pool, segments = ways[int(rng.integers(len(ways)))]
    return EchoState.of(recipe, pool=pool, segments=segments)


def reseeded(features: EchoState, seed: int) -> EchoState:
    """Return the same map of a reservoir drawn anew."""
    fresh = replace(features.reservoir.unprepared(), seed=seed)
    return features.reading(fresh)


def crossed(subjects: Subjects, folds: int) -> tuple[float, float]:
    """Return the best accuracy on subjects left out in turn, and the ridge that gives it."""
    names = sorted(subjects)
    total = summed(subjects)
    ridges = ridges_of(total)
    groups = [names[k::folds] for k in range(folds)]
    correct = np.sum(list(ordered_map(lambda g: _correct(subjects, total, ridges, g), groups)), 0)
    n = sum(len(subject.y) for subject in subjects.values())
    k = int(correct.argmax())
    return float(correct[k] / n), float(ridges[k])


def _correct(
    subjects: Subjects, total: RidgeStatistics, ridges: Array, group: Iterable[str]
) -> Array:
    held_out = {name: subjects[name] for name in group}
    path = solve_path(total - summed(held_out), ridges)
    return np.array(
        [sum((r(s.z).argmax(1) == s.y.argmax(1)).sum() for s in held_out.values()) for r in path]
    )


def final_cell(
    features: EchoState,
    known: dict[str, Any],
    people: People,
    settings: UnseenSettings,
    seed: int,
) -> Cell:
    """Return the cell of one reservoir: ridge by left-out subjects, test on the unseen ones."""
    train = read_subjects(features, known)
    value, ridge = crossed(train, settings.folds)
    chosen = Chosen(summed(train).solve(ridge), ridge, value)
    return cell(
        "incfed",
        chosen,
        train=train,
        test=read_subjects(features, people.test),
        share=1.0,
        repetition=seed,
        pooled=pooled_readout(train, ridge),
    )


def described(settings: UnseenSettings) -> dict[str, Any]:
    """Return the settings, ready for JSON."""
    return {**asdict(settings), "units": list(settings.units)}
