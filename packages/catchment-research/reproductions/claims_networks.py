"""The claims of FedPT: networks of which only a part is trained and sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from reproductions.claims import Claim, Paper, Results, Same, Verdict, same_sign
from reproductions.intervals import Interval, over_runs

Row = dict[str, Any]
ENOUGH = 3  # measurements of memory


def rows_of(results: Results, part: str, noise: float | None = None) -> dict[float, list[Row]]:
    """Return a part's trainings by the percentage trained, in two digits, the largest first."""
    study = results.study("fedpt")
    groups: dict[float, list[Row]] = {}
    for row in study["rows"] if study else ():
        if row["part"] == part and row.get("noise") == noise:
            groups.setdefault(round(row["percent"], 2), []).append(row)
    return dict(sorted(groups.items(), reverse=True))


def images(results: Results) -> str:
    """Return the part in which CIFAR-10 was trained longest and with most clients."""
    return "cifar_many" if rows_of(results, "cifar_many") else "cifar"


def whole(results: Results, part: str) -> list[Row]:
    """Return the whole network's trainings, with the better of its rates where two were tested."""
    usual = rows_of(results, part).get(100.0, [])
    longer = rows_of(results, "cifar_long").get(100.0) if part == "cifar_many" else None
    return longer or usual


def ahead(ours: Sequence[Row], theirs: Sequence[Row]) -> Interval | None:
    """Return how much more accurate trainings are than others of the same seeds."""
    others = {row["seed"]: row["accuracy"] for row in theirs}
    gains = [row["accuracy"] - others[row["seed"]] for row in ours if row["seed"] in others]
    return over_runs(gains) if gains else None


def within(found: Interval, points: float) -> Same:
    """Return whether at most so many points are lost: yes, no, or not settled.

    >>> within(Interval(-0.01, -0.015, -0.005, 3), 2.0)
    'yes'
    """
    if 100 * found.low > -points:
        return "yes"
    return "no" if 100 * found.high < -points else "not settled"


def _loses_little(
    part: str, share: float, points: float, why: str, naive: str = ""
) -> Callable[[Results], Verdict | None]:
    """Return the judge of what a share loses; `naive` names what is right without learning."""

    def judge(results: Results) -> Verdict | None:
        used = images(results) if part == "cifar" else part
        groups, full = rows_of(results, used), whole(results, used)
        found = ahead(groups.get(share, ()), full)
        if found is None:
            return None
        row = groups[share][0]
        ours = (
            f"{row['reduction']:.1f} times less sent, {_shown(found)} points, "
            f"{_mean(groups[share])} against {_mean(full)}"
        )
        known = (results.study("fedpt") or {}).get("baselines", {}).get(used)
        if naive and known is not None:
            ours += f" ({naive} alone: {100 * known:.1f} %)"
        return Verdict(ours, within(found, points), why)

    return judge


def rate_at_edge(results: Results, part: str, share: float) -> bool:
    """Return whether the best rate of a share is the smallest or largest that was tried."""
    study = results.study("fedpt")
    tried = {
        row["rate"]: row["accuracy"]
        for row in (study.get("search", ()) if study else ())
        if row["part"] == part and round(row["percent"], 2) == share
    }
    best = max(tried, key=lambda rate: tried[rate], default=None)
    return len(tried) > 1 and best in (min(tried), max(tried))


