from catchment.cli.commands import app as app, main as main

# For the other packages and the tests; may change without notice.
from catchment.cli.fit import Asked as Asked, look as look
from catchment.cli.models import UseOption as UseOption, load_predictor as load_predictor
from catchment.cli.show import (
    DataOption as DataOption,
    DeviceOption as DeviceOption,
    JsonOption as JsonOption,
    counting as counting,
    each as each,
    finite as finite,
    print_json as print_json,
    print_table as print_table,
    progress as progress,
    size as size,
    table_lines as table_lines,
    waiting as waiting,
)

__all__ = [
    "app",
    "main",
]
