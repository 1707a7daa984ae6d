"""The examples in docstrings, package by package; those of the core, which has most, by room.

A module is imported when its test runs. Collected by pytest itself, every worker of a parallel run
would import all of them first.
"""

from __future__ import annotations

import doctest
import importlib
from collections import defaultdict
from pathlib import Path

import pytest

from catchment.errors import MissingExtraError

ROOT = Path(__file__).parents[1]
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
BASES = [*sorted(ROOT.glob("packages/*/src")), ROOT / "packages" / "catchment-research"]


def modules() -> dict[str, list[str]]:
    """Return the names of modules with examples by package or room, without importing them."""
    found: dict[str, list[str]] = defaultdict(list)
    folders = [path for base in BASES for path in base.glob("*/") if path.name not in LEFT_OUT]
    for folder in [*folders, ROOT / "tools"]:
        for path in sorted(folder.rglob("*.py")):
            if ">>> " in path.read_text(encoding="utf-8"):
                parts = path.relative_to(folder.parent).with_suffix("").parts
                room = ".".join(parts[: 2 if parts[0] == "catchment" and len(parts) > 2 else 1])
                parts = parts[:-1] if parts[-1] == "__init__" else parts
                found[room].append(".".join(parts))
    return found


LEFT_OUT = {"src", "tests"}
MODULES = modules()


@pytest.mark.parametrize("room", MODULES)
def test_examples_print_what_they_say(room: str) -> None:
    wrong = {name: said for name in MODULES[room] if (said := mistakes(name))}
    assert not wrong, "\n".join(f"{name}\n{said}" for name, said in wrong.items())


def mistakes(name: str) -> str:
    """Return what doctest says of a module's examples; nothing if they are right."""
    try:
        module = importlib.import_module(name)
    except MissingExtraError:
        if name in APART:
            return ""
        raise
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    found = doctest.DocTestFinder(exclude_empty=True).find(module, name)
    if not any(one.examples for one in found):
        return "has examples that are not found"
    for examples in found:
        runner.run(examples, out=said.append)
    return "".join(said) if runner.failures else ""


# What these need cannot be in one environment with the rest; `make interop` runs them.
APART = {"catchment_lab.interop.aeon", "catchment_lab.interop.sktime"}


def test_the_packages_have_examples() -> None:
    assert set(MODULES) >= {base.parent.name.replace("-", "_") for base in BASES[:-1]}
    assert sum(map(len, MODULES.values())) > 250
