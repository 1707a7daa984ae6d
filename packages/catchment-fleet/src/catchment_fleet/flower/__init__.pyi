from catchment_fleet.flower.app import client_app as client_app, server_app as server_app
from catchment_fleet.flower.engine import FlowerEngine as FlowerEngine
from catchment_fleet.flower.simulation import fit_simulated as fit_simulated

# For the other packages and the tests; may change without notice.
from catchment_fleet.flower.app import (
    Config as Config,
    Terms as Terms,
    name_of as name_of,
    one_at_a_time as one_at_a_time,
    remembered as remembered,
)
from catchment_fleet.flower.engine import Shelf as Shelf
from catchment_fleet.flower.roster import (
    Answer as Answer,
    HELLO as HELLO,
    Hello as Hello,
    Order as Order,
    Roll as Roll,
)
from catchment_fleet.flower.simulation import (
    remind as remind,
    share as share,
    simulated as simulated,
)
from catchment_fleet.flower.transport import (
    GridLine as GridLine,
    WHOLE as WHOLE,
    packed as packed,
    packed_order as packed_order,
    read_keys as read_keys,
    said as said,
    unpacked as unpacked,
    unpacked_order as unpacked_order,
)

__all__ = [
    "FlowerEngine",
    "client_app",
    "fit_simulated",
    "server_app",
]
