from catchment_lab.plots.reservoirs import (
    reservoir_graph as reservoir_graph,
    spectrum as spectrum,
    states as states,
)

# For the other packages and the tests; may change without notice.
from catchment_lab.plots.reservoirs import (
    Layout as Layout,
    arrowheads as arrowheads,
    eigenvalues as eigenvalues,
    graph_of as graph_of,
    shown_units as shown_units,
)

__all__ = [
    "reservoir_graph",
    "spectrum",
    "states",
]
