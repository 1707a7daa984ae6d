"""Small devices as clients: a link to each, and what is asked over it.

A `EdgeClient` stands where a client's recordings would. The device reads its own sensor and adds up
its own statistics; this process, the gateway, checks them and speaks for it to the engine.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
