"""What is odd about the data of a run, in a sentence each: gaps, labels, rates, lengths.

Whoever can read all clients' files is told; nothing of it is kept in the run's folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from catchment.arrays import Array, Booleans
from catchment.data.prepare import Prepare
from catchment.data.recording import Recording
from catchment.engine.local import data_of
from catchment.plans.about import Clients
from catchment.plans.data import PlanData
from catchment.plans.file import PlanFile
from catchment.plans.own_files import Files

FEW = 0.05  # of the median of all clients: so few steps are said
MOST_NAMED = 5
MOST_BYTES = 1 << 29  # of files that are looked at; more would be read twice
MOST_CLIENTS = 2000  # of a lake, for the same reason
SLACK = 0.1  # by which rates may differ


@dataclass(frozen=True)
class Seen:
    """What is counted of one client."""

    steps: int
    values: int
    missing: int
    silent: tuple[str, ...]  # channels without any value
    targets: int  # recordings, or steps where each has a target
    unknown: int  # of these, without a target
    changing: int  # recordings within which the label changes
    recordings: int
    classes: frozenset[str]
    rate: float | None

    @classmethod
    def of(cls, recordings: list[Recording]) -> Seen:
        """Return the counts of a client's raw recordings."""
        targets = [one.y.reshape(-1, one.y.shape[-1]) for one in recordings if one.y is not None]
        unknown = [np.logical_or.reduce(np.isnan(y), axis=1) for y in targets]
        missing = [np.isnan(one.u) for one in recordings]
        silent = np.logical_and.reduce([gaps.all(axis=0) for gaps in missing])
        names = recordings[0].channels or tuple(map(str, range(len(silent))))
        return cls(
            sum(one.n_steps for one in recordings),
            sum(gaps.size for gaps in missing),
            sum(int(gaps.sum()) for gaps in missing),
            tuple(name for name, none in zip(names, silent, strict=True) if none),
            sum(map(len, targets)),
            sum(int(gone.sum()) for gone in unknown),
            sum(_changes(y, gone) for y, gone in zip(targets, unknown, strict=True)),
            len(recordings),
            frozenset(_classes(recordings)),
            _rate(recordings),
        )


def notices(file: PlanFile, held: PlanData) -> tuple[str, ...]:
    """Return what is odd about the files of a plan, in a sentence each; nothing of other data.

    Clients that cannot be read are passed over: the run names them.

    Parameters
    ----------
    file
        The plan, which says what is done about gaps and rates.
    held
        Who trains and who tests, on what.
    """
    origin, prepare = file.origin, file.prepare
    if not isinstance(origin, Files):
        return ()
    if origin.is_lake(file.base):
        if len(held.train) + len(held.whole) > MOST_CLIENTS:
            return held.notices
    elif sum(path.stat().st_size for path in origin.paths(file.base)) > MOST_BYTES:
        return held.notices
    seen = dict(_looked_at({**held.whole, **held.train}))
    scored, per_step = set(held.whole) - set(held.train), held.about.per_step
    odd = () if held.about.classes is None else _classed(seen, apart=prepare.window is None)
    return (
        *held.notices,
        *_unknown(seen, scored, per_step=per_step, folds=file.sharing.test == "folds"),
        *odd,
        *_gaps(seen, prepare),
        *_rates(seen, prepare),
        *_lengths(seen),
    )


def _looked_at(clients: Clients) -> Iterator[tuple[str, Seen]]:
    for name, source in sorted(clients.items()):
        try:
            recordings = list(data_of(source)())
        except Exception:  # whatever it is, the run names it with its reason
            continue
        if recordings:
            yield name, Seen.of(recordings)


def _unknown(
    seen: Mapping[str, Seen], scored: set[str], *, per_step: bool, folds: bool
) -> Iterator[str]:
    """Yield who has recordings, or steps, that are not used because they have no target."""
    what = "steps" if per_step else "recordings"
    lacking = {name: one for name, one in seen.items() if one.unknown}
    for name, one in list(lacking.items())[:MOST_NAMED]:
        use = "used" if folds else "scored" if name in scored else "learned from"
        if one.unknown == one.targets:
            yield f"none of the {one.targets} {what} of {name} is {use}: they have no label"
            continue
        have = "one has" if one.unknown == 1 else f"{one.unknown} have"
        known = one.targets - one.unknown
        yield f"{known} of {one.targets} {what} of {name} are {use}: {have} no label"
    if len(lacking) > MOST_NAMED:
        yield f"{len(lacking) - MOST_NAMED} more clients have {what} without a label"


