"""Packed integers: exact, one form for one value, and lies cost nothing."""

from __future__ import annotations

import hashlib
import json
import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from catchment.errors import IntegrityError
from catchment.wire import CHUNK, FEWEST, MAGIC, VERSION, Message, check_length, packed, unpacked

EXTREMES = [0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**40 - 1, -(2**31)]


def reference(numbers: list[int]) -> bytes:
    """Return the packed form as its definition says it, one bit after the other."""
    patterns = [2 * v if v >= 0 else -2 * v - 1 for v in numbers]
    patterns += [0] * (-len(patterns) % CHUNK)
    widths, planes = bytearray(), bytearray()
    for start in range(0, len(patterns), CHUNK):
        chunk = patterns[start : start + CHUNK]
        widths.append(max(FEWEST, max(chunk).bit_length()))
        for bit in range(widths[-1]):
            planes += sum((p >> bit & 1) << k for k, p in enumerate(chunk)).to_bytes(8, "little")
    return bytes(widths + planes)


def opened(numbers: list[int]) -> list[int]:
    return list(unpacked(memoryview(reference(numbers)), len(numbers)))


small = st.integers(-(2**20), 2**20)
any_whole = st.sampled_from(EXTREMES) | small | st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=80)
@given(st.lists(any_whole, min_size=1, max_size=300))
def test_the_packed_form_is_what_its_definition_says(numbers: list[int]) -> None:
    assert packed(np.array(numbers, dtype=np.int64)) == reference(numbers)


@settings(max_examples=60)
@given(
    n=st.integers(8 * CHUNK, 900), bits=st.integers(0, 52), seed=st.integers(0, 9), k=st.integers(0)
)
def test_what_is_packed_comes_back(n: int, bits: int, seed: int, k: int) -> None:
    numbers = np.random.default_rng(seed).integers(-(2**bits), 2**bits, size=n)
    numbers[k % n] *= 3
    assert opened(numbers.tolist()) == numbers.tolist()


def test_every_width_comes_back_and_stands_in_the_first_byte() -> None:
    for width in range(FEWEST, 65):
        numbers = np.arange(128) % 3 - 1
        numbers[7], numbers[8] = 2 ** (width - 1) - 1, -(2 ** (width - 1))
        content = packed(numbers)
        assert content[0] == width
        np.testing.assert_array_equal(unpacked(memoryview(content), 128), numbers)


def test_an_array_travels_packed_only_if_that_is_shorter_and_keeps_its_shape() -> None:
    cases: list[tuple[NDArray[Any], bool]] = [
        (np.arange(64), False),
        (np.arange(65), True),
        (np.arange(600).reshape(2, 3, 100), True),
        (np.full(65, -(2**63)), False),  # two chunks of 64 bits are longer
        (np.arange(600.0), False),
        (np.arange(600, dtype=np.uint64), False),
    ]
    for array, shorter in cases:
        message = Message("k", {"a": 1}, (array, np.array([1.5]))).to_bytes()
        got = Message.from_bytes(message)
        assert got.arrays[0].dtype == array.dtype
        np.testing.assert_array_equal(got.arrays[0], array)
        np.testing.assert_array_equal(got.arrays[1], [1.5])
        assert got.to_bytes() == message
        assert struct.unpack_from("<H", message, 4)[0] == (2 if shorter else 1)
        assert (len(message) < array.nbytes) == shorter


def test_equal_numbers_give_equal_bytes_whatever_their_memory() -> None:
    matrix = np.random.default_rng(0).integers(-1000, 1000, (30, 40))
    every = (
        matrix,
        np.asfortranarray(matrix),
        matrix.astype(">i8"),
        np.repeat(matrix, 2, 1)[:, ::2],
    )
    assert len({Message("k", {}, (m,)).to_bytes() for m in every}) == 1


def test_messages_of_the_first_format_with_whole_numbers_are_read() -> None:
    numbers = np.arange(-200, 200)
    message = with_header([["i8", [400]]], numbers.astype("<i8").tobytes(), version=1)
    got = Message.from_bytes(message).arrays[0]
    np.testing.assert_array_equal(got, numbers)
    got[0] = 5  # what arrives may be changed


