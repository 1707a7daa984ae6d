from catchment_lab.plots.plots import (
    confusion_matrix as confusion_matrix,
    forecast as forecast,
    reservoir_graph as reservoir_graph,
    ridge_path as ridge_path,
    spectrum as spectrum,
    states as states,
)

# For the other packages and the tests; may change without notice.
from catchment_lab.plots.graph import (
    Layout as Layout,
    arrowheads as arrowheads,
    graph_of as graph_of,
)
from catchment_lab.plots.plot_inputs import (
    eigenvalues as eigenvalues,
    path_values as path_values,
    shown_units as shown_units,
)

__all__ = [
    "confusion_matrix",
    "forecast",
    "reservoir_graph",
    "ridge_path",
    "spectrum",
    "states",
]
