"""Federated training: a plan, one loop over its rounds, and whatever adds up over clients.

A `Plan` is what both sides agree on. `catchment.federation.learn` has the algorithms,
`catchment.federation.measure` what judges them. `Algorithm` is the base of one's own.
A run keeps its ledger in a folder, which `read_run` and `explain` open.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
