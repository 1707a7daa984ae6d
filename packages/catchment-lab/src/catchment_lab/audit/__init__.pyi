from catchment_lab.audit.outcomes import Finding as Finding, Outcome as Outcome
from catchment_lab.audit.report import Report as Report, audit as audit
from catchment_lab.audit.simulated_views import Setting as Setting

# For the other packages and the tests; may change without notice.
from catchment_lab.audit.attack_list import TRIALS as TRIALS
from catchment_lab.audit.differentiable_reservoir import Drive as Drive
from catchment_lab.audit.least_squares import minimise as minimise
from catchment_lab.audit.membership import (
    area_under_curve as area_under_curve,
    leverage as leverage,
    membership_score as membership_score,
)
from catchment_lab.audit.moments import (
    added_row as added_row,
    class_counts as class_counts,
    class_means as class_means,
    counts_from_moments as counts_from_moments,
    input_between as input_between,
)
from catchment_lab.audit.outcomes import (
    correlation as correlation,
    relative_error as relative_error,
)
from catchment_lab.audit.plasticity import first_input as first_input
from catchment_lab.audit.pooled_inputs import solvable as solvable, window_of as window_of
from catchment_lab.audit.prompts import context_of as context_of
from catchment_lab.audit.sequences import (
    Walk as Walk,
    place_of as place_of,
    targets_of as targets_of,
)
from catchment_lab.audit.simulated_views import VIEWS as VIEWS, generated as generated

__all__ = [
    "Finding",
    "Outcome",
    "Report",
    "Setting",
    "audit",
]
