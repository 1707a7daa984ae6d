"""Messages: what comes out is what went in, and damage or lies never get through or cost much."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from catchment.errors import IntegrityError
from catchment.wire import MAGIC, NOTHING, VERSION, Message, digest, join, split

dtypes = st.sampled_from(
    [np.float64, np.float32, np.int64, np.uint64, np.uint32, np.int8, np.uint8]
)
arrays = dtypes.flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    )
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)
facts = st.dictionaries(
    st.text(), st.recursive(scalars, lambda s: st.lists(s, max_size=3), max_leaves=6)
)
values = st.builds(Message, st.text(), facts, st.lists(arrays, max_size=3).map(tuple))
keys = st.sampled_from(["kind", "facts", "arrays", "x"])
JSON: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda s: st.lists(s, max_size=4) | st.dictionaries(keys, s), max_leaves=12
)


def signed(body: bytes, version: int = VERSION) -> bytes:
    prefix = struct.pack("<4sHQ32s", MAGIC, version, len(body), hashlib.sha256(body).digest())
    return prefix + body


def with_header(header: object, payload: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return signed(struct.pack("<I", len(text)) + text + payload)


def same(a: Message, b: Message) -> bool:
    return (
        a.kind == b.kind
        and dict(a.facts) == dict(b.facts)
        and len(a.arrays) == len(b.arrays)
        and all(
            x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
            for x, y in zip(a.arrays, b.arrays, strict=True)
        )
    )


@settings(max_examples=100)
@given(value=values)
def test_what_comes_out_is_what_went_in(value: Message) -> None:
    message = value.to_bytes()
    got = Message.from_bytes(message)
    assert same(got, value)
    assert got.to_bytes() == message


@settings(max_examples=60)
@given(value=values | st.builds(Message, st.text(), st.dictionaries(st.text(), st.text())))
def test_what_is_known_without_reading_is_what_is_read(value: Message) -> None:
    """To the bit, in the same order, and in memory of its own."""
    known = value.as_read()
    if known is None:
        return
    read = Message.from_bytes(value.to_bytes())
    assert same(known, read)
    assert [*known.facts] == [*read.facts]
    pairs = [*zip(known.arrays, read.arrays, strict=True)]
    assert all(a.flags.writeable == b.flags.writeable for a, b in pairs)
    assert all(a.strides == b.strides for a, b in pairs)
    assert not any(map(np.shares_memory, known.arrays, value.arrays))


def test_statistics_are_known_without_reading_and_surprises_are_not() -> None:
    """Of half a character, a name that is a number or a long text only reading tells."""
    one = np.arange(3)
    assert Message("ridge-statistics", {"fingerprint": "f", "grid": "[8]"}, (one,)).as_read()
    odd: list[Any] = ["\ud800", "x" * 2000, 2**70, [1], float("1e300")]
    assert not any(Message("k", {"a": fact}).as_read() for fact in odd)
    assert Message("k", {1: "a"}).as_read() is None  # type: ignore[dict-item]
    assert Message("k", {}, (one[::2],)).as_read() is None
    assert Message("k", {}, (one.astype(">i8"),)).as_read() is None


@given(value=values, data=st.data())
def test_any_flipped_bit_is_found(value: Message, data: st.DataObject) -> None:
    message = bytearray(value.to_bytes())
    place = data.draw(st.integers(0, 8 * len(message) - 1))
    message[place // 8] ^= 1 << place % 8
    with pytest.raises(IntegrityError):
        Message.from_bytes(bytes(message))


@settings(max_examples=60)
@given(value=values, data=st.data())
def test_a_message_cut_short_or_drawn_out_is_found(value: Message, data: st.DataObject) -> None:
    message = value.to_bytes()
    end = data.draw(st.integers(0, len(message) - 1))
    more = data.draw(st.binary(min_size=1, max_size=9))
    for wrong in (message[:end], message + more):
        with pytest.raises(IntegrityError):
            Message.from_bytes(wrong)


@settings(max_examples=150)
@given(header=JSON, payload=st.binary(max_size=40))
def test_a_lying_header_with_the_right_checksum_is_found(header: object, payload: bytes) -> None:
    try:
        got = Message.from_bytes(with_header(header, payload))
    except IntegrityError:
        return
    assert sum(array.nbytes for array in got.arrays) == len(payload)


@pytest.mark.parametrize(
    "listed",
    [
        [["f8", [1 << 40]]],
        [["f8", [1 << 32, 1 << 32, 1 << 32]]],
        [["f8", [0, 1 << 32, 1 << 32, 1 << 32]]],
        [["f8", [-1]]],
        [["f8", [True]]],
        [["f8", [1.0]]],
        [["f8", [0] * 40]],
        [["O", [1]]],
        [["f8"]],
        ["f8"],
        [None],
        [["f8", [1]], ["f8", [1]]],
    ],
)
def test_shapes_that_promise_more_than_came_cost_nothing(listed: list[object]) -> None:
    with pytest.raises(IntegrityError):
        Message.from_bytes(with_header({"kind": "k", "facts": {}, "arrays": listed}, bytes(8)))


@pytest.mark.parametrize(
    "body", [b"", b"abc", struct.pack("<I", 1 << 31), struct.pack("<I", 9) + b"{}", b"\x02\0\0\0{]"]
)
def test_bodies_without_a_header_are_refused(body: bytes) -> None:
    with pytest.raises(IntegrityError):
        Message.from_bytes(signed(body))


def test_a_deeply_nested_header_is_refused() -> None:
    text = b"[" * 200_000 + b"]" * 200_000
    with pytest.raises(IntegrityError):
        Message.from_bytes(signed(struct.pack("<I", len(text)) + text))


def test_strangers_newer_formats_and_too_large_messages_are_named() -> None:
    message = Message("k", {}, (np.arange(4.0),)).to_bytes()
    with pytest.raises(IntegrityError, match="not a catchment message"):
        Message.from_bytes(b"RIFF" + message[4:])
    with pytest.raises(IntegrityError, match="not 1 to 2; upgrade"):
        Message.from_bytes(signed(message[46:], version=VERSION + 1))
    with pytest.raises(IntegrityError, match="the limit is 20"):
        Message.from_bytes(message, limit=20)


def test_equal_values_give_equal_bytes_whatever_their_memory() -> None:
    matrix = np.arange(12.0).reshape(3, 4)
    turned = np.asfortranarray(matrix)
    swapped = matrix.astype(">f8")
    strided = np.repeat(matrix, 2, axis=1)[:, ::2]
    every = (matrix, turned, swapped, strided)
    messages = {Message("k", {"b": 1, "a": 2}, (m,)).to_bytes() for m in every}
    messages.add(Message("k", {"a": 2, "b": 1}, (matrix,)).to_bytes())
    assert len(messages) == 1


def test_the_digest_is_that_of_the_body() -> None:
    message = Message("k", {}, (np.arange(3.0),)).to_bytes()
    assert digest(message) == hashlib.sha256(message[46:]).digest()


def test_arrays_of_objects_and_facts_that_are_not_numbers_do_not_travel() -> None:
    with pytest.raises(TypeError, match="do not travel"):
        Message("k", {}, (np.array([None]),)).to_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        Message("k", {"x": float("nan")}).to_bytes()


def test_what_arrives_may_be_changed_without_changing_the_message() -> None:
    message = Message("k", {"n": 1}, (np.zeros(2),)).to_bytes()
    first = Message.from_bytes(message)
    first.arrays[0][0] = 5.0
    facts: Any = first.facts
    facts["n"] = 2
    again = Message.from_bytes(message)
    assert again.arrays[0][0] == 0.0
    assert again.facts["n"] == 1


@settings(max_examples=40)
@given(named=st.dictionaries(st.text(), values, max_size=4))
def test_joined_values_come_apart_again(named: dict[str, Message]) -> None:
    together = Message.from_bytes(join("all", named).to_bytes())
    apart = split(together, "all")
    assert list(apart) == list(named)
    assert all(same(apart[name], named[name]) for name in named)


@pytest.mark.parametrize(
    "counts", [[-1, 3], [3, -1], [1, 2], [0, 1], [2, 0, "x"], [2, None], [1.5, 0.5]]
)
def test_parts_that_do_not_use_each_array_once_are_refused(counts: list[Any]) -> None:
    entries: Any = [
        {"name": str(k), "kind": "k", "facts": {}, "arrays": n} for k, n in enumerate(counts)
    ]
    parts = Message("all", {"parts": entries}, (np.zeros(1), np.ones(1)))
    with pytest.raises(IntegrityError):
        split(parts, "all")


def test_two_parts_of_one_name_or_of_another_kind_are_refused() -> None:
    entry: Any = {"name": "a", "kind": "k", "facts": {}, "arrays": 0}
    with pytest.raises(IntegrityError):
        split(Message("all", {"parts": [entry, entry]}), "all")
    with pytest.raises(IntegrityError):
        split(join("other", {}), "all")
    with pytest.raises(IntegrityError):
        split(NOTHING, "all")


def test_expect_names_what_came() -> None:
    with pytest.raises(IntegrityError, match="expected 'a' with 1 arrays, got 'b' with 0"):
        Message("b").expect("a", 1)
