"""A fault: which text of which file is replaced by which."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    """One text of a file, found exactly once, and what stands there instead."""

    path: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Return the text of the file with the fault in it.

        >>> Edit("a.py", "x < 1", "x <= 1").applied("if x < 1:")
        'if x <= 1:'
        >>> Edit("a.py", "x > 1", "x >= 1").applied("if x < 1:")
        Traceback (most recent call last):
        ValueError: a.py has 0 times 'x > 1'; a fault's text must be there exactly once
        """
        if (found := text.count(self.old)) != 1:
            raise ValueError(
                f"{self.path} has {found} times {self.old!r}; a fault's text must be there "
                "exactly once"
            )
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Mutant:
    """A fault and the tests that should notice it.

    Parameters
    ----------
    name
        What is wrong, in a few words; results are kept under it.
    edits
        Texts that are replaced.
    tests
        Test files and folders, those that answer soonest first.
    equivalent
        Why nobody can notice, if so; it is then expected to live.
    """

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    equivalent: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(edit.path for edit in self.edits))

    def sources(self, root: Path) -> dict[str, str]:
        """Return the texts of all files it changes, by path, with the fault in them."""
        texts = {path: (root / path).read_text() for path in self.paths}
        for edit in self.edits:
            texts[edit.path] = edit.applied(texts[edit.path])
        return texts

    def digest(self, root: Path) -> str:
        """Return what stands for the changed files and their tests, to know old results by."""
        return digest({**self.sources(root), **_tests(root, self.tests)})


def digest(texts: Mapping[str, str]) -> str:
    """Return the first digits of a hash of texts and their names.

    >>> digest({"a": "1"}) == digest({"a": "2"})
    False
    """
    sha = hashlib.sha256()
    for name, text in sorted(texts.items()):
        sha.update(f"{name}\0{text}\0".encode())
    return sha.hexdigest()[:12]


def _tests(root: Path, tests: tuple[str, ...]) -> dict[str, str]:
    files = [
        file
        for name in tests
        for file in ([root / name] if name.endswith(".py") else sorted((root / name).rglob("*.py")))
    ]
    return {str(file.relative_to(root)): file.read_text() for file in files}
