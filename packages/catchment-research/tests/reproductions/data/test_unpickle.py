"""The restricted unpickler: what it reads, and what it refuses."""

from __future__ import annotations

import io
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from catchment.errors import IntegrityError
from reproductions.data.unpickle import unpickle

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(min_size=1),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)
DTYPES = (
    hnp.boolean_dtypes()
    | hnp.integer_dtypes()
    | hnp.floating_dtypes(sizes=(32, 64))
    | hnp.unicode_string_dtypes(max_len=4)
    | hnp.byte_string_dtypes(max_len=4)
)


def read(raw: bytes) -> Any:
    return unpickle(io.BytesIO(raw), name="test.pkl")


@given(value=PLAIN, protocol=st.integers(0, 5))
def test_plain_containers_come_back_as_pickle_reads_them(value: object, protocol: int) -> None:
    raw = pickle.dumps(value, protocol=protocol)
    assert read(raw) == pickle.loads(raw)


@given(
    array=hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3)),
    protocol=st.integers(0, 4),
    fortran=st.booleans(),
)
def test_arrays_come_back_as_numpy_reads_them(
    array: np.ndarray[Any, Any], protocol: int, fortran: bool
) -> None:
    array = np.asfortranarray(array) if fortran else array
    ours = read(pickle.dumps({"x": array}, protocol=protocol))["x"]
    np.testing.assert_array_equal(ours, array)
    assert ours.dtype == array.dtype
    assert ours.shape == array.shape


def test_big_endian_array() -> None:
    array = np.arange(4, dtype=">i4")
    np.testing.assert_array_equal(read(pickle.dumps(array, protocol=2)), array)


def python2_array(values: list[float]) -> bytes:
    """What Python 2 and numpy 1 wrote at protocol 2: the bytes of an array as a byte string."""
    raw = np.array(values, dtype="<f8").tobytes()
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K" + bytes([len(values)]) + b"\x85cnumpy\ndtype\nU\x02f8K\x00K\x01\x87R"
        b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        b"T" + struct.pack("<i", len(raw)) + raw + b"tb"
    )


def test_array_written_by_python_2() -> None:
    values = [1.5, -2.25, 1e300]
    raw = b"\x80\x02}(U\x05label" + python2_array(values) + b"U\x07subjectU\x02S2u."
    value = read(raw)
    np.testing.assert_array_equal(value["label"], values)
    np.testing.assert_array_equal(pickle.loads(raw, encoding="latin1")["label"], value["label"])
    assert value["subject"] == "S2"


class Calls:
    """An object whose pickle calls a function when it is read."""

    def __init__(self, function: object, *args: object) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(
    ("function", "argument", "named"),
    [
        (os.system, "touch {}", "system"),
        (eval, "open({!r}, 'w')", "eval"),
        (exec, "open({!r}, 'w')", "exec"),
        (getattr, "{}", "getattr"),
        (np.load, "{}", "load"),
    ],
)
def test_a_call_is_refused_by_name_and_not_made(
    tmp_path: Path, function: object, argument: str, named: str, protocol: int
) -> None:
    target = tmp_path / "made"
    attack = Calls(function, argument.format(str(target)))
    for value in (attack, [{"signal": (1, attack)}], {"x": np.zeros(3), "y": attack}):
        with pytest.raises(IntegrityError, match=rf"test\.pkl asks for \S+\.{named}, "):
            read(pickle.dumps(value, protocol=protocol))
    assert not target.exists()


def test_hand_written_attack_after_a_good_array(tmp_path: Path) -> None:
    target = tmp_path / "made"
    attack = b"cposix\nsystem\n(U" + bytes([len(f"touch {target}")]) + f"touch {target}".encode()
    with pytest.raises(IntegrityError, match=r"posix\.system"):
        read(b"\x80\x02](" + python2_array([1.0]) + attack + b"tRe.")
    assert not target.exists()


def test_bytes_written_by_python_3_for_readers_of_protocol_2() -> None:
    assert read(pickle.dumps(b"\xff", protocol=2)) == b"\xff"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not a pickle",
        b"\x80\x02",
        b"\x80\x02]",
        b"cnumpy.core.multiarray\n_reconstruct\nc__builtin__\nset\nK\x00\x85U\x01b\x87R.",
        python2_array([1.0, 2.0]).replace(b"K\x02\x85", b"K\x7f\x85") + b".",
    ],
    ids=[
        "empty",
        "text",
        "cut",
        "open",
        "other class",
        "wrong length",
    ],
)
def test_damaged_and_forged_pickles(raw: bytes) -> None:
    with pytest.raises(IntegrityError, match=r"test\.pkl"):
        read(raw)


# The opcode "r" may ask for gigabytes of memo, which is slow to refuse.
@given(st.binary(max_size=60).map(lambda raw: raw.replace(b"r", b"q")))
def test_random_bytes_never_escape_as_another_error(raw: bytes) -> None:
    refused = None
    try:
        read(raw)
    except IntegrityError as error:
        refused = str(error)
    assert refused is None or "test.pkl" in refused
