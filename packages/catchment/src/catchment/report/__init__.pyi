from catchment.report.html import write_report as write_report

# For the other packages and the tests; may change without notice.
from catchment.report.charts import Line as Line, dot_chart as dot_chart, line_chart as line_chart
from catchment.report.headline import lead as lead
from catchment.report.html import render as render
from catchment.report.pages import figure as figure, score as score, style as style, table as table
from catchment.report.scores import MOST_ROUNDS as MOST_ROUNDS
from catchment.report.scores import (
    MOST_MARKS as MOST_MARKS,
    SOME_CLIENTS as SOME_CLIENTS,
    _places as _places,
)
from catchment.report.charts import (
    MOST_CLASSES as MOST_CLASSES,
    MOST_LANES as MOST_LANES,
    OTHERS as OTHERS,
    signal_chart as signal_chart,
)
from catchment.report.charts import Axis as Axis, letters as letters, shortened as shortened
from catchment.report.pages import DARK as DARK, LIGHT as LIGHT, Theme as Theme

__all__ = [
    "write_report",
]
