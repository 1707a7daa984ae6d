"""What a device computes with secrets, beside `cryptography` and the tests of the standards."""

from __future__ import annotations

import ctypes
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catchment_edge
from catchment.errors import IntegrityError
from catchment.privacy.secure_aggregation import (
    SHARE_BYTES,
    combine,
    cut,
    keys,
    share,
    share_from,
)
from tests.export.trained import STRICT, needs_gcc

pytestmark = needs_gcc

SOURCES = Path(catchment_edge.__file__).parent / "sources"
VENDORED = SOURCES.parent / "vendor" / "monocypher"
# Of Monocypher 4.0.3 as released.
RELEASED = {
    "monocypher.c": "57eb914fc88136119bd41655cccb8c250048bf54d470540625186f8ab16f64be",
    "monocypher.h": "c494da712122da7ff679fdcf318a5317e84972b6c950fe9d896212947797facd",
}
HERE = Path(__file__).parent

key32 = st.binary(min_size=32, max_size=32)


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = tmp_path_factory.mktemp("secrets") / "secrets.so"
    flags = ["-fPIC", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    theirs = made.with_name("monocypher.o")
    words = ["gcc", *flags, "-c", str(VENDORED / "monocypher.c"), "-o", str(theirs)]
    subprocess.run(words, check=True)
    flags += ["-shared", f"-I{SOURCES}", f"-I{VENDORED}"]
    words = ["gcc", *STRICT, *flags, str(HERE / "secrets_host.c"), str(theirs), "-o", str(made)]
    subprocess.run(words, check=True)
    return ctypes.CDLL(str(made))


def test_monocypher_is_the_file_that_was_released() -> None:
    found = {name: sha256((VENDORED / name).read_bytes()).hexdigest() for name in RELEASED}
    assert found == RELEASED


def agreed(device: ctypes.CDLL, secret: bytes, point: bytes) -> bytes | None:
    out = ctypes.create_string_buffer(32)
    return out.raw if device.agreed(out, secret, point) else None


def test_x25519_as_in_rfc_7748(device: ctypes.CDLL) -> None:
    scalar = "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"
    point = "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"
    found = agreed(device, bytes.fromhex(scalar), bytes.fromhex(point))
    expected = "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"
    assert found == bytes.fromhex(expected)


def test_a_thousand_times_x25519_as_in_rfc_7748(device: ctypes.CDLL) -> None:
    k = u = bytes([9]) + bytes(31)
    for _ in range(1000):
        found = agreed(device, k, u)
        assert found is not None
        k, u = found, k
    expected = "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"
    assert k == bytes.fromhex(expected)


@settings(max_examples=60)
@given(secret=key32, other=key32)
def test_agreed_secrets_are_those_of_cryptography(
    device: ctypes.CDLL, secret: bytes, other: bytes
) -> None:
    public = keys.public_key(other)
    assert agreed(device, secret, bytes([9]) + bytes(31)) == keys.public_key(secret)
    assert agreed(device, secret, public) == keys.Agreement(secret).shared(public)


# Points near the prime and of small order: numbers that are not reduced, and those refused.
PRIME = 2**255 - 19
EDGES = [0, 1, 2, 19, PRIME - 1, PRIME, PRIME + 1, PRIME + 18, 2**255 - 1, 2**256 - 1]


@pytest.mark.parametrize("number", EDGES)
def test_points_at_the_edges_of_the_field(device: ctypes.CDLL, number: int) -> None:
    secret, point = bytes(range(32)), number.to_bytes(32, "little")
    try:
        expected: bytes | None = keys.Agreement(secret).shared(point)
    except IntegrityError:
        expected = None
    assert agreed(device, secret, point) == expected


@given(key=key32, counter=st.integers(0, 2**20))
def test_the_stream_is_that_of_masks(device: ctypes.CDLL, key: bytes, counter: int) -> None:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    out = ctypes.create_string_buffer(64)
    device.stream(key, counter, out)
    nonce = counter.to_bytes(4, "little") + bytes(12)
    assert out.raw == Cipher(ChaCha20(key, nonce), mode=None).encryptor().update(bytes(64))


@given(secret=key32, salt=key32, purpose=st.text("abc|0123456789", max_size=60))
def test_derived_keys_are_those_of_hkdf(
    device: ctypes.CDLL, secret: bytes, salt: bytes, purpose: str
) -> None:
    out = ctypes.create_string_buffer(32)
    device.derive(secret, salt, purpose.encode(), out)
    assert out.raw == keys.derive(secret, salt=salt, purpose=purpose)


@given(key=key32, content=st.binary(max_size=200), about=st.binary(max_size=100), at=st.integers(0))
def test_boxes_of_a_device_open_elsewhere_and_the_other_way_round(
    device: ctypes.CDLL, key: bytes, content: bytes, about: bytes, at: int
) -> None:
    box = ctypes.create_string_buffer(content, len(content) + 16)
    device.seal(key, about, len(about), box, len(content))
    assert box.raw == keys.seal(key, content, about)
    assert device.unseal(key, about, len(about), box, len(content)) == 1
    assert box.raw[: len(content)] == content
    damaged = bytearray(keys.seal(key, content, about))
    damaged[at % len(damaged)] ^= 1 << at % 8
    wrong = ctypes.create_string_buffer(bytes(damaged), len(damaged))
    assert device.unseal(key, about, len(about), wrong, len(content)) == 0
    assert wrong.raw == bytes(damaged)


N_SHARES = 3000  # of each polynomial; in one of 512 shares the highest nine bits are zero


@pytest.mark.parametrize("threshold", [3, 4, 9])
@pytest.mark.parametrize("which", [0, 1])
def test_shares_of_a_device_are_those_of_the_same_polynomial(
    device: ctypes.CDLL, threshold: int, which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, key = sha256(b"secret").digest(), sha256(b"stream").digest()
    drawn = iter([_coefficient(device, key, which << 16 | k) for k in range(1, threshold)])
    monkeypatch.setattr("secrets.randbelow", lambda _: next(drawn))
    places = range(1, N_SHARES + 1)
    expected = share(int.from_bytes(secret, "little"), threshold, places)
    out = ctypes.create_string_buffer(N_SHARES * SHARE_BYTES)
    device.deal(secret, key, which, threshold, N_SHARES, out)
    found = [share_from(one) for one in cut(out.raw, SHARE_BYTES)]
    assert found == expected
    assert any(one < 2**512 for one in found)
    some = dict(zip(places[-threshold:], found[-threshold:], strict=True))
    assert combine(some) == int.from_bytes(secret, "little")


def _coefficient(device: ctypes.CDLL, key: bytes, block: int) -> int:
    """Return 521 bits of the stream: those of two blocks."""
    halves = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    for k, half in enumerate(halves):
        device.stream(key, 2 * block + k, half)
    return int.from_bytes(halves[0].raw + halves[1].raw, "little") % 2**521
