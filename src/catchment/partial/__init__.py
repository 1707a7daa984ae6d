"""Partially trainable networks: the frozen part travels as a seed, only the rest is trained."""

from __future__ import annotations

from catchment.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError("torch", needed_for="partially trainable networks") from error
