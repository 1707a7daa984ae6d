"""`python -m tools.faces`: bring the inner part of every face up to date.

A folder's stub, `__init__.pyi`, lists its public names, and below them the names that only this
project's other packages and tests take from it. The second list follows from what they import: this
adds what is missing, takes out what nobody needs any more, and finds again what moved to another
file of the folder. `--check` changes nothing, and fails if something would change.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGES = Path("packages")
OUTSIDE = ("tests", "benchmarks", "tools", "examples", "docs", "conftest.py")
INNER = "# For the other packages and the tests; may change without notice."
WIDTH = 100


def main() -> None:
    """Rewrite the stubs, or say which differ."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("--check", action="store_true")
    check = asked.parse_args().check
    wanted = taken()
    changed = []
    for face, stub in faces().items():
        text = stub.read_text(encoding="utf-8")
        new = rewritten(face, text, wanted.get(face, set()))
        if new != text:
            changed.append(str(stub))
            if not check:
                stub.write_text(new, encoding="utf-8")
    if changed:
        print("\n".join(changed))
    sys.exit(1 if check and changed else 0)


def faces() -> dict[str, Path]:
    """Return the stub of every folder that has one, by the folder's import name."""
    found = {}
    for source in sorted(PACKAGES.glob("*/src")):
        for stub in sorted(source.rglob("__init__.pyi")):
            found[".".join(stub.parent.relative_to(source).parts)] = stub
    return found


def taken() -> dict[str, set[str]]:
    """Return the names that files outside a package import from each of its faces."""
    found: dict[str, set[str]] = defaultdict(set)
    known = faces()
    for path in _files():
        own = path.parts[3] if path.parts[0] == "packages" and path.parts[2] == "src" else ""
        for module, name in _imports(path):
            if module in known and module.split(".")[0] != own:
                found[module].add(name)
    return found


def rewritten(face: str, text: str, wanted: set[str]) -> str:
    """Return a stub with its public names, and the others that are wanted."""
    public, homes = read(text)
    folder = faces()[face].parent
    inner = wanted - set(public) - {one.stem for one in folder.iterdir()}
    inner = {name for name in inner if not name.startswith("__")}
    below, beside = defined(face, folder, "**/*.py"), defined(face, folder, "*.py")
    shown = {
        name: _home(face, name, below, homes)
        for name in public
        if name != "__version__" and homes.get(name) != face
    }
    modules = [f"from {face} import {name} as {name}" for name in public if homes.get(name) == face]
    others = {name: _home(face, name, beside, homes) for name in sorted(inner)}
    lines = [*_lines(shown), *modules]
    lines += ["", INNER, *_lines(others)] if others else []
    lines += ["", "__version__: str"] if "__version__" in public else []
    listed = "".join(f'    "{name}",\n' for name in sorted(public))
    listed = f"\n{listed}" if listed else ""
    return "\n".join(lines).lstrip("\n") + f"\n\n__all__ = [{listed}]\n"


def _home(face: str, name: str, known: Mapping[str, list[str]], homes: Mapping[str, str]) -> str:
    """Return the file of a face in which a name is defined, the same as before if it can be."""
    places = known.get(name, [])
    before = homes.get(name, "")
    if before in places or (before and not before.startswith(f"{face}.")):
        return before
    if len(places) != 1:
        raise SystemExit(f"{face} has {name} in {places or 'no file'}; import it from its file")
    return places[0]


def read(text: str) -> tuple[list[str], dict[str, str]]:
    """Return the public names of a stub, and where each of its names lives."""
    homes: dict[str, str] = {}
    public: list[str] = []
    for line in ast.parse(text).body:
        match line:
            case ast.ImportFrom(module=str(module), names=names):
                homes |= {one.name: module for one in names}
            case ast.Assign(value=value):
                public = ast.literal_eval(value)
    return public, homes


def defined(face: str, folder: Path, pattern: str) -> Mapping[str, list[str]]:
    """Return in which files of a folder each name is defined, by import name."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.glob(pattern)):
        if path.name != "__init__.py":
            module = ".".join([face, *path.relative_to(folder).with_suffix("").parts])
            for name in _bound(ast.parse(path.read_text(encoding="utf-8")).body):
                found[name].append(module)
    return found


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    for line in body:
        match line:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.If(body=inside, orelse=other) | ast.Try(body=inside, orelse=other):
                yield from _bound([*inside, *other])


def _lines(found: Mapping[str, str]) -> Iterator[str]:
    by_home: dict[str, list[str]] = defaultdict(list)
    for name, home in found.items():
        by_home[home].append(name)
    for home in sorted(by_home):
        names = [f"{name} as {name}" for name in sorted(by_home[home])]
        line = f"from {home} import {', '.join(names)}"
        if len(line) > WIDTH:
            line = f"from {home} import (\n" + "".join(f"    {one},\n" for one in names) + ")"
        yield line


def _imports(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                yield node.module, one.name


def _files() -> Iterator[Path]:
    yield from sorted(PACKAGES.rglob("*.py"))
    for place in map(Path, OUTSIDE):
        yield from sorted(place.rglob("*.py")) if place.is_dir() else [place]


if __name__ == "__main__":
    main()
