"""Engines carry messages between a server and its clients: in this process, or over a network.

`run_locally` runs a plan with all clients in this process; `compare` trains several ways to learn
on the same clients. `catchment_fleet` carries the same messages to other machines.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
