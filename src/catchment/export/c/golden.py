"""Recordings with known scores, and the self-test that compares."""

from __future__ import annotations

from catchment.export.c.layout import Layout


def golden_text(layout: Layout) -> str:
    """Return the self-test, compiled only where it is asked for."""
    return ""
