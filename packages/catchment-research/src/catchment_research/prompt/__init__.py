"""Reservoir prompts: what a sensor's reservoir has seen steers a frozen language model.

Only the small matrix between the reservoir and the prompt is trained. `SurrogateLM` stands in for a
language model where none is at hand.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
