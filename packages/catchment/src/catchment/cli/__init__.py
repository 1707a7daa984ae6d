"""The command line, thin: each command reads its arguments, calls the library, and prints."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
