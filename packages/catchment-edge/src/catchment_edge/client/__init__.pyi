from catchment_edge.client.device import DeviceHello as DeviceHello, EdgeClient as EdgeClient

# For the other packages and the tests; may change without notice.
from catchment_edge.client.link import (
    Address as Address,
    Frame as Frame,
    HEAD as HEAD,
    Link as Link,
    n_after_head as n_after_head,
    opened as opened,
    read_frame as read_frame,
)
from catchment_edge.client.vault import (
    PLACE as PLACE,
    UPLOAD as UPLOAD,
    opened_session as opened_session,
)

__all__ = [
    "DeviceHello",
    "EdgeClient",
]
