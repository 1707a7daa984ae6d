"""How commands print, and how far they are; the options they share.

In a table no word and no number is ever cut: a cropped number is a wrong one that looks right. What
does not fit is therefore moved: texts over several lines, or else a block of lines for every row.
"""

from __future__ import annotations

import io
import json
import math
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
Watch = Callable[[str, int, int, int], None]


def option(help: str, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """Return an option of a command; it is called as its argument is, unless there are names."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def flag(name: str, help: str) -> Any:
    """Return an option that is there or not."""
    return typer.Option(name, help=help)


DataOption = Annotated[
    Path | None, option("Data directory; else $CATCHMENT_DATA and the cache.", "DIR")
]
DeviceOption = Annotated[
    str | None,
    option(
        "cuda, or cuda:1 for the second GPU; needs torch. What CATCHMENT_DEVICE names, else the "
        "CPU.",
        "DEVICE",
    ),
]
ThreadsOption = Annotated[
    int | None, option("Threads; all cores if left out. Results do not depend on it.")
]
JsonOption = Annotated[bool, flag("--json", "Print JSON for scripts.")]


def size(n_bytes: object) -> str:
    """Return a number of bytes as people say it, or nothing.

    >>> size(1_234_567), size(None)
    ('1.2 MB', '')
    """
    if not isinstance(n_bytes, int):
        return ""
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:,.0f} kB"


def print_json(value: object) -> None:
    """Print a value as JSON, which has no NaN and no infinity: null stands for both."""
    typer.echo(json.dumps(finite(value), indent=2, allow_nan=False))


def finite(value: object) -> object:
    """Return a value with None in the place of every number that is not finite.

    >>> finite({"a": [1.0, float("nan")], "b": (float("inf"), "text")})
    {'a': [1.0, None], 'b': [None, 'text']}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(one) for key, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, list | tuple) else value


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ("size",)
) -> None:
    """Print a table; the columns named in `right` are numbers.

    In a file or a pipe it is as wide as it likes. On a terminal too narrow for it texts, or else
    whole rows, take several lines; no cell is ever cut.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    typer.echo("\n".join(table_lines(header, rows, right, width)))


def table_lines(
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    right: Sequence[str],
    width: int | None = None,
) -> list[str]:
    """Return the lines of a table of cells in a line each: line breaks in them become spaces.

    The columns headed by `right` are of numbers, which end at one edge. The width is that of the
    terminal; None is as wide as the table likes.

    >>> table = ("", "bytes sent"), [("GPT-2 large", "11,796,480")], ["bytes sent"]
    >>> print(*table_lines(*table), sep="\\n")
                 bytes sent
    GPT-2 large  11,796,480
    >>> print(*table_lines(*table, 18), sep="\\n")
           bytes sent
    GPT-2  11,796,480
    large
    >>> print(*table_lines(*table, 12), sep="\\n")
    GPT-2 large
      bytes sent: 11,796,480
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[" ".join(str(cell).split()) for cell in row] for row in rows]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in header:
        number = title in right
        table.add_column(Text(title), justify="right" if number else "left", no_wrap=number)
    for row in cells:
        table.add_row(*map(Text, row))
    shown = io.StringIO()
    Console(file=shown, width=width or 100_000, color_system=None).print(table)
    words = " ".join(chain(header, *cells)).split()
    if sorted(shown.getvalue().split()) == sorted(words):
        return [line.rstrip() for line in shown.getvalue().splitlines()]
    lines = []
    for first, *rest in cells:
        lines.append(first)
        for title, cell in zip(header[1:], rest, strict=True):
            lines.append(f"  {title}: {cell}" if title else f"  {cell}")
    return lines


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Watch | None]:
    """Show which stage of a run is running, how far it is, for how long, and how long it may take.

    Yields what is called with (stage, round, clients done, clients asked), or None if nobody looks.
    Clients a second are those from the first answer of a round on: work that a folder held already,
    and the start of worker processes, do not count.
    """
    with _bar("reading the data", quiet=quiet) as bar:
        if bar is None:
            yield None
            return
        # The round, when its first answer came, and how many clients were done then; of folds,
        # when the first began.
        since: tuple[object, float, int] = (None, 0.0, 0)
        folding = 0.0

        def watch(stage: str, round_: int, done: int, asked: int) -> None:
            nonlocal since, folding
            now = monotonic()
            if since[0] != (stage, round_) or done < since[2]:
                since = ((stage, round_), now, done)
            seconds = now - since[1]
            rate = _left(seconds, done - since[2], asked - done)
            if fold := re.match(r"fold (\d+) of (\d+)", stage):
                k, n = map(int, fold.groups())
                folding = folding or now
                rate = _left(now - folding, k - 1, n - k + 1)
            label = f"{stage}, round {round_ + 1}" if asked else stage
            # `update` takes no total for one that stays as it was.
            bar.tasks[0].total = asked or None
            count = f"{done}/{asked}" if asked else ""
            task = bar.task_ids[0]
            bar.update(task, description=label, completed=done, count=count, rate=rate)

        yield watch


def _left(seconds: float, done: float, left: float) -> str:
    """Return how long the rest may take and, of many a second, how fast it goes.

    >>> _left(10.0, 20, 40), _left(1.0, 500, 5000), _left(10.0, 0, 40)
    ('about 20 s left', 'about 10 s left, 500 clients/s', '')
    """
    if seconds < 0.5 or done <= 0 or left <= 0:
        return ""
    speed = f", {done / seconds:.0f} clients/s" if done / seconds >= 10 else ""
    return f"about {max(1.0, seconds * left / done):,.0f} s left{speed}"


@contextmanager
def counting(what: str, total: int, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show how many of a number of things are done; yields what is called after each of them.

    What it is called with is shown beside the count.
    """
    with _bar(what, total, quiet=quiet) as bar:

        def done(said: str) -> None:
            if bar is not None:
                task = bar.task_ids[0]
                bar.update(task, advance=1, description=f"{what}{said and f', {said}'}")
                bar.update(task, count=f"{bar.tasks[0].completed:.0f}/{total}")

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
    with _bar(what, quiet=quiet):
        yield


@contextmanager
def _bar(what: str, total: int | None = None, *, quiet: bool) -> Iterator[Progress | None]:
    """Give a bar with one task, or None if nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    count, rate = (TextColumn(f"{{task.fields[{name}]}}") for name in ("count", "rate"))
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn(), rate)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(what, total=total, count="" if total is None else f"0/{total}", rate="")
        yield bar
