"""The claims of the concepts page about clients whose reservoirs differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reproductions.claims import Claim, Paper, Results, Same, Verdict, same_sign
from reproductions.intervals import Interval, over_runs

ALONE, SUMMED = "ensemble", "aggregation"


Errors = tuple[Sequence[float], Sequence[float]]


def _figures(results: Results) -> dict[float, Errors]:
    """Return the errors of the ensemble and of the aligned sum, by how far reservoirs agree.

    They are those of the seeds, in the same order.
    """
    known = results.benchmark("heterogeneous")
    return {
        float(alpha): (row["by_seed"][ALONE], row["by_seed"][SUMMED])
        for alpha, row in (known["alpha"] if known else {}).items()
    }


def _worse(found: Errors) -> Interval:
    """Return by how much the aligned sum's error is larger, over seeds."""
    return over_runs([summed - alone for alone, summed in zip(*found, strict=True)])


def _shown(found: Errors, alpha: float) -> str:
    alone, summed = (float(np.mean(errors)) for errors in found)
    gap = _worse(found)
    return (
        f"{alone:.3f} against {summed:.3f} at {alpha:g} ({gap.value:+.3f}, {gap.low:+.3f} to "
        f"{gap.high:+.3f})"
    )


def _ensemble_is_safe(results: Results) -> Verdict | None:
    before = {alpha: errors for alpha, errors in _figures(results).items() if alpha < 1}
    if not before:
        return None
    ours = ", ".join(_shown(errors, alpha) for alpha, errors in before.items())
    n = len(next(iter(before.values()))[0])
    why = f"NRMSE on NARMA-10, ensemble against aligned sum; 95 % intervals over {n} seeds"
    return Verdict(ours, same_sign([_worse(errors) for errors in before.values()]), why)


def _alignment_near_one(results: Results) -> Verdict | None:
    found = _figures(results)
    if not found:
        return None
    nearest = max(alpha for alpha in found if alpha < 1)
    gaps = [over_runs([a - b for a, b in zip(*found[1.0], strict=True)]), _worse(found[nearest])]
    ours = f"ensemble against aligned sum: {_shown(found[1.0], 1.0)}, " + _shown(
        found[nearest], nearest
    )
    alone = float(np.mean(found[min(found)][0]))
    why = f"the ensemble of different reservoirs, {alone:.3f}, is better than either"
    return Verdict(ours, same_sign(gaps), why)


def _exact(results: Results) -> Verdict | None:
    study = results.people("incfed")
    if study is None:
        return None
    gap = max(one.largest_gap for one in study.sets)
    rounds = {t.rounds for one in study.sets for t in one.traffic if t.method == "incfed"}
    same: Same = "yes" if gap <= 1e-8 and rounds == {1} else "no"
    return Verdict(f"one round; scores differ by {gap:.0e} at most", same, "by addition")


CONCEPTS = Paper(
    "Concepts (a page of esnfed)",
    (
        Claim("The federated readout is that of the pooled data, in one round", _exact),
        Claim(
            "Where reservoirs differ, averaging predictions is the safe default (0.184 against "
            "0.540 with nothing aligned)",
            _ensemble_is_safe,
        ),
        Claim(
            "Aligning reservoirs pays only near full agreement (0.206 against 0.204 at 1)",
            _alignment_near_one,
        ),
    ),
)
