"""What a study on people shows, in sentences made from its figures."""

from __future__ import annotations

import numpy as np

from reproductions import incfed_tables, skew_tables
from reproductions.fedip_findings import fedip_findings
from reproductions.intervals import Interval, over_people
from reproductions.per_class import difference, interval, majority
from reproductions.study import SetResult, StudyResult

TOLERANCE = 1e-9


def findings(study: StudyResult) -> list[str]:
    """Return what the result shows, one sentence each."""
    if study.name == "skew":
        return skew_tables.findings(study)
    lines = [_exactness(one) for one in study.sets if not np.isnan(one.largest_gap)]
    match study.name:
        case "incfed":
            lines += incfed_tables.findings(study)
        case "fedip":
            lines += fedip_findings(study, in_points)
        case "variance":
            lines += _variance_findings(study)
        case "unseen":
            lines += [_unseen_finding(one) for one in study.sets]
    return lines


def _exactness(one: SetResult) -> str:
    gaps = [cell.gap for cell in one.cells if not np.isnan(cell.gap)]
    above = sum(gap > TOLERANCE for gap in gaps)
    return (
        f"{one.name}: exact federated and pooled scores differ by at most {max(gaps):.1e}"
        f" ({above} of {len(gaps)} cells above {TOLERANCE:g})"
    )


def in_points(found: Interval) -> str:
    """Return a difference in points with its interval, and whether its sign is settled.

    >>> in_points(Interval(0.02, -0.01, 0.05, 9))
    '+2.0 (-1.0 to +5.0) points (9 people; not settled)'
    """
    settled = "settled" if found.settled else "not settled"
    if found.too_few:
        settled = "too few to settle anything"
    return f"{found.shown(sign=True)} points ({found.n_people} people; {settled})"


def _unseen_finding(one: SetResult) -> str:
    known = interval(one, "incfed", 1.0)
    text = f"{one.name}: {one.mean('incfed', 1.0):.4f} on unseen subjects"
    if known is None:
        return text
    always = over_people(majority(one, 1.0)).value
    return (
        f"{text}, {known.shown()} % over {known.n_people} people; "
        f"always the most frequent class {100 * always:.1f} %"
    )


def _variance_findings(study: StudyResult) -> list[str]:
    lines = []
    for one in study.sets:
        for pool in dict.fromkeys(method.split(" / ")[1] for method in one.methods):
            known = difference(one, f"fedip / {pool}", f"none / {pool}", 1.0)
            if known is not None:
                lines.append(f"{one.name}, {pool}: fedip less none {in_points(known)}")
    ways = dict.fromkeys(m.split(" / ")[0] for one in study.sets for m in one.methods)
    for way in ways:
        if way != "none":
            less, n = _fewer(study, way, "none")
            lines.append(f"{way}: a smaller deviation than no plasticity in {less} of {n} columns")
    for way in ways:
        if way not in ("none", "fedip"):
            less, n = _fewer(study, way, "fedip")
            lines.append(f"{way}: a smaller deviation than plain FedIP in {less} of {n} columns")
    return lines


def _fewer(study: StudyResult, way: str, other: str) -> tuple[int, int]:
    """Return in how many columns a way's deviation over draws is smaller, and of how many."""
    pairs = [
        (one.deviation(f"{way} / {pool}", 1.0), one.deviation(f"{other} / {pool}", 1.0))
        for one in study.sets
        for pool in dict.fromkeys(method.split(" / ")[1] for method in one.methods)
        if f"{way} / {pool}" in one.methods
    ]
    return sum(a < b for a, b in pairs), len(pairs)
