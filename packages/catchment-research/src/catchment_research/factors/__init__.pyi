from catchment_research.factors.accumulation import accumulate_factors as accumulate_factors
from catchment_research.factors.automatic import automatic_factors as automatic_factors
from catchment_research.factors.choice import choose_by_factor_blocks as choose_by_factor_blocks
from catchment_research.factors.factors import RidgeFactors as RidgeFactors
from catchment_research.factors.files import (
    load_factors as load_factors,
    save_factors as save_factors,
)
from catchment_research.factors.ridge import FactoredRidge as FactoredRidge
from catchment_research.factors.unlearning import without_client as without_client

# For the other packages and the tests; may change without notice.
from catchment_research.factors.checks import check_factors as check_factors
from catchment_research.factors.choice import chosen_from_factors as chosen_from_factors
from catchment_research.factors.factors import (
    merged_factors as merged_factors,
    without_each as without_each,
)
from catchment_research.factors.least_squares import solve_rows as solve_rows
from catchment_research.factors.solve import (
    factor_errors as factor_errors,
    factor_path as factor_path,
    factor_scale as factor_scale,
    solve_factors as solve_factors,
)
from catchment_research.factors.unlearning import unlearn_factors as unlearn_factors

__all__ = [
    "FactoredRidge",
    "RidgeFactors",
    "accumulate_factors",
    "automatic_factors",
    "choose_by_factor_blocks",
    "load_factors",
    "save_factors",
    "without_client",
]
