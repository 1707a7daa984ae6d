"""Directories in which data sets and pretrained models are looked for on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ENVIRONMENT = "CATCHMENT_DATA"
MODELS_ENVIRONMENT = "CATCHMENT_MODELS"


def cache_directory() -> Path:
    """Return the directory for this user's copies of data sets.

    >>> cache_directory().name
    'catchment'
    """
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "catchment"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "catchment"
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "catchment"
    return Path.home() / ".cache" / "catchment"


def data_directories(directory: Path | str | None = None) -> tuple[Path, ...]:
    """Return the directories that are searched, first the one that wins.

    >>> [path.name for path in data_directories("my/data")]
    ['data']
    """
    if directory is not None:
        return (Path(directory).expanduser(),)
    named = os.environ.get(ENVIRONMENT)
    return (*([Path(named).expanduser()] if named else []), cache_directory())


def model_directories(directory: Path | str | None = None) -> tuple[Path, ...]:
    """Return the directories that are searched for pretrained models, first the one that wins.

    >>> [path.name for path in model_directories("my/models")]
    ['models']
    """
    if directory is not None:
        return (Path(directory).expanduser(),)
    named = os.environ.get(MODELS_ENVIRONMENT)
    return (*([Path(named).expanduser()] if named else []), cache_directory() / "models")
