from catchment_lab.diagnose.page import (
    served_section as served_section,
    write_served_page as write_served_page,
)
from catchment_lab.diagnose.plan import how_served as how_served, keep_worst as keep_worst
from catchment_lab.diagnose.reasons import Reason as Reason
from catchment_lab.diagnose.words import served_in_words as served_in_words

# For the other packages and the tests; may change without notice.
from catchment_lab.diagnose.judges import trained_without as trained_without, without as without
from catchment_lab.diagnose.personal_rows import own_readout_of_rows as own_readout_of_rows
from catchment_lab.diagnose.plan import as_the_server_knows as as_the_server_knows
from catchment_lab.diagnose.reasons import (
    Evidence as Evidence,
    PersonalTrial as PersonalTrial,
    Tried as Tried,
)
from catchment_lab.diagnose.records import (
    Served as Served,
    read_confusions as read_confusions,
    read_served as read_served,
)
from catchment_lab.diagnose.shift import (
    ChannelShift as ChannelShift,
    ClassShift as ClassShift,
    FeatureShift as FeatureShift,
)

__all__ = [
    "Reason",
    "how_served",
    "keep_worst",
    "served_in_words",
    "served_section",
    "write_served_page",
]
