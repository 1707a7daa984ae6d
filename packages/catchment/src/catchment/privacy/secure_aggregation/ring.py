"""What is masked, and shared: integers modulo 2^128, 2^64 or 2^32, and shares of a secret.

In the ring sums are exact and masks uniform.

A number x becomes round(x 2^f) modulo 2^bits, negative ones in two's complement. With 128 bits and
f = 80 this is exact for 2^-28 <= |x| < 2^46 and wrong by at most 2^-81 below, so the decoded sum of
clients is the true sum, rounded once, whatever the order. Residues are uint64 arrays (limbs, L),
the lowest limb first; those of 32 bits are uint32.

What is whole already, as statistics in fixed point are, goes in as it is: in a ring without
fraction, or between other numbers in any ring, and comes out as the exact sum. Each of n clients
keeps below 2^(bits - 1) / n, so the sum cannot wrap.

The compact ring has 64 bits and f = 62 - ceil(log2(bound on the sum)). If every entry of G and C is
off by at most d = n_clients 2^-(f+1), then W = (G + ridge I)^-1 C moves by no more than

    |dW|_F <= (|dC|_F + |W|_2 |dG|_F) / (lambda_min(G) + ridge - |dG|_2),
    |dG|_F <= F d,  |dC|_F <= sqrt(F K) d.

Secrets are shared over the field of 2^521 - 1 elements: a secret is the value at 0 of a random
polynomial of degree t - 1, a share its value elsewhere; t shares give the secret by Lagrange's
formula, fewer give nothing (Shamir, CACM 1979).

What messages hold besides: sets of clients as bits, and a value's shape in clear, its outline.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, Integers
from catchment.errors import IntegrityError
from catchment.wire import Fact, Message
from catchment.wire.messages import MAX_DEPTH

Residues = NDArray[np.unsignedinteger[Any]]
Bytes = NDArray[np.uint8]

_ONE = np.uint64(1)
PRIME = 2**521 - 1
SHARE_BYTES = 66
TYPES = ("f8", "f4", "i8", "u8", "u4", "i1", "u1")  # of arrays that travel


@dataclass(frozen=True)
class Ring:
    """Integers modulo 2^bits (32, 64 or 128) that stand for multiples of 2^-fraction.

    >>> Ring().limit(10)  # what each of ten clients may send, so that their sum cannot wrap
    14073748835532.8
    """

    bits: int = 128
    fraction: int = 80

    def __post_init__(self) -> None:
        most = {32: 0, 64: 62, 128: 126}.get(self.bits, -1)
        if not 0 <= self.fraction <= most:
            raise ValueError(
                f"{self.fraction} fractional bits do not fit a ring of {self.bits}; one of 32 bits "
                "holds integers only, of 64 or 128 two are not fractional"
            )

    @classmethod
    def compact(cls, bound: float) -> Ring:
        """Return the 64-bit ring for sums of absolute value up to the bound.

        >>> Ring.compact(1000.0)
        Ring(bits=64, fraction=52)
        """
        if not (math.isfinite(bound) and 2.0**-64 < bound < 2.0**62):
            raise ValueError(f"the bound on a sum is {bound}; pass a number below 2^62")
        return cls(64, min(62, 62 - math.ceil(math.log2(bound))))

    @property
    def limbs(self) -> int:
        return max(1, self.bits // 64)

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        """The type of a limb."""
        return np.dtype(np.uint32 if self.bits == 32 else np.uint64)

    def limit(self, n_clients: int) -> float:
        """Return the absolute value that each of this many clients must stay below."""
        return 2.0 ** (self.bits - 1 - self.fraction) / n_clients

    def whole_limit(self, n_clients: int) -> int:
        """Return the largest integer that each of this many clients may send as it is.

        >>> Ring(32, 0).whole_limit(20)
        107374182
        """
        return int(((1 << (min(self.bits, 64) - 1)) - 1) // n_clients)


def encode(x: Array, ring: Ring, *, n_clients: int = 1) -> Residues:
    """Return the residues (limbs, L) of numbers (L,); ValueError if one does not fit.

    One fits if the sum over so many clients cannot wrap.

    >>> encode(np.array([-1.0]), Ring(64, 8)) == np.uint64(2**64 - 2**8)
    array([[ True]])
    """
    limit = ring.limit(n_clients)
    size = np.abs(x)
    # A NaN is not below anything, so this finds it too.
    if not (size < limit).all():
        # Not the number itself: the refusal goes to the server, and the limit is the plan's.
        what = "too large" if np.isfinite(x).all() else "not finite"
        raise ValueError(
            f"a number to be summed is {what}; it must be finite and below {limit:.6g} for "
            f"{n_clients} clients, so scale the data down or look for what blew up"
        )
    residues = np.empty((ring.limbs, len(x)), dtype=np.uint64)
    if ring.limbs == 1:
        residues[0] = np.rint(np.ldexp(size, ring.fraction)).astype(np.uint64)
    else:
        scaled = np.ldexp(size, ring.fraction - 64)
        high = np.floor(scaled)
        low = np.rint(np.ldexp(scaled - high, 64))
        carry = low >= 2.0**64
        low[carry] = 0.0
        residues[0] = low.astype(np.uint64)
        residues[1] = high.astype(np.uint64)
        residues[1] += carry
    negate(residues, np.signbit(x))
    return residues


def encode_whole(x: Integers, ring: Ring, *, n_clients: int = 1) -> Residues:
    """Return the residues (limbs, L) of integers (L,) as they are; ValueError if one is large.

    >>> encode_whole(np.array([-1, 7]), Ring(32, 0))
    array([[4294967295,          7]], dtype=uint32)
    """
    largest = max(-int(x.min()), int(x.max())) if x.size else 0
    limit = ring.whole_limit(n_clients)
    if largest > limit:
        # How long it is and no more: the refusal goes to the server.
        raise ValueError(
            f"an integer to be summed has {largest.bit_length()} bits and is above {limit}, "
            f"the most that each of {n_clients} clients may add in a ring of {ring.bits} bits; "
            f"send fewer rows{', or use bits=64' if ring.bits == 32 else ''}"
        )
    residues = np.empty((ring.limbs, len(x)), dtype=ring.dtype)
    residues[0] = x.astype(ring.dtype)  # two's complement
    if ring.limbs == 2:
        residues[1] = (x >> 63).astype(np.uint64)
    return residues


def decode_whole(residues: Residues, ring: Ring) -> Integers:
    """Return the integers (L,) that residues are; ValueError if one is beyond 64 bits.

    >>> decode_whole(encode_whole(np.array([-1, 7]), Ring()), Ring())
    array([-1,  7])
    """
    signed = np.int32 if ring.bits == 32 else np.int64
    x: Integers = residues[0].astype(signed).astype(np.int64)
    if ring.limbs == 2 and not np.array_equal(residues[1].astype(np.int64), x >> 63):
        raise ValueError("a sum of integers is beyond 64 bits; a client sent what it must not")
    return x


def negate(residues: Residues, where: NDArray[np.bool_]) -> None:
    """Change the sign of some residues (limbs, L), in place.

    >>> x = encode(np.array([1.0, 2.0]), Ring())
    >>> negate(x, np.array([False, True]))
    >>> decode(x, Ring())
    array([ 1., -2.])
    """
    np.invert(residues, out=residues, where=where)
    np.add(residues[0], _ONE, out=residues[0], where=where)
    if len(residues) == 2:
        np.add(residues[1], _ONE, out=residues[1], where=where & (residues[0] == 0))


def add_into(total: Residues, other: Residues) -> None:
    """Add residues (limbs, L) to a total, in place.

    >>> total = encode(np.array([1.5]), Ring())
    >>> add_into(total, encode(np.array([-2.0]), Ring()))
    >>> decode(total, Ring())
    array([-0.5])
    """
    total[0] += other[0]
    if len(total) == 2:
        carry = total[0] < other[0]
        total[1] += other[1]
        total[1] += carry


def subtract_from(total: Residues, other: Residues) -> None:
    """Subtract residues (limbs, L) from a total, in place.

    >>> total = encode(np.array([1.5]), Ring())
    >>> subtract_from(total, encode(np.array([2.0]), Ring()))
    >>> decode(total, Ring())
    array([-0.5])
    """
    if len(total) == 2:
        borrow = total[0] < other[0]
        total[1] -= other[1]
        total[1] -= borrow
    total[0] -= other[0]


def decode(residues: Residues, ring: Ring) -> Array:
    """Return the numbers (L,) that residues stand for, each the nearest float64, ties to even.

    >>> decode(encode(np.array([0.1, -3.0]), Ring()), Ring())
    array([ 0.1, -3. ])
    """
    negative = residues[-1] >> np.uint64(63) == _ONE
    size = residues.copy()
    negate(size, negative)
    high, low = size[-1], size[0] if ring.limbs == 2 else np.zeros_like(size[0])
    # Moved up until the highest bit is set, so that the top 64 bits tell nearly everything.
    small = high == 0
    high, low = np.where(small, low, high), np.where(small, np.uint64(0), low)
    n_bits = _bit_length(high)
    up = np.uint64(64) - n_bits
    high = (high << up) | (low >> n_bits)  # numpy gives 0 where all 64 bits are shifted out
    below = low << up
    # Of them 53 stay; what falls off decides, and whether anything lies below it.
    kept, rest = high >> np.uint64(11), high & np.uint64(0x7FF)
    half = np.uint64(0x400)
    kept += (rest > half) | ((rest == half) & ((below != 0) | (kept & _ONE == _ONE)))
    unit = np.where(small, 0, 64) if ring.limbs == 2 else 0
    scale = unit + n_bits.astype(np.int64) - 53 - ring.fraction
    value: Array = np.ldexp(kept.astype(np.float64), scale)
    np.negative(value, out=value, where=negative)
    return value


def _bit_length(x: Residues) -> Residues:
    """Return how many bits each number has, 0 for 0."""
    n_bits = np.minimum(np.frexp(x.astype(np.float64))[1], 64).astype(np.uint64)
    # A number just below a power of two may have been rounded up to it.
    n_bits -= (x >> (np.maximum(n_bits, _ONE) - _ONE) == 0) & (x != 0)
    return n_bits


def readout_error(
    ring: Ring,
    *,
    n_clients: int,
    n_features: int,
    n_targets: int,
    smallest_eigenvalue: float,
    weights_norm: float = 1.0,
) -> float:
    """Return a bound on the Frobenius norm by which the ring's rounding moves a readout.

    Parameters
    ----------
    smallest_eigenvalue
        Of G + ridge I; the ridge itself if nothing is known of G.
    weights_norm
        Spectral norm of the readout's weights.

    >>> case = dict(n_clients=20, n_features=200, n_targets=1, smallest_eigenvalue=1e-3)
    >>> f"{readout_error(Ring(64, 48), **case):.0e}", readout_error(Ring(64, 16), **case)
    ('8e-09', inf)
    """
    d = n_clients * 2.0 ** -(ring.fraction + 1)
    left = smallest_eigenvalue - n_features * d
    if left <= 0:
        return math.inf
    moved = math.sqrt(n_features * n_targets) * d + weights_norm * n_features * d
    return moved / left


def share(secret: int, threshold: int, places: Sequence[int]) -> list[int]:
    """Return one share of a secret for each place, any `threshold` of which give it back.

    >>> shares = share(42, 2, [1, 2, 3])
    >>> combine({1: shares[0], 3: shares[2]})
    42
    """
    if not 0 <= secret < PRIME:
        raise ValueError("a secret to be shared must lie from 0 to 2^521 - 2")
    if not 1 <= threshold <= len(places):
        raise ValueError(
            f"the threshold is {threshold} for {len(places)} shares; pass 1 to {len(places)}"
        )
    if len(set(places)) != len(places) or not all(0 < x < PRIME for x in places):
        raise ValueError("the places of shares must be distinct integers above 0")
    coefficients = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    values = []
    for x in places:
        value = 0
        for coefficient in (*reversed(coefficients), secret):
            value = (value * x + coefficient) % PRIME
        values.append(value)
    return values


def combine(shares: Mapping[int, int]) -> int:
    """Return the secret from shares by place; as many as the threshold, or it is a random number.

    >>> combine({1: 5, 2: 7})  # 3 + 2 x
    3
    """
    places = tuple(sorted(shares))
    weights = _weights(places)
    return sum(w * shares[x] for w, x in zip(weights, places, strict=True)) % PRIME


@lru_cache(maxsize=256)
def _weights(places: tuple[int, ...]) -> tuple[int, ...]:
    """Return Lagrange's weights at 0: the products of x_m / (x_m - x_j) over m other than j."""
    product = 1
    denominators = []
    for x in places:
        product = product * x % PRIME
        below = x
        for other in places:
            if other != x:
                below *= other - x
        denominators.append(below % PRIME)
    # One inversion for all of them: of their product, taken apart again from the end.
    running = [1]
    for below in denominators:
        running.append(running[-1] * below % PRIME)
    inverse = pow(running[-1], -1, PRIME)
    weights = []
    for below, before in zip(reversed(denominators), reversed(running[:-1]), strict=True):
        weights.append(product * inverse * before % PRIME)
        inverse = inverse * below % PRIME
    return tuple(reversed(weights))