def with_header(listed: list[Any], payload: bytes, *, version: int = VERSION) -> bytes:
    text = json.dumps({"kind": "k", "facts": {}, "arrays": listed}).encode()
    body = struct.pack("<I", len(text)) + text + payload
    return struct.pack("<4sHQ32s", MAGIC, version, len(body), hashlib.sha256(body).digest()) + body


GOOD = bytes(packed(np.arange(-100, 100)))


@pytest.mark.parametrize(
    "entry",
    [
        ["i8", [200], len(GOOD) - 1],
        ["i8", [200], len(GOOD) + 1],
        ["i8", [100], len(GOOD)],
        ["i8", [64], len(GOOD)],
        ["i8", [10**6], len(GOOD)],
        ["i8", [2**32] * 8, len(GOOD)],
        ["i8", [200], -1],
        ["i8", [200], True],
        ["i8", [200], float(len(GOOD))],
        ["i8", [200], "252"],
        ["i8", [200], 10**30],
        ["i8", [200], len(GOOD), 1],
        ["u8", [200], len(GOOD)],
        ["f8", [200], len(GOOD)],
        ["i8", [0], 0],
        ["i8", [-200], len(GOOD)],
    ],
)
def test_headers_that_lie_about_packed_numbers_cost_nothing(entry: list[Any]) -> None:
    Message.from_bytes(with_header([["i8", [200], len(GOOD)]], GOOD))
    tracemalloc.start()
    with pytest.raises(IntegrityError):
        Message.from_bytes(with_header([entry], GOOD))
    assert tracemalloc.get_traced_memory()[1] < 200_000
    tracemalloc.stop()


def test_packed_numbers_in_a_message_of_the_first_format_are_refused() -> None:
    with pytest.raises(IntegrityError, match="format 1"):
        Message.from_bytes(with_header([["i8", [200], len(GOOD)]], GOOD, version=1))


def test_a_value_has_one_packed_form_only() -> None:
    wide = bytearray(reference([0] * 65))
    wide[0] = FEWEST + 1
    wide[2:2] = bytes(8)
    with pytest.raises(IntegrityError, match="more bits than they need"):
        unpacked(memoryview(bytes(wide)), 65)
    filled = reference([1] * 66)
    with pytest.raises(IntegrityError, match="after the last one"):
        unpacked(memoryview(filled), 65)
    for width in (0, FEWEST - 1, 65, 255):
        wrong = bytearray(reference([1] * 128))
        wrong[1] = width
        with pytest.raises(IntegrityError, match="own widths"):
            unpacked(memoryview(bytes(wrong)), 128)


@settings(max_examples=300)
@given(data=st.data())
def test_damaged_packed_numbers_are_refused_or_are_another_value(data: st.DataObject) -> None:
    n = data.draw(st.integers(65, 200))
    content = bytearray(packed(np.arange(n) * 37 - 900))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        numbers = unpacked(memoryview(bytes(content)), n)
    except IntegrityError:
        return
    assert packed(numbers) == bytes(content)


@settings(max_examples=300)
@given(content=st.binary(max_size=400), n=st.integers(0, 300))
def test_any_bytes_are_refused_or_are_the_form_of_their_value(content: bytes, n: int) -> None:
    try:
        numbers = unpacked(memoryview(content), n)
    except IntegrityError:
        return
    assert packed(numbers) == content


def test_a_message_unfolds_to_less_than_sixteen_times_its_length() -> None:
    content = packed(np.zeros(1 << 16, dtype=np.int64))
    assert len(content) > (8 << 16) / 16
    with pytest.raises(IntegrityError):
        check_length(2 << 16, len(content) - 1)


def test_statistics_of_510_columns_and_300_rows_of_8_bits_fit_in_450_kilobytes() -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(-256, 257, size=(300, 510))
    y = np.eye(6, dtype=np.int64)[rng.integers(6, size=300)]
    gram = (z.T @ z)[np.triu_indices(510)]
    arrays = (np.array([300.0, 300.0]), z.sum(0), y.sum(0), gram, z.T @ y, np.bincount(y.argmax(1)))
    whole = Message("statistics", {}, arrays)
    floats = Message("statistics", {}, tuple(array.astype(np.float64) for array in arrays))
    assert len(whole.to_bytes()) < 450_000 < 1_040_000 < len(floats.to_bytes())
    read = Message.from_bytes(whole.to_bytes())
    for sent, came in zip(whole.arrays, read.arrays, strict=True):
        np.testing.assert_array_equal(sent, came)
