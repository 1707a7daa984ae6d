"""The maps of this library by their names in plan files and in kept models; loaded when needed."""

from __future__ import annotations

import importlib
from typing import Any

# Name -> the module, in this folder, and its class.
LIBRARY: dict[str, tuple[str, str]] = {
    "echo_state": ("echo_state.echo_state", "EchoState"),
    "default": ("default_map", "DefaultMap"),
    "auto": ("default_map", "AutoMap"),
    "window_statistics": ("window_statistics", "WindowStatistics"),
    "concat": ("concat", "Concat"),
    "hydra": ("random_convolutions.hydra", "Hydra"),
    "minirocket": ("random_convolutions.minirocket", "MiniRocket"),
    "encoder": ("encoder", "Encoder"),
    "projected": ("projected", "Projected"),
    "layers": ("layers", "Layers"),
    "diagonal": ("diagonal.diagonal", "DiagonalReservoir"),
    "nvar": ("nvar", "NVAR"),
    "random_fourier": ("random_fourier", "RandomFourier"),
    "thinned": ("thinned", "Thinned"),
    "with_norm": ("with_norm", "WithNorm"),
}
# Maps that a training makes, and nobody describes.
LEARNED = frozenset({"layers"})


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


def named_map(name: str) -> Any:
    """Return the map of a name as it is described when nothing is set.

    >>> named_map("echo_state").units
    200
    >>> named_map("echo_sate")
    Traceback (most recent call last):
    ValueError: there is no map 'echo_sate'; choose from echo_state, default, auto, ...
    """
    kind = library_class(name)
    if kind is None:
        known = ", ".join(one for one in LIBRARY if one not in LEARNED)
        raise ValueError(f"there is no map {name!r}; choose from {known}")
    try:
        return kind()
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name!r} needs settings ({error}); pass {kind.__name__}(...) in place of the name"
        ) from error


def library_name(kind: type) -> str | None:
    """Return what a map's class is called, None if it is not of this library.

    >>> library_name(dict) is None
    True
    """
    for name, (module, inside) in LIBRARY.items():
        if (kind.__module__, kind.__qualname__) == (f"catchment.features.{module}", inside):
            return name
    return None
