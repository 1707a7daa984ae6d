"""One model in every form: numba = numpy = C = ONNX = WebAssembly, on random recipes.

Features in fixed point are equal to the last bit in numba, in plain numpy, in C and in WebAssembly.
In float64 numba and numpy are within 1e-9, and there is no C; C and
WebAssembly are the same code and equal but for their library's tanh and the like. Scores of ONNX in
float64 are within 1e-12 of what is added up in them, those of the C within 4e-6: they are float32.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from catchment import Array, Recording
from catchment.errors import ClippingWarning
from catchment_edge import c_code
from tests.differential.plain import has_plain_form, prepared, rows_of
from tests.differential.programs import Program
from tests.differential.recipes import STEPS, Case, drawn_case
from tools.portable.machines import NATIVE, WEB, Machine

HERE, LONG = 9, 200
# A cut shorter than the washout, one that warms up as long as it is, a quotient after a product.
KNOWN = (25, 1086, 1110)
pytestmark = pytest.mark.slow


def library_rows(case: Case, u: Array) -> Array:
    """Return the feature rows that numba's kernels give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippingWarning)
        return np.concatenate(case.model.pipeline.rows([Recording(u)]))


def sizes(case: Case, z: Array) -> Array:
    """Return what is added up in scores (n, K), 1 at least."""
    readout = case.model.readout
    return np.asarray(np.maximum(1.0, np.abs(z) @ np.abs(readout.weights)))


def check_plain(case: Case, u: Array, z: Array) -> None:
    features = case.model.features
    if not has_plain_form(features):
        return
    plain = np.concatenate(
        [rows_of(features, piece) for piece in prepared(case.model.preprocessing, u)]
    )
    if features.feature_bits is not None:
        np.testing.assert_array_equal(z, plain, err_msg=f"numba and numpy: {case}")
    else:
        np.testing.assert_allclose(z, plain, rtol=1e-9, atol=1e-9, err_msg=f"numpy: {case}")


def check_c(case: Case, z: Array, answer: tuple[Array, Array, Array], *, streams: bool) -> None:
    rows, scores, mean = answer
    expected, size = case.model.readout(z), sizes(case, z)
    slack = 4e-6
    if streams:
        np.testing.assert_array_equal(rows, z, err_msg=f"C: {case}")
        assert (np.abs(scores - expected) <= slack * size).all(), f"scores of C: {case}"
    far = np.abs(mean - expected.mean(axis=0))
    assert (far <= slack * size.max(axis=0)).all(), f"mean scores of C: {case} {far}"


def check_onnx(case: Case, us: Sequence[Array], folder: Path) -> None:
    """Compare scores of the ONNX form; it takes whole recordings."""
    onnxruntime = pytest.importorskip("onnxruntime")
    from catchment_edge.onnx import to_onnx

    written = to_onnx(case.model, folder / "model.onnx", steps=case.steps)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(written.path), options)
    rank = len(session.get_inputs()[0].shape)
    for u in us:
        z = library_rows(case, u)
        found = session.run(["scores"], {"samples": u if rank == 2 else u[None]})[0]
        far = np.abs(np.asarray(found) - case.model.readout(z))
        assert (far <= 1e-12 * sizes(case, z)).all(), f"ONNX: {far.max()} {case}"


def check_all(drawn: Sequence[Case], machines: Sequence[Machine], folder: Path) -> None:
    """Compare all forms of some models, compiled into one program."""
    whole = [case for case in drawn if case.model.features.feature_bits is not None]
    codes = [c_code(case.model, name=f"m{k}", steps=case.steps) for k, case in enumerate(whole)]
    asked = [(k, u) for k, case in enumerate(whole) for u in case.tested()]
    found = [Program(machine, codes, folder, STEPS).answers(asked) for machine in machines if codes]
    for case in drawn:
        for u in case.tested():
            check_plain(case, u, library_rows(case, u))
    for place, (k, u) in enumerate(asked):
        case, z = whole[k], library_rows(whole[k], u)
        # A stream cannot take a first value before it came; `predict` has the whole recording.
        streams = not np.isnan(u[0]).any()
        for answers in found:
            check_c(case, z, answers[place], streams=streams)
    for case in drawn:
        check_onnx(case, case.tested(), folder)


def machines() -> list[Machine]:
    return [machine for machine in (NATIVE, WEB) if not _missing(machine)]


def _missing(machine: Machine) -> str:
    if machine is WEB and not _has_zig():
        return "no ziglang here; make portable installs it"
    return machine.missing()


def _has_zig() -> bool:
    from importlib.util import find_spec

    return find_spec("ziglang") is not None


# Not made smaller when it fails: each try compiles, and the case is told in full.
ONCE = settings(
    max_examples=1, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None
)
seeds = st.integers(0, 2**32 - 1)


def check_drawn(drawn: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_all([drawn_case(seed) for seed in drawn], machines(), Path(folder))


@ONCE
@given(st.lists(seeds, min_size=HERE, max_size=HERE, unique=True))
def test_a_few_random_recipes_in_every_form(drawn: list[int]) -> None:
    check_drawn([*KNOWN, *drawn])


@pytest.mark.long
@settings(ONCE, max_examples=LONG // 10)
@given(st.lists(seeds, min_size=10, max_size=10, unique=True))
def test_many_random_recipes_in_every_form(drawn: list[int]) -> None:
    check_drawn(drawn)
