"""What the study of plasticity shows: differences to the plain reservoir, and what diverged."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from reproductions.fedip_search import SEARCHES
from reproductions.intervals import Counts, Interval, paired
from reproductions.per_class import by_validation
from reproductions.study import SetResult, StudyResult

Seeds = Sequence[Counts]
RULES = re.compile(
    r"(\w+) ranges, an update a (\w+), (\w+) equation: "
    r"(\d+) of (\d+) rules took gains below zero, (\d+) were left out"
)
NAMES = {
    "paper": "the paper's ranges",
    "relative": "the paper's ranges but a relative rate",
    "wide": "wider ranges",
}


def pools_of(one: SetResult) -> tuple[str, ...]:
    """Return the poolings that a set has cells of."""
    names = (method.split("-")[-1] for method in one.methods if method.startswith("incfed"))
    return tuple(names)


def pair(one: SetResult, search: str, pool: str, share: float) -> tuple[Seeds, Seeds]:
    """Return the counts of FedIP by a search, and of IncFed, at one pooling."""
    return one.counts(f"fedip-{search}-{pool}", share), one.counts(f"incfed-{pool}", share)


def chosen_pair(one: SetResult, share: float) -> tuple[Seeds, Seeds]:
    """Return the counts of what validation chose in each fold, the pooling and search too."""
    return by_validation(one, "fedip", share), by_validation(one, "incfed", share)


def over_sets(pairs: Sequence[tuple[SetResult, tuple[Seeds, Seeds]]]) -> Interval:
    """Return the mean difference over sets, each of equal weight, with an interval over people.

    A set's people are counted with their part of its sequences, so that every set has one in all.
    """
    ours, theirs = (_together([(one, pair[k]) for one, pair in pairs]) for k in (0, 1))
    return paired(ours, theirs)


def _together(parts: Sequence[tuple[SetResult, Seeds]]) -> Seeds:
    found: list[dict[str, tuple[float, float]]] = [{} for _ in range(min(len(s) for _, s in parts))]
    for one, seeds in parts:
        for merged, counts in zip(found, seeds, strict=False):
            n = sum(rows for _, rows in counts.values())
            merged |= {
                f"{one.name} {name}": (right / n, rows / n)
                for name, (right, rows) in counts.items()
            }
    return found


def ahead(study: StudyResult, search: str) -> tuple[int, int, int]:
    """Return in how many cells FedIP is ahead, in how many it is equal, and how many there are."""
    gains = [
        one.mean(f"fedip-{search}-{pool}", share) - one.mean(f"incfed-{pool}", share)
        for one in study.sets
        for pool in pools_of(one)
        for share in one.shares
    ]
    return sum(gain > 0 for gain in gains), sum(gain == 0 for gain in gains), len(gains)


def settled(study: StudyResult, search: str) -> tuple[int, int]:
    """Return how many differences are settled for FedIP, and how many against it."""
    found = [
        paired(*pair(one, search, pool, share))
        for one in study.sets
        for pool in pools_of(one)
        for share in one.shares
    ]
    return (
        sum(one.settled and one.value > 0 for one in found),
        sum(one.settled and one.value < 0 for one in found),
    )


def became_of(sets: Sequence[SetResult]) -> dict[tuple[str, str, str], tuple[int, int, int]]:
    """Return how many rules took gains below zero, were left out, and were tried, by reading."""
    found: dict[tuple[str, str, str], tuple[int, int, int]] = {}
    for remark in (remark for one in sets for remark in one.remarks):
        if match := RULES.search(remark):
            key = match[1], match[2], match[3]
            before = found.get(key, (0, 0, 0))
            found[key] = (
                before[0] + int(match[4]),
                before[1] + int(match[6]),
                before[2] + int(match[5]),
            )
    return found


def fedip_findings(study: StudyResult, in_points: Callable[[Interval], str]) -> list[str]:
    """Return what the study shows, one sentence each."""
    lines = [
        f"{search} ranges, an update a {updates}, {equation} equation: {below} of {n} rules took "
        f"gains below zero, {out} were left out, over all sets and folds"
        for (search, updates, equation), (below, out, n) in became_of(study.sets).items()
    ]
    for one in study.sets:
        last = one.shares[-1]
        for search in SEARCHES:
            figures = (
                f"{pool} {in_points(paired(*pair(one, search, pool, last)))}"
                for pool in pools_of(one)
            )
            lines.append(f"{one.name}, FedIP by {NAMES[search]}: {', '.join(figures)}")
        lines.append(
            f"{one.name}, search and pooling by validation too, in each fold anew: "
            + in_points(paired(*chosen_pair(one, last)))
        )
    return [*lines, *_overall(study, in_points)]


def _overall(study: StudyResult, in_points: Callable[[Interval], str]) -> list[str]:
    sets = study.sets
    last = max(share for one in sets for share in one.shares)
    lines = []
    for search in SEARCHES:
        for pool in pools_of(sets[0]):
            found = over_sets([(one, pair(one, search, pool, last)) for one in sets])
            lines.append(f"all sets alike, {pool}, by {NAMES[search]}: {in_points(found)}")
        better, equal, n = ahead(study, search)
        good, bad = settled(study, search)
        lines.append(
            f"by {NAMES[search]} FedIP is ahead in {better} of {n} cells, equal in {equal}; "
            f"settled differences: {good} for it, {bad} against it"
        )
    found = over_sets([(one, chosen_pair(one, last)) for one in sets])
    return [*lines, f"all sets alike, search and pooling by validation too: {in_points(found)}"]
