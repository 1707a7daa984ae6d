from catchment_research.factors.factors import (
    RidgeFactors as RidgeFactors,
    accumulate_factors as accumulate_factors,
)
from catchment_research.factors.ridge import FactoredRidge as FactoredRidge
from catchment_research.factors.solve import choose_by_factor_blocks as choose_by_factor_blocks

# For the other packages and the tests; may change without notice.
from catchment_research.factors.factors import (
    merged_factors as merged_factors,
    without_each as without_each,
)
from catchment_research.factors.ridge import check_factors as check_factors
from catchment_research.factors.solve import (
    chosen_from_factors as chosen_from_factors,
    factor_errors as factor_errors,
    factor_path as factor_path,
    factor_scale as factor_scale,
    solve_factors as solve_factors,
)

__all__ = [
    "FactoredRidge",
    "RidgeFactors",
    "accumulate_factors",
    "choose_by_factor_blocks",
]
