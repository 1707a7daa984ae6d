from catchment.report.html import write_report as write_report

# For the other packages and the tests; may change without notice.
from catchment.report.charts import (
    Axis as Axis,
    Line as Line,
    MOST_CLASSES as MOST_CLASSES,
    MOST_LANES as MOST_LANES,
    OTHERS as OTHERS,
    dot_chart as dot_chart,
    letters as letters,
    line_chart as line_chart,
    shortened as shortened,
    signal_chart as signal_chart,
)
from catchment.report.html import (
    MOST_MARKS as MOST_MARKS,
    MOST_ROUNDS as MOST_ROUNDS,
    SOME_CLIENTS as SOME_CLIENTS,
    _places as _places,
    client_scores as client_scores,
    lead as lead,
    render as render,
)
from catchment.report.pages import (
    DARK as DARK,
    LIGHT as LIGHT,
    Theme as Theme,
    figure as figure,
    page as page,
    score as score,
    style as style,
    theme as theme,
)

__all__ = [
    "write_report",
]
