"""Pieces of a device's C against somebody else's: hashlib, zlib, Python's integers."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import zlib
from fractions import Fraction
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.wire import packed
from tests.export.trained import STRICT, needs_gcc

pytestmark = needs_gcc
PIECES = (
    *("bytes.h", "bytes.c", "wide.c", "sha256.h", "sha256.c", "crc32.c"),
    *("packing.h", "packing.c"),
)
LIMITS = settings(max_examples=80, deadline=None)
WHOLE = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder, sources = tmp_path_factory.mktemp("pieces"), resources.files("catchment_edge")
    texts = [(sources / "sources" / name).read_text() for name in PIECES]
    texts.append(Path(__file__).with_name("train_pieces.c").read_text())
    lines = [line for line in "\n".join(texts).splitlines() if not line.startswith('#include "')]
    (folder / "pieces.c").write_text("\n".join(lines) + "\n")
    words = ["gcc", *STRICT, "-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    words += ["-shared", "-fPIC", "pieces.c", "-o", "pieces.so"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    loaded = ctypes.CDLL(str(folder / "pieces.so"))
    loaded.crc_of.restype = ctypes.c_uint32
    loaded.bits_from.restype = ctypes.c_int64
    return loaded


@LIMITS
@given(content=st.binary(max_size=300), split=st.integers(0, 300))
def test_the_hash_is_sha256(pieces: ctypes.CDLL, content: bytes, split: int) -> None:
    digest = ctypes.create_string_buffer(32)
    pieces.digest_of(content, len(content), min(split, len(content)), digest)
    assert digest.raw == hashlib.sha256(content).digest()


def test_the_hash_of_a_million_bytes(pieces: ctypes.CDLL) -> None:
    content, digest = b"a" * 1_000_000, ctypes.create_string_buffer(32)
    pieces.digest_of(content, len(content), 77, digest)
    assert digest.raw == hashlib.sha256(content).digest()


@LIMITS
@given(content=st.binary(max_size=200))
def test_the_crc_is_zlibs(pieces: ctypes.CDLL, content: bytes) -> None:
    assert pieces.crc_of(content, len(content)) == zlib.crc32(content)


@LIMITS
@given(numbers=st.lists(st.one_of(WHOLE, st.integers(-9, 9)), min_size=1, max_size=150))
def test_numbers_are_packed_as_the_library_does(pieces: ctypes.CDLL, numbers: list[int]) -> None:
    values, room = np.array(numbers, dtype=np.int64), ctypes.create_string_buffer(9 * 192 + 8)
    length = pieces.pack(values.ctypes.data_as(ctypes.c_void_p), len(values), room)
    assert room.raw[:length] == packed(values)


@LIMITS
@given(x=st.floats(-(2.0**40), 2.0**40, exclude_min=True, exclude_max=True))
@pytest.mark.parametrize("digits", [36, 60])
def test_a_float_is_rounded_to_even(pieces: ctypes.CDLL, digits: int, x: float) -> None:
    words = (ctypes.c_uint32 * 4)()
    negative = pieces.rounded(ctypes.c_double(x), digits, words, 4)
    size = sum(word << 32 * k for k, word in enumerate(words))
    assert (-size if negative else size) == round(Fraction(x) * 2**digits)


@pytest.mark.parametrize("x", [0.5, 1.5, 2.5, -2.5, 0.25, 5e-324, 2.0**-61, 3 * 2.0**-61, 0.0])
def test_ties_and_very_small_numbers(pieces: ctypes.CDLL, x: float) -> None:
    for digits in (0, 60):
        words = (ctypes.c_uint32 * 4)()
        negative = pieces.rounded(ctypes.c_double(x), digits, words, 4)
        size = sum(word << 32 * k for k, word in enumerate(words))
        assert (-size if negative else size) == round(Fraction(x) * 2**digits)


@LIMITS
@given(
    terms=st.lists(
        st.tuples(st.integers(0, 2**90), st.integers(0, 2**90), st.booleans()), max_size=6
    ),
    first=st.integers(0, 191),
)
def test_sums_of_products_are_exact(
    pieces: ctypes.CDLL, terms: list[tuple[int, int, bool]], first: int
) -> None:
    total, words = 0, (ctypes.c_uint32 * 6)()
    for a, b, negative in terms:
        pieces.add_product(words, _words(a, 3), _words(b, 3), negative)
        total += -a * b if negative else a * b
    assert sum(word << 32 * k for k, word in enumerate(words)) == total % 2**192
    above = total >> first
    assert pieces.bits_from(words, 6, first) == (above + 2**63) % 2**64 - 2**63


def _words(value: int, n: int) -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * n)(*(value >> 32 * k & 0xFFFFFFFF for k in range(n)))
