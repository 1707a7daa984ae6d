from catchment_research.plasticity.federated import (
    FederatedPlasticity as FederatedPlasticity,
    MomentPlasticity as MomentPlasticity,
)
from catchment_research.plasticity.rule import (
    IntrinsicPlasticity as IntrinsicPlasticity,
    plasticity_of as plasticity_of,
)

# For the other packages and the tests; may change without notice.
from catchment_research.plasticity.federated import (
    Plasticity as Plasticity,
    _standard_match as _standard_match,
    inverse_tangent as inverse_tangent,
    matched as matched,
    refined as refined,
)
from catchment_research.plasticity.rule import Drives as Drives

__all__ = [
    "FederatedPlasticity",
    "IntrinsicPlasticity",
    "MomentPlasticity",
    "plasticity_of",
]
