from catchment_lab.diagnose.served import how_served as how_served, keep_worst as keep_worst
from catchment_lab.diagnose.words import (
    served_in_words as served_in_words,
    served_section as served_section,
    write_served_page as write_served_page,
)

# For the other packages and the tests; may change without notice.
from catchment_lab.diagnose.drawing import (
    DrawnRecording as DrawnRecording,
    Segment as Segment,
    draw as draw,
    signal_chart as signal_chart,
    thinned as thinned,
)
from catchment_lab.diagnose.served import (
    ChannelShift as ChannelShift,
    Quantity as Quantity,
    Served as Served,
    as_the_server_knows as as_the_server_knows,
    class_shifts as class_shifts,
    read_confusions as read_confusions,
    read_served as read_served,
    trained_without as trained_without,
    without as without,
)
from catchment_lab.diagnose.words import score_lines as score_lines, standing_out as standing_out

__all__ = [
    "how_served",
    "keep_worst",
    "served_in_words",
    "served_section",
    "write_served_page",
]
