"""Pictures of reservoirs, forecasts and results, and the report of a run in one HTML file.

`plots` draws with matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.report import plots as plots
    from catchment.report.html import write_report as write_report
    from catchment.report.served import write_served_page as write_served_page

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "html": ["write_report"],
        "plots": [],
        "served": ["write_served_page"],
    },
)
