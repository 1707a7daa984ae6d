"""The notebooks of the documentation run, and say what they are shown to say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tools.notebooks import METADATA, NOTEBOOKS, ROOT, cleaned, is_long, joined, shown

NUMBER = re.compile(r"\d+(?:\.\d+)?")
# What a machine does faster than another.
TIMED = re.compile(r"^(.*\b\d+(?:\.\d+)?) *\d+\.\d$", re.MULTILINE)


def run(path: Path, out: Path, *options: str) -> nbformat.NotebookNode:
    """Return what a notebook is after it has run, in a process of its own."""
    command = [sys.executable, "-m", "tools.notebooks", str(path), "--out", str(out), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return nbformat.read(out / path.name, as_version=4)


def near(ours: str, theirs: str) -> bool:
    """Return whether two numbers are equal up to what a processor may round otherwise."""
    return abs(float(ours) - float(theirs)) <= 0.03 * max(1.0, abs(float(ours)))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_gives_what_it_shows(path: Path, tmp_path: Path) -> None:
    kept = nbformat.read(path, as_version=4)
    fresh = run(path, tmp_path)
    compared = 0
    for before, after in zip(kept.cells, fresh.cells, strict=True):
        if before.cell_type != "code" or is_long(before):
            continue
        ours, theirs = (TIMED.sub(r"\1", shown(cell)) for cell in (before, after))
        assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs), before.id
        pairs = zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True)
        assert [pair for pair in pairs if not near(*pair)] == [], before.id
        compared += bool(ours)
        pictures = [
            sum("image/png" in output.get("data", {}) for output in cell.outputs)
            for cell in (before, after)
        ]
        assert pictures[0] == pictures[1], before.id
    assert compared >= 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_names_no_machine_and_is_small(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata == METADATA
    assert cleaned(nbformat.read(path, as_version=4)) == notebook
    assert path.stat().st_size < 200_000
    assert not re.search(r"/(?:home|root|Users|work|tmp)/", path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.source for cell in code)
    assert sum(not cell.outputs for cell in code) <= 4, "run python -m tools.notebooks"


def test_what_a_stream_gives_in_pieces_is_one_text_without_colors() -> None:
    pieces = [nbformat.v4.new_output("stream", text=text) for text in ("a\x1b[", "1mb\n", "c")]
    pieces.insert(2, nbformat.v4.new_output("stream", name="stderr", text="!"))
    assert [(one.name, one.text) for one in joined(pieces)] == [
        ("stdout", "ab\n"),
        ("stderr", "!"),
        ("stdout", "c"),
    ]


def test_a_long_cell_keeps_its_outputs_and_one_that_fails_is_noticed(tmp_path: Path) -> None:
    output = nbformat.v4.new_output("stream", text="as it was\n")
    long = nbformat.v4.new_code_cell("1 / 0", outputs=[output], metadata={"tags": ["long"]})
    path = tmp_path / "long.ipynb"
    path.write_text(json.dumps(nbformat.v4.new_notebook(cells=[long], metadata=METADATA)))
    (tmp_path / "out").mkdir()
    (cell,) = run(path, tmp_path / "out").cells
    assert (cell.source, shown(cell)) == ("1 / 0", "as it was\n")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run(path, tmp_path / "out", "--long")
