"""Modules for libraries that are not installed have no examples to run."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [
    f"catchment/interop/{name}.py"
    for name in ("aeon", "reservoirpy", "sktime")
    if find_spec(name) is None
]
