"""How `fedpt` chooses a learning rate, goes on where it stopped, and follows a training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from catchment.federation.messages import Record
from catchment.federation.runs.ledger import Entry
from reproductions.fedpt_values import FedptResult, FedptSettings, Row, Run
from reproductions.study import Value

# Settings that every row states itself, or that say no more than which rows there are.
_IN_ROWS = ("seeds", "rounds", "shares", "cifar_candidates", "cifar_rates", "cifar_search_seed")
_Key = tuple[str, float, int, float | None, float | None, int | None, bool]


def searches_of(settings: FedptSettings) -> Iterator[Run]:
    """Yield the trainings that each share's rate on CIFAR-10 is chosen by."""
    for percent in settings.cifar_shares:
        for rate in settings.cifar_candidates:
            yield Run(
                part="cifar",
                percent=percent,
                seed=settings.cifar_search_seed,
                rate=rate,
                search=True,
            )


def chosen(search: Iterable[Row]) -> dict[float, float]:
    """Return, by the percentage trained, the rate with the best accuracy on held-out images.

    Of equal ones the smallest is taken.
    """
    best: dict[float, Row] = {}
    for row in sorted(search, key=lambda row: row.rate or 0.0):
        percent = round(row.percent, 2)
        if percent not in best or row.accuracy > best[percent].accuracy:
            best[percent] = row
    return {percent: row.rate for percent, row in best.items() if row.rate is not None}


def rated(runs: Iterable[Run], rates: Mapping[float, float]) -> list[Run]:
    """Return runs with the rate of their share, where one was chosen."""
    return [
        replace(one, rate=rates[one.percent])
        if one.part == "cifar" and one.percent in rates
        else one
        for one in runs
    ]


def finished(earlier: FedptResult | None, settings: Mapping[str, Value]) -> dict[_Key, Row]:
    """Return the rows of an earlier result, if its settings are these, by what was run."""
    if earlier is None or _relevant(earlier.settings) != _relevant(settings):
        return {}
    return {
        _key(row, row.rounds, search=search): row
        for rows, search in ((earlier.rows, False), (earlier.search, True))
        for row in rows
        if row.rounds is not None
    }


def key_of(one: Run, settings: FedptSettings) -> _Key:
    """Return what `finished` knows a training by."""
    rounds = {
        "writers": settings.writers_rounds,
        "private": settings.private_rounds,
        "cifar": settings.cifar_search_rounds if one.search else settings.cifar_rounds,
    }.get(one.part, settings.text_rounds)
    return _key(one, rounds, search=one.search)


def _key(one: Run | Row, rounds: int | None, *, search: bool) -> _Key:
    return one.part, round(one.percent, 2), one.seed, one.noise, one.rate, rounds, search


def _relevant(settings: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in settings.items() if not name.endswith(_IN_ROWS)}


@dataclass(eq=False)
class Curve:
    """Keeps nothing of a run but its accuracy, once in every few rounds."""

    measure: Callable[[Any], float]
    every: int
    points: list[tuple[int, float]] = field(default_factory=list)

    def resume(self) -> None:
        return None

    def note(self, entry: Entry) -> None:
        return None

    def close_round(self, state: Any, record: Record) -> None:
        if (record.round + 1) % self.every == 0:
            self.points.append((record.round + 1, self.measure(state)))
