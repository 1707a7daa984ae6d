"""The maps of this library by their names in plan files and in kept models; loaded when needed."""

from __future__ import annotations

import importlib

# Name -> the module, in this folder, and its class.
LIBRARY: dict[str, tuple[str, str]] = {
    "window_statistics": ("window_statistics", "WindowStatistics"),
    "concat": ("concat", "Concat"),
    "minirocket": ("random_convolutions.minirocket", "MiniRocket"),
    "projected": ("projected", "Projected"),
    "layers": ("layers", "Layers"),
}


def library_class(name: str) -> type | None:
    """Return the class of a map of this library, None if there is none of this name.

    >>> library_class("nothing") is None
    True
    """
    if name not in LIBRARY:
        return None
    module, inside = LIBRARY[name]
    kind: type = getattr(importlib.import_module(f"catchment.features.{module}"), inside)
    return kind


def library_name(kind: type) -> str | None:
    """Return what a map's class is called, None if it is not of this library.

    >>> library_name(dict) is None
    True
    """
    for name, (module, inside) in LIBRARY.items():
        if (kind.__module__, kind.__qualname__) == (f"catchment.features.{module}", inside):
            return name
    return None
