"""Frozen maps from recordings to feature rows, rebuilt bit for bit from a recipe on every machine.

`EchoState` describes a reservoir and what a readout sees of it; `EchoStateMap` is the map that it
builds as soon as the channels are known. A class of one's own with `n_features`, `bounds` and
`rows` is a map too (`as_map`). `Pipeline` joins a map to the preparation before it.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