def as_bits(members: Collection[int], n_clients: int) -> Bytes:
    """Return a set of clients' places as bits (ceil(n_clients / 8),).

    >>> as_bits({0, 9}, 10)
    array([128,  64], dtype=uint8)
    """
    marks = np.zeros(n_clients, dtype=np.uint8)
    marks[sorted(members)] = 1
    return np.packbits(marks)


def from_bits(bits: NDArray[Any], n_clients: int) -> tuple[int, ...]:
    """Return the places that bits stand for; IntegrityError if there is a place too many.

    >>> from_bits(np.array([128, 64], dtype=np.uint8), 10)
    (0, 9)
    """
    if bits.dtype != np.uint8 or bits.shape != ((n_clients + 7) // 8,):
        raise IntegrityError(f"a set of clients came as {bits.shape} of {bits.dtype}")
    marks = np.unpackbits(bits)
    if marks[n_clients:].any():
        raise IntegrityError("a set of clients names one that is not registered")
    return tuple(int(place) for place in np.flatnonzero(marks[:n_clients]))


def rows(pieces: Iterable[bytes], width: int) -> Bytes:
    """Return byte strings of one width as rows (n, width)."""
    return np.frombuffer(b"".join(pieces), dtype=np.uint8).reshape(-1, width)


def from_rows(array: NDArray[Any], n_rows: int, width: int) -> list[bytes]:
    """Return rows as byte strings; IntegrityError if there are other than expected.

    >>> from_rows(rows([b"ab", b"cd"], 2), 2, 2)
    [b'ab', b'cd']
    """
    if array.dtype != np.uint8 or array.shape != (n_rows, width):
        raise IntegrityError(
            f"{n_rows} rows of {width} bytes were expected, {array.shape} of {array.dtype} came"
        )
    return [row.tobytes() for row in array]


def cut(whole: bytes, width: int) -> list[bytes]:
    """Return pieces of one width.

    >>> cut(b"abcd", 2)
    [b'ab', b'cd']
    """
    return [whole[start : start + width] for start in range(0, len(whole), width)]


def share_from(content: bytes) -> int:
    """Return the share of 66 bytes; IntegrityError if it is none.

    >>> share_from((42).to_bytes(SHARE_BYTES, "little"))
    42
    """
    share = int.from_bytes(content, "little")
    if len(content) != SHARE_BYTES or share >= PRIME:
        raise IntegrityError("a share does not lie in its field")
    return share


@dataclass(frozen=True, eq=False)
class Outline:
    """A value without its numbers: kind, facts, and the type and shape of each array."""

    kind: str
    facts: Fact
    arrays: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, parts: Message) -> Outline:
        """Return the outline of a value.

        >>> Outline.of(Message("pair", {}, (np.zeros((2, 3)),))).length
        6
        """
        return cls(parts.kind, parts.facts, tuple((a.dtype.str[1:], a.shape) for a in parts.arrays))

    @classmethod
    def from_fact(cls, fact: Fact) -> Outline:
        """Return the outline that `fact` made; IntegrityError if it is malformed."""
        match fact:
            case {"kind": str(kind), "facts": dict(facts), "arrays": list(listed)}:
                return cls(kind, facts, tuple(_described(entry) for entry in listed))
        raise IntegrityError("an upload does not say what it is")

    def fact(self) -> Fact:
        arrays: list[Fact] = [[code, list(shape)] for code, shape in self.arrays]
        return {"kind": self.kind, "facts": self.facts, "arrays": arrays}

    @property
    def length(self) -> int:
        return sum(math.prod(shape) for _, shape in self.arrays)

    def digest(self) -> bytes:
        """Return the SHA-256 (32,) of the outline."""
        text = json.dumps(self.fact(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).digest()

    @property
    def is_whole(self) -> bool:
        """Whether all numbers are whole: those of every part, as its grid says.

        >>> grid, counts = {"grid": "[8,[[2,8]],0]"}, np.array([3.0])
        >>> Outline.of(Message("sums", grid, (counts, np.array([1, 2])))).is_whole
        True
        >>> Outline.of(Message("sums", grid, (counts, np.array([1.5, 2])))).is_whole
        False
        """
        facts = self.facts if isinstance(self.facts, Mapping) else {}
        return bool(self.arrays) and _is_whole(facts, self.arrays, MAX_DEPTH)

    def fill(self, residues: Residues, ring: Ring) -> Message:
        """Return the value whose numbers are residues (limbs, length).

        >>> pair = Message("pair", {}, (np.array([1.0, 2.5]), np.array([3])))
        >>> Outline.of(pair).fill(encoded(pair, Ring()), Ring()).arrays
        (array([1. , 2.5]), array([3]))
        """
        arrays, start, is_whole = [], 0, self.is_whole
        for code, shape in self.arrays:
            size, dtype = math.prod(shape), np.dtype(code)
            own = residues[:, start : start + size]
            if is_whole or dtype.kind != "f":
                numbers = decode_whole(own, ring)
                # A sum of small counts may need more room than each of them.
                numbers = numbers.astype(dtype) if dtype.itemsize == 8 else numbers
            else:
                numbers = decode(own, ring).astype(dtype)
            arrays.append(numbers.reshape(shape))
            start += size
        facts = self.facts if isinstance(self.facts, dict) else {}
        return Message(self.kind, facts, tuple(arrays))


def content_digest(outline: Outline, numbers: NDArray[Any]) -> bytes:
    """Return the SHA-256 of an outline and of numbers (limbs, L), one after the other (64,)."""
    little = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder("<"))
    return outline.digest() + hashlib.sha256(little.data).digest()


