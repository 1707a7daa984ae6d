"""N3: an app that says that its plan is short, and is not, does not fill a node's memory.

Of 366 bytes a node unpacked 300 MB, because the size was believed that the archive stated.
"""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile

import pytest

from catchment.errors import RuleError
from catchment_fleet.apps import LARGEST, plan_in


def app(method: int, megabytes: int, said: int | None = None) -> bytes:
    """Return an app with a plan of zeros, whose headers say that it has `said` bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive, archive.open("a/plan.toml", "w") as file:
        for _ in range(megabytes):
            file.write(bytes(1 << 20))
    raw = bytearray(made.getvalue())
    if said is not None:
        raw[22:26] = struct.pack("<I", said)
        at = raw.rfind(b"PK\x01\x02") + 24
        raw[at : at + 4] = struct.pack("<I", said)
    return bytes(raw)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_size_that_is_not_true_costs_little(method: int) -> None:
    bomb = app(method, 64, said=100)
    assert len(bomb) < LARGEST
    tracemalloc.start()
    try:
        with pytest.raises(RuleError):
            plan_in(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


def test_a_plan_that_says_how_large_it_is_is_refused() -> None:
    with pytest.raises(RuleError, match="more than 1048576 bytes"):
        plan_in(app(zipfile.ZIP_DEFLATED, 2))


def test_damaged_bytes_are_no_app() -> None:
    damaged = bytearray(app(zipfile.ZIP_DEFLATED, 1))
    damaged[60:80] = b"\xff" * 20
    with pytest.raises(RuleError, match="is no app"):
        plan_in(bytes(damaged))
