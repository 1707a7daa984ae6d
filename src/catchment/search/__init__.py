"""Search over recipes, judged on validation clients; stopped and resumed at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.search.plan_search import search_plan as search_plan
    from catchment.search.space import PlasticitySpace as PlasticitySpace
    from catchment.search.space import Space as Space
    from catchment.search.trials import SearchResult as SearchResult
    from catchment.search.trials import SearchSettings as SearchSettings
    from catchment.search.trials import Trial as Trial
    from catchment.search.trials import search as search

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "plan_search": ["search_plan"],
        "space": ["PlasticitySpace", "Space"],
        "trials": ["SearchResult", "SearchSettings", "Trial", "search"],
    },
)
