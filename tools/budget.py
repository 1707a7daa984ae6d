"""`python -m tools.budget [--lower]`: how large everything is, beside how large it may be.

tools/budget.toml has a number for each: lines, files, the walk through README's ten lines, public
names, files whose code (examples in docstrings apart) names a map outside its room, long functions,
private modules that tests import, and CPU seconds of tests. Above its number, or without one, is
exit code 1. `--lower` writes what fell and never raises: to raise a number is a commit of its own
that says why.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import sys
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tools.private_imports import private_imports

Counts = dict[str, dict[str, int]]
BUDGET = Path("tools/budget.toml")
SECONDS = Path("tools/suite_seconds.json")
CORE = Path("packages/catchment/src/catchment")
ROOMS = {
    "EchoState": "features/echo_state",
    "MiniRocket": "features/minirocket.py",
}
LONG = 50
HEAD = """\
# What `python -m tools.budget` holds everything to. A number may only fall (`--lower` does it); to
# raise one is a commit that touches nothing else and says why.
"""


def main() -> None:
    """Print the table; exit code 1 if something is above its budget."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("--lower", action="store_true", help="write what fell into the budget")
    lower = asked.parse_args().lower
    now = {**sizes(Path()), "walk": walk(), "suite_seconds": seconds(SECONDS)}
    budget: Counts = tomllib.loads(BUDGET.read_text(encoding="utf-8"))
    print(table(now, budget))
    if lower:
        BUDGET.write_text(written(lowered(now, budget)), encoding="utf-8")
    sys.exit(1 if above(now, budget) else 0)


def sizes(root: Path) -> Counts:
    """Return what is counted by reading the files of a tree, by section and name."""
    found: Counts = defaultdict(dict)
    named: dict[str, set[Path]] = {name: set() for name in ROOMS}
    for source in sorted(root.glob("packages/*/src")):
        package = source.parent.name
        texts = {p: p.read_text(encoding="utf-8") for p in sorted(source.rglob("*.py"))}
        stubs = {p: p.read_text(encoding="utf-8") for p in sorted(source.rglob("*.pyi"))}
        found["lines"][package] = _lines(texts)
        found["stub_lines"][package] = _lines(stubs)
        found["files"][package] = len(texts)
        found[f"functions_over_{LONG}_lines"][package] = sum(map(long_functions, texts.values()))
        for path, text in sorted((texts | stubs).items()):
            if path.stem == "__init__" and (path.suffix == ".pyi" or _stub(path) not in stubs):
                face = ".".join(path.parent.relative_to(source).parts)
                found["public_names"][face] = public_names(text)
        for name, room in ROOMS.items():
            own = root / CORE / room
            outside = {p: t for p, t in texts.items() if name in t and own not in (p, *p.parents)}
            named[name] |= {path for path, text in outside.items() if name in words(text)}
    rooms: dict[str, int] = defaultdict(int)
    for path in sorted((root / CORE).rglob("*.py")):
        first, *rest = path.relative_to(root / CORE).parts
        rooms[first if rest else "top"] += len(path.read_text(encoding="utf-8").splitlines())
    found["lines_of_rooms"] = dict(rooms)
    found["files_naming_a_map_outside_its_room"] = {n: len(paths) for n, paths in named.items()}
    found["private_modules_imported"] = {"all": len(private_imports(root))}
    return dict(found)


def _lines(texts: Mapping[Path, str]) -> int:
    return sum(len(text.splitlines()) for text in texts.values())


def _stub(path: Path) -> Path:
    return path.with_suffix(".pyi")


def words(text: str) -> set[str]:
    """Return the words of a file's code, without those of its strings and comments.

    >>> sorted(words("a.b = 'c'  # d"))
    ['a', 'b']
    """
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.string for token in found if token.type == tokenize.NAME}


def public_names(text: str) -> int:
    """Return how many names the `__all__` of a face has.

    >>> public_names("from a import b as b, c as c\\n__all__ = ['b']")
    1
    """
    for line in ast.parse(text).body:
        match line:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return len(ast.literal_eval(value))
    return 0


def long_functions(text: str) -> int:
    """Return how many functions have more than 50 lines, their docstrings not counted."""
    functions = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef))
    return sum(_length(one) > LONG for one in functions)


def _length(function: ast.FunctionDef) -> int:
    first = function.body[0]
    described = ast.get_docstring(function) is not None
    said = (first.end_lineno or 0) - first.lineno + 1 if described else 0
    return (function.end_lineno or 0) - function.lineno + 1 - said


def walk() -> dict[str, int]:
    """Return the walk through README's ten lines, in a process that has imported nothing else."""
    command = [sys.executable, "-m", "tools.walk", "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    counts = json.loads(done.stdout)
    return {name: counts[name] for name in ("modules", "functions", "files", "depth")}


def seconds(kept: Path) -> dict[str, int]:
    """Return the CPU seconds of every suite that `tools.suite_seconds` has kept."""
    if not kept.exists():
        return {}
    suites: dict[str, dict[str, float]] = json.loads(kept.read_text(encoding="utf-8"))
    return {suite: round(sum(files.values())) for suite, files in suites.items()}


def above(now: Counts, budget: Counts) -> list[str]:
    """Return what is above its budget or has none.

    >>> above({"lines": {"a": 3, "b": 1}}, {"lines": {"a": 2, "b": 2}})
    ['lines a']
    """
    return [
        f"{section} {name}"
        for section, counts in now.items()
        for name, count in counts.items()
        if count > budget.get(section, {}).get(name, 0)
    ]


def lowered(now: Counts, budget: Counts) -> Counts:
    """Return a budget with what fell, without what is gone, and nothing higher than before.

    CPU seconds that were not measured keep theirs.

    >>> lowered({"lines": {"a": 3, "b": 1}}, {"lines": {"a": 2, "b": 2, "c": 5}})
    {'lines': {'a': 2, 'b': 1}}
    """
    return {
        section: {
            name: min(most, now[section].get(name, most))
            for name, most in limits.items()
            if name in now[section] or not now[section]
        }
        for section, limits in budget.items()
        if section in now
    }


def table(now: Counts, budget: Counts) -> str:
    """Return a line for every number: its name, now, its budget, and a mark where it is above."""
    over = set(above(now, budget))
    lines = [f"{'':58}{'now':>8}{'budget':>8}"]
    for section, counts in now.items():
        for name, count in counts.items():
            label = f"{section} {name}"
            most = budget.get(section, {}).get(name)
            mark = "  above" if label in over else ""
            lines.append(f"{label:58}{count:8}{'none' if most is None else most:>8}{mark}")
    return "\n".join(lines)


def written(budget: Counts) -> str:
    """Return the text of a budget file."""
    blocks = [HEAD]
    for section, limits in budget.items():
        rows = "".join(f'"{name}" = {most}\n' for name, most in limits.items())
        blocks.append(f"[{section}]\n{rows}")
    return "\n".join(blocks)


if __name__ == "__main__":
    main()
