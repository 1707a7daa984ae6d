"""Run notebooks of the documentation, keep their outputs: python -m tools.notebooks [FILE ...].

A notebook is its own source. It runs in an empty folder, without public data sets, so that it
gives the same on every machine. A cell with the tag `long` keeps the outputs that it has: it runs
with --long, and by hand.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import nbformat
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).parents[1]
NOTEBOOKS = tuple(sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")))
LONG = "long"
COLOR = re.compile(r"\x1b\[[0-9;]*m")
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed(path: Path, *, long: bool = False, seconds: int = 300) -> NotebookNode:
    """Return the notebook as it is after all its cells have run; an error in one is raised.

    Parameters
    ----------
    long
        Run cells with the tag `long`, too.
    """
    notebook = nbformat.read(path, as_version=4)
    kept = {} if long else {c.id: c.outputs for c in notebook.cells if is_long(c)}
    text = {c.id: c.source for c in notebook.cells}
    for cell in notebook.cells:
        if cell.id in kept:
            cell.source = ""
    with TemporaryDirectory(prefix="notebook-") as place:
        folders = {"CATCHMENT_DATA": place, "IPYTHONDIR": place, "JUPYTER_CONFIG_DIR": place}
        # Commands of a cell are those of this environment.
        found = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        with patch.dict(os.environ, folders | found | {"COLUMNS": "100"}):
            NotebookClient(
                notebook,
                km=_kernel(place),
                startup_timeout=seconds,
                timeout=seconds,
                resources={"metadata": {"path": place}},
                record_timing=False,
            ).execute()
    for cell in notebook.cells:
        cell.source = text[cell.id]
        if cell.id in kept:
            cell.outputs = kept[cell.id]
    return notebook


def _kernel(place: str) -> AsyncKernelManager:
    """Return a kernel behind sockets in a folder, where a system has such: no port is opened."""
    if sys.platform == "win32":
        return AsyncKernelManager(kernel_name="python3")
    return AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{place}/kernel")


def is_long(cell: NotebookNode) -> bool:
    """Return whether a cell has the tag `long`."""
    return LONG in cell.metadata.get("tags", ())


def cleaned(notebook: NotebookNode) -> NotebookNode:
    """Return the notebook without anything that names a machine, a kernel's path or a count."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k == "tags"})
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = joined(cell.outputs)
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = None
    return notebook


def joined(outputs: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Return the outputs with what a stream gave in pieces as one text, without colors."""
    whole: list[NotebookNode] = []
    for output in outputs:
        last = whole[-1] if whole else {}
        if output.output_type == "stream" and last.get("name") == output.name:
            last["text"] += output.text
        else:
            whole.append(output)
    for output in whole:
        if output.output_type == "stream":
            output.text = COLOR.sub("", output.text)
    return whole


def shown(cell: NotebookNode) -> str:
    """Return the text that a cell has printed or returned, one output after the other."""
    pieces = []
    for output in cell.get("outputs", ()):
        if output.output_type == "stream":
            pieces.append(output.text)
        elif "image/png" not in output.get("data", {}):
            pieces.append(output.get("data", {}).get("text/plain", ""))
    return "".join(pieces)


def main() -> None:
    """Run notebooks, all or those that are named, and write them with their outputs."""
    parser = argparse.ArgumentParser(description="Run notebooks and keep their outputs.")
    parser.add_argument("files", nargs="*", type=Path, help="all of docs/notebooks if not given")
    parser.add_argument("--long", action="store_true", help="run cells with the tag `long`, too")
    parser.add_argument("--out", type=Path, help="write into this folder, not over the files")
    options = parser.parse_args()
    for path in options.files or NOTEBOOKS:
        notebook = cleaned(executed(path, long=options.long))
        nbformat.validate(notebook)
        written = path if options.out is None else options.out / path.name
        nbformat.write(notebook, written)
        print(written)


if __name__ == "__main__":
    main()
