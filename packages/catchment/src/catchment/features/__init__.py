"""Frozen maps from recordings to feature rows, rebuilt bit for bit from a recipe on every machine.

Every map is a frozen dataclass, a `FeatureMap`, which `build` binds to its inputs as soon as the
channels are known; one's own says `n_features`, `bounds` and `compute_rows`. `Pipeline` joins a map
to the preparation before it.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
