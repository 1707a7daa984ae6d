"""QR factors of the rows in the place of sums of products: digits that sums lose."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
