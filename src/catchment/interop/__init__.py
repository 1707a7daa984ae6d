"""Other libraries: reservoirs from ReservoirPy, and this library in the manners of aeon and sktime.

`catchment.interop.aeon` and `catchment.interop.sktime` are imported by their names, each with the
library that it is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.interop.reservoirpy import from_reservoirpy as from_reservoirpy
    from catchment.interop.reservoirpy import model_from_reservoirpy as model_from_reservoirpy

__all__, __getattr__, __dir__ = face(
    __name__, {"reservoirpy": ["from_reservoirpy", "model_from_reservoirpy"]}
)
