"""Pictures of reservoirs, forecasts and results, and the report of a run in one HTML file.

`plots` draws with matplotlib.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
