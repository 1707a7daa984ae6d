"""The claims of the concepts page about clients whose reservoirs differ."""

from __future__ import annotations

from reproductions.claims import Claim, Paper, Results, Same, Verdict

ALONE, SUMMED = "ensemble", "aggregation"


def _figures(results: Results) -> dict[float, tuple[float, float]]:
    """Return the errors of the ensemble and of the aligned sum, by how far reservoirs agree."""
    known = results.benchmark("heterogeneous")
    return {
        float(alpha): (row["ours"][ALONE], row["ours"][SUMMED])
        for alpha, row in (known["alpha"] if known else {}).items()
    }


def _ensemble_is_safe(results: Results) -> Verdict | None:
    found = _figures(results)
    if not found:
        return None
    before = {alpha: pair for alpha, pair in found.items() if alpha < 1}
    better = sum(a < b for a, b in before.values())
    same: Same = "yes" if better == len(before) else "partly" if better else "no"
    ours = ", ".join(f"{a:.3f} against {b:.3f} at {alpha:g}" for alpha, (a, b) in before.items())
    return Verdict(ours, same, "NRMSE on NARMA-10 over four seeds, ensemble against aligned sum")


def _alignment_near_one(results: Results) -> Verdict | None:
    found = _figures(results)
    if not found:
        return None
    ours, alone = found[1.0][1], found[min(found)][0]
    nearest = max(alpha for alpha in found if alpha < 1)
    same: Same = "yes" if ours < found[1.0][0] and found[nearest][1] > found[nearest][0] else "no"
    text = (
        f"ahead of the ensemble at 1 only ({ours:.3f} against {found[1.0][0]:.3f}; "
        f"{found[nearest][1]:.3f} against {found[nearest][0]:.3f} at {nearest:g})"
    )
    why = f"and the ensemble of different reservoirs, {alone:.3f}, is better than either"
    return Verdict(text, same, why)


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
