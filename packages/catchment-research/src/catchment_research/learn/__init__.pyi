from catchment_research.learn.alignment import AlignedRidge as AlignedRidge
from catchment_research.learn.conjugate_gradients import ConjugateGradients as ConjugateGradients
from catchment_research.learn.deep import DeepRidge as DeepRidge
from catchment_research.learn.ensemble import (
    Ensemble as Ensemble,
    ReservoirEnsemble as ReservoirEnsemble,
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
from catchment_research.learn.stacking import (
    StackedEnsemble as StackedEnsemble,
    Stacking as Stacking,
)

# For the other packages and the tests; may change without notice.
from catchment_research.learn.conjugate_gradients import PATH as PATH, fold_of as fold_of
from catchment_research.learn.ensemble import (
    read_member as read_member,
    simplex_weights as simplex_weights,
)
from catchment_research.learn.gradient import (
    Averaged as Averaged,
    largest_eigenvalue as largest_eigenvalue,
)
from catchment_research.learn.krylov import Krylov as Krylov
from catchment_research.learn.optimizers import Arrays as Arrays
from catchment_research.learn.progress import (
    LARGEST_LOSS as LARGEST_LOSS,
    Progress as Progress,
    TrainedSum as TrainedSum,
    UNKNOWN as UNKNOWN,
)
from catchment_research.learn.reservoirs import (
    aligned_reservoir as aligned_reservoir,
    side_by_side as side_by_side,
    with_own_seed as with_own_seed,
)

__all__ = [
    "Adagrad",
    "Adam",
    "AlignedRidge",
    "ConjugateGradients",
    "DeepRidge",
    "Ensemble",
    "GradientAveraging",
    "Mean",
    "Momentum",
    "ReservoirEnsemble",
    "ServerOptimizer",
    "StackedEnsemble",
    "Stacking",
    "Yogi",
    "joint_features",
]
