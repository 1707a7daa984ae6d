"""Random numbers that are the same bits on every processor.

Word k of a stream is the SplitMix64 finalizer of seed + (k + 1) * 0x9E3779B97F4A7C15 (Steele, Lea
and Flood, OOPSLA 2014): integer arithmetic modulo 2^64, which CPU and GPU do alike. A Gaussian
number is the sum of the twelve 16-bit pieces of three words, centered and divided by its standard
deviation: no logarithm, no cosine, nothing whose last bit depends on a library. Its first three
moments are a Gaussian's, its kurtosis is 0.1 less, and it stays within six standard deviations.
"""

from __future__ import annotations

import hashlib

import torch

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_PIECES = 12
# Variance of a sum of twelve numbers uniform on 0..65535.
_STD = (_PIECES * (65536.0**2 - 1.0) / 12.0) ** 0.5
_MEAN = _PIECES * 65535.0 / 2.0


def stream(seed: int, name: str) -> int:
    """Return the 64-bit start of a named stream of a seed.

    >>> stream(1, "conv.weight") == stream(1, "conv.weight") != stream(2, "conv.weight")
    True
    """
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed is {seed}; pass an integer from 0 to 2**64 - 1")
    digest = hashlib.sha256(seed.to_bytes(8, "little") + name.encode()).digest()
    return int.from_bytes(digest[:8], "little")


def words(start: int, count: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """Return 64-bit words (count,) as int64, the same on any device.

    >>> [int(w) % 2**64 for w in words(1234567, 2)]
    [6457827717110365317, 3203168211198807973]
    """
    z = torch.arange(1, count + 1, dtype=torch.int64, device=device) * _signed(_GOLDEN)
    z = z + _signed(start)
    z = (z ^ _shifted(z, 30)) * _signed(_FIRST)
    z = (z ^ _shifted(z, 27)) * _signed(_SECOND)
    mixed: torch.Tensor = z ^ _shifted(z, 31)
    return mixed


def gaussian(
    seed: int, name: str, shape: tuple[int, ...], device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Return float32 numbers of mean 0 and variance 1, the same bits on any device.

    >>> x = gaussian(0, "w", (100, 100))
    >>> bool(abs(x.mean()) < 0.05 and abs(x.std() - 1) < 0.05)
    True
    """
    count = int(torch.Size(shape).numel())
    drawn = words(stream(seed, name), 3 * count, device).reshape(count, 3)
    total = torch.zeros(count, dtype=torch.int64, device=drawn.device)
    for place in (0, 16, 32, 48):
        total += ((drawn >> place) & 0xFFFF).sum(dim=1)
    exact = (total.to(torch.float64) - _MEAN) / _STD
    values: torch.Tensor = exact.to(torch.float32).reshape(shape)
    return values


def _shifted(z: torch.Tensor, places: int) -> torch.Tensor:
    """Return z shifted right as an unsigned number."""
    kept: torch.Tensor = (z >> places) & ((1 << (64 - places)) - 1)
    return kept


def _signed(word: int) -> int:
    word %= 1 << 64
    return word - (1 << 64) if word >= 1 << 63 else word
