"""Public data sets of time series by name, from the files that their publishers distribute.

`load` reads any of them. `pack` turns a set into one file that loads in a second.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
