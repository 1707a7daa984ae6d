"""A survey in a few lines, and what may spoil a result, said in a sentence each."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from catchment.arrays import Array
from catchment.data.survey.roles import near

if TYPE_CHECKING:
    from catchment.data.survey.look import SeenClient, Survey


MOST_WARNINGS = 12
MOST_CHANNELS = 6


def summary_lines(found: Survey, *, most: int = MOST_WARNINGS) -> list[str]:
    """Return what a survey found: one line of figures, then warnings, then files left out.

    Parameters
    ----------
    most
        Show so many warnings, and say how many more there are.
    """
    lines = [_figures(found)]
    lines += [f"  ! {warning}" for warning in found.warnings[:most]]
    if len(found.warnings) > most:
        lines.append(f"  ! and {len(found.warnings) - most} more warnings")
    lines += [f"  x {problem}" for problem in found.problems]
    return lines


def counted(n: int, what: str, many: str = "") -> str:
    """Return a number and what it counts.

    >>> counted(1, "channel"), counted(2, "channel"), counted(2, "person", "people")
    ('1 channel', '2 channels', '2 people')
    """
    return f"{n:,} {what}" if n == 1 else f"{n:,} {many or what + 's'}"


def _figures(found: Survey) -> str:
    inputs, roles = found.roles.inputs, found.roles
    shown = ", ".join(inputs[:MOST_CHANNELS]) + (", ..." if len(inputs) > MOST_CHANNELS else "")
    by = {"file": "one per file", "folder": "one per folder", "column": f"by {roles.client!r}"}
    said = [
        counted(len(found.paths), "file"),
        f"{counted(len(found.clients), 'person', 'people')} ({by[roles.client_by]})",
        f"{counted(len(inputs), 'channel')} ({shown})",
    ]
    if found.rate is not None:
        said.append(hertz(found.rate))
    if found.classes is not None:
        said.append(f"{counted(len(found.classes), 'class', 'classes')}")
    elif roles.target:
        said.append(f"to predict {', '.join(roles.target)}")
    rest = [f"{_percent(found.gaps)} gaps"] if found.gaps else []
    if found.problems:
        rest.append(f"{counted(len(found.problems), 'file')} left out")
    return "; ".join([", ".join(said), *rest])


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share >= 1e-3 else "under 0.1 %"


FEW_PEOPLE = 5
FEW_ROWS = 10
MOST_NAMED = 4
_OTHER_UNIT = 20.0  # times the usual deviation
_MARK = 50.0  # times what 99 of 100 values stay below


def warnings_of(found: Survey) -> Iterator[str]:
    """Yield what may spoil the result, most important first."""
    if not found.clients:
        return
    yield from _people(found)
    yield from _labels(found)
    yield from _times(found)
    yield from _channels(found)
    yield from _files(found)


def listed(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Return names in a sentence, not too many.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=1)
    ('a, b and c', 'a and 2 more')
    """
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _people(found: Survey) -> Iterator[str]:
    usual = float(np.median([client.steps for client in found.clients]))
    for client in found.clients:
        few = client.steps < max(FEW_ROWS, usual / 50)
        if few and client.steps < usual:
            rows = "1 row" if client.steps == 1 else f"{client.steps} rows"
            yield f"{client.name} has {rows}, the others about {usual:,.0f}"
    counts = {client.name: len(client.recordings) for client in found.clients}
    median = float(np.median(list(counts.values())))
    short = [name for name, n in counts.items() if n * 4 <= median]
    if short:
        recordings = "1 recording" if counts[short[0]] == 1 else f"{counts[short[0]]} recordings"
        yield (
            f"{listed(short)} has {recordings}, the others about {median:.0f}"
            if len(short) == 1
            else f"{listed(short)} have few recordings, the others about {median:.0f}"
        )
    if len(found.clients) < FEW_PEOPLE:
        people = "1 person" if len(found.clients) == 1 else f"{len(found.clients)} people"
        yield f"only {people}: how well new people are served is hardly known"


def _labels(found: Survey) -> Iterator[str]:
    if found.roles.predicted:
        name = found.roles.predicted[0]
        for client in found.clients:
            if client.unlabelled == client.steps:
                yield f"{client.name} has no value in {name!r}, and counts neither way"
        some = {c.name: c.unlabelled for c in found.clients if 0 < c.unlabelled < c.steps}
        if some:
            share = 100 * sum(some.values()) / found.n_steps
            yield (
                f"{sum(some.values())} rows of {listed(list(some))} have no {name} "
                f"({share:.2g} %), and do not count"
            )
    if found.classes is None or len(found.classes) < 2:
        return
    holders: Counter[str] = Counter()
    for client in found.clients:
        holders.update(client.labels.keys())
    alone = [client.name for client in found.clients if len(client.labels) == 1]
    if alone:
        has = "has" if len(alone) == 1 else "have"
        yield f"{listed(alone)} {has} one class only"
    for name in found.classes:
        if holders[name] == 1 and len(found.clients) > 1:
            (client,) = (c for c in found.clients if name in c.labels)
            meant = near(name, [other for other in found.classes if holders[other] > 1])
            typo = f"; a slip for {meant!r}?" if meant else ", and cannot be learned from others"
            yield f"only {client.name} has the class {name!r} ({client.labels[name]} rows){typo}"


