"""Files of whatever predicts: the header says which kind it is, and its kind loads it.

A model and models by client need nothing else. A network needs the function that makes its module,
a prompt the folder of its language model, and both the extra "research".
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from catchment.errors import IntegrityError
from catchment.plugins import Named, extra_of
from catchment.readout.predictor import Predictor, Stored
from catchment.readout.storage import as_described, model_of, read_stored

MODELS = Named("models", {})
Own = Iterable[Callable[..., Any]]


def load(path: str | Path, *, use: Own = ()) -> Predictor:
    """Return what a file that `save` wrote predicts with; it says the same to the last bit.

    IntegrityError if the file is damaged, holds no predictor, or has a newer format.

    Parameters
    ----------
    use
        Classes of feature maps and functions that make networks of one's own, which the file may
        name. A file imports nothing: it finds them here, or in modules that the program has
        imported already.

    >>> import tempfile
    >>> import numpy as np
    >>> from catchment import EchoState, Recording, fit
    >>> u = np.sin(np.arange(100) / 5)
    >>> model = fit(EchoState(20), [Recording(u[:-1], u[1:])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same = load(model.save(Path(folder) / "wave.safetensors"))
    >>> bool((same.predict(u) == model.predict(u)).all())
    True
    """
    with Path(path).open("rb") as file:
        return _made(read_stored(file, str(path)), str(path), use)


def from_bytes(content: bytes, *, use: Own = ()) -> Predictor:
    """Return what a file's content predicts with, as `load` does."""
    return _made(read_stored(io.BytesIO(content), "the model"), "the model", use)


def _made(held: Stored, name: str, use: Own) -> Predictor:
    make: Callable[[Stored, Own], Predictor]
    match held.kind:
        case "model":
            make = model_of
        case "personal":
            from catchment.readout.personal_models import personal_models_of as make
        case "detector":
            from catchment.readout.detector import detector_of as make
        case "open":
            from catchment.readout.open_model import open_model_of as make
        case kind if kind in MODELS or extra_of("models", kind):
            make = MODELS[kind]
        case kind:
            raise IntegrityError(f"{name} holds {kind!r}, which is not known; upgrade catchment")
    return as_described(name, held, make, use)
