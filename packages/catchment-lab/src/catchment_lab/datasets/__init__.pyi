from catchment_lab.datasets.loading import (
    load as load,
    load_whole as load_whole,
    pack as pack,
    unpack as unpack,
)
from catchment_lab.datasets.values import Dataset as Dataset

# For the other packages and the tests; may change without notice.
from catchment_lab.datasets.loading import yearly as yearly
from catchment_lab.datasets.motion import (
    ACTIVITIES as ACTIVITIES,
    FIRST_SHORT_TRIAL as FIRST_SHORT_TRIAL,
    trials as trials,
)
from catchment_lab.datasets.sources import (
    CATALOGUE as CATALOGUE,
    Folder as Folder,
    Source as Source,
    check_name as check_name,
    find as find,
    find_folder as find_folder,
    folders as folders,
    locate as locate,
    packed_path as packed_path,
    parse_numbers as parse_numbers,
    read_numbers as read_numbers,
    read_text as read_text,
    require as require,
    source as source,
)
from catchment_lab.datasets.speech import (
    log_mel as log_mel,
    mel_bands as mel_bands,
    mel_filters as mel_filters,
    utterances as utterances,
)
from catchment_lab.datasets.values import (
    Segment as Segment,
    Window as Window,
    ahead as ahead,
    cut as cut,
    float_rows as float_rows,
    gathered as gathered,
    runs as runs,
    window_steps as window_steps,
)

__all__ = [
    "Dataset",
    "load",
    "load_whole",
    "pack",
    "unpack",
]
