from __future__ import annotations

import numpy as np
import pytest
import torch

from catchment_research.partial import gaussian, stream, words


def splitmix(state: int, count: int) -> list[int]:
    """The generator as published, in Python's own integers."""
    out, mask = [], (1 << 64) - 1
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out.append(z ^ (z >> 31))
    return out


@pytest.mark.parametrize("start", [0, 1, 1234567, 2**63, 2**64 - 1])
def test_words_are_splitmix64(start: int) -> None:
    got = [int(w) % 2**64 for w in words(start, 50)]
    assert got == splitmix(start, 50)


def test_gaussian_is_the_sum_of_the_pieces_of_three_words() -> None:
    drawn = np.array(splitmix(stream(5, "w"), 3 * 40), dtype=np.uint64).reshape(40, 3)
    pieces = [(drawn >> np.uint64(k)) & np.uint64(0xFFFF) for k in (0, 16, 32, 48)]
    total = sum(p.astype(np.int64).sum(axis=1) for p in pieces)
    exact = (np.asarray(total) - 12 * 65535 / 2) / np.sqrt(65536.0**2 - 1)
    assert np.array_equal(gaussian(5, "w", (40,)).numpy(), exact.astype(np.float32))


def test_gaussian_has_the_moments_it_states() -> None:
    x = gaussian(0, "moments", (400, 500)).to(torch.float64).numpy().ravel()
    assert abs(x.mean()) < 0.01
    assert abs(x.var() - 1) < 0.01
    assert abs((x**3).mean()) < 0.03
    assert abs((x**4).mean() - 2.9) < 0.05


def test_streams_differ_by_name_and_seed() -> None:
    one = gaussian(1, "a", (1000,)).numpy()
    for other in (gaussian(1, "b", (1000,)).numpy(), gaussian(2, "a", (1000,)).numpy()):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.15


def test_a_seed_beyond_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="seed is"):
        stream(2**64, "w")
