"""Models as C99 for small devices: one file and its header, without malloc."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.export.c.code import CCode as CCode
    from catchment.export.c.code import c_code as c_code
    from catchment.export.c.code import to_c as to_c
    from catchment.export.c.plan import DevicePlan as DevicePlan

__all__, __getattr__, __dir__ = face(
    __name__, {"code": ["CCode", "c_code", "to_c"], "plan": ["DevicePlan"]}
)
