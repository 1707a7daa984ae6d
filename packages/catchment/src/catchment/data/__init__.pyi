from catchment.data.cache import Cached as Cached
from catchment.data.clients import (
    Clients as Clients,
    by_subject as by_subject,
    contiguous as contiguous,
    iid as iid,
    label_skew as label_skew,
    quantity_skew as quantity_skew,
    split as split,
)
from catchment.data.files import read as read
from catchment.data.frames import (
    from_frame as from_frame,
    sequences_from_arrays as sequences_from_arrays,
)
from catchment.data.gaps import GapReport as GapReport, fill_gaps as fill_gaps
from catchment.data.generators import (
    henon as henon,
    lorenz as lorenz,
    mackey_glass as mackey_glass,
    narma as narma,
    one_step as one_step,
)
from catchment.data.prepare import Prepare as Prepare, RAW as RAW
from catchment.data.recording import Recording as Recording
from catchment.data.scaling import Scaler as Scaler
from catchment.data.wearables import (
    ACTIVITIES as ACTIVITIES,
    synthetic_wearables as synthetic_wearables,
)

# For the other packages and the tests; may change without notice.
from catchment.data.cache import Cache as Cache, PROCESS_CACHE as PROCESS_CACHE
from catchment.data.calendar import calendar_columns as calendar_columns
from catchment.data.channels import check_channels as check_channels
from catchment.data.clients import (
    Cohorts as Cohorts,
    Dealt as Dealt,
    client_name as client_name,
    cohorts as cohorts,
    select as select,
)
from catchment.data.columns import is_missing as is_missing, missing_values as missing_values
from catchment.data.csv_arrow import plain as plain
from catchment.data.csv_lines import named as named, read_csv as read_csv
from catchment.data.directories import (
    ENVIRONMENT as ENVIRONMENT,
    MODELS_ENVIRONMENT as MODELS_ENVIRONMENT,
    cache_directory as cache_directory,
    data_directories as data_directories,
    model_directories as model_directories,
)
from catchment.data.exact_sums import (
    ExactSums as ExactSums,
    from_limbs as from_limbs,
    limbs_of as limbs_of,
    on_digits as on_digits,
    root as root,
    whole_numbers as whole_numbers,
)
from catchment.data.file_tables import listed as listed, whole_labels as whole_labels
from catchment.data.files import Named as Named, find_files as find_files
from catchment.data.frames import (
    Rows as Rows,
    class_labels as class_labels,
    nearest as nearest,
    numbers_of as numbers_of,
    one_hot as one_hot,
)
from catchment.data.generators import seeded_generator as seeded_generator
from catchment.data.lazy_clients import (
    Changed as Changed,
    Chosen as Chosen,
    LazyClients as LazyClients,
    part_of as part_of,
)
from catchment.data.prepare import Prepared as Prepared
from catchment.data.recording import trusted as trusted
from catchment.data.resampling import resample as resample
from catchment.data.scaling import (
    Moments as Moments,
    federated_scaler as federated_scaler,
    scale_each as scale_each,
)
from catchment.data.stretches import check_continuable as check_continuable
from catchment.data.tables import read_columns as read_columns, read_table as read_table
from catchment.data.texts import MISSING as MISSING
from catchment.data.times import epoch_of as epoch_of, times_of as times_of
from catchment.data.units import ALL as ALL, Units as Units, units_of_files as units_of_files
from catchment.data.uris import is_uri as is_uri
from catchment.data.wearables import CHANNELS as CHANNELS, wearable_user as wearable_user
from catchment.data.windows import count_steps as count_steps

__all__ = [
    "ACTIVITIES",
    "Cached",
    "Clients",
    "GapReport",
    "Prepare",
    "RAW",
    "Recording",
    "Scaler",
    "by_subject",
    "contiguous",
    "fill_gaps",
    "from_frame",
    "henon",
    "iid",
    "label_skew",
    "lorenz",
    "mackey_glass",
    "narma",
    "one_step",
    "quantity_skew",
    "read",
    "sequences_from_arrays",
    "split",
    "synthetic_wearables",
]