def encoded(parts: Message, ring: Ring, *, n_clients: int = 1) -> Residues:
    """Return all numbers of a value as residues (limbs, L); ValueError if one does not fit.

    Arrays of integers go in as they are; of a value in fixed point all numbers must be whole.

    >>> sums = Message("sums", {"grid": "[8,[[2,8]],0]"}, (np.array([2.0]), np.array([-3])))
    >>> encoded(sums, Ring(64, 0)).astype(np.int64)
    array([[ 2, -3]])
    """
    is_whole = Outline.of(parts).is_whole
    pieces: list[Residues] = [np.zeros((ring.limbs, 0), dtype=ring.dtype)]
    for array in parts.arrays:
        if is_whole or array.dtype.kind in "iu":
            pieces.append(encode_whole(_as_whole(array), ring, n_clients=n_clients))
        else:
            numbers = array.astype(np.float64).ravel()
            pieces.append(encode(numbers, ring, n_clients=n_clients))
    return np.concatenate(pieces, axis=1)


def _as_whole(array: NDArray[Any]) -> Integers:
    numbers = array.ravel()
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise ValueError("a count is above 2^63; it cannot be summed")
    whole = (np.abs(numbers) <= 2.0**53) & (numbers == np.rint(numbers))
    if array.dtype.kind == "f" and not whole.all():
        raise ValueError(
            f"a message in fixed point holds numbers that are not whole, of {array.shape}; use "
            "whole weights, or a map in float64"
        )
    return numbers.astype(np.int64)


def _is_whole(facts: Mapping[str, Any], arrays: Sequence[tuple[str, Any]], depth: int) -> bool:
    """Return whether a value's arrays are integers, after at most one vector of counts."""
    match facts.get("parts"):
        case list(entries) if depth:
            start = 0
            for entry in entries:
                match entry:
                    case {"facts": dict(inside), "arrays": int(count)} if count >= 0:
                        own = arrays[start : start + count]
                        if not _is_whole(inside, own, depth - 1):
                            return False
                        start += count
                    case _:
                        return False
            return start == len(arrays)
    if not arrays:
        return True
    counts = arrays[0][0] == "f8" and len(arrays[0][1]) == 1
    sums = arrays[1:] if counts else arrays
    in_fixed_point = isinstance(facts.get("grid"), str)
    return in_fixed_point and bool(sums) and all(code == "i8" for code, _ in sums)


def _described(entry: Fact) -> tuple[str, tuple[int, ...]]:
    match entry:
        case [str(code), list(shape)] if code in TYPES and len(shape) <= 8:
            if all(type(size) is int and 0 <= size < 2**32 for size in shape):
                return code, tuple(shape)
    raise IntegrityError(f"an upload describes an array as {str(entry)[:80]}")
