"""How far a command is, on stderr if someone is looking; nothing where it is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
Watch = Callable[[str, int, int, int], None]


class Pace:
    """How many clients a second a round has served so far, from its first answer on.

    Work that a folder held already, and the start of worker processes, do not count.

    >>> pace = Pace()
    >>> [pace.of("training", done, now) for done, now in ((256, 8.0), (512, 8.1), (2816, 9.0))]
    ['', '', '2560 clients/s']
    """

    def __init__(self) -> None:
        self._round: object = None
        self._began, self._before = 0.0, 0

    def of(self, round_: object, done: int, now: float) -> str:
        """Return it in words; nothing within the first half second."""
        if round_ != self._round or done < self._before:
            self._round, self._began, self._before = round_, now, done
        seconds = now - self._began
        if seconds < 0.5:
            return ""
        return f"{(done - self._before) / seconds:.0f} clients/s"


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Watch | None]:
    """Show which stage of a run is running, how far it is and for how long.

    Yields what is called with (stage, round, clients done, clients asked), or None if nobody looks.
    """
    with _bar(quiet=quiet) as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task("reading the data", total=None)
        pace = Pace()

        def watch(stage: str, round_: int, done: int, asked: int) -> None:
            label = f"{stage}, round {round_ + 1}" if asked else stage
            # `update` takes no total for one that stays as it was.
            bar.tasks[task].total = asked or None
            rate = pace.of((stage, round_), done, monotonic())
            bar.update(task, description=label, completed=done, rate=rate)

        yield watch


@contextmanager
def counting(what: str, total: int, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show how many of a number of things are done; yields what is called after each of them.

    What it is called with is shown beside the count.
    """
    with _bar(quiet=quiet) as bar:
        task = None if bar is None else bar.add_task(what, total=total)

        def done(said: str) -> None:
            if bar is not None and task is not None:
                bar.update(task, advance=1, description=f"{what}{said and f', {said}'}")

        yield done


def each(things: Iterable[T], what: str, *, quiet: bool = False) -> Iterator[T]:
    """Yield things, showing how many of them are done.

    >>> list(each([1, 2], "counting"))
    [1, 2]
    """
    every: Sequence[T] = list(things)
    with counting(what, len(every), quiet=quiet) as done:
        for one in every:
            yield one
            done("")


@contextmanager
def waiting(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Show what is being done and for how long, where nobody knows how much is left."""
    with _bar(quiet=quiet) as bar:
        if bar is not None:
            bar.add_task(what, total=None)
        yield


@contextmanager
def _bar(*, quiet: bool) -> Iterator[Progress | None]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    class Count(ProgressColumn):
        """Done of asked, where that is known."""

        def render(self, task: Task) -> Text:
            return MofNCompleteColumn().render(task) if task.total is not None else Text("")

    console = Console(stderr=True)
    if quiet or not sys.stderr.isatty():
        yield None
        return

    class Rate(ProgressColumn):
        """Clients a second, where clients are counted."""

        def render(self, task: Task) -> Text:
            return Text(task.fields.get("rate", ""))

    columns = (TextColumn("{task.description}"), BarColumn(), Count(), TimeElapsedColumn(), Rate())
    with Progress(*columns, console=console, transient=True) as bar:
        yield bar
