"""How many bytes an upload takes, counted on real messages."""

from __future__ import annotations

from catchment.readout import RidgeStatistics


def test_the_default_upload_is_half_a_gram_matrix() -> None:
    """500 units and 6 outputs: 128 250 numbers for Gram and cross instead of 253 000."""
    s = RidgeStatistics.zero(500, 6, "f" * 64)
    assert s.gram.size + s.cross.size == 128_250
    assert 500 * 500 + 500 * 6 == 253_000
    n_others = 2 + 500 + 6 + 21  # counts, feature sums, target sums, target moments
    message = s.parts().to_bytes()
    header = len(message) - 8 * (128_250 + n_others)
    assert 0 < header < 400
