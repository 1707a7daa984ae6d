"""Frozen networks as maps: numpy's own arithmetic, files found by hash, and what is refused."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("catchment_edge")

from onnx import TensorProto

import catchment as ct
from catchment.data import MODELS_ENVIRONMENT
from catchment.errors import ClippingWarning, IntegrityError, MissingDataError
from catchment.features import FeatureMap, FeatureUnion, restored
from catchment.plans import parse_plan
from catchment.testing import check_feature_map
from catchment.wire import Message
from catchment_edge import CPU, CUDA, Encoder
from tests.features.onnx_graphs import WEIGHTS, write
from tests.features.test_concat import people, traveled, workflow

RNG = np.random.default_rng(8)
INPUTS = [RNG.normal(size=(n, 3)) for n in (40, 25, 60)]
SAME = [RNG.normal(size=(5, 3)) for _ in range(4)]


@pytest.fixture
def tiny(tmp_path: Path) -> Encoder:
    path = tmp_path / "tiny.onnx"
    return Encoder(path, write(path), pool="mean", bound=8.0)


def relu(u: Any) -> Any:
    return np.maximum(np.asarray(u, dtype=np.float32) @ WEIGHTS, 0)


def test_the_mean_is_numpys_in_fixed_point(tiny: Encoder) -> None:
    built = tiny.build(3, per_step=False, classes=True)
    assert (built.n_features, built.bits, built.standardize) == (4, 8, True)
    expected = [relu(u).astype(float).mean(0, keepdims=True) for u in INPUTS]
    for z, one in zip(built.rows(INPUTS), expected, strict=True):
        np.testing.assert_allclose(z, one, atol=8 / 2**8 / 2 * 1.01)
        np.testing.assert_array_equal(z * 2**5, np.rint(z * 2**5))
    plain = Encoder(tiny.onnx, tiny.sha256, pool="mean", bits=None).build(3, per_step=False)
    for z, one in zip(plain.rows(INPUTS), expected, strict=True):
        np.testing.assert_allclose(z, one, rtol=1e-5)


def test_all_numbers_of_an_output_are_features(tiny: Encoder) -> None:
    flat = Encoder(tiny.onnx, tiny.sha256, features=20, bits=None)
    for u, z in zip(SAME, flat.build(3, per_step=False).rows(SAME), strict=True):
        np.testing.assert_allclose(z, relu(u).reshape(1, 20), rtol=1e-5)


@pytest.mark.parametrize(
    ("layout", "shape", "laid"),
    [
        ("1TI", (1, "T", 3), lambda u: u[None]),
        ("1IT", (1, 3, "T"), lambda u: u.T[None]),
        ("TI", ("T", 3), lambda u: u),
        ("IT", (3, "T"), lambda u: u.T),
        ("1TI1", (1, "T", 3, 1), lambda u: u[None, ..., None]),
        ("11TI", (1, 1, "T", 3), lambda u: u[None, None]),
        ("1T", (1, "T"), lambda u: u[None, :, 0]),
        ("T", ("T",), lambda u: u[:, 0]),
    ],
)
def test_axes_are_laid_out_as_declared(
    tmp_path: Path, layout: Any, shape: tuple[Any, ...], laid: Any
) -> None:
    path = tmp_path / "same.onnx"
    sha256 = write(path, nodes=[("Identity", ["x"], ["y"], {})], shape=shape, gives=shape)
    n = 1 if "I" not in layout else 3
    built = Encoder(path, sha256, features=5 * n, layout=layout, bits=None).build(n, per_step=False)
    for u in SAME:
        (z,) = built.rows([u[:, :n]])
        np.testing.assert_array_equal(z[0], laid(u[:, :n]).astype(np.float32).ravel())


def test_threads_and_company_change_nothing(tiny: Encoder) -> None:
    built = tiny.build(3, per_step=False)
    together = built.rows(INPUTS, threads=2)
    for u, z in zip(INPUTS, together, strict=True):
        np.testing.assert_array_equal(built.rows([u], threads=1)[0], z)


def test_it_keeps_the_contract(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODELS_ENVIRONMENT, str(Path(tiny.onnx).parent))
    check_feature_map(tiny.build(3, per_step=False, classes=True))


def test_the_path_is_no_part_of_the_recipe(tiny: Encoder, tmp_path: Path) -> None:
    there = tmp_path / "elsewhere"
    there.mkdir()
    other = Encoder(there / "another name.onnx", write(there / "another name.onnx"))
    other = Encoder(other.onnx, other.sha256, pool="mean", bound=8.0)
    ours, theirs = (one.build(3, per_step=False, classes=True) for one in (tiny, other))
    assert ours.fingerprint == theirs.fingerprint
    assert str(tmp_path).encode() not in ours.parts().to_bytes()
    assert workflow(tiny).fingerprint == workflow(other).fingerprint
    known = traveled(workflow(other).start())
    assert workflow(tiny).agrees("training", known)
    assert (
        Encoder(tiny.onnx, tiny.sha256, bound=8.0, features=4).build(3, per_step=False).fingerprint
        != tiny.build(3, per_step=False).fingerprint
    )


def test_elsewhere_the_file_is_found_by_its_hash(
    tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = tiny.build(3, per_step=False, classes=True)
    again = restored(Message.from_bytes(built.parts().to_bytes()))
    monkeypatch.setenv(MODELS_ENVIRONMENT, str(tmp_path / "none"))
    with pytest.raises(MissingDataError, match=r"no \.onnx file in .*none.* has SHA-256"):
        again.rows(INPUTS)
    deep = tmp_path / "models" / "deep"
    deep.mkdir(parents=True)
    write(deep / "a.onnx", gives=(1, "T", "F"))
    Path(tiny.onnx).rename(deep / "b.onnx")
    monkeypatch.setenv(MODELS_ENVIRONMENT, str(tmp_path / "models"))
    expected = [relu(u).astype(float).mean(0, keepdims=True) for u in INPUTS]
    for z, one in zip(again.rows(INPUTS), expected, strict=True):
        np.testing.assert_allclose(z, one, atol=8 / 2**8)


SCRIPT = """
import sys, numpy as np, catchment as ct
u = np.random.default_rng(8).normal(size=(40, 3))
print(ct.load(sys.argv[1]).outputs([u])[0].tobytes().hex())
"""


def test_federated_beside_a_reservoir_and_loaded_in_another_process(
    tiny: Encoder, tmp_path: Path
) -> None:
    run = ct.federate(FeatureUnion(ct.EchoState(8), tiny), people(), ridge=0.1)
    run.model.save(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "model")],
        env=os.environ | {MODELS_ENVIRONMENT: str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    u = np.random.default_rng(8).normal(size=(40, 3))
    assert done.stdout.strip() == run.model.outputs([u])[0].tobytes().hex()


def refused(
    path: Path, words: str, *, error: type[Exception] = ValueError, **settings: Any
) -> None:
    sha256 = settings.pop("sha256", None) or write(path, **settings.pop("graph", {}))
    with pytest.raises(error, match=words):
        Encoder(path, sha256, **settings).build(3, per_step=False).rows(INPUTS)


def test_files_that_are_not_what_was_meant_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.onnx"
    write(path)
    refused(path, "has SHA-256", error=IntegrityError, sha256="0" * 64)
    refused(tmp_path / "none.onnx", "there is no file", error=MissingDataError, sha256="0" * 64)
    path.write_bytes(b"junk")
    junk = hashlib.sha256(b"junk").hexdigest()
    refused(path, "no network that can be run", sha256=junk)
    with pytest.raises(ValueError, match="sha256 is 'abc'; give the file's SHA-256"):
        Encoder(path, "abc")


def test_weights_outside_the_file_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(
        tmp_path / "tiny.onnx",
        "no network that can be run .* in one file",
        graph={"outside": "weights.bin"},
        pool="mean",
    )


def test_shapes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.onnx"
    refused(path, r"has shape \[1, 'T', 4\], which leaves .* open; pass features")
    refused(path, "160 features, and 20 were promised; use recordings of one length", features=20)
    refused(path, "cannot be given an array of shape .* another layout", features=4, layout="1IT")
    refused(path, "has no output 'z'; choose one of y", output="z")
    refused(
        path,
        "takes x tensor.double.*one input of float32",
        graph={
            "kind": TensorProto.DOUBLE,
            "nodes": [("Identity", ["x"], ["y"], {})],
            "gives": (1, "T", 3),
        },
    )
    tiny = Encoder(path, write(path), pool="mean")
    with pytest.raises(ValueError, match="one row for a recording"):
        tiny.build(3, per_step=True)
    with pytest.raises(ValueError, match="choose a layout with I"):
        Encoder(path, tiny.sha256, layout="1T").build(3, per_step=False)
    with pytest.raises(ValueError, match="layout is 'TTI'; give '1TI', "):
        Encoder(path, tiny.sha256, layout="TTI")  # type: ignore[arg-type]


def test_values_beyond_the_bound_are_cut_off_and_said(tiny: Encoder) -> None:
    built: FeatureMap = Encoder(tiny.onnx, tiny.sha256, pool="mean", bound=0.25).build(
        3, per_step=False
    )
    with pytest.warns(ClippingWarning, match=r"lie beyond 0\.25 .* pass a larger bound"):
        rows = built.rows(INPUTS)
    assert np.abs(rows).max() == 0.25


def test_a_gpu_is_asked_for_in_plain_float32(
    tiny: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a provider for GPUs rows come from the CPU; with one, it is the first choice."""
    torch = pytest.importorskip("torch", reason="needs torch")
    import onnxruntime

    from catchment_gpu import HostForm, form_of

    inner, gpu = tiny.build(3, per_step=False), torch.device("cuda")
    form = form_of(inner, gpu)
    assert isinstance(form, HostForm)
    expected = inner.compute_rows(INPUTS, 1)
    asked, start = [], onnxruntime.InferenceSession

    def session(content: bytes, options: Any, providers: list[Any]) -> Any:
        asked.append(providers)
        return start(content, options, providers=[CPU])

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    for there, wanted in (["CPU"], []), ([CUDA], [[(CUDA, {"device_id": 0, "use_tf32": 0}), CPU]]):
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda there=there: there)
        assert len(form.made(INPUTS)) == len(INPUTS)
        assert asked == wanted
    for z, one in zip(form.made(INPUTS), expected, strict=True):
        np.testing.assert_array_equal(z, one)


def test_a_network_is_found_from_the_plan_on(tmp_path: Path) -> None:
    inner = f'{{ map = "encoder", onnx = "net.onnx", sha256 = "{"0" * 64}", features = 4 }}'
    text = '[data]\nsource = "wearables"\n[features]\nmap = "feature_union"\n'
    text += f'maps = [{inner}, "window_statistics"]\n'
    (found,) = parse_plan(text, base=tmp_path).maps
    assert isinstance(found, ct.FeatureUnion)
    assert isinstance(found.maps[0], Encoder)
    assert found.maps[0].onnx == tmp_path / "net.onnx"
