"""Intrinsic plasticity, found by clients together: FedIP, and the same from moments.

`[plasticity]` of a plan file names them; `FederatedPlasticity` is the published algorithm.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
