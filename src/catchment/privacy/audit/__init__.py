"""Our own attacks on generated data of your configuration, under each protection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.privacy.audit.outcomes import Finding as Finding
    from catchment.privacy.audit.outcomes import Outcome as Outcome
    from catchment.privacy.audit.report import Report as Report
    from catchment.privacy.audit.report import audit as audit
    from catchment.privacy.audit.simulated_views import Setting as Setting

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "outcomes": ["Finding", "Outcome"],
        "report": ["Report", "audit"],
        "simulated_views": ["Setting"],
    },
)
