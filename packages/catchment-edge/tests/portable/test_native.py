"""The C form on this machine: every integer is the one that the float64 definition gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.portable import reference
from tests.portable.cases import ARGUMENT_DIGITS, arguments, cases
from tests.portable.test_machines import argument_dumps, digest, map_dumps
from tools.portable.dump import (
    IntegerMap,
    IntegerSequence,
    dumped_arguments,
    dumped_map,
    read_answer,
    read_integers,
)
from tools.portable.machines import NATIVE

CHECKED = ("-fsanitize=undefined,address", "-fno-sanitize-recover=all", "-g")
CASES = list(cases())
PAGE = Path(__file__).parents[4] / "docs" / "concepts" / "integers.md"

pytestmark = pytest.mark.skipif(bool(NATIVE.missing()), reason=NATIVE.missing() or "there")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("portable")


@pytest.fixture(scope="module")
def program(folder: Path) -> Path:
    return NATIVE.build(folder, flags=CHECKED)


@pytest.mark.parametrize("activation", range(5))
@pytest.mark.parametrize(("p_digits", "digits"), ARGUMENT_DIGITS)
def test_activations_are_those_of_the_library(
    program: Path, activation: int, p_digits: int, digits: int
) -> None:
    p = arguments(p_digits)
    found = read_integers(NATIVE.run(program, dumped_arguments(activation, p, p_digits, digits)))
    expected = reference.activation_integers(activation, p, p_digits, digits)
    np.testing.assert_array_equal(found, expected)


def test_activations_in_whole_numbers_and_in_float64_agree(folder: Path) -> None:
    program = NATIVE.build_comparison(folder)
    assert NATIVE.run(program, b"", "20011").endswith(b" 0 different\n")


@pytest.mark.parametrize(
    ("map_", "sequences"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_every_integer_of_a_map(
    program: Path, map_: IntegerMap, sequences: list[IntegerSequence]
) -> None:
    output = NATIVE.run(program, dumped_map(map_, sequences))
    answer = read_answer(output, map_, sequences)
    rows = [reference.feature_rows(map_, sequence) for sequence in sequences]
    for k, sequence in enumerate(sequences):
        np.testing.assert_array_equal(answer.states[k], reference.states(map_, sequence.u))
        np.testing.assert_array_equal(answer.rows[k], rows[k])
    Z, Y = np.concatenate(rows), np.concatenate([sequence.y for sequence in sequences])
    assert answer.n_rows == len(Z)
    np.testing.assert_array_equal(answer.feature_sum, Z.sum(0))
    np.testing.assert_array_equal(answer.target_sum, Y.sum(0))
    np.testing.assert_array_equal(answer.gram, (Z.T @ Z)[np.triu_indices(Z.shape[1])])
    np.testing.assert_array_equal(answer.cross, Z.T @ Y)
    np.testing.assert_array_equal(answer.target_gram, (Y.T @ Y)[np.triu_indices(Y.shape[1])])


def test_words_of_two_bytes_give_the_same_integers(folder: Path, program: Path) -> None:
    small = NATIVE.build(folder, word=16, flags=CHECKED)
    for name, map_, sequences in CASES:
        dump = dumped_map(map_, sequences)
        if name.startswith("words"):
            assert NATIVE.run(small, dump) == NATIVE.run(program, dump)
        elif map_.digits > 15:
            with pytest.raises(RuntimeError, match="not fit the words"):
                NATIVE.run(small, dump)


def test_a_dump_that_ends_too_early_is_refused(program: Path) -> None:
    dump = dumped_map(*CASES[0][1:])
    with pytest.raises(RuntimeError, match="too short"):
        NATIVE.run(program, dump[:-4])
    with pytest.raises(RuntimeError, match="no dump"):
        NATIVE.run(program, b"\0" * 8)


def test_the_documentation_has_the_digests(program: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for dumps in (map_dumps(), map_dumps(words=True), argument_dumps()):
        assert f"| `{digest(NATIVE, program, dumps)[:16]}` |" in page
