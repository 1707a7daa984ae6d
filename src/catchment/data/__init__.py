"""Where data enter: recordings and clients, files and frames, and what prepares them.

`read` turns a folder of files into clients, `split` keeps whole clients for the test, `Prepare`
says what happens to a raw recording before a feature map sees it. Generators make series to try
things on; `catchment.data.loaders` reads public sets from their publishers' files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.data import loaders as loaders
    from catchment.data.cache import Cached as Cached
    from catchment.data.clients import Clients as Clients
    from catchment.data.clients import by_subject as by_subject
    from catchment.data.clients import contiguous as contiguous
    from catchment.data.clients import iid as iid
    from catchment.data.clients import label_skew as label_skew
    from catchment.data.clients import quantity_skew as quantity_skew
    from catchment.data.clients import split as split
    from catchment.data.files import read as read
    from catchment.data.frames import from_frame as from_frame
    from catchment.data.frames import sequences_from_arrays as sequences_from_arrays
    from catchment.data.gaps import GapReport as GapReport
    from catchment.data.gaps import fill_gaps as fill_gaps
    from catchment.data.generators import henon as henon
    from catchment.data.generators import lorenz as lorenz
    from catchment.data.generators import mackey_glass as mackey_glass
    from catchment.data.generators import narma as narma
    from catchment.data.generators import one_step as one_step
    from catchment.data.lake.clients import Lake as Lake
    from catchment.data.lake.clients import LakeClient as LakeClient
    from catchment.data.lake.clients import read_lake as read_lake
    from catchment.data.prepare import RAW as RAW
    from catchment.data.prepare import Prepare as Prepare
    from catchment.data.recording import Recording as Recording
    from catchment.data.scaling import Scaler as Scaler
    from catchment.data.wearables import ACTIVITIES as ACTIVITIES
    from catchment.data.wearables import synthetic_wearables as synthetic_wearables

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "cache": ["Cached"],
        "clients": [
            "Clients",
            "by_subject",
            "contiguous",
            "iid",
            "label_skew",
            "quantity_skew",
            "split",
        ],
        "files": ["read"],
        "frames": ["from_frame", "sequences_from_arrays"],
        "gaps": ["GapReport", "fill_gaps"],
        "generators": ["henon", "lorenz", "mackey_glass", "narma", "one_step"],
        "lake.clients": ["Lake", "LakeClient", "read_lake"],
        "loaders": [],
        "prepare": ["Prepare", "RAW"],
        "recording": ["Recording"],
        "scaling": ["Scaler"],
        "wearables": ["ACTIVITIES", "synthetic_wearables"],
    },
)
