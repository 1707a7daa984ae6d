"""Tables as lines of text, in which no word and no number is ever cut.

A cropped number is a wrong one that looks right. What does not fit is therefore moved, in this
order: headings over several lines, then texts, at last a block of lines for every row.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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
