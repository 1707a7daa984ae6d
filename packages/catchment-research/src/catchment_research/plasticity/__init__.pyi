from catchment_research.plasticity.federated import (
    FederatedPlasticity as FederatedPlasticity,
    IntrinsicPlasticity as IntrinsicPlasticity,
    MomentPlasticity as MomentPlasticity,
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

__all__ = [
    "FederatedPlasticity",
    "IntrinsicPlasticity",
    "MomentPlasticity",
    "plasticity_of",
]
