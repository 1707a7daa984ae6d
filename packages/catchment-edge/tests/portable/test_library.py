"""Every integer of the C form is the one that the library's own kernels and statistics have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catchment import Recording
from catchment.readout import FixedPoint, RidgeStatistics, accumulate
from catchment_edge.c import whole
from tests.portable.library_maps import NAMES, drawn, integers_of
from tools.portable.dump import dumped_map, read_answer, target_pieces
from tools.portable.machines import NATIVE

pytestmark = pytest.mark.skipif(bool(NATIVE.missing()), reason=NATIVE.missing() or "there")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("portable")
    return {word: NATIVE.build(folder, word=word) for word in (16, 32)}


@pytest.mark.parametrize("name", NAMES)
def test_the_library_has_the_same_integers(name: str, programs: dict[int, Path]) -> None:
    features, us, ys = drawn(name)
    map_, sequences = integers_of(features, us, ys)
    dump = dumped_map(map_, sequences)
    assert not name.startswith("cut") or 0 < map_.cut[0] < min(map(len, us))
    output = NATIVE.run(programs[32], dump)
    answer = read_answer(output, map_, sequences)
    rows = features.rows(us)
    digits = features.feature_digits
    for k, states in enumerate(features.reservoir.run(us)):
        np.testing.assert_array_equal(answer.states[k], whole(states, map_.digits))
        np.testing.assert_array_equal(answer.rows[k], whole(rows[k], digits))
    skipped = np.zeros((features.washout, 3))
    targets = [np.concatenate([skipped, y]) if features.per_step else y[0] for y in ys]
    recordings = [Recording(u, y) for u, y in zip(us, targets, strict=True)]
    expected = accumulate(features, recordings, classes=True)
    assert answer.statistics(features) == expected
    assert answer.statistics(features).digest() == expected.digest()
    if name == "words":
        assert NATIVE.run(programs[16], dump) == output


def test_targets_that_are_numbers_go_in_pieces(programs: dict[int, Path]) -> None:
    features, us, ys = drawn("steps")
    rng = np.random.default_rng(8)
    numbers = [rng.normal(size=(len(y), 2)) * [1.0, 1e6] for y in ys]
    map_, sequences = integers_of(features, us, [target_pieces(y) for y in numbers])
    output = NATIVE.run(programs[32], dumped_map(map_, sequences))
    found = read_answer(output, map_, sequences).statistics(features, classes=False)
    expected = RidgeStatistics.from_states(
        np.concatenate(features.rows(us)),
        np.concatenate(numbers),
        fingerprint=features.fingerprint,
        fixed=FixedPoint.of(features, classes=False),
    )
    assert found == expected
    assert found.digest() == expected.digest()
