"""The C pieces under the maps, against Python's own numbers."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from catchment.features import log2_of
from catchment_edge.c import Reading, Words, needed, sines
from tests.export.compiled import build

WRAPPERS = """
int64_t from_double(double u, int digits, int64_t limit)
{ return number_from_double(u, digits, limit); }
double root_double(double u) { return number_root_double(u); }
uint32_t root(uint64_t u) { return number_root(u); }
int64_t ratio(uint64_t a, uint64_t b) { return number_ratio(a, b); }
int64_t floor_of(int64_t a, int64_t b) { return number_floor(a, b); }
int32_t read(double u, int digits, int32_t limit, int shift, int32_t own)
{ return window_value(window_word(u, digits, limit), shift, own); }
int32_t log_of(uint64_t u) { return statistics_log(u); }
"""
USES = {
    "number_from_double()",
    "number_root_double()",
    "number_root()",
    "number_ratio()",
    "number_floor()",
    "window_value()",
    "window_word()",
    "statistics_log()",
}
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("numbers")
    found = needed(["numbers.c", "window.c", "window_statistics.c"], USES)
    text = "#include <stdint.h>\n" + "\n".join(one.text for one in found) + WRAPPERS
    (folder / "numbers.c").write_text(text)
    flags = ["-shared", "-fPIC", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    program = folder / "numbers.so"
    build([str(folder / "numbers.c"), *flags, "-o", str(program)])
    loaded = ctypes.CDLL(str(program))
    loaded.from_double.argtypes = [ctypes.c_double, ctypes.c_int, ctypes.c_int64]
    loaded.from_double.restype = ctypes.c_int64
    loaded.root_double.argtypes, loaded.root_double.restype = [ctypes.c_double], ctypes.c_double
    loaded.root.argtypes, loaded.root.restype = [ctypes.c_uint64], ctypes.c_uint32
    loaded.ratio.argtypes, loaded.ratio.restype = [ctypes.c_uint64] * 2, ctypes.c_int64
    loaded.floor_of.argtypes, loaded.floor_of.restype = [ctypes.c_int64] * 2, ctypes.c_int64
    whole = ctypes.c_int32
    loaded.read.argtypes = [ctypes.c_double, ctypes.c_int, whole, ctypes.c_int, whole]
    loaded.log_of.argtypes = [ctypes.c_uint64]
    return loaded


@given(u=FINITE | st.integers(-(2**20), 2**20).map(lambda k: k / 2**8), digits=st.integers(-4, 28))
@example(u=0.5, digits=0)
@example(u=-1.5, digits=0)
@example(u=5e-324, digits=28)
def test_doubles_are_rounded_to_even_and_cut_off(library: Any, u: float, digits: int) -> None:
    limit = 2**31
    scaled = min(max(u, -1e30), 1e30) * 2.0**digits
    expected = max(-limit, min(limit, round(scaled)))
    assert library.from_double(u, digits, limit) == expected


@given(u=st.floats(min_value=2.0**-1000, allow_infinity=False))
@example(u=2.0)
@example(u=(1 + 2**-52) ** 2)
def test_roots_of_doubles_are_those_of_ieee_754(library: Any, u: float) -> None:
    assert library.root_double(u) == math.sqrt(u)


@given(u=st.integers(0, 2**64 - 1))
@example(u=2**64 - 1)
@example(u=(2**32 - 1) ** 2)
def test_roots_of_whole_numbers(library: Any, u: int) -> None:
    assert library.root(u) == math.isqrt(u)


@given(a=st.integers(0, 2**62), b=st.integers(1, 2**40))
def test_ratios(library: Any, a: int, b: int) -> None:
    twice, rest = divmod(2 * a, b)
    below, half = twice // 2, twice % 2 == 1
    expected = below + (half and (rest > 0 or below % 2 == 1))
    assert library.ratio(a, b) == expected


@given(a=st.integers(-(2**60), 2**60), b=st.integers(1, 2**40))
def test_divisions_round_down(library: Any, a: int, b: int) -> None:
    assert library.floor_of(a, b) == a // b


@given(
    u=st.floats(-80, 80) | st.integers(-(2**22), 2**22).map(lambda k: k / 2**15),
    coarse=st.integers(4, 16),
)
@example(u=8 / 2**16 + 2.0**-40, coarse=12)
@example(u=8 / 2**16, coarse=12)
@example(u=8 / 2**16 - 2.0**-40, coarse=12)
def test_maps_with_fewer_digits_round_the_sample_itself(
    library: Any, u: float, coarse: int
) -> None:
    readings = [Reading(16, 2**22), Reading(coarse, 5 * 2**coarse), Reading(3, 2**9)]
    words = Words.of(readings)
    for one in readings:
        expected = max(-one.limit, min(one.limit, round(u * 2.0**one.digits)))
        found = library.read(u, words.digits, words.limit, words.shift(one), one.limit)
        assert found == expected


@given(u=st.integers(1, 2**58))
def test_logarithms_are_the_librarys(library: Any, u: int) -> None:
    assert library.log_of(u) == int(log2_of(u))


@pytest.mark.parametrize("length", [1, 2, 3, 7, 50, 58, 61, 100, 128, 145, 200, 246, 255, 256])
def test_one_turn_of_sines_has_every_entry_of_the_spectrum(length: int) -> None:
    assert len(sines(length)) == 2 * length * (1 + length % 2)
    assert np.abs(sines(length)).max() <= 2**29