def _order(
    runs: Mapping[str, str], shares: Sequence[float], why: str
) -> Callable[[Results], Verdict | None]:
    """Return the judge of what shares lose in all runs, which are parts and what sets them apart.

    Where the whole network's best rate is the last that was tried, nothing is settled; where a
    share's is, it is said.
    """

    def judge(results: Results) -> Verdict | None:
        found: list[Interval] = []
        texts, told, open_ = [], why, False
        for part, name in runs.items():
            groups, full = rows_of(results, part), whole(results, part)
            lost = {
                share: known
                for share in shares
                if (known := ahead(full, groups.get(share, ()))) is not None
            }
            if not lost:
                continue
            found += lost.values()
            figures = (f"{_shown(known)} with {share:g} %" for share, known in lost.items())
            texts.append(f"points lost{name and f' with {name}'}: {', '.join(figures)}")
            edge = [share for share in (100.0, *lost) if rate_at_edge(results, part, share)]
            if edge:
                named = " and ".join(f"{share:g} %" for share in edge)
                told += f"; the best rate of {named}{name and f' with {name}'} is the last that "
                told += "was tried, so that its place is open"
            open_ = open_ or 100.0 in edge
        if not found:
            return None
        return Verdict("; ".join(texts), "not settled" if open_ else same_sign(found), told)

    return judge


def _less(
    what: str, unit: str, form: str, why: str, part: str = "cifar"
) -> Callable[[Results], Verdict | None]:
    def judge(results: Results) -> Verdict | None:
        groups = rows_of(results, part)
        means = {
            share: float(np.median(values))
            for share, rows in groups.items()
            if (values := [row[what] for row in rows if row.get(what) is not None])
        }
        if len(means) < 2:
            return None
        values = list(means.values())
        falls = all(b <= a for a, b in pairwise(values))
        same: Same = "yes" if falls else "partly" if values[-1] < values[0] else "no"
        ours = ", ".join(
            f"{value:{form}} {unit} with {share:g} %" for share, value in means.items()
        )
        return Verdict(ours, same, why)

    return judge


def _memory(results: Results) -> Verdict | None:
    study = results.study("fedpt")
    if study is None or not study.get("memory"):
        why = "of a GPU: activations of frozen layers are not kept"
        return _less("peak_mebibytes", "MiB", ".0f", why)(results)
    means = _medians(study["memory"])
    values = list(means.values())
    falls = all(b <= a for a, b in pairwise(values))
    same: Same = "yes" if falls else "partly" if values[-1] < values[0] else "no"
    ours = ", ".join(f"{value:.0f} MiB with {share:g} %" for share, value in means.items())
    why = "one client's round on a CPU, above what the process had before"
    if len({row["repetition"] for row in study["memory"]}) < ENOUGH:
        return Verdict(ours, "not settled", why + "; measured fewer than three times")
    before = _medians((results.study("earlier/fedpt-memory") or {}).get("memory", ()))
    parts = [value for share, value in before.items() if share < 100]
    if parts and before[100.0] < min(parts):
        ours += (
            f"; an earlier measurement: {before[100.0]:.0f} MiB with 100 %, {min(parts):.0f} to "
            f"{max(parts):.0f} with less"
        )
        same = "partly" if same == "yes" else same
        why += "; the earlier one did not give back free memory to the system ahead of training"
    return Verdict(ours, same, why)


def _medians(rows: Sequence[Row]) -> dict[float, float]:
    """Return the median of measurements of memory by the percentage trained, the largest first."""
    groups: dict[float, list[float]] = {}
    for row in rows:
        groups.setdefault(round(row["percent"], 2), []).append(row["mebibytes"])
    return {share: float(np.median(groups[share])) for share in sorted(groups, reverse=True)}


def _noise(part: str, why: str) -> Callable[[Results], Verdict | None]:
    def judge(results: Results) -> Verdict | None:
        study = results.study("fedpt")
        if study is None:
            return None
        noises = sorted({row["noise"] for row in study["rows"] if row["part"] == part})
        found = {}
        for noise in noises:
            groups = rows_of(results, part, noise)
            known = ahead(groups[min(groups)], groups.get(100.0, ()))
            if known is not None:
                found[noise] = known
        if len(found) < 2:
            return None
        first, *noisy = found.values()
        most, behind = noisy[-1], first.settled and first.value < 0
        same: Same = "not settled"
        if most.settled:
            same = "no" if most.value < 0 else "yes" if behind else "partly"
        ours = "partly trained less all: " + ", ".join(
            f"{_shown(known)} at noise {noise:g}" for noise, known in found.items()
        )
        return Verdict(ours, same, why)

    return judge


