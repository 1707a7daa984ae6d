"""FedPT's tables: what freezing most of a network costs in accuracy and saves in everything else.

Sidahmed et al., "Efficient and Private Federated Learning with Partially Trainable Networks",
2021. `fedpt_tasks` has the data, `fedpt_tables` the tables.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from catchment.errors import FederationError
from reproductions.fedpt_memory import REPETITIONS, memory
from reproductions.fedpt_search import (
    chosen,
    failure,
    finished,
    freezes_of,
    key_of,
    rated,
    runs_of,
    searches_of,
)
from reproductions.fedpt_tasks import Task, baseline, held_out_clients, task_of
from reproductions.fedpt_train import SIMULATED, device_name, run
from reproductions.fedpt_values import FedptResult, FedptSettings, Row, Run
from reproductions.pool import Pool
from reproductions.study import Began, Value, environment

PACED = 5  # rounds that are timed alone, the first not counted
TRAINED = (
    "writers",
    "digits",
    "cifar",
    "cifar_many",
    "cifar_long",
    "fashion",
    "text",
    "words",
    "speeches",
    "private",
    "hundred",
    "long",
    "addresses",
)
PARTS = (*TRAINED, "memory")


def fedpt(
    settings: FedptSettings,
    *,
    parts: Sequence[str] = PARTS,
    directory: Path | None = None,
    workers: int = 1,
    began: Began | None = None,
    kept: Callable[[FedptResult], object] | None = None,
    earlier: FedptResult | None = None,
    keep: Path | None = None,
    quick: bool = False,
) -> FedptResult:
    """Return the rows of FedPT's tables on the data at hand; synthetic data where there are none.

    Parameters
    ----------
    parts
        Which of writers and digits (Table 1, in few and in many rounds), cifar (Tables 2 and 4),
        cifar_many (the same with many clients and many rounds), cifar_long (whether its rates were
        well chosen), fashion (Table 2 on another set of images), text, words and speeches (Table 3,
        of authors in few and in more rounds, and of roles in plays), private, hundred, long and
        addresses (Table 5, of digits with few and with 100 clients a round, over many rounds, and
        of texts), and memory (Table 4 on a CPU).
    workers
        Processes that trainings are dealt to, each in one of its own. Round times are then measured
        before, a few rounds of every share alone.
    began
        Called with a line of text as runs end.
    kept
        Called with what there is so far, whenever a run ends.
    earlier
        A result whose trainings need not be run again, where its settings are these.
    keep
        A folder in which trainings write down where they are, and go on from after a stop.
    """
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"fedpt has no part {part!r}; use {', '.join(PARTS)}")
    say, start = began or (lambda text: None), time.perf_counter()
    trained = [part for part in parts if part in TRAINED]
    tasks = {part: task_of(part, settings, directory) for part in trained}
    result = FedptResult(
        settings=_plain(asdict(settings)),
        rows=(),
        environment={**environment(), "torch": torch.__version__, "device": device_name()},
        notes=tuple(_note(part, settings, task, workers) for part, task in tasks.items()),
        baselines={part: baseline(task) for part, task in tasks.items()},
        quick=quick,
    )
    if "memory" in parts:
        rows = tuple(memory(settings, directory, repetitions=1 if quick else REPETITIONS))
        result = replace(result, memory=rows)
    work = _Work(settings, directory, workers, finished(earlier, result.settings), say, keep)
    for kind in ("search", "rows"):
        runs = [one for part in trained for one in runs_of(part, settings)]
        if kind == "search":
            runs = [one for part in trained for one in searches_of(part, settings)]
        runs = rated(runs, chosen(result.search)) if kind == "rows" else runs
        for so_far in work.results(result, kind, runs):
            result = replace(so_far, seconds=time.perf_counter() - start)
            if kept:
                kept(result)
    return result


def _with(result: FedptResult, kind: str, rows: Sequence[Row]) -> FedptResult:
    if kind == "search":
        return replace(result, search=tuple(rows))
    return replace(result, rows=tuple(rows))


@dataclass(frozen=True)
class _Work:
    """What trainings need, and those that need not be run again."""

    settings: FedptSettings
    directory: Path | None
    workers: int
    finished: Mapping[Any, Row]
    say: Began
    keep: Path | None = None

    def done(self, runs: Sequence[Run]) -> dict[Run, Row]:
        """Return those of the trainings that were there before."""
        keys = {one: key_of(one, self.settings) for one in runs}
        return {one: self.finished[key] for one, key in keys.items() if key in self.finished}

    def results(self, result: FedptResult, kind: str, runs: Sequence[Run]) -> Iterator[FedptResult]:
        """Yield a result with the rows that were there before, and as each training ends."""
        found = self.done(runs)
        result = _with(result, kind, [found[one] for one in runs if one in found])
        yield result
        for one, outcome in self.outcomes([one for one in runs if one not in found]):
            if isinstance(outcome, Exception):
                failure = f"{one.part}: {one} failed: {outcome!r:.300}"
                result = replace(result, notes=(*result.notes, failure))
                self.say(failure)
                continue
            found[one] = outcome
            result = _with(result, kind, [found[done] for done in runs if done in found])
            yield result

    def outcomes(self, runs: Sequence[Run]) -> Iterator[tuple[Run, Row | Exception]]:
        """Yield trainings with what came of them, as they end."""
        alone = {}
        if self.workers > 1 and any(not one.search for one in runs):
            self.say("round times first, one share after another")
            alone = paces(self.settings, self.directory, runs)
        work = partial(outcome_of, self.settings, self.directory, keep=self.keep)
        # What is simulated frees its memory; other trainings are begun in a process of their own.
        fresh = any(one.part not in SIMULATED for one in runs)
        with Pool(work, self.workers, fresh=fresh) as pool:
            for one, outcome in pool.run(runs):
                if isinstance(outcome, Row):
                    seconds = alone.get((one.part, one.percent), outcome.seconds_per_round)
                    outcome = replace(outcome, seconds_per_round=seconds)
                    self.say(described(outcome))
                yield one, outcome


def outcome_of(
    settings: FedptSettings, directory: Path | None, one: Run, *, keep: Path | None = None
) -> Row:
    """Return what came of one training."""
    task, freeze = _task(settings, directory, one), freezes_of(one.part)[one.percent]
    every = {
        "cifar": settings.cifar_every,
        "text": settings.text_every,
        "words": settings.words_every,
    }.get(one.part, 0)
    if (many := settings.dealt(one.part)) is not None:
        every = many.every
    try:
        row = run(
            one.part,
            task,
            freeze,
            one.seed,
            settings=settings,
            noise=one.noise,
            rate=one.rate,
            every=0 if one.search else every,
            keep=keep,
        )
    except FederationError as error:
        if not one.search:
            raise
        return failure(one, task, freeze, str(error))
    # By whom a rate was judged is of no use later.
    return replace(row, right="", by_client=(), classes=()) if one.search else row


def paces(
    settings: FedptSettings, directory: Path | None, runs: Sequence[Run]
) -> dict[tuple[str, float], float]:
    """Return the seconds of a round by part and share, measured with nothing else going on."""
    found: dict[tuple[str, float], float] = {}
    for one in runs:
        if one.noise is None and (one.part, one.percent) not in found:
            short = replace(_task(settings, directory, one), rounds=PACED)
            freeze = freezes_of(one.part)[one.percent]
            row = run(one.part, short, freeze, one.seed, settings=settings)
            found[one.part, one.percent] = row.seconds_per_round
    return found


def _task(settings: FedptSettings, directory: Path | None, one: Run) -> Task:
    if one.part == "cifar" or settings.dealt(one.part) is not None:
        # Images are cut anew whenever a client is asked: every run begins at the first cut.
        return task_of(
            one.part,
            settings,
            directory,
            whole=one.percent == 100.0,
            rate=one.rate,
            search=one.search,
        )
    task = _kept_task(one.part, settings, directory, search=one.search)
    if one.rate is None or one.noise is not None:
        return task
    return replace(task, steps=replace(task.steps, learning_rate=one.rate))


@lru_cache(maxsize=1)
def _kept_task(part: str, settings: FedptSettings, directory: Path | None, *, search: bool) -> Task:
    """Return the same as `task_of`, read once for the runs that follow each other."""
    return task_of(part, settings, directory, search=search)


def described(row: Row) -> str:
    """Return one line about a row."""
    noise = "" if row.noise is None else f", noise {row.noise:g}"
    rate = "" if row.rate is None else f", rate {row.rate:g}"
    if row.failed:
        return f"{row.part}: {row.percent:.4g} % trained, seed {row.seed}{noise}{rate}: failed"
    return (
        f"{row.part}: {row.percent:.4g} % trained, seed {row.seed}{noise}{rate}: "
        f"{100 * row.accuracy:.2f} % right, {row.seconds_per_round:.2f} s a round"
    )


def _note(part: str, settings: FedptSettings, task: Task, workers: int) -> str:
    many = "" if workers == 1 else f"; {workers} trainings at once, round times measured alone"
    private = settings.noisy(part)
    if private is None:
        choice = ""
        if part in ("text", "words", "speeches") and settings.text_candidates:
            n = len(task.clients) - len(held_out_clients(task, settings.text_held_out).clients)
            choice = (
                f"; the clients' rates were chosen on {n} authors whom nobody trained on, seed "
                f"{settings.text_search_seed}, after as many rounds"
            )
        return f"{part}: {task.name}, {task.notes}{choice}{many}"
    choice = (
        f"; the server's rates were chosen on {private.held_out} clients whom nobody trained on, "
        f"seeds {', '.join(map(str, private.search_seeds))}"
        if private.candidates
        else ""
    )
    return (
        f"{part}: {task.name}, {task.notes}, {task.clients_per_round} of them in each of "
        f"{task.rounds} rounds; epsilon is for leaving out the client who was drawn most{choice}"
        f"{many}"
    )


def _plain(settings: dict[str, Any]) -> dict[str, Value]:
    plain: dict[str, Value] = json.loads(json.dumps(settings))
    return plain
