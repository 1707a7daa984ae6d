from catchment_lab.search.plan_search import search_plan as search_plan
from catchment_lab.search.space import PlasticitySpace as PlasticitySpace, Space as Space
from catchment_lab.search.trials import (
    SearchResult as SearchResult,
    SearchSettings as SearchSettings,
    Trial as Trial,
    search as search,
)

# For the other packages and the tests; may change without notice.
from catchment_lab.search.plan_search import read_search as read_search
from catchment_lab.search.space import Adaptation as Adaptation, Draws as Draws
from catchment_lab.search.trials import adapt as adapt, ridges_of as ridges_of

__all__ = [
    "PlasticitySpace",
    "SearchResult",
    "SearchSettings",
    "Space",
    "Trial",
    "search",
    "search_plan",
]
