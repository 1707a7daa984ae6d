from catchment_lab.search.space import PlasticitySpace as PlasticitySpace, Space as Space
from catchment_lab.search.trials import (
    SearchResult as SearchResult,
    SearchSettings as SearchSettings,
    Trial as Trial,
    search as search,
    search_plan as search_plan,
)

# For the other packages and the tests; may change without notice.
from catchment_lab.search.space import Adaptation as Adaptation, Draws as Draws
from catchment_lab.search.trials import (
    adapt as adapt,
    read_search as read_search,
    ridges_of as ridges_of,
)

__all__ = [
    "PlasticitySpace",
    "SearchResult",
    "SearchSettings",
    "Space",
    "Trial",
    "search",
    "search_plan",
]
