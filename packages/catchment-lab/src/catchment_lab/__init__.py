"""Looking further: live page, diagnosis, audit, search, plots, public data sets."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