def _classed(seen: Mapping[str, Seen], *, apart: bool) -> Iterator[str]:
    """Yield whose labels change within a recording where few do, and who alone has a class."""
    changing = {name: one.changing for name, one in seen.items() if one.changing}
    every = sum(one.recordings for one in seen.values())
    if apart and 0 < sum(changing.values()) <= every / 10:
        yield (
            f"the label changes within {sum(changing.values())} of {every} recordings "
            f"({_named(changing)}), and so every step is classified by itself; mend them if each "
            "recording should have one label"
        )
    holders = Counter(label for one in seen.values() for label in one.classes)
    if len(holders) == 1:
        yield f"every label is {next(iter(holders))!r}: whatever is predicted so is right"
        return
    alone = sorted(label for label, n in holders.items() if n == 1 and len(seen) > 2)
    for label in alone[:MOST_NAMED]:
        (who,) = (name for name, one in seen.items() if label in one.classes)
        yield f"only {who} has the class {label!r}: a model of the others does not know it"


def _gaps(seen: Mapping[str, Seen], prepare: Prepare) -> Iterator[str]:
    values, missing = (sum(getattr(s, f) for s in seen.values()) for f in ("values", "missing"))
    for name, one in seen.items():
        if one.silent:
            yield f"{name} has no value of {', '.join(one.silent)} at all; zeros stand for it"
    if missing and prepare.gaps != "error":
        shares = {name: one.missing / one.values for name, one in seen.items() if one.missing}
        most = max(shares, key=lambda name: shares[name])
        yield (
            f"{_percent(missing / values)} of the inputs are missing, with {len(shares)} of "
            f"{len(seen)} clients, most with {most} ({_percent(shares[most])}); they are filled: "
            f'gaps = "{prepare.gaps}" in [prepare]'
        )


def _rates(seen: Mapping[str, Seen], prepare: Prepare) -> Iterator[str]:
    rates = {name: one.rate for name, one in seen.items() if one.rate is not None}
    if not rates or prepare.rate is not None:
        return
    usual = float(np.median(list(rates.values())))
    other = {name: rate for name, rate in rates.items() if abs(rate / usual - 1) > SLACK}
    if other:
        named = _named(f"{name} ({rate:.3g})" for name, rate in other.items())
        yield (
            f"most clients have {usual:.3g} steps per second, but not {named}; write "
            f"rate = {usual:.3g} into [prepare] to bring all to one rate"
        )


def _lengths(seen: Mapping[str, Seen]) -> Iterator[str]:
    usual = float(np.median([one.steps for one in seen.values()])) if seen else 0.0
    few = {name: one.steps for name, one in seen.items() if one.steps < FEW * usual}
    if few:
        named = _named(f"{name} ({n})" for name, n in few.items())
        yield f"few steps: {named}; the median of all clients is {usual:.0f}"


def _changes(y: Array, unknown: Booleans) -> bool:
    known = y[~unknown]
    return len(known) > 0 and bool((known != known[0]).any())


def _classes(recordings: Iterable[Recording]) -> Iterator[str]:
    for one in recordings:
        if one.classes is not None and one.y is not None:
            held = np.nansum(one.y.reshape(-1, len(one.classes)), axis=0) > 0
            yield from (name for name, has in zip(one.classes, held, strict=True) if has)


def _rate(recordings: Iterable[Recording]) -> float | None:
    """Return the median steps per second, where recordings have times."""
    gaps = [np.diff(one.times) for one in recordings if one.times is not None]
    every = np.concatenate([np.empty(0), *gaps])
    return 1 / float(np.median(every)) if len(every) else None


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _named(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - MOST_NAMED} more" if len(every) > MOST_NAMED else ""
    return ", ".join(every[:MOST_NAMED]) + more
