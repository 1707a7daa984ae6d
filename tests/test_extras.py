"""A missing package is one sentence, and the extra that it names is one that there is."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from catchment.plugins import KNOWN

ROOT = Path(__file__).parents[1]
SOURCES = [*ROOT.glob("packages/*/src"), ROOT / "packages/catchment-research/reproductions"]


def extras() -> set[tuple[str, str]]:
    """Return the extras that `pip install "package[extra]"` knows."""
    projects = [tomllib.loads(path.read_text("utf-8")) for path in ROOT.glob("packages/*/p*.toml")]
    return {
        (one["project"]["name"], extra)
        for one in projects
        for extra in one["project"].get("optional-dependencies", {})
    }


def named() -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield where a MissingExtraError is raised, and the package and extra that it names."""
    for path in (path for source in SOURCES for path in sorted(source.rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="MissingExtraError"), args=[first], keywords=more):
                    of = [ast.literal_eval(key.value) for key in more if key.arg == "of"]
                    # Only plugins.py has it from a table, which is looked at below.
                    extra = "" if path.name == "plugins.py" else ast.literal_eval(first)
                    if extra:
                        place = f"{path.relative_to(ROOT)}:{node.lineno}"
                        yield place, (of[0] if of else "catchment", extra)


def test_every_extra_that_an_error_names_is_there() -> None:
    found = dict(named())
    assert len(found) > 20
    known = extras()
    assert {place: extra for place, extra in found.items() if extra not in known} == {}


def test_every_package_beside_the_core_is_an_extra_of_it() -> None:
    beside = {path.name.removeprefix("catchment-") for path in ROOT.glob("packages/catchment-*")}
    assert set(KNOWN) == beside
    assert {("catchment", extra) for extra in (*beside, "all")} <= extras()