def _times(found: Survey) -> Iterator[str]:
    others = found.other_rates
    if others and found.interval is not None:
        per = found.unit
        rates = sorted({float(f"{1 / (interval * per):.3g}") for interval in others.values()})
        at = listed([hertz(rate) for rate in rates])
        have = "has" if len(others) == 1 else "have"
        yield (
            f"{listed(list(others))} {have} {at}, the others {hertz(1 / (found.interval * per))}"
        )
    unsorted = [file.path.name for file in found.files if file.unsorted]
    if unsorted:
        has = "has" if len(unsorted) == 1 else "have"
        yield f"{listed(unsorted)} {has} times out of order, which are sorted"
    pauses = {
        one.client: one.longest * found.unit
        for one in found.recordings
        if one.longest and one.interval and one.longest > 20 * one.interval
    }
    if pauses:
        worst = max(pauses, key=pauses.__getitem__)
        said = "pauses" if len(pauses) == 1 else "pause"
        most = "for" if len(pauses) == 1 else f"{worst} for"
        yield f"{listed(list(pauses))} {said} within a recording, {most} {length(pauses[worst])}"
    if found.roles.time is None:
        yield "no column of times was found, so that nothing is known of rates and pauses (--time)"


def _channels(found: Survey) -> Iterator[str]:
    names = found.roles.inputs
    people = [client.name for client in found.clients]
    deviation = np.array([client.channels.deviation for client in found.clients])
    counts = np.array([client.channels.n for client in found.clients])
    for k, name in enumerate(names):
        own = zip(people, deviation[:, k], counts[:, k], strict=True)
        still = [person for person, d, n in own if n and d == 0]
        silent = [person for person, n in zip(people, counts[:, k], strict=True) if not n]
        if silent:
            yield f"{name} is empty for {listed(silent)}"
        if still and len(still) == len(people) - len(silent):
            yield f"{name} never changes within anybody's rows: leave it out by --inputs"
        elif still:
            yield f"{name} never changes for {listed(still)}"
    yield from _other_units(found, deviation)
    for client in found.clients:
        yield from _marks(client, names)
    for name, reason in found.roles.unused.items():
        yield f"column {name!r} is not used: {reason} (--inputs overrules)"


def _other_units(found: Survey, deviation: Array) -> Iterator[str]:
    """Yield who has channels of quite another size than the others."""
    if len(deviation) < 3:
        return
    known = np.where(deviation > 0, deviation, np.nan)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a channel may be empty for everybody
        ratio = known / np.nanmedian(known, axis=0)
    for client, own in zip(found.clients, ratio, strict=True):
        for more, far in (("more", own > _OTHER_UNIT), ("less", own < 1 / _OTHER_UNIT)):
            names = [name for name, one in zip(found.roles.inputs, far, strict=True) if one]
            if names:
                size = float(np.median(own[far]))
                times = size if more == "more" else 1 / size
                vary = "varies" if len(names) == 1 else "vary"
                yield (
                    f"{listed(names)} of {client.name} {vary} {times:,.0f} times {more} than the "
                    "others': other units?"
                )


def _marks(client: SeenClient, names: Sequence[str]) -> Iterator[str]:
    """Yield numbers so far from all others that they may stand for missing values."""
    seen = client.channels
    for k, name in enumerate(names):
        far = max(abs(float(seen.low[k])), abs(float(seen.high[k])))
        usual = float(seen.usual[k])
        if np.isfinite(far) and usual > 0 and far > _MARK * usual and far > 100:
            value = seen.low[k] if abs(seen.low[k]) == far else seen.high[k]
            yield (
                f"{name} of {client.name} has {value:g}, most stay below {usual:.3g}: "
                "a mark for a missing value?"
            )
        elif np.isfinite(far) and far > 1e9:
            yield f"{name} of {client.name} reaches {far:.3g}: is it a signal? (--inputs)"


def _files(found: Survey) -> Iterator[str]:
    for group in found.same:
        yield f"{listed([path.name for path in group])} have the same content: delete all but one"
    kinds = Counter(found.kinds[file.path] for file in found.files)
    if len(kinds) > 1:
        common = kinds.most_common(1)[0][0]
        other: dict[str, list[str]] = {kind: [] for kind in kinds if kind != common}
        for file in found.files:
            if found.kinds[file.path] != common:
                other[found.kinds[file.path]].append(file.path.name)
        for kind, names in other.items():
            yield f"{listed(names)}: written with {kind}, and read so"


def hertz(rate: float) -> str:
    """Return a rate in words: rows per second, or the time between them where it is long.

    >>> hertz(50.0), hertz(1 / 3600)
    ('50 Hz', 'a row every 1 h')
    """
    if rate >= 0.5:
        return f"{rate:.3g} Hz"
    return f"a row every {length(1 / rate)}"


def length(seconds: float) -> str:
    """Return a duration in words.

    >>> length(2.5), length(90.0), length(7200.0)
    ('2.5 s', '1.5 min', '2 h')
    """
    for most, unit, size in ((90, "s", 1), (3600, "min", 60), (172_800, "h", 3600)):
        if seconds < most:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86_400:.3g} days"
