from catchment.report.html import write_report as write_report

# For the other packages and the tests; may change without notice.
from catchment.report.charts import (
    Axis as Axis,
    Box as Box,
    LETTER as LETTER,
    Line as Line,
    WIDTH as WIDTH,
    dot_chart as dot_chart,
    end_named as end_named,
    key as key,
    letters as letters,
    line_chart as line_chart,
    number as number,
    shortened as shortened,
    svg as svg,
    text as text,
)
from catchment.report.html import (
    MOST_MARKS as MOST_MARKS,
    MOST_ROUNDS as MOST_ROUNDS,
    SOME_CLIENTS as SOME_CLIENTS,
    Theme as Theme,
    _places as _places,
    client_scores as client_scores,
    figure as figure,
    lead as lead,
    page as page,
    render as render,
    score as score,
    style as style,
    theme as theme,
)

__all__ = [
    "write_report",
]
