"""What a study on people shows, in sentences made from its figures."""

from __future__ import annotations

import numpy as np

from reproductions.fedip_findings import fedip_findings
from reproductions.intervals import Interval, over_people
from reproductions.per_class import difference, interval, majority, never_said
from reproductions.study import SetResult, StudyResult

TOLERANCE = 1e-9


def findings(study: StudyResult) -> list[str]:
    """Return what the result shows, one sentence each."""
    lines = [_exactness(one) for one in study.sets if not np.isnan(one.largest_gap)]
    match study.name:
        case "incfed":
            lines.append(_fedavg_finding(study))
            lines += [line for one in study.sets for line in _averages_findings(one)]
        case "fedip":
            lines += fedip_findings(study, in_points)
        case "variance":
            lines += [line for one in study.sets for line in _variance_findings(one)]
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


def _fedavg_finding(study: StudyResult) -> str:
    cells = [(one, m, s) for one in study.sets for m in one.methods for s in one.shares]
    averages = [(one, m, s) for one, m, s in cells if m.startswith("fedavg")]
    behind = sum(one.mean(m, s) < one.mean("incfed", s) for one, m, s in averages)
    share = behind / max(len(averages), 1)
    return f"averages are behind the exact sum in {behind} of {len(averages)} cells ({share:.0%})"


def _averages_findings(one: SetResult) -> list[str]:
    last = one.shares[-1]
    lines = []
    for method in one.methods:
        if not method.startswith("fedavg"):
            continue
        ahead = difference(one, "incfed", method, last)
        if ahead is not None:
            lines.append(
                f"{one.name}: incfed is {in_points(ahead)} ahead of {method} at {last:.0%}"
            )
        if lost := never_said(one, method, last):
            lines.append(f"{one.name}: {method} never says {' or '.join(lost)} at {last:.0%}")
    return lines


def in_points(found: Interval) -> str:
    """Return a difference in points with its interval, and whether its sign is settled.

    >>> in_points(Interval(0.02, -0.01, 0.05, 9))
    '+2.0 (-1.0 to +5.0) points (9 people; not settled)'
    """
    settled = "settled" if found.settled else "not settled"
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


def _variance_findings(one: SetResult) -> list[str]:
    lines = []
    for pool in dict.fromkeys(method.split(" / ")[1] for method in one.methods):
        ways = [method for method in one.methods if method.endswith(f" / {pool}")]
        figures = ", ".join(
            f"{way.split(' / ')[0]} {100 * one.mean(way, 1.0):.1f} ± "
            f"{100 * one.deviation(way, 1.0):.2f}"
            for way in ways
        )
        lines.append(f"{one.name}, {pool}: {figures}")
        known = difference(one, f"fedip / {pool}", f"none / {pool}", 1.0)
        if known is not None:
            lines.append(f"{one.name}, {pool}: fedip less none {in_points(known)}")
    return lines
