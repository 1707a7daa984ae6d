"""Which trainings `fedpt` needs, how it chooses learning rates, and goes on where it stopped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from statistics import fmean

from catchment_research.partial import Freeze, PartialNetwork
from reproductions.fedpt_tasks import Task
from reproductions.fedpt_values import FedptResult, FedptSettings, Row, Run
from reproductions.networks import EMNIST_FREEZE, RESNET_FREEZES, TRANSFORMER_FREEZES
from reproductions.study import Value

# Settings that every row states itself, or that say no more than which rows there are.
_IN_ROWS = ("seeds", "rounds", "shares", "candidates", "rates", "search_seed", "noises")
# What a part's rows depend on has the part's name in front, or is for all parts.
_OWNED = (
    "writers",
    "digits",
    "cifar",
    "many",
    "fashion",
    "text",
    "words",
    "private",
    "hundred",
    "long",
    "addresses",
)
_OF_OTHERS = {
    "speeches": ("text",),
    "words": ("text", "words"),
    "cifar_many": ("many",),
    "cifar_long": ("many",),
}
_Choice = tuple[str, float, float | None]
_Key = tuple[str, float, int, float | None, float | None, int | None, bool]


def runs_of(part: str, settings: FedptSettings) -> Iterator[Run]:
    """Yield every training that a part needs."""
    if part == "cifar_long":
        for seed, (percent, rate) in product(settings.many.seeds, settings.many.tested_rates):
            yield Run(part=part, percent=percent, seed=seed, rate=rate)
        return
    private, many = settings.noisy(part), settings.dealt(part)
    seeds = settings.seeds if many is None else many.seeds
    for seed in seeds if private is None else private.seeds:
        for noise in (None,) if private is None else private.noises:
            for percent in shares_of(part, settings):
                yield Run(part=part, percent=percent, seed=seed, noise=noise)


def shares_of(part: str, settings: FedptSettings) -> tuple[float, ...]:
    """Return the percentages of a part's parameters that are trained."""
    return {
        "cifar": settings.cifar_shares,
        "cifar_many": settings.many.shares,
        "fashion": settings.fashion.shares,
        "text": settings.text_shares,
        "words": settings.words_shares,
        "speeches": settings.text_shares,
        "addresses": settings.addresses_shares,
    }.get(part, tuple(freezes_of(part)))


def freezes_of(part: str) -> dict[float, Freeze]:
    """Return what is frozen, by the percentage that is trained."""
    in_part = {
        "cifar": RESNET_FREEZES,
        "cifar_many": RESNET_FREEZES,
        "cifar_long": RESNET_FREEZES,
        "fashion": RESNET_FREEZES,
        "text": TRANSFORMER_FREEZES,
        "words": TRANSFORMER_FREEZES,
        "speeches": TRANSFORMER_FREEZES,
        "addresses": TRANSFORMER_FREEZES,
    }.get(part, {4.96: EMNIST_FREEZE})
    return {100.0: Freeze(), **in_part}


def searches_of(part: str, settings: FedptSettings) -> Iterator[Run]:
    """Yield the trainings that rates are chosen or judged by: of images, text, and with noise."""
    private = settings.noisy(part)
    if private is not None:
        own = dict(private.own_candidates)
        for seed, noise, percent in product(
            private.search_seeds, private.noises, shares_of(part, settings)
        ):
            for rate in own.get(noise, private.candidates):
                one = Run(part=part, percent=percent, seed=seed, noise=noise, rate=rate)
                yield replace(one, search=True)
    if part == "cifar_long":
        for percent, rates in settings.many.long_rates:
            for rate in rates:
                seed = settings.many.search_seed
                yield Run(part=part, percent=percent, seed=seed, rate=rate, search=True)
        return
    text = settings.text_search_seed, settings.text_candidates
    of_clients = {
        "text": text,
        "words": (settings.text_search_seed, settings.words_candidates),
        "speeches": text,
        "cifar": (settings.cifar_search_seed, settings.cifar_candidates),
        "cifar_many": (settings.many.search_seed, settings.many.candidates),
        "fashion": (settings.fashion.search_seed, settings.fashion.candidates),
    }
    seed, rates = of_clients.get(part, (0, ()))
    for percent, rate in product(shares_of(part, settings), rates):
        yield Run(part=part, percent=percent, seed=seed, rate=rate, search=True)


