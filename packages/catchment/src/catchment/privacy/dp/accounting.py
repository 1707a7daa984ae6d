"""What several releases cost together, by Google's dp-accounting.

Gaussian releases compose through their privacy loss distribution, which is exact; releases of
discrete noise, alone or with Gaussian ones, through Renyi divergences.
"""

from __future__ import annotations

import numpy as np

from catchment.errors import MissingExtraError
from catchment.federation.algorithm import Cost

try:
    from dp_accounting import GaussianDpEvent, ZCDpEvent
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant
except ImportError as error:
    raise MissingExtraError("dp", needed_for="privacy budgets") from error

# Orders are spaced so closely that the best of them is within 1e-5 of the best there is.
_ORDERS = 1 + np.geomspace(1e-2, 1e4, 3000)


def epsilon_spent(cost: Cost, delta: float) -> float:
    """Return the epsilon of all releases together at this delta.

    >>> from catchment.privacy.dp.gaussian import gaussian_multiplier
    >>> one = Cost.of_gaussian(gaussian_multiplier(1.0, 1e-5))
    >>> round(epsilon_spent(one, 1e-5), 6), round(epsilon_spent(one + one, 1e-5), 3)
    (1.0, 1.465)
    """
    if cost.gaussian == 0 and cost.concentrated == 0:
        return 0.0
    if cost.concentrated == 0:
        losses = PLDAccountant()
        losses.compose(GaussianDpEvent(cost.gaussian**-0.5))
        return float(losses.get_epsilon(delta))
    divergences = RdpAccountant(orders=_ORDERS)
    divergences.compose(ZCDpEvent(cost.concentrated + cost.gaussian / 2))
    return float(divergences.get_epsilon(delta))
