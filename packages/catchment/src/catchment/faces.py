"""What makes a folder's face: names that load where they live, when they are first used.

The stub beside a folder's `__init__.py` is the face: its imports say where each name lives, and its
`__all__` which of them are public. Type checkers read the same stub.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path


def face(package: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package whose names load when asked for.

    Beside its `__init__.py` lies `__init__.pyi`.

    >>> names, find, _ = face("catchment.data")
    >>> "Recording" in names, find("Recording").__name__
    (True, 'Recording')
    >>> find("Sequence")
    Traceback (most recent call last):
    AttributeError: module 'catchment.data' has no attribute 'Sequence'
    """
    here = sys.modules[package]
    stub = ast.parse(Path(here.__file__ or "").with_suffix(".pyi").read_text(encoding="utf-8"))
    homes: dict[str, str] = {}
    public: list[str] = []
    for line in stub.body:
        match line:
            case ast.ImportFrom(module=str(module), names=names):
                homes |= {one.name: module for one in names}
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                public = ast.literal_eval(value)

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        if home == package:  # a module of the folder is public itself
            return importlib.import_module(f"{home}.{name}")
        value: object = getattr(importlib.import_module(home), name)
        setattr(here, name, value)
        return value

    return public, find, lambda: sorted(public)
