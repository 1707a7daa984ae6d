"""QR factors as files, as statistics are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from catchment import replace_file
from catchment.errors import IntegrityError
from catchment.readout import packed_file, read_file, typed
from catchment_research.factors.factors import NUMBERS as FACTORS
from catchment_research.factors.factors import RidgeFactors


def save_factors(factors: RidgeFactors, path: str | Path) -> Path:
    """Write QR factors to a file, whole or not at all, and return its path.

    >>> import tempfile
    >>> factors = RidgeFactors.from_states(np.eye(3), np.ones((3, 1)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same = load_factors(save_factors(factors, Path(folder) / "client.safetensors"))
    >>> same == factors
    True
    """
    names = ("n_rows", "weight", "fingerprint")
    facts: dict[str, Any] = {"kind": "factors", **{name: getattr(factors, name) for name in names}}
    replace_file(Path(path), packed_file(facts, {name: getattr(factors, name) for name in FACTORS}))
    return Path(path)


def load_factors(path: str | Path) -> RidgeFactors:
    """Return the factors of a file that `save_factors` wrote, equal to those saved.

    IntegrityError if the file is damaged, of another kind, or of a newer format.
    """
    with Path(path).open("rb") as file:
        header, tensors = read_file(file, str(path), "factors")
    try:
        held: dict[str, Any] = {name: typed(tensors, name, np.float64) for name in FACTORS}
        counts = int(header["n_rows"]), float(header["weight"])
        return RidgeFactors(*counts, **held, fingerprint=str(header["fingerprint"]))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise IntegrityError(
            f"{path} does not describe factors ({type(error).__name__}: {error}); save it again"
        ) from error
