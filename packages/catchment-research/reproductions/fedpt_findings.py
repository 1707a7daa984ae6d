"""What FedPT's rows show, with how far each figure could be elsewhere.

Full and partial training of a seed have the same clients in the same rounds, so that differences
are taken seed by seed. Intervals are 95 %: over seeds by Student's t, and, where it is known which
test examples were right, over seeds and test examples (or the writers of test examples) drawn with
replacement. A sign is settled where zero lies outside both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

import numpy as np
from scipy.stats import t as student

from catchment import Array
from reproductions.fedpt_values import FedptResult, Row
from reproductions.intervals import DRAWS, Interval, deviation, paired

PRIVATE = ("private", "hundred", "long", "addresses")
# The paper's seconds of a round on a desktop's CPU, whole and with the smallest share trained.
BY_WRITER = ("writers", "digits")
RUNTIMES = {"writers": (2.72, 2.90), "cifar": (20.51, 16.22), "text": (9.74, 9.37)}


@dataclass(frozen=True)
class Difference:
    """How many points partial training is ahead, and within what over seeds and over examples.

    >>> Difference(1.0, (0.5, 1.5), None, 3).shown()
    '+1.00 points (+0.50 to +1.50 over 3 seeds)'
    """

    value: float
    over_seeds: tuple[float, float]
    over_examples: tuple[float, float] | None
    n_seeds: int
    examples: str = "test images"

    @property
    def settled(self) -> bool:
        """Whether zero lies outside all intervals that there are."""
        known = [one for one in (self.over_seeds, self.over_examples) if one is not None]
        return all(low > 0 for low, _ in known) or all(high < 0 for _, high in known)

    def shown(self) -> str:
        low, high = self.over_seeds
        if not np.isfinite(low):
            return f"{self.value:+.2f} points (one seed)"
        text = f"{self.value:+.2f} points ({low:+.2f} to {high:+.2f} over {self.n_seeds} seeds"
        if self.over_examples is not None:
            low, high = self.over_examples
            text += f", {low:+.2f} to {high:+.2f} over seeds and {self.examples}"
        return text + ")"


def findings(result: FedptResult) -> list[str]:
    """Return what the rows show, one sentence each."""
    lines = []
    for part in dict.fromkeys(row.part for row in result.rows if row.part not in PRIVATE):
        rows = [row for row in result.rows if row.part == part]
        lines += [*_by_share(part, rows), *_times(part, rows), *_fair(part, rows)]
        lines += [f"{part}: {line}" for line in at_edge(result, part)]
    for part in PRIVATE:
        rows = [row for row in result.rows if row.part == part]
        lines += _by_noise(part, rows, result.baselines.get(part, 0.0))
    return lines


def _by_share(part: str, rows: Sequence[Row]) -> list[str]:
    groups = by_percent(rows)
    full, lines = groups.get(100.0, []), []
    for percent, same in groups.items():
        if percent < 100 and _seeds(same) & _seeds(full):
            found = difference(same, full)
            settled = "" if found.settled else "; the sign is not settled"
            lines.append(
                f"{part}: {same[0].reduction:.1f} times less sent, {found.shown()}{settled}"
            )
    return lines


def at_edge(result: FedptResult, part: str) -> list[str]:
    """Return a sentence for each share whose rate is the smallest or largest that was tried."""
    lines = []
    for percent, same in by_percent(row for row in result.search if row.part == part).items():
        tried = sorted({row.rate or 0.0 for row in same})
        taken = max(same, key=lambda row: (row.accuracy, -(row.rate or 0.0))).rate or 0.0
        if len(tried) > 1 and taken in (tried[0], tried[-1]):
            kind = "smallest" if taken == tried[0] else "largest"
            lines.append(
                f"the rate of {percent:g} % trained, {taken:g}, is the {kind} that was tried for "
                "it: a better one may lie beyond"
            )
    return lines


def _times(part: str, rows: Sequence[Row]) -> list[str]:
    groups = by_percent(rows)
    if part not in RUNTIMES or len(groups) < 2 or 100.0 not in groups:
        return []
    ours = [
        float(np.median([row.seconds_per_round for row in groups[percent]]))
        for percent in (100.0, min(groups))
    ]
    whole, least = RUNTIMES[part]
    return [
        f"{part}: a round takes {ours[1]:.2f} s with {min(groups):.4g} % trained and {ours[0]:.2f} "
        f"with all of it, on a device and with clients of ours; the paper had {least:.2f} and "
        f"{whole:.2f} s on a desktop's CPU{', no gain' if least > whole else ''}"
    ]


def _fair(part: str, rows: Sequence[Row]) -> list[str]:
    shares = {p: spreads(of) for p, of in by_percent(rows).items() if of[0].by_client}
    if len(shares) < 2 or 100.0 not in shares:
        return []
    whole = shares.pop(100.0)
    told = ", ".join(
        f"{of.worst_tenth:.1f} with {percent:.4g} % trained" for percent, of in shares.items()
    )
    return [
        f"{part}: the worst tenth of {whole.n_clients} clients is right in {whole.worst_tenth:.1f} "
        f"per cent with everything trained, {told}"
    ]


def _by_noise(part: str, rows: Sequence[Row], baseline: float) -> list[str]:
    found = differences(rows, baseline)
    if not found:
        return []
    lines = [
        f"{part}: partial less full training at noise {noise:g}: "
        + ("neither learned anything" if one is None else one.shown())
        for noise, one in found
    ]
    where = crossover(found)
    lines.append(
        f"{part}: no change of sign is settled between the noises tried"
        if where is None
        else f"{part}: partial training is behind at noise {where[0]:g} and ahead at {where[1]:g} "
        "and all higher ones at which anything was learned, all of it settled"
    )
    return lines


def difference(ours: Sequence[Row], theirs: Sequence[Row]) -> Difference:
    """Return how far ours are ahead, over the seeds that both have."""
    pairs = _paired(ours, theirs)
    points = [100 * (a.accuracy - b.accuracy) for a, b in pairs]
    value, n = float(np.mean(points)), len(points)
    half = float("inf")
    if n > 1:
        half = float(student.ppf(0.975, n - 1)) * deviation(points) / n**0.5
    examples = over_examples(pairs)
    within = None if examples is None else (100 * examples.low, 100 * examples.high)
    kind = "writers" if pairs[0][0].part in BY_WRITER else "test images"
    return Difference(value, (value - half, value + half), within, n, kind)


def over_examples(pairs: Sequence[tuple[Row, Row]]) -> Interval | None:
    """Return the difference over draws of seeds and test examples; None where these are unknown."""
    if all(row.part in BY_WRITER and row.by_client for pair in pairs for row in pair):
        ours, theirs = (
            [{name: (right, n) for name, right, n in pair[k].by_client} for pair in pairs]
            for k in (0, 1)
        )
        return paired(ours, theirs)
    if not all(row.right for pair in pairs for row in pair):
        return None
    return crossed(np.array([flags(a.right) - flags(b.right) for a, b in pairs]))


def flags(right: str) -> Array:
    """Return the zeros and ones of a row as numbers.

    >>> flags("101").tolist()
    [1.0, 0.0, 1.0]
    """
    return np.array([digit == "1" for digit in right], dtype=np.float64)


def crossed(values: Array) -> Interval:
    """Return the mean of values (seeds, examples) over draws of both with replacement.

    >>> crossed(np.ones((2, 8))).low
    1.0
    """
    seeds, examples = _shares_drawn(*values.shape)
    drawn = (seeds @ values * examples).sum(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(float(values.mean()), float(low), float(high), values.shape[1])


@lru_cache(maxsize=2)  # they are the same for every pair of runs, and large
def _shares_drawn(n_seeds: int, n: int) -> tuple[Array, Array]:
    """Return the shares (DRAWS, S) of seeds and (DRAWS, n) of examples, drawn with replacement."""
    rng = np.random.default_rng(0)
    seeds = rng.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), DRAWS) / n_seeds
    return seeds, rng.multinomial(n, np.full(n, 1 / n), DRAWS) / n


@dataclass(frozen=True)
class Spread:
    """Accuracy in per cent over clients: mean, deviation, the worst tenth's mean, the worst."""

    mean: float
    deviation: float
    worst_tenth: float
    worst: float
    n_clients: int


