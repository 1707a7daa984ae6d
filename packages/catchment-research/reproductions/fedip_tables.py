"""Tables of the study of plasticity for a page of text: differences, and what became of rules."""

from __future__ import annotations

from reproductions.fedip_findings import (
    ahead,
    became_of,
    chosen_pair,
    over_sets,
    pair,
    pools_of,
    settled,
)
from reproductions.fedip_search import SEARCHES
from reproductions.grids import grid
from reproductions.intervals import Interval, over_people, paired
from reproductions.study import StudyResult


def differences(study: StudyResult) -> str:
    """Return FedIP less IncFed in points, with all training people, by set and pooling."""
    head = ["set", "people", "pooling", "IncFed", "paper", "relative", "wide"]
    rows = []
    last = max(share for one in study.sets for share in one.shares)
    for one in study.sets:
        for pool in pools_of(one):
            plain = over_people(one.counts(f"incfed-{pool}", last))
            gains = [_shown(paired(*pair(one, search, pool, last))) for search in SEARCHES]
            rows.append([one.name, str(plain.n_people), pool, f"{100 * plain.value:.1f}", *gains])
    for pool in pools_of(study.sets[0]):
        found = [
            over_sets([(one, pair(one, search, pool, last)) for one in study.sets])
            for search in SEARCHES
        ]
        rows.append(["all alike", str(found[0].n_people), pool, "", *map(_shown, found)])
    return grid(head, rows)


def by_share(study: StudyResult) -> str:
    """Return FedIP less IncFed in points over all sets alike, by pooling and share."""
    shares = study.sets[0].shares
    rows = []
    for search in SEARCHES:
        for pool in pools_of(study.sets[0]):
            found = [
                over_sets([(one, pair(one, search, pool, share)) for one in study.sets])
                for share in shares
            ]
            rows.append([search, pool, *map(_shown, found)])
    return grid(["search", "pooling", *(f"{share:.0%}" for share in shares)], rows)


def chosen(study: StudyResult) -> str:
    """Return FedIP less IncFed where validation chooses search and pooling, by set."""
    last = max(share for one in study.sets for share in one.shares)
    rows = []
    for one in study.sets:
        ours, theirs = chosen_pair(one, last)
        values = (f"{100 * over_people(part).value:.1f}" for part in (theirs, ours))
        rows.append([one.name, *values, _shown(paired(ours, theirs))])
    every = over_sets([(one, chosen_pair(one, last)) for one in study.sets])
    rows.append(["all alike", "", "", _shown(every)])
    return grid(["set", "IncFed", "FedIP + IncFed", "difference"], rows)


def rules(study: StudyResult) -> str:
    """Return what became of the rules that were tried, over all sets and folds."""
    rows = [
        [*key, str(n), str(below), str(out)]
        for key, (below, out, n) in became_of(study.sets).items()
    ]
    head = ["search", "update a", "equation", "rules", "took gains below zero", "left out"]
    return grid(head, rows)


def counts(study: StudyResult) -> str:
    """Return in how many cells FedIP is ahead, and how many differences are settled, by search."""
    rows = []
    for search in SEARCHES:
        better, equal, n = ahead(study, search)
        good, bad = settled(study, search)
        rows.append([search, str(n), str(better), str(equal), str(good), str(bad)])
    head = ["search", "cells", "FedIP ahead", "equal", "settled for it", "settled against it"]
    return grid(head, rows)


def _shown(found: Interval) -> str:
    text = found.shown(sign=True)
    return f"**{text}**" if found.settled else text
