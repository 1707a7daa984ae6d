from catchment_lab.audit.report import (
    Finding as Finding,
    Outcome as Outcome,
    Report as Report,
    Setting as Setting,
    audit as audit,
)

# For the other packages and the tests; may change without notice.
from catchment_lab.audit.attacks import (
    Drive as Drive,
    Walk as Walk,
    added_row as added_row,
    area_under_curve as area_under_curve,
    class_counts as class_counts,
    class_means as class_means,
    first_input as first_input,
    input_between as input_between,
    leverage as leverage,
    membership_score as membership_score,
    minimize as minimize,
    place_of as place_of,
    solvable as solvable,
    targets_of as targets_of,
    window_of as window_of,
)
from catchment_lab.audit.report import (
    TRIALS as TRIALS,
    VIEWS as VIEWS,
    correlation as correlation,
    generated as generated,
)

__all__ = [
    "Finding",
    "Outcome",
    "Report",
    "Setting",
    "audit",
]
