from catchment_research.learn.alignment import AlignedRidge as AlignedRidge
from catchment_research.learn.balanced import (
    BalancedRidge as BalancedRidge,
    among_by_class as among_by_class,
)
from catchment_research.learn.conjugate_gradients import ConjugateGradients as ConjugateGradients
from catchment_research.learn.ensemble import (
    Ensemble as Ensemble,
    ReservoirEnsemble as ReservoirEnsemble,
    StackedEnsemble as StackedEnsemble,
    Stacking as Stacking,
    joint_features as joint_features,
)
from catchment_research.learn.gradient import GradientAveraging as GradientAveraging
from catchment_research.learn.optimizers import (
    Adagrad as Adagrad,
    Adam as Adam,
    Mean as Mean,
    Momentum as Momentum,
    ServerOptimizer as ServerOptimizer,
    Yogi as Yogi,
)

# For the other packages and the tests; may change without notice.
from catchment_research.learn.alignment import (
    aligned_reservoir as aligned_reservoir,
    side_by_side as side_by_side,
    with_own_seed as with_own_seed,
)
from catchment_research.learn.conjugate_gradients import Krylov as Krylov, fold_of as fold_of
from catchment_research.learn.ensemble import (
    read_member as read_member,
    simplex_weights as simplex_weights,
)
from catchment_research.learn.gradient import (
    Averaged as Averaged,
    largest_eigenvalue as largest_eigenvalue,
)
from catchment_research.learn.optimizers import Arrays as Arrays
from catchment_research.learn.recordings import Progress as Progress, TrainedSum as TrainedSum

__all__ = [
    "Adagrad",
    "Adam",
    "AlignedRidge",
    "BalancedRidge",
    "ConjugateGradients",
    "Ensemble",
    "GradientAveraging",
    "Mean",
    "Momentum",
    "ReservoirEnsemble",
    "ServerOptimizer",
    "StackedEnsemble",
    "Stacking",
    "Yogi",
    "among_by_class",
    "joint_features",
]
