"""Files: what is written comes back to the last bit, and no damage goes unseen."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import catchment
from catchment import load, save
from catchment.data import Recording
from catchment.errors import IntegrityError
from catchment.features import EchoState, Reservoir
from catchment.features.echo_state import LogUniform, MixedActivation
from catchment.readout import (
    MAX_HEADER,
    Model,
    Stored,
    accumulate,
    load_model,
    to_bytes,
    train,
)

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(60, 2))
TRICKY = 'header_sha256":"' + "0" * 64 + '"'


def trained(features: EchoState, *, classes: bool = False) -> Model:
    if classes:
        data = [Recording.labeled(RNG.normal(k, 1, (20, 2)), k, 3) for k in (0, 1, 2) * 5]
        model = train(features, data, 1e-3, classes=("sitting", TRICKY, "élan \U0001f3c3"))
        return model.calibrated(data)
    return train(features, [Recording(INPUTS, INPUTS[:, ::-1])], 1e-3)


def from_recipe(**settings: object) -> EchoState:
    recipe = Reservoir(units=30, inputs=2, seed=5)
    return EchoState.of(recipe, **settings)  # type: ignore[arg-type]


def from_matrices() -> EchoState:
    W = RNG.normal(size=(12, 12)) * (RNG.random((12, 12)) < 0.3) * 0.4
    names = ["tanh", "sin", "relu", "identity"] * 3
    bias, leak = RNG.normal(size=12), RNG.uniform(0.1, 1.0, 12)
    return EchoState.of(
        Reservoir.from_matrices(
            W, RNG.normal(size=(12, 2)), bias=bias, leak_rate=leak, activation=names
        )
    )


def deep() -> EchoState:
    recipe = Reservoir(
        units=(20, 10),
        inputs=2,
        leak_rate=(LogUniform(0.1, 1.0), 0.5),
        activation=(MixedActivation(tanh=0.5, sin=0.5), "tanh"),
    )
    return EchoState.of(recipe, bias=True, washout=3)


def plastic() -> EchoState:
    adapted = deep().reservoir.with_plasticity(RNG.uniform(0.5, 1.5, 30), RNG.normal(size=30))
    return EchoState.of(adapted, input=False)


CASES: dict[str, Callable[[], Model]] = {
    "recipe": lambda: trained(from_recipe()),
    "classes": lambda: trained(from_recipe(pool="mean_std", segments=2), classes=True),
    "deep": lambda: trained(deep()),
    "matrices": lambda: trained(from_matrices()),
    "plastic": lambda: trained(plastic()),
    "single": lambda: trained(from_recipe(precision="float32")),
    "light": lambda: replace(trained(from_recipe()), statistics=None),
}


@pytest.mark.parametrize("case", CASES)
def test_a_model_comes_back_to_the_last_bit(case: str, tmp_path: Path) -> None:
    model = CASES[case]()
    path = save(model, tmp_path / "model.safetensors")
    same = load_model(path)
    assert same.features.fingerprint == model.features.fingerprint
    assert same.features.parts().facts == model.features.parts().facts
    np.testing.assert_array_equal(same.predict(INPUTS), model.predict(INPUTS))
    np.testing.assert_array_equal(same.readout.ridge, model.readout.ridge)
    assert (same.classes, same.temperature) == (model.classes, model.temperature)
    assert same.statistics == model.statistics
    if model.classes:
        several = [INPUTS[:20], INPUTS[20:55]]
        np.testing.assert_array_equal(same.predict_proba(several), model.predict_proba(several))
        assert same.classify(several) == model.classify(several)


def test_saving_twice_gives_the_same_bytes_and_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_text("an older file")
    first = save(trained(from_recipe()), path).read_bytes()
    assert save(load_model(path), path).read_bytes() == first
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.safetensors"]


def test_the_package_offers_save_and_load(tmp_path: Path) -> None:
    model = trained(from_recipe())
    assert catchment.save is save
    same = catchment.load(str(save(model, str(tmp_path / "m"))))
    np.testing.assert_array_equal(same.predict(INPUTS), model.predict(INPUTS))


def test_other_readers_of_safetensors_see_the_tensors(tmp_path: Path) -> None:
    model = trained(from_recipe())
    tensors = safetensors.numpy.load_file(save(model, tmp_path / "m"))
    np.testing.assert_array_equal(tensors["readout.weights"], model.readout.weights)
    assert not [name for name in tensors if name.startswith("map.")]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    folder = tmp_path_factory.mktemp("stored")
    reservoir = Reservoir.from_matrices(np.eye(3) * 0.5, np.ones((3, 2)))
    path = save(trained(EchoState.of(reservoir)), folder / "model")
    return path.read_bytes(), folder


def refuses(content: bytes, folder: Path, words: str | None = None) -> None:
    damaged = folder / "damaged"
    damaged.write_bytes(content)
    with pytest.raises(IntegrityError, match=words):
        load_model(damaged)


def test_a_flipped_bit_anywhere_is_found(stored: tuple[bytes, Path]) -> None:
    content, folder = stored
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 1 << (at % 8)
        refuses(bytes(changed), folder)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_other_damage_is_found(stored: tuple[bytes, Path], data: st.DataObject) -> None:
    content, folder = stored
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, min(len(content), start + 20)))
    changed = content[:start] + data.draw(st.binary(max_size=20)) + content[stop:]
    if changed != content:
        refuses(changed, folder)


def test_a_file_cut_short_is_found(stored: tuple[bytes, Path]) -> None:
    content, folder = stored
    for size in [*range(0, len(content), 37), len(content) - 1]:
        refuses(content[:size], folder)


def resealed(content: bytes, change: Callable[[dict[str, object]], None]) -> bytes:
    """Return the file with its description changed and all header checksums made right again."""
    size = 8 + struct.unpack("<Q", content[:8])[0]
    outer = json.loads(content[8:size])
    inner = json.loads(outer["__metadata__"]["catchment"])
    change(inner)
    inner["header_sha256"] = "0" * 64
    outer["__metadata__"]["catchment"] = json.dumps(inner, sort_keys=True, separators=(",", ":"))
    text = json.dumps(outer, separators=(",", ":")).encode()
    head = struct.pack("<Q", len(text)) + text
    digest = hashlib.sha256(head).hexdigest().encode()
    mark = rb"header_sha256\":\""
    return head.replace(mark + b"0" * 64, mark + digest) + content[size:]


def facts(header: dict[str, Any]) -> dict[str, object]:
    """Return what the file says of its feature map."""
    found: dict[str, object] = header["map"]["facts"]
    return found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda header: header.update(format=3), "format 3, this version reads 2; upgrade"),
        (lambda header: header.update(kind="statistics"), "holds 'statistics'"),
        (lambda header: header.update(fingerprint="0" * 64), "fingerprint"),
        (lambda header: facts(header).update(settings={"bias": True}), "fingerprint"),
        (lambda header: facts(header).update(settings={"unheard": 1}), "unheard"),
        (lambda header: facts(header).update(settings=None), "no reservoir can be rebuilt"),
        (lambda header: header.update(map={"kind": "none", "facts": {}}), "no feature map"),
        (lambda header: header.update({"prepare": {"gaps": "wish"}}), "wish"),
        (lambda header: header.update(channels=["one"]), "1 channels are named"),
        (lambda header: header.update(tensors=None), "no checksums"),
        (lambda header: header["tensors"].popitem(), "missing or unknown"),
        (lambda header: header.update(classes=["one"]), "classes"),
        (lambda header: header.update(temperature=-1.0), "temperature"),
        (lambda header: header.update(statistics={}), "n_rows"),
        (lambda header: facts(header).update(recipe="{}"), "format"),
        (lambda header: header.pop("classes"), "classes"),
    ],
)
def test_a_well_sealed_file_with_wrong_contents_is_refused(
    stored: tuple[bytes, Path], change: Callable[[dict[str, object]], None], words: str
) -> None:
    content, folder = stored
    refuses(resealed(content, change), folder, words)


def test_resealing_without_a_change_still_loads(stored: tuple[bytes, Path]) -> None:
    content, folder = stored
    path = folder / "resealed"
    path.write_bytes(resealed(content, lambda header: None))
    assert load_model(path).readout.n_outputs == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("map.6", np.array([0, 1, 900], dtype=np.uint32)),  # columns of W
        ("map.5", np.array([0, 1, 2, 400], dtype=np.int64)),  # where its rows start
        ("map.5", np.array([0, 3, 2, 3], dtype=np.int64)),
        ("map.4", np.array([0, 0, 200], dtype=np.uint8)),  # activations
        ("map.1", np.ones(3, dtype=np.float32)),  # leak rates
        ("map.8", np.array([-1])),  # number of columns of W
        ("readout.weights", np.ones((5, 2), dtype=np.float32)),
        ("readout.weights", np.ones((4, 2))),
        ("statistics.gram", np.ones(4)),
    ],
)
def test_tensors_that_would_lead_the_kernels_astray_are_refused(
    name: str, value: NDArray[np.generic], tmp_path: Path
) -> None:
    model = trained(EchoState.of(Reservoir.from_matrices(np.eye(3) * 0.5, np.ones((3, 2)))))
    held = model.stored()
    tensors = dict(held.tensors)
    assert tensors[name].dtype != value.dtype or not np.array_equal(tensors[name], value)
    path = tmp_path / "m"
    changed: Any = SimpleNamespace(stored=lambda: replace(held, tensors=tensors | {name: value}))
    path.write_bytes(to_bytes(changed))
    with pytest.raises(IntegrityError, match=r"does not describe a model|no reservoir"):
        load_model(path)


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"", b"short", b"PK\x03\x04" * 100, b"\x00" * 100, b"\x80\x04\x95" * 50):
        path.write_bytes(content)
        with pytest.raises(IntegrityError):
            load_model(path)
    path.write_bytes(safetensors.numpy.save({"a": np.zeros(3)}))
    with pytest.raises(IntegrityError, match="not written by catchment"):
        load_model(path)
    statistics: Any = SimpleNamespace(stored=lambda: Stored("statistics"))
    path.write_bytes(to_bytes(statistics))
    with pytest.raises(IntegrityError, match="holds 'statistics'"):
        load_model(path)
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "missing")


def test_a_header_beyond_the_limit_is_neither_written_nor_read(tmp_path: Path) -> None:
    model = trained(from_recipe(pool="mean"), classes=True)
    with pytest.raises(ValueError, match="name the classes more briefly"):
        save(replace(model, classes=("a" * MAX_HEADER, "b", "c")), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
    huge = struct.pack("<Q", 1 << 62) + b"{" * 100
    (tmp_path / "huge").write_bytes(huge)
    with pytest.raises(IntegrityError, match="cut short in its header"):
        load_model(tmp_path / "huge")


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(trained(from_recipe()), tmp_path / "m")
    before = path.read_bytes()

    def full_disk(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        save(trained(deep()), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


def test_a_file_from_before_there_were_common_radii_predicts_as_it_did() -> None:
    # Its reservoir has a scale that is found otherwise today, and keeps it.
    path = Path(__file__).parent / "data" / "before_common_radius.safetensors"
    model = load_model(path)
    k = np.arange(200)
    u = (k * k * 7919 % 1009 - 504) / 256.0
    expected = [
        -0.7226031910233929,
        -0.5261906262441698,
        -0.31600906712378685,
        -0.22950551201656305,
    ]
    np.testing.assert_allclose(model.predict(u[:14])[:, 0], expected, rtol=1e-12)
    before = "3832e7a599f2f04be2e2f48fb187d9d0cb37ef0efcb9f1151494c899ca4f5765"
    assert model.features.fingerprint == before
    described = EchoState(12, seed=4, washout=10)
    today = described.build(1, per_step=True)
    assert today.fingerprint != before
    assert described.describes(model.features.parts(), 1, per_step=True)
    data = [Recording(u[:-1], u[1:])]
    assert model.statistics == accumulate(model.features, data)
    np.testing.assert_allclose(today.rows([u])[0], model.features.rows([u])[0], atol=1e-5)


def test_a_file_from_before_goes_through_a_file_of_today_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catchment, "__version__", "0.2.0")  # a file says by which it was written
    path = Path(__file__).parent / "data" / "before_common_radius.safetensors"
    assert save(load_model(path), tmp_path / "model").read_bytes() == path.read_bytes()


def test_a_model_of_which_each_output_had_its_ridge_is_read(tmp_path: Path) -> None:
    model = trained(from_recipe())
    held: Any = np.array([1e-3, 1e-1])
    kept = replace(model, readout=replace(model.readout, ridge=held)).save(tmp_path / "before")
    again = load(kept)
    np.testing.assert_array_equal(again.predict(INPUTS), model.predict(INPUTS))
    assert isinstance(again, Model)
    np.testing.assert_array_equal(again.readout.ridge, held)
