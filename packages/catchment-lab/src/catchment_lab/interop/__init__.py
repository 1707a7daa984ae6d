"""Adapters: estimators of catchment behind the interfaces of aeon and sktime.

`catchment_lab.interop.aeon` and `catchment_lab.interop.sktime` are imported by their names, each
with the library that it is for.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