def _shown(found: Interval) -> str:
    return f"{found.shown(sign=True)[:-1]}; {found.n_people} seeds)"


def _mean(rows: Sequence[Row]) -> str:
    return f"{100 * np.mean([row['accuracy'] for row in rows]):.1f} %"


FEDPT = Paper(
    "Sidahmed et al., Efficient and Private Federated Learning with Partially Trainable Networks "
    "(FedPT), 2021",
    (
        Claim(
            "EMNIST: 20 times less sent costs less than 2 points (85.47 to 83.75)",
            _loses_little("writers", 4.96, 2.0, "digits by writer, an easier set"),
        ),
        Claim(
            "CIFAR-10: 4 times less sent costs almost nothing (83.65 to 83.57; here: 1 point)",
            _loses_little("cifar", 26.45, 1.0, "a fifth of the images, fewer rounds"),
        ),
        Claim(
            "CIFAR-10: the less is trained, the less accurate: 0.8, 2.9 and 4.2 points lost with "
            "8.07, 3.47 and 2.16 % trained",
            _order(
                {"cifar": "10 clients", "cifar_many": "100 clients"},
                (8.07, 3.47, 2.16),
                "a fifth of the images and fewer rounds: nothing is trained to its end; each share "
                "has a rate chosen for it on held-out images",
            ),
        ),
        Claim(
            "The same order on other images (not in the paper)",
            _order(
                {"fashion": ""},
                (8.07, 3.47, 2.16),
                "20 000 images of Fashion-MNIST, 200 clients, 300 rounds; each share has a rate "
                "chosen for it on held-out images after as many rounds",
            ),
        ),
        Claim(
            "Next word: a tenth less sent costs less than 0.5 points (24.50 to 24.09)",
            _loses_little(
                "text",
                91.28,
                0.5,
                "43 authors of addresses, not Stack Overflow; each share has a rate chosen for it "
                "by held-out authors",
                naive="the most frequent word",
            ),
        ),
        Claim(
            "CIFAR-10: rounds are quicker, the more is frozen (20.5 to 16.2 s, desktop CPU)",
            _less(
                "seconds_per_round",
                "s",
                ".2f",
                "on a GPU: frozen layers have no gradients to compute",
            ),
        ),
        Claim(
            "CIFAR-10: peak memory falls, the more is frozen (565 to 506 MiB, desktop CPU)",
            _memory,
        ),
        Claim(
            "With DP-FTRL partial training is behind without noise and ahead with much of it "
            "(22.44 against 23.22; 15.01 against 14.60 at noise 8.83)",
            _noise(
                "hundred", "digits with the paper's 100 clients a round; rates by held-out clients"
            ),
        ),
        Claim(
            "The same, digits with 20 clients a round",
            _noise("private", "a fifth of the clients: five times the noise on their mean"),
        ),
        Claim(
            "The same, over the paper's 1600 rounds",
            _noise("long", "digits with 20 clients a round, simulated; rates by held-out clients"),
        ),
        Claim(
            "The same, next word",
            _noise(
                "addresses",
                "233 addresses are too few clients: with noise no network learns more than the "
                "most frequent word",
            ),
        ),
        Claim(
            "EMNIST again, over 1500 rounds",
            _loses_little(
                "digits",
                4.96,
                2.0,
                "digits by writer, ten clients a round, simulated; nearly all is right",
            ),
        ),
        Claim(
            "Next word again: a quarter less sent costs 1.3 points (24.50 to 23.23; here: no more)",
            _loses_little(
                "words",
                73.84,
                1.3,
                "the same authors, 200 rounds; the best rate is the larger of the two tried",
                naive="the most frequent word",
            ),
        ),
    ),
    "Digits by writer in place of federated EMNIST, presidents' addresses in place of Stack "
    "Overflow, 10 000 of the 50 000 images of CIFAR-10.",
)
