"""What makes a folder's face: public names that load where they live, when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence


def face(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package whose names load when asked for.

    Parameters
    ----------
    package
        Full name of the package.
    homes
        Module within the package -> names to take from it. An empty list makes the module itself
        public.

    >>> names, find, _ = face("catchment.data", {"recording": ["Recording"]})
    >>> names, find("Recording").__name__
    (['Recording'], 'Recording')
    >>> find("Sequence")
    Traceback (most recent call last):
    AttributeError: module 'catchment.data' has no attribute 'Sequence'
    """
    where = {name: module for module, names in homes.items() for name in names or [module]}

    def find(name: str) -> object:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{where[name]}")
        value: object = module if name == where[name] else vars(module)[name]
        setattr(sys.modules[package], name, value)
        return value

    names = sorted(where)
    return names, find, lambda: names
