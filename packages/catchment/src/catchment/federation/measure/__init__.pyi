from catchment.federation.measure.baselines import (
    Comparison as Comparison,
    Dummy as Dummy,
    Outcome as Outcome,
    Row as Row,
    autoregression as autoregression,
    constant_baseline as constant_baseline,
)
from catchment.federation.measure.evaluation import (
    Calibration as Calibration,
    Evaluation as Evaluation,
    Score as Score,
    Scores as Scores,
)
from catchment.federation.measure.outliers import (
    Drift as Drift,
    Flag as Flag,
    RoundScores as RoundScores,
    RowsFlag as RowsFlag,
    drifts as drifts,
    round_scores as round_scores,
)

# For the other packages and the tests; may change without notice.
from catchment.federation.measure.baselines import season_of as season_of
from catchment.federation.measure.evaluation import evaluate as evaluate, metrics as metrics
from catchment.federation.measure.outliers import (
    left_out_losses as left_out_losses,
    loss_flags as loss_flags,
    robust_scores as robust_scores,
)

__all__ = [
    "Calibration",
    "Comparison",
    "Drift",
    "Dummy",
    "Evaluation",
    "Flag",
    "Outcome",
    "RoundScores",
    "Row",
    "RowsFlag",
    "Score",
    "Scores",
    "autoregression",
    "constant_baseline",
    "drifts",
    "round_scores",
]
