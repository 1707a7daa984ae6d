"""Take from C files what a program needs: functions, tables, types, and what these need in turn.

The files keep to a plain style, so no parser of C is needed: a declaration ends with a semicolon or
a brace outside of all others, and a comment right above belongs to it. Preprocessor lines,
prototypes and other comments are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

_TOKEN = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|^[ \t]*#(?:\\\n|[^\n])*|\n|.",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Piece:
    """One declaration at file level: what it defines, its text, and what it uses."""

    names: frozenset[str]
    text: str
    is_function: bool

    @property
    def head(self) -> str:
        """A function up to its body."""
        return _head(self.text).rstrip("{").strip()

    @property
    def uses(self) -> frozenset[str]:
        return uses_of(self.text)


def uses_of(text: str) -> frozenset[str]:
    """Return what C text uses: `f()` for a call or `&f`, `struct s`, and all other words.

    A variable that is called like a function somewhere else is none.

    >>> sorted(uses_of("f(x, &g); /* of y */"))
    ['f', 'f()', 'g', 'g()', 'x']
    """
    bare = _COMMENT.sub(" ", text)
    words = set(_WORD.findall(bare))
    called = {f"{name}()" for name in re.findall(r"(?:\b|&)([A-Za-z_]\w*)\s*\(", bare)}
    called |= {f"{name}()" for name in re.findall(r"&([A-Za-z_]\w*)", bare)}
    structs = {f"struct {name}" for name in re.findall(r"\bstruct\s+(\w+)", bare)}
    return frozenset(words | called | structs)


def split(source: str) -> list[Piece]:
    """Return the pieces of a C file, in order.

    >>> [sorted(piece.names) for piece in split("enum { A, B };\\nint f(int x)\\n{ return x; }")]
    [['A', 'B'], ['f()']]
    """
    pieces: list[Piece] = []
    held, depth, same_line = "", 0, False
    for token in _TOKEN.findall(source):
        same_line = same_line and token != "\n"
        if token.lstrip().startswith("#") or (not held and token.isspace()):
            continue
        if same_line and token.startswith("/"):
            continue  # a comment that tells of the piece before
        if token == "\n" and held.endswith("\n") and not _COMMENT.sub("", held).strip():
            held = ""  # a comment by itself
            continue
        depth += {"{": 1, "}": -1}.get(token, 0)
        held += token
        if depth == 0 and (token == ";" or (token == "}" and _is_function(held))):
            pieces += _piece(held)
            held, same_line = "", True
    return pieces


def _is_function(text: str) -> bool:
    return re.search(r"\)\s*\{", _head(text)) is not None


def _head(text: str) -> str:
    bare = _COMMENT.sub("", text)
    return bare[: bare.find("{") + 1] if "{" in bare else bare


def _piece(text: str) -> list[Piece]:
    bare = _COMMENT.sub("", text).strip()
    if bare == ";":
        return []
    if _is_function(text):
        found = re.search(r"(\w+)\s*\(", bare)
        assert found is not None
        if "static" not in _head(text):  # it comes before the first word that is no comment
            text = re.sub(
                r"\A((?:\s|/\*.*?\*/|//[^\n]*)*)", r"\1static ", text, count=1, flags=re.S
            )
        return [Piece(frozenset({f"{found[1]}()"}), text.strip() + "\n", True)]
    names = _defined(bare)
    return [Piece(frozenset(names), text.strip() + "\n", False)] if names else []


def _defined(bare: str) -> set[str]:
    """Return what a declaration that is no function defines; nothing for a prototype."""
    if bare.startswith("typedef"):
        pointer = re.search(r"\(\*\s*(\w+)\)", bare)
        return {pointer[1] if pointer else _WORD.findall(bare)[-1]}
    if bare.startswith("enum"):
        return set(_WORD.findall(bare)) - {"enum"}
    tagged = re.match(r"struct\s+(\w+)\s*\{", bare)
    if tagged:
        return {f"struct {tagged[1]}"}
    declared = bare.split("=")[0]
    if "=" not in bare and "(" in declared:
        return set()
    named = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*;?\s*$", declared)
    return {named[1]} if named else set()


# In templates @MARK@ is a value, a line that begins with %% a statement, with %# a remark.
TEMPLATES = Environment(
    loader=PackageLoader("catchment_edge"),
    variable_start_string="@",
    variable_end_string="@",
    line_statement_prefix="%%",
    line_comment_prefix="%#",
    keep_trailing_newline=True,
    undefined=StrictUndefined,
    autoescape=False,  # C has no markup
)


def template(name: str, marks: Mapping[str, object]) -> str:
    """Return the text of a file in templates/, its marks replaced."""
    return TEMPLATES.get_template(name).render(marks)


@cache
def _pieces_of(name: str) -> tuple[Piece, ...]:
    return tuple(split((files("catchment_edge") / "sources" / name).read_text("utf-8")))


def needed(sources: Sequence[str], uses: Iterable[str], own: Iterable[str] = ()) -> list[Piece]:
    """Return the pieces of files that are needed by text with these uses, in the files' order.

    Parameters
    ----------
    sources
        Names of files in `export/sources`.
    own
        What the program defines itself: other pieces of that name are left out.

    >>> [sorted(piece.names) for piece in needed(["grid.c"], {"grid_round()"})]
    [['grid_round()']]
    """
    mine = frozenset(own)
    known = [piece for name in dict.fromkeys(sources) for piece in _pieces_of(name)]
    known = [piece for piece in known if not piece.names & mine]
    meaning: dict[str, str] = {}
    for piece in known:
        for name in piece.names:
            if meaning.setdefault(name, piece.text) != piece.text:
                raise ValueError(f"two source files define {name} differently; rename one")
    wanted, chosen = set(uses), set[int]()
    while True:
        new = [k for k, piece in enumerate(known) if k not in chosen and piece.names & wanted]
        if not new:
            return [known[k] for k in sorted(chosen)]
        chosen.update(new)
        wanted.update(used for k in new for used in known[k].uses)
