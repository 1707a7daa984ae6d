"""What judges a model over many clients: scores, baselines, comparisons, outliers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.federation.measure.baselines import Guess as Guess
    from catchment.federation.measure.baselines import LocalReadouts as LocalReadouts
    from catchment.federation.measure.baselines import autoregression as autoregression
    from catchment.federation.measure.baselines import mean_target as mean_target
    from catchment.federation.measure.calibration import Calibration as Calibration
    from catchment.federation.measure.comparison import Comparison as Comparison
    from catchment.federation.measure.comparison import Outcome as Outcome
    from catchment.federation.measure.comparison import Row as Row
    from catchment.federation.measure.drift import Drift as Drift
    from catchment.federation.measure.drift import RoundScores as RoundScores
    from catchment.federation.measure.drift import drifts as drifts
    from catchment.federation.measure.drift import round_scores as round_scores
    from catchment.federation.measure.evaluation import Evaluation as Evaluation
    from catchment.federation.measure.evaluation import Score as Score
    from catchment.federation.measure.evaluation import Scores as Scores
    from catchment.federation.measure.outliers import Flag as Flag
    from catchment.federation.measure.outliers import InfluenceCap as InfluenceCap
    from catchment.federation.measure.outliers import RowsFlag as RowsFlag
    from catchment.federation.measure.personal_evaluation import (
        PersonalEvaluation as PersonalEvaluation,
    )
    from catchment.federation.measure.reasons import Reason as Reason

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "baselines": ["Guess", "LocalReadouts", "autoregression", "mean_target"],
        "calibration": ["Calibration"],
        "comparison": ["Comparison", "Outcome", "Row"],
        "drift": ["Drift", "RoundScores", "drifts", "round_scores"],
        "evaluation": ["Evaluation", "Score", "Scores"],
        "outliers": ["Flag", "InfluenceCap", "RowsFlag"],
        "personal_evaluation": ["PersonalEvaluation"],
        "reasons": ["Reason"],
    },
)
