"""Packed triangles against numpy's own indices of the upper triangle."""

from __future__ import annotations

import numpy as np
import pytest

from catchment.readout import matrix_size, mirror_lower, pack, packed_length, unpack, unpack_lower

pytestmark = pytest.mark.processor


@pytest.mark.parametrize("size", [0, 1, 2, 5, 63, 64, 65, 130])
def test_pack_is_numpys_upper_triangle_and_unpack_undoes_it(size: int) -> None:
    a = np.random.default_rng(size).normal(size=(size, size))
    matrix = a + a.T
    packed = pack(matrix)
    np.testing.assert_array_equal(packed, matrix[np.triu_indices(size)])
    assert len(packed) == packed_length(size)
    assert matrix_size(len(packed)) == size
    np.testing.assert_array_equal(unpack(packed), matrix)
    np.testing.assert_array_equal(np.tril(unpack_lower(packed)), np.tril(matrix))


def test_pack_takes_the_upper_triangle_in_either_memory_order() -> None:
    matrix = np.arange(9.0).reshape(3, 3)
    expected = [0.0, 1.0, 2.0, 4.0, 5.0, 8.0]
    np.testing.assert_array_equal(pack(matrix), expected)
    np.testing.assert_array_equal(pack(np.asfortranarray(matrix)), expected)


def test_unpacking_leaves_the_packed_values_alone() -> None:
    packed = np.arange(6.0)
    unpack(packed)[:] = -1.0
    np.testing.assert_array_equal(packed, np.arange(6.0))


@pytest.mark.parametrize("size", [3, 64, 100])
def test_mirror_lower_ignores_what_was_above_the_diagonal(size: int) -> None:
    a = np.random.default_rng(size).normal(size=(size, size))
    expected = np.tril(a) + np.tril(a, -1).T
    np.testing.assert_array_equal(mirror_lower(a), expected)


def test_lengths_that_are_no_triangle_and_matrices_that_are_not_square_are_refused() -> None:
    with pytest.raises(ValueError, match="5 is not the length"):
        unpack(np.zeros(5))
    with pytest.raises(ValueError, match="square"):
        pack(np.zeros((2, 3)))
