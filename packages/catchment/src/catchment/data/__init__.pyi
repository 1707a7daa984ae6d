from catchment.data.clients import (
    Cached as Cached,
    Clients as Clients,
    contiguous as contiguous,
    iid as iid,
    label_skew as label_skew,
    split as split,
)
from catchment.data.files import read as read
from catchment.data.frames import from_frame as from_frame
from catchment.data.preprocessing import Preprocessing as Preprocessing, RAW as RAW
from catchment.data.recording import Recording as Recording
from catchment.data.scaling import Scaler as Scaler
from catchment.data.synthetic import (
    ACTIVITIES as ACTIVITIES,
    mackey_glass as mackey_glass,
    narma as narma,
    synthetic_wearables as synthetic_wearables,
)

# For the other packages and the tests; may change without notice.
from catchment.data.clients import (
    Cache as Cache,
    Changed as Changed,
    Dealt as Dealt,
    LazyClients as LazyClients,
    PROCESS_CACHE as PROCESS_CACHE,
    cohorts as cohorts,
    part_of as part_of,
)
from catchment.data.files import (
    ENVIRONMENT as ENVIRONMENT,
    MODELS_ENVIRONMENT as MODELS_ENVIRONMENT,
    cache_directory as cache_directory,
    client_of as client_of,
    data_directories as data_directories,
    find_files as find_files,
    is_uri as is_uri,
    kept_columns as kept_columns,
    model_directories as model_directories,
    whole_labels as whole_labels,
)
from catchment.data.frames import (
    Rows as Rows,
    class_labels as class_labels,
    epoch_of as epoch_of,
    in_seconds as in_seconds,
    is_missing as is_missing,
    listed as listed,
    missing_values as missing_values,
    numbers_of as numbers_of,
    one_hot as one_hot,
    times_of as times_of,
)
from catchment.data.preprocessing import (
    Prepared as Prepared,
    check_continuable as check_continuable,
)
from catchment.data.recording import trusted as trusted
from catchment.data.scaling import Moments as Moments, root as root
from catchment.data.steps import (
    calendar_columns as calendar_columns,
    count_steps as count_steps,
    fill_recording as fill_recording,
)
from catchment.data.synthetic import (
    CHANNELS as CHANNELS,
    seeded_generator as seeded_generator,
    wearable_user as wearable_user,
)
from catchment.data.tables import (
    column_names as column_names,
    read_columns as read_columns,
    values_of as values_of,
)
from catchment.data.units import ALL as ALL, Units as Units, units_of_files as units_of_files

__all__ = [
    "ACTIVITIES",
    "Cached",
    "Clients",
    "Preprocessing",
    "RAW",
    "Recording",
    "Scaler",
    "contiguous",
    "from_frame",
    "iid",
    "label_skew",
    "mackey_glass",
    "narma",
    "read",
    "split",
    "synthetic_wearables",
]
