"""No table that a command prints loses a digit, however narrow the terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from catchment.cli import table_lines

STYLE = re.compile("\x1b\\[[0-9;]*m")
COST = [sys.executable, "-m", "reproductions", "cost"]

words = st.text(alphabet="abc\u00e9\u6f22019,.%", min_size=1, max_size=14)
cells = st.lists(words, max_size=4).map(" ".join)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]], list[str]]:
    n = draw(st.integers(1, 6))
    header = draw(st.lists(cells, min_size=n, max_size=n))
    rows = draw(st.lists(st.lists(cells, min_size=n, max_size=n), max_size=4))
    return header, rows, draw(st.lists(st.sampled_from(header)))


@given(table=tables(), width=st.integers(1, 120) | st.none())
def test_every_word_is_there_whole_and_fits_where_it_can(
    table: tuple[list[str], list[list[str]], list[str]], width: int | None
) -> None:
    header, rows, _ = table
    lines = table_lines(*table, width)
    found = sorted(" ".join(lines).split())
    words = [" ".join(row) for row in rows]
    if found == sorted(" ".join([*header, *words]).split()):
        fits = all(cell_len(line) <= (width or 10**6) for line in lines)
        assert fits or not any(header)  # or they are blocks whose headings are empty
    else:  # blocks: the headings are beside every row
        titles = [f"{title}:" for title in header[1:] if title] * len(rows)
        assert found == sorted(" ".join([*titles, *words]).split())
        assert width is not None
    if width is None:
        assert len(lines) == 1 + len(rows)  # in a pipe a row is a line


def on_a_terminal(command: list[str], columns: int) -> str:
    """Return what a command prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    with subprocess.Popen(command, stdout=theirs, env=env) as process:
        os.close(theirs)
        printed = b""
        try:
            while part := os.read(ours, 65536):
                printed += part
        except OSError:  # the other end is closed
            pass
        finally:
            os.close(ours)
    assert process.returncode == 0
    return STYLE.sub("", printed.decode())


def numbers_of_the_source() -> set[str]:
    """Return every number of `cost --json`, in the form that the tables have."""
    done = subprocess.run([*COST, "--json"], capture_output=True, check=True, encoding="utf-8")
    found = set()
    for name, rows in json.loads(done.stdout).items():
        for row in rows:
            for column, value in row.items():
                if isinstance(value, int) and not (name == "published" and "bytes" in column):
                    found.add(f"{value:,}" if value < 10**9 else f"{value:.3g}")
                elif isinstance(value, float):
                    found.add(str(value))
    return found


def test_cost_prints_every_number_whole() -> None:
    source = numbers_of_the_source()
    assert {"1,280", "11,796,480", "4,015,716"} <= source
    piped = subprocess.run(COST, capture_output=True, check=True, encoding="utf-8").stdout
    for printed in (piped, on_a_terminal(COST, 80), on_a_terminal(COST, 40)):
        assert source - set(printed.split()) == set()
        assert "GPT-2" in printed


@pytest.mark.parametrize("columns", [40, 80])
def test_a_comparison_prints_every_number_whole(columns: int) -> None:
    code = """
from catchment.cli import print_table
header = ("", "accuracy", "worst client", "spread", "sent up", "rounds", "seconds")
row = ("exact [federated] *", "0.9935", "0.9667 user-001", "0.013", "1,234.5 MB", 12, "105.4")
print_table(header, [row], right=header[1:])
"""
    printed = on_a_terminal([sys.executable, "-c", code], columns)
    for cell in ("exact", "[federated]", "0.9935", "0.9667", "user-001", "0.013", "1,234.5 MB"):
        assert re.search(rf"(^|\s){re.escape(cell)}(\s|$)", printed), cell
    assert {"12", "105.4"} <= set(printed.split())