def chosen(search: Iterable[Row]) -> dict[_Choice, float]:
    """Return the rate with the best mean accuracy on what was held out.

    It is by part, percentage trained and noise. Of equal ones the smallest is taken, and a rate
    with which a training failed is none to choose.
    """
    search = tuple(search)
    failed = {(_choice(row), row.rate) for row in search if row.failed}
    scores: dict[_Choice, dict[float, list[float]]] = {}
    for row in sorted(search, key=lambda row: row.rate or 0.0):
        if row.rate is not None and (_choice(row), row.rate) not in failed:
            scores.setdefault(_choice(row), {}).setdefault(row.rate, []).append(row.accuracy)
    return {
        choice: max(of_rate, key=lambda rate: fmean(of_rate[rate]))
        for choice, of_rate in scores.items()
    }


def failure(one: Run, task: Task, freeze: Freeze, reason: str) -> Row:
    """Return the row of a training that a rate was to be chosen by, and that failed with it."""
    share = PartialNetwork(make=task.make, freeze=freeze, seed=one.seed).share()
    return Row(
        part=one.part,
        data=task.name,
        percent=share.percent,
        reduction=share.reduction,
        accuracy=0.0,
        seconds_per_round=0.0,
        bytes_up_per_client=0,
        peak_mebibytes=None,
        seed=one.seed,
        noise=one.noise,
        rate=one.rate,
        rounds=task.rounds,
        failed=reason,
    )


def rated(runs: Iterable[Run], rates: Mapping[_Choice, float]) -> list[Run]:
    """Return runs with the rate of their part, share and noise, where one is to be chosen."""
    return [replace(one, rate=rates.get(_choice(one))) if one.rate is None else one for one in runs]


def _choice(one: Run | Row) -> _Choice:
    return one.part, round(one.percent, 2), one.noise


def finished(earlier: FedptResult | None, settings: Mapping[str, Value]) -> dict[_Key, Row]:
    """Return the rows of an earlier result whose part had the same settings, by what was run."""
    if earlier is None:
        return {}
    return {
        _key(row, row.rounds, search=search): row
        for rows, search in ((earlier.rows, False), (earlier.search, True))
        for row in rows
        if row.rounds is not None and _same(row.part, earlier.settings, settings)
    }


def key_of(one: Run, settings: FedptSettings) -> _Key:
    """Return what `finished` knows a training by."""
    rounds = {
        "writers": settings.writers_rounds,
        "digits": settings.digits_rounds,
        "words": settings.words_rounds,
        "private": settings.private.rounds,
        "hundred": settings.hundred.rounds,
        "long": settings.long.rounds,
        "addresses": settings.addresses.rounds,
        "cifar": settings.cifar_search_rounds if one.search else settings.cifar_rounds,
        "cifar_many": settings.many.search_rounds if one.search else settings.many.rounds,
        "cifar_long": settings.many.rounds,
        "fashion": settings.fashion.search_rounds if one.search else settings.fashion.rounds,
    }.get(one.part, settings.text_rounds)
    return _key(one, rounds, search=one.search)


def _key(one: Run | Row, rounds: int | None, *, search: bool) -> _Key:
    return one.part, round(one.percent, 2), one.seed, one.noise, one.rate, rounds, search


def _same(part: str, before: Mapping[str, Value], now: Mapping[str, Value]) -> bool:
    had = _relevant(part, before)
    return all(had.get(name) == value for name, value in _relevant(part, now).items())


def _relevant(part: str, settings: Mapping[str, Value]) -> dict[str, Value]:
    """Return the settings that a part's rows depend on and do not state themselves."""
    own = _OF_OTHERS.get(part, (part,))
    others = tuple(name for name in _OWNED if name not in own)
    return {
        name: _relevant(part, value) if isinstance(value, dict) else value
        for name, value in settings.items()
        if not name.startswith(others) and not name.endswith(_IN_ROWS)
    }
