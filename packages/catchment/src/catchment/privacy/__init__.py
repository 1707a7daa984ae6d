"""Protections of what leaves a client: secure aggregation, clipping and noise, and a budget that
refuses.

`catchment_lab.audit` attacks a configuration on generated data and says what is recovered.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
