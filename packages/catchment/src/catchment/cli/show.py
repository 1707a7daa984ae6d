"""How commands print, and how far they are; the options they share.

In a table no word and no number is ever cut: a cropped number is a wrong one that looks right. What
does not fit is therefore moved, in this order: headings over several lines, then texts, at last a
block of lines for every row.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

if TYPE_CHECKING:
    from rich.progress import Progress


DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Data directory, instead of $CATCHMENT_DATA and the cache.",
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="cuda, or cuda:1 for the second GPU; needs torch. What CATCHMENT_DEVICE names, else "
        "the CPU.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


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

    In a file or a pipe it is as wide as it likes. On a terminal too narrow for it headings, then
    texts, then whole rows take several lines; no cell is ever cut.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    lines, n_headings = lay_out(Table.of(header, rows, right), width)
    for i, line in enumerate(lines):
        typer.secho(line, bold=True if i < n_headings else None)


GAP = "  "  # between columns
Form = Literal["lines", "headings", "texts", "blocks"]


@dataclass(frozen=True)
class Table:
    """Words in rows and columns; the columns named in `right` are numbers and end at one edge."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str]

    @classmethod
    def of(
        cls, header: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str]
    ) -> Table:
        """Return a table of the cells as text, a line each: line breaks become spaces."""
        cells = tuple(tuple(" ".join(str(cell).split()) for cell in row) for row in rows)
        return cls(tuple(header), cells, frozenset(right))

    def columns(self) -> list[tuple[str, ...]]:
        """Return the cells of every column, without its heading."""
        return [tuple(row[i] for row in self.rows) for i in range(len(self.header))]


def lay_out(table: Table, width: int | None = None) -> tuple[list[str], int]:
    """Return the lines of a table, and how many of them are headings.

    Parameters
    ----------
    table
        What to show.
    width
        Columns of characters on the terminal; None is as wide as the table likes.

    Examples
    --------
    >>> table = Table.of(("", "bytes sent"), [("GPT-2 large", "11,796,480")], ["bytes sent"])
    >>> print(*lay_out(table)[0], sep="\\n")
                 bytes sent
    GPT-2 large  11,796,480
    >>> print(*lay_out(table, 18)[0], sep="\\n")
                bytes
                 sent
    GPT-2  11,796,480
    large
    >>> print(*lay_out(table, 12)[0], sep="\\n")
    GPT-2 large
      bytes sent
        11,796,480
    """
    for form in ("lines", "headings", "texts"):
        widths = _widths(table, form, width)
        if width is None or _total(widths) <= width:
            return _in_columns(table, widths, form)
    return _in_blocks(table, width or 0), 0


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _widths(table: Table, form: Form, width: int | None) -> list[int]:
    """Return how wide each column is; texts share the room that numbers and long words leave."""
    columns = list(zip(table.header, table.columns(), strict=True))
    heading = _longest_line if form == "lines" else _longest_word
    whole = [max(heading((title,)), _longest_line(cells)) for title, cells in columns]
    if form != "texts" or width is None:
        return whole
    widths = [
        one if title in table.right else max(_longest_word(cells), _longest_word((title,)))
        for one, (title, cells) in zip(whole, columns, strict=True)
    ]
    while (spare := width - _total(widths)) > 0:
        wanting = [
            i for i, (has, wants) in enumerate(zip(widths, whole, strict=True)) if has < wants
        ]
        if not wanting:
            break
        for i in wanting[:spare]:
            widths[i] += 1
    return widths


def _in_columns(table: Table, widths: Sequence[int], form: Form) -> tuple[list[str], int]:
    lines, n_headings = [], 0
    for row in (table.header, *table.rows):
        may_fold = form == "texts" or (form == "headings" and row is table.header)
        cells = [
            _folded(cell, w) if may_fold else [cell] for cell, w in zip(row, widths, strict=True)
        ]
        height = max(map(len, cells), default=1)
        at_the_end = row is table.header  # the last word of a heading stands above the numbers
        for i in range(height):
            parts = []
            for title, w, pieces in zip(table.header, widths, cells, strict=True):
                at = i - (height - len(pieces) if at_the_end else 0)
                piece = pieces[at] if 0 <= at < len(pieces) else ""
                pad = " " * (w - _wide(piece))
                parts.append(pad + piece if title in table.right else piece + pad)
            lines.append(GAP.join(parts).rstrip())
        n_headings = n_headings or height
    return lines, n_headings


def _in_blocks(table: Table, width: int) -> list[str]:
    """Return every row as lines of its own: the first cell, then each heading with its cell."""
    lines = []
    for first, *rest in table.rows:
        lines += _folded(first, width)
        for title, cell in zip(table.header[1:], rest, strict=True):
            line = f"{title}: {cell}" if title else cell
            if _wide(line) + 2 > width:
                title_lines = _folded(title, width - 2) if title else []
                lines += [f"  {piece}" for piece in title_lines]
                lines += [f"    {piece}" for piece in _folded(cell, width - 4)]
            else:
                lines.append(f"  {line}")
    return lines


def _folded(text: str, width: int) -> list[str]:
    """Return a text in lines that break at spaces alone; a longer word has a line of its own."""
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False) or [
        ""
    ]


def _longest_line(texts: Sequence[str]) -> int:
    return max(map(_wide, texts), default=0)


def _longest_word(texts: Sequence[str]) -> int:
    return max((_wide(word) for text in texts for word in text.split()), default=0)


def _wide(text: str) -> int:
    """Return how many characters of a terminal a text takes; some letters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


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
