"""`catchment unlearn`: the model of a run as if a client had never been there."""

from __future__ import annotations


def unlearn() -> None:
    """Placeholder."""
