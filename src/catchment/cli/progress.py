"""How far a command is, on stderr if someone is looking; nothing where it is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
Watch = Callable[[str, int, int, int], None]


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

        def watch(stage: str, round_: int, done: int, asked: int) -> None:
            label = f"{stage}, round {round_ + 1}" if asked else stage
            # `update` takes no total for one that stays as it was.
            bar.tasks[task].total = asked or None
            bar.update(task, description=label, completed=done)

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
    columns = (TextColumn("{task.description}"), BarColumn(), Count(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield bar
