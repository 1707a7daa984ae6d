"""Our own attacks on generated data of your configuration, under each protection."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
