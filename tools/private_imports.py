"""Which files of the packages are named by path outside of them, and not by a face.

A face is a folder with an `__init__.py`, or one of the documented modules in `MODULES`; a
name that it imports comes from it, even where a file has the same one. Tests,
benchmarks, tools, examples, pages and the packages beside the core take what they need from faces,
so that a file can be renamed; the exceptions stand in tests/private_imports.toml, with a reason
each.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

OUTSIDE = ("tests", "benchmarks", "tools", "examples", "docs", "conftest.py")
FACES = ("arrays", "errors", "faces", "parallel", "plugins", "testing", "wire")
MODULES = {f"catchment.{name}" for name in FACES}
DOTTED = re.compile(r"catchment(_[a-z]+)?(\.[A-Za-z_]\w*)+")
IN_TEXT = re.compile(r"^\s*(?:from|import) (catchment[\w.]*)", re.MULTILINE)


def private_imports(root: Path = Path()) -> dict[str, list[str]]:
    """Return the private modules that are imported or named to be patched, and by which files."""
    files = _modules(root) - MODULES
    found: dict[str, set[str]] = defaultdict(set)
    for path in _readers(root):
        for name in _named(path):
            module = _module_of(name, files)
            if module is not None and module.split(".")[0] != _own(path.relative_to(root)):
                found[module].add(path.relative_to(root).as_posix())
    return {module: sorted(found[module]) for module in sorted(found)}


def _modules(root: Path) -> set[str]:
    """Return every module of the packages that is neither a folder nor a name of a face."""
    modules, shown = set(), set()
    for source in root.glob("packages/*/src"):
        for path in source.rglob("*.py*"):
            parts = path.relative_to(source).with_suffix("").parts
            if path.stem == "__init__":
                for line in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                    if isinstance(line, ast.ImportFrom):
                        shown |= {".".join([*parts[:-1], one.name]) for one in line.names}
            elif path.suffix == ".py":
                modules.add(".".join(parts))
    return modules - shown


def _own(path: Path) -> str:
    """Return the package that a source is of, nothing for other files."""
    return path.parts[3] if path.parts[2:3] == ("src",) else ""


def _readers(root: Path) -> Iterator[Path]:
    places = [*root.glob("packages/catchment-*/src"), *root.glob("packages/*/tests")]
    places += [root / name for name in OUTSIDE]
    for place in places:
        if place.is_dir():
            for pattern in ("*.py", "*.md", "*.ipynb"):
                yield from sorted(place.rglob(pattern))
        elif place.exists():
            yield place


def _named(path: Path) -> Iterator[str]:
    """Return every dotted name that a file imports, or hands to `setattr` or the like as text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from IN_TEXT.findall(text)
        return
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield from (f"{module}.{one.name}" for one in names)
            case ast.Constant(value=str(value)):  # a program to be run
                yield from IN_TEXT.findall(value)
            case ast.Call(args=given):
                texts = (one.value for one in given if isinstance(one, ast.Constant))
                yield from (one for one in texts if isinstance(one, str) and DOTTED.fullmatch(one))


def _module_of(name: str, files: set[str]) -> str | None:
    """Return the private module that a dotted name lies in or is, None if it is of a face."""
    parts = name.split(".")
    return next((m for n in range(len(parts), 1, -1) if (m := ".".join(parts[:n])) in files), None)