def spreads(rows: Sequence[Row]) -> Spread:
    """Return how clients differ, each with its accuracy over all seeds."""
    right, n = (
        np.array([[client[k] for client in row.by_client] for row in rows]).sum(axis=0)
        for k in (1, 2)
    )
    scores = np.sort(100 * right / n)
    tenth = scores[: max(1, round(len(scores) / 10))]
    return Spread(
        float(scores.mean()), deviation(list(scores)), float(tenth.mean()), scores[0], len(scores)
    )


def differences(
    rows: Sequence[Row], baseline: float = 0.0
) -> list[tuple[float, Difference | None]]:
    """Return, by noise, how far partial training is ahead; None where neither learned anything.

    Nothing is learned where the mean is no better than the baseline.
    """
    found: list[tuple[float, Difference | None]] = []
    for noise in sorted({row.noise or 0.0 for row in rows}):
        groups = by_percent([row for row in rows if (row.noise or 0.0) == noise])
        if len(groups) > 1 and 100.0 in groups:
            least, full = groups[min(groups)], groups[100.0]
            learned = max(mean(least), mean(full)) > baseline
            found.append((noise, difference(least, full) if learned else None))
    return found


def crossover(
    levels: Sequence[tuple[float, Difference | None]],
) -> tuple[float, float] | None:
    """Return the last noise with partial training behind and the first from which it is ahead.

    Only settled signs count, at both and at all higher noises where anything was learned; None if
    there are no such two.
    """
    known = [(noise, one) for noise, one in levels if one is not None]
    ahead = list(takewhile(lambda pair: pair[1].settled and pair[1].value > 0, reversed(known)))
    if not ahead:
        return None
    first = ahead[-1][0]
    behind = [n for n, one in known if n < first and one.settled and one.value < 0]
    return (behind[-1], first) if behind else None


def _paired(ours: Sequence[Row], theirs: Sequence[Row]) -> list[tuple[Row, Row]]:
    by_seed = {row.seed: row for row in theirs}
    pairs = [(row, by_seed[row.seed]) for row in ours if row.seed in by_seed]
    if not pairs:
        raise ValueError("the two have no seed in common; compare runs of the same seeds")
    return pairs


def _seeds(rows: Sequence[Row]) -> set[int]:
    return {row.seed for row in rows}


def by_percent(rows: Iterable[Row]) -> dict[float, list[Row]]:
    """Return rows by the percentage trained, in two digits, the largest first."""
    groups: dict[float, list[Row]] = {}
    for row in rows:
        groups.setdefault(round(row.percent, 2), []).append(row)
    return dict(sorted(groups.items(), reverse=True))


def mean(rows: Sequence[Row]) -> float:
    return float(np.mean([row.accuracy for row in rows]))


def spread(values: Sequence[float]) -> str:
    """Return mean and standard deviation (n - 1); of one value, the value.

    >>> spread([1.0, 3.0])
    '2.00 ± 1.41'
    """
    if len(values) < 2:
        return f"{np.mean(values):.2f}"
    return f"{np.mean(values):.2f} ± {deviation(values):.2f}"
