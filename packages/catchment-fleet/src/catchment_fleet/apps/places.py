"""Where a node keeps the model that it was given: a folder, or what it remembers of the run.

    model.safetensors   the latest model, for `catchment predict` on this machine
    model.json          which plan and which run it is from, and its SHA-256

Each file is written whole or not at all, the description last; a model whose SHA-256 is not the
one described is never used for a test.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from catchment.federation import Memory, not_given, sha256_of
from catchment.federation.runs import MODEL
from catchment.readout import Predictor, load
from catchment.wire import replace_file

ABOUT = "model.json"
KEY = "model"


@dataclass(frozen=True)
class ModelFolder:
    """A folder with the latest model.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     ModelFolder(Path(place) / "model").keep(b"content", {"run": "1"})
    ...     sorted(path.name for path in (Path(place) / "model").iterdir())
    ['model.json', 'model.safetensors']
    """

    folder: Path

    def keep(self, content: bytes, about: Mapping[str, str]) -> None:
        """Put a model in the place of the one before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(self.folder / MODEL, content)
        described = {**about, "sha256": sha256_of(content)}
        replace_file(self.folder / ABOUT, (json.dumps(described, indent=2) + "\n").encode())

    def model(self, sha256: str) -> Predictor:
        """Return the model, if it is the one of this SHA-256."""
        path = self.folder / MODEL
        return _opened(path.read_bytes() if path.is_file() else b"", sha256)


@dataclass(frozen=True, eq=False)
class Remembered:
    """What a simulated client remembers, which lasts as long as its run."""

    memory: Memory

    def keep(self, content: bytes, about: Mapping[str, str]) -> None:
        self.memory[KEY] = content

    def model(self, sha256: str) -> Predictor:
        return _opened(self.memory.get(KEY, b""), sha256)


def _opened(content: bytes, sha256: str) -> Predictor:
    if sha256_of(content) != sha256:
        raise not_given()
    return load(content)
