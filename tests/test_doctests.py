"""The examples in docstrings: one test for each module that has any.

A module is imported when its test runs. Collected by pytest itself, every worker of a parallel run
would import all of them first.
"""

from __future__ import annotations

import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from catchment.errors import MissingExtraError

ROOT = Path(__file__).parents[1]
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def modules() -> Iterator[str]:
    """Yield the dotted names of modules with examples, without importing them."""
    for base, package in ((ROOT / "src", "catchment"), (ROOT, "reproductions"), (ROOT, "tools")):
        for path in sorted((base / package).rglob("*.py")):
            if ">>> " in path.read_text(encoding="utf-8"):
                parts = path.relative_to(base).with_suffix("").parts
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("name", list(modules()))
def test_the_examples_of_a_module_print_what_they_say(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except MissingExtraError as error:
        pytest.skip(str(error))
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    found = doctest.DocTestFinder(exclude_empty=True).find(module, name)
    assert any(one.examples for one in found), f"{name} has examples that are not found"
    for examples in found:
        runner.run(examples, out=said.append)
    assert runner.failures == 0, "".join(said)
