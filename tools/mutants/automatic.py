"""Small faults made from the syntax tree.

    compare    < for <=, == for !=, in for not in, and so on
    constant   a number one more, or one less
    not        `not x` becomes `x`
    raise      an error is not raised
    emptied    a function that only checks returns at once

Names, not positions, tell them apart: `client.py _shares compare 2` is the second comparison of
that function, wherever it stands. Annotations, texts and what is inside them stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.mutants.equivalent import EQUIVALENT
from tools.mutants.mutant import Edit, Mutant

_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


def automatic(root: Path, path: str, tests: Sequence[str]) -> Iterator[Mutant]:
    """Yield every small fault of one file.

    Parameters
    ----------
    tests
        The tests that should notice; examples in the file itself are run before them.
    """
    text = (root / path).read_text()
    counts: dict[str, int] = {}
    for function, kind, start, end, new in _changes(text):
        place = f"{Path(path).name} {function} {kind}"
        counts[place] = counts.get(place, 0) + 1
        # All of the file: a text that is there exactly once.
        edit = Edit(path, text, text[:start] + new + text[end:])
        name = f"{place} {counts[place]}"
        _, why = EQUIVALENT.get(name, ("", ""))
        yield Mutant(name, (edit,), (path, *tests), why)


def described(mutant: Mutant) -> str:
    """Return the line that a mutant changes, before and after, and its number."""
    edit = mutant.edits[0]
    before, after = edit.old.splitlines(), edit.new.splitlines()
    first = next(k for k in range(len(before)) if before[k : k + 1] != after[k : k + 1])
    changed = after[first] if first < len(after) else ""
    return f"line {first + 1}: {before[first].strip()} -> {changed.strip()}"


def _changes(text: str) -> Iterator[tuple[str, str, int, int, str]]:
    """Yield function, kind, where the replaced text begins and ends, and the new text."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    raw = text.encode()

    def at(line: int, column: int) -> int:
        return len(raw[: starts[line - 1] + column].decode())

    for function, node in _walk(ast.parse(text), "module"):
        span = _span(node)
        for kind, (first, last), new in _of(node):
            begin = at(*first) if first else at(*span[0])
            yield function, kind, begin, at(*last) if last else at(*span[1]), new


Where = tuple[tuple[int, int] | None, tuple[int, int] | None]
WHOLE: Where = (None, None)


def _of(node: ast.AST) -> Iterator[tuple[str, Where, str]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = _FLIPPED[type(node.ops[0])]()
        yield (
            "compare",
            WHOLE,
            f"{_operand(node.left)} {_SIGNS[type(other)]} {_operand(node.comparators[0])}",
        )
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        assert isinstance(node.value, int | float)
        yield "constant", WHOLE, f"({node.value + 1!r})"
        yield "constant", WHOLE, f"({node.value - 1!r})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", WHOLE, f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Raise) and node.exc is not None:
        yield "raise", WHOLE, "pass"
    elif isinstance(node, ast.FunctionDef) and _only_checks(node):
        body = node.body[1:] if ast.get_docstring(node) else node.body
        last = body[-1]
        where = (_span(body[0])[0], _span(last)[1])
        yield "emptied", where, "return None"


_SIGNS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}


def _operand(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


def _only_checks(node: ast.FunctionDef) -> bool:
    nothing = isinstance(node.returns, ast.Constant) and node.returns.value is None
    raises = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
    checks = node.name.lstrip("_").startswith(("check", "verify"))
    return nothing and (raises or checks) and node.name != "__init__"


def _span(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    if not isinstance(node, ast.expr | ast.stmt):
        return (1, 0), (1, 0)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _walk(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield nodes with the function they are in, but for annotations and formatted texts."""
    yield function, node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            inner = function
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = child.name if function == "module" else f"{function}.{child.name}"
            yield from _walk(child, inner)
