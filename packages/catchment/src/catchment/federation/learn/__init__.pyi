from catchment.federation.learn.anomaly import FederatedAnomalyDetector as FederatedAnomalyDetector
from catchment.federation.learn.candidates import Candidates as Candidates
from catchment.federation.learn.own_readouts import (
    PersonalReadouts as PersonalReadouts,
    ReadoutAveraging as ReadoutAveraging,
    own_readout as own_readout,
    towards as towards,
)
from catchment.federation.learn.ridge import FederatedRidge as FederatedRidge
from catchment.federation.learn.sums import group_of as group_of
from catchment.federation.learn.unlearning import (
    Certificate as Certificate,
    UnknownThreshold as UnknownThreshold,
    state_without_class as state_without_class,
    unlearn as unlearn,
    unlearn_rows as unlearn_rows,
)
from catchment.federation.learn.yule_walker import FederatedYuleWalker as FederatedYuleWalker
from catchment.federation.workflow import FederatedScaling as FederatedScaling

# For the other packages and the tests; may change without notice.
from catchment.federation.learn.candidates import (
    PathErrors as PathErrors,
    Race as Race,
    chosen as chosen,
    clearly_less as clearly_less,
    nrmse_of as nrmse_of,
)
from catchment.federation.learn.own_readouts import (
    STRENGTHS as STRENGTHS,
    read_readouts as read_readouts,
    smallest_good_step as smallest_good_step,
)
from catchment.federation.learn.ridge import automatic_ridge as automatic_ridge
from catchment.federation.learn.sums import (
    Digest as Digest,
    MANY as MANY,
    N_GROUPS as N_GROUPS,
    RidgeState as RidgeState,
    learned as learned,
    readout_figures as readout_figures,
)
from catchment.federation.learn.unlearning import (
    ALL as ALL,
    Unlearned as Unlearned,
    certified as certified,
    kept_and_removed as kept_and_removed,
)
from catchment.federation.workflow import SentMoments as SentMoments

__all__ = [
    "Candidates",
    "Certificate",
    "FederatedAnomalyDetector",
    "FederatedRidge",
    "FederatedScaling",
    "FederatedYuleWalker",
    "PersonalReadouts",
    "ReadoutAveraging",
    "UnknownThreshold",
    "group_of",
    "own_readout",
    "state_without_class",
    "towards",
    "unlearn",
    "unlearn_rows",
]
