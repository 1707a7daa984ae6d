"""Small devices as clients: a link to each, and what is asked over it.

A `Device` stands where a client's recordings would. The device reads its own sensor and adds up its
own statistics; this process, the gateway, checks them and speaks for it to the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.engine.device.device import Device as Device
    from catchment.engine.device.hello import DeviceHello as DeviceHello

__all__, __getattr__, __dir__ = face(__name__, {"device": ["Device"], "hello": ["DeviceHello"]})
