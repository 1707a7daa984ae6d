"""The claims of the two papers on people: exact sums (IncFed) and plasticity first (FedIP)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from reproductions.claims import (
    Claim,
    Paper,
    Results,
    Same,
    Verdict,
    percent,
    same_sign,
    settled_text,
)
from reproductions.fedip_findings import became_of, over_sets, pair, pools_of
from reproductions.fedip_search import READINGS, SEARCHES
from reproductions.intervals import Interval, over_runs, paired
from reproductions.per_class import by_validation, difference, never_said
from reproductions.study import SetResult, StudyResult

SUMS = "incfed"
AVERAGES = "fedavg-samples"
EXACT = 1e-8  # of a score


def _exact(results: Results) -> Verdict | None:
    study = results.people("incfed")
    if study is None:
        return None
    gaps = [cell.gap for one in study.sets for cell in one.cells if not np.isnan(cell.gap)]
    same: Same = "yes" if max(gaps) <= EXACT else "no"
    ours = f"scores of both differ by at most {max(gaps):.0e} in {len(gaps)} cells"
    return Verdict(ours, same, "both are the same sums; what is left is rounding")


def _sum_beats_averages(results: Results) -> Verdict | None:
    study = results.people("incfed")
    found = _of_sets(study, lambda one: difference(one, SUMS, AVERAGES, one.shares[-1]))
    if study is None or not found:
        return None
    lost = [
        f"{one.name} ({' and '.join(never_said(one, AVERAGES, one.shares[-1]))})"
        for one in study.sets
        if never_said(one, AVERAGES, one.shares[-1])
    ]
    why = "people differ, and a readout solved from one of them fits that one"
    if lost:
        why += f"; the average never says some classes on {', '.join(lost)}"
    return Verdict(_points(found), same_sign(list(found.values())), why)


def _more_people(results: Results) -> Verdict | None:
    study = results.people("incfed")

    def gain(one: SetResult) -> Interval | None:
        first, last = one.shares[0], one.shares[-1]
        few, all_of_them = one.counts(SUMS, first), one.counts(SUMS, last)
        return paired(all_of_them, few) if few and few[0] else None

    found = _of_sets(study, gain)
    if not found:
        return None
    why = "readouts from more people know more of what is common to them"
    return Verdict(_points(found), same_sign(list(found.values())), why)


def _averages_forget(results: Results) -> Verdict | None:
    study = results.people("incfed")

    def fall(one: SetResult) -> Interval | None:
        where = {(c.fold, c.repetition): c.train for c in one.of(AVERAGES, one.shares[0])}
        falls = [
            where[c.fold, c.repetition] - c.train
            for c in one.of(AVERAGES, one.shares[-1])
            if (c.fold, c.repetition) in where
        ]
        return over_runs(falls) if len(falls) > 1 else None

    found = _of_sets(study, fall)
    if not found:
        return None
    why = "the average of readouts that each fit one person fits none of them"
    return Verdict(_points(found, "runs"), same_sign(list(found.values())), why)


def _plasticity(search: str, which: int, why: str) -> Callable[[Results], Verdict | None]:
    """Return the judge of what plasticity gains at equal pooling, at the first or last share."""

    def judge(results: Results) -> Verdict | None:
        study = results.people("fedip")
        if study is None or not all(has_people(one, f"fedip-{search}-") for one in study.sets):
            return None
        share = study.sets[0].shares[which]
        pools = pools_of(study.sets[0])
        alike = {
            pool: over_sets([(one, pair(one, search, pool, share)) for one in study.sets])
            for pool in pools
        }
        each = [paired(*pair(one, search, pool, share)) for one in study.sets for pool in pools]
        ours = f"all sets alike: {_points(alike)}; set by set {settled_text(each)}"
        return Verdict(ours, same_sign(list(alike.values())), why + _chosen_from(study, search))

    return judge


def _chosen_from(study: StudyResult, search: str) -> str:
    """Return from how many recipes both methods chose, and how many rules went through zero."""
    if "trials" not in study.settings:
        return ""
    told = (
        f"; both choose from the same {study.settings['trials']} recipes in a fold, of the paper's "
        "sizes"
    )
    found = [known for key, known in became_of(study.sets).items() if key[0] == search]
    below, n = sum(one[0] for one in found), sum(one[2] for one in found)
    if not below:
        return told
    return (
        f"{told}, FedIP with {len(READINGS)} readings of each rule; {below} of {n} rules take "
        "gains through zero at this rate, after which results hang on a processor's last digit: it "
        "can hardly be what the paper ran"
    )


def has_people(one: SetResult, begins: str) -> bool:
    """Return whether a set has cells of a kind of method whose people are known one by one."""
    return any(cell.method.startswith(begins) and cell.confusions for cell in one.cells)


def _plasticity_and_pooling(results: Results) -> Verdict | None:
    study = results.people("fedip")

    def gain(one: SetResult) -> Interval | None:
        ours, theirs = (by_validation(one, kind, one.shares[-1]) for kind in ("fedip", "incfed"))
        return paired(ours, theirs) if ours and theirs and ours[0] and theirs[0] else None

    found = _of_sets(study, gain)
    if not found:
        return None
    rules = len(READINGS) + len(SEARCHES) - 1
    why = (
        "in each fold by its own validation people, from the same recipes, of which FedIP tries "
        f"{rules} rules each"
    )
    return Verdict(_points(found), same_sign(list(found.values())), why)


def _draws(results: Results) -> Verdict | None:
    study = results.people("variance")
    if study is None:
        return None
    texts, less = [], []
    for one in study.sets:
        for method in one.methods:
            way, _, pool = method.partition(" / ")
            if way == "fedip":
                a, b = one.deviation(method, 1.0), one.deviation(f"none / {pool}", 1.0)
                less.append(a < b)
                texts.append(f"{one.name}, {pool} {percent(a)} against {percent(b)}")
    same: Same = "no" if all(less) else "yes" if not any(less) else "partly"
    n = len({c.repetition for one in study.sets for c in one.cells})
    why = (
        f"{n} draws of the reservoir on one split of people; no pair of deviations alone settles "
        "an order"
    )
    return Verdict(
        f"smaller with FedIP in {sum(less)} of {len(less)}: {', '.join(texts)}", same, why
    )


def _skew(kind: str) -> Callable[[Results], Verdict | None]:
    """Return the judge of what a kind of method loses where clients have few classes each."""

    def judge(results: Results) -> Verdict | None:
        study = results.people("skew")
        found = _of_sets(study, lambda one: _lost_by_skew(one, kind))
        if study is None or not found:
            return None
        alpha = min(study.settings["alphas"])  # type: ignore[type-var, arg-type]
        why = (
            f"the same windows dealt to clients by Dirichlet({alpha:g}) classes instead of all "
            "alike, points lost; the exact sum is the same either way"
        )
        return Verdict(_points(found), same_sign(list(found.values())), why)

    return judge


def _lost_by_skew(one: SetResult, kind: str) -> Interval | None:
    """Return how far a method with clients all alike is ahead of it with the most uneven ones."""
    uneven = [m for m in one.methods if m.startswith(f"{kind} / alpha ")]
    if not uneven:
        return None
    pool = uneven[0].rpartition(" / ")[2]
    most = min(uneven, key=lambda m: float(m.split(" / ")[1].removeprefix("alpha ")))
    return difference(one, f"{kind} / iid / {pool}", most, one.shares[-1])


def _of_sets(
    study: StudyResult | None, of: Callable[[SetResult], Interval | None]
) -> dict[str, Interval]:
    """Return a difference for every set that has one."""
    found = {one.name: of(one) for one in (study.sets if study else ())}
    return {name: known for name, known in found.items() if known is not None}


def _points(found: Mapping[str, Interval], unit: str = "people") -> str:
    """Return differences in points by name, and over how many people or runs."""
    return ", ".join(
        f"{name} {known.shown(sign=True)[:-1]}; {known.n_people} {unit})"
        for name, known in found.items()
    )


INCFED = Paper(
    "Bacciu et al., Federated Reservoir Computing Neural Networks (IncFed), 2021",
    (
        Claim("The sum of the clients' statistics gives the pooled data's readout", _exact),
        Claim(
            "With all clients the sum is more accurate than averaged readouts: WESAD 77.92 against "
            "75.81, HAR 80.19 against 74.84 (points, interval over people)",
            _sum_beats_averages,
        ),
        Claim(
            "More clients make the sum better: WESAD 65.96 to 77.92, HAR 55.96 to 80.19 from 25 to "
            "100 % of them",
            _more_people,
        ),
        Claim(
            "Averages fit their own training clients less, the more there are: HAR 99.17 to 70.18, "
            "WESAD 81.55 to 76.57 (points lost)",
            _averages_forget,
        ),
        Claim(
            "Clients that differ make averages lose (why the sum wins, says the paper)",
            _skew("fedavg"),
        ),
    ),
    "WESAD as statistics of 5 s windows, HHAR of another phone without its gyroscope, and three "
    "further sets, instead of raw WESAD and HHAR of the Nexus 4.",
)
FEDIP = Paper(
    "De Caro et al., Federated Adaptation of Reservoirs via Intrinsic Plasticity (FedIP), 2022",
    (
        Claim(
            "With all clients plasticity before the readout is better: WESAD 75.42 to 80.42, HHAR "
            "81.47 to 82.09; by the paper's ranges",
            _plasticity("paper", -1, "at equal pooling, every person tested once"),
        ),
        Claim(
            "The same, with rates relative to the target's width",
            _plasticity("relative", -1, "fewer rules diverge"),
        ),
        Claim(
            "The same, with wider targets and other means too",
            _plasticity("wide", -1, "ranges of our own"),
        ),
        Claim("The same, search and pooling by validation too", _plasticity_and_pooling),
        Claim(
            "With a quarter of the clients it helps as well: HHAR 75.50 to 80.72, WESAD 75.24 to "
            "75.45",
            _plasticity("paper", 0, "by the paper's ranges"),
        ),
        Claim("FedIP does not make results depend less on the draw of the reservoir", _draws),
        Claim(
            "Clients that differ in their classes make FedIP lose (left open there)", _skew("fedip")
        ),
    ),
    "WESAD and HHAR in the same forms as above. An earlier run on six sets, in which IncFed chose "
    "from 60 recipes and FedIP from 5 or 20 of at most 200 units, is on the page on FedIP.",
)
