from catchment_research.learn.alignment import AlignedRidge as AlignedRidge
from catchment_research.learn.clusters import (
    cluster_clients as cluster_clients,
    cluster_sums as cluster_sums,
)
from catchment_research.learn.conjugate_gradients import ConjugateGradients as ConjugateGradients
from catchment_research.learn.deep import DeepRidge as DeepRidge
from catchment_research.learn.stacking import (
    StackedEnsemble as StackedEnsemble,
    Stacking as Stacking,
)

# For the other packages and the tests; may change without notice.
from catchment_research.learn.conjugate_gradients import PATH as PATH
from catchment_research.learn.gradient_messages import fold_of as fold_of
from catchment_research.learn.krylov import Krylov as Krylov

__all__ = [
    "AlignedRidge",
    "ConjugateGradients",
    "DeepRidge",
    "StackedEnsemble",
    "Stacking",
    "cluster_clients",
    "cluster_sums",
]
