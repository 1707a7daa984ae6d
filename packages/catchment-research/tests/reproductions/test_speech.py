"""The speech encoder in one file against its two networks, scipy and its publisher's figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.signal import resample_poly
from sklearn.metrics import f1_score

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnxruntime

import catchment as ct
from catchment.errors import MissingDataError
from catchment_edge import Encoder
from catchment_lab.datasets import Dataset
from reproductions import speech
from reproductions.speech_frames import MACHINE
from reproductions.speech_graph import (
    FILES,
    LENGTH,
    doubling_filter,
    joined,
    locate_networks,
    write_encoder,
)


@pytest.fixture(scope="module")
def networks() -> dict[str, Path]:
    try:
        return locate_networks()
    except MissingDataError:
        pytest.skip("the speech encoder is not on this machine")


def apart(networks: dict[str, Path], clip: Any) -> Any:
    """Return what the two networks give one after the other, as their description says."""
    mel, net = (onnxruntime.InferenceSession(networks[name]) for name in FILES)
    x = resample_poly(clip.astype(np.float32), 2, 1)
    x = (x / (np.abs(x).max() + 1e-9) * 12000)[:LENGTH]
    left = (LENGTH - len(x)) // 2
    x = np.pad(x, (left, LENGTH - len(x) - left)).astype(np.float32)
    frames = mel.run(None, {"input": x[None]})[0].squeeze() / 10 + 2
    windows = np.stack([frames[k : k + 76] for k in range(0, len(frames) - 75, 8)])
    return net.run(None, {"input_1": windows[..., None]})[0].reshape(len(windows), 96)


@pytest.mark.parametrize("n", [3, 2384, 2385, 12000])
def test_one_file_gives_what_the_two_networks_give(
    networks: dict[str, Path], tmp_path: Path, n: int
) -> None:
    clip = 0.3 * np.random.default_rng(n).normal(size=n)
    path = tmp_path / "whole.onnx"
    whole = Encoder(path, write_encoder(networks, path), layout="1T", bits=None, bound=1e6)
    (z,) = whole.build(1, per_step=False).rows([clip[:, None]])
    np.testing.assert_allclose(z.reshape(7, 96), apart(networks, clip), atol=2e-2)


def test_the_first_clip_gives_the_published_figures(
    networks: dict[str, Path], tmp_path: Path
) -> None:
    try:
        first = speech.load_sound().clients["george"][0].u
    except MissingDataError:
        pytest.skip("the spoken digits are not on this machine")
    path = tmp_path / "whole.onnx"
    whole = Encoder(path, write_encoder(networks, path), layout="1T", bits=None, bound=1e6)
    z = whole.build(1, per_step=False).rows([first])[0].reshape(7, 96)
    assert z[3, :5].round(2).tolist() == [-11.50, 8.88, 8.33, -6.12, -13.34]
    lengths = [174.1, 176.6, 177.7, 159.3, 147.2, 134.2, 132.9]
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), lengths, atol=0.1)


def test_the_same_networks_are_joined_to_the_same_bytes(networks: dict[str, Path]) -> None:
    one, two = (joined(networks).SerializeToString(deterministic=True) for _ in range(2))
    assert one == two


def test_the_filter_is_that_of_resample_poly() -> None:
    x = np.random.default_rng(0).normal(size=50)
    stuffed = np.zeros(100)
    stuffed[::2] = x
    ours = np.convolve(stuffed, doubling_filter())[20:120]
    np.testing.assert_allclose(ours, resample_poly(x, 2, 1), atol=1e-6)


def digits() -> Dataset:
    rng = np.random.default_rng(0)
    clients = {
        name: [
            ct.Recording.labeled(
                np.sin(np.arange(900)[:, None] * (0.1 + 0.2 * k)) + 0.1 * rng.normal(size=(900, 1)),
                k,
                ("low", "high"),
            )
            for k in (0, 1)
            for _ in range(6)
        ]
        for name in ("ann", "ben", "cat")
    }
    return Dataset(name="toy", clients=clients, channels=("audio",), classes=("low", "high"))


def test_cells_are_kept_and_taken_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = ct.Preprocessing(scale="none")
    map_of_own = ct.EchoState(1, state=False).build(1, per_step=False, classes=True)
    several = (
        speech.Method("samples", lambda: speech.Remembered(map_of_own), True, raw),
        speech.Method("mel", lambda: ct.EchoState(1, state=False), False),
    )
    monkeypatch.setattr(speech, "load_sound", lambda directory: digits())
    monkeypatch.setattr(speech, "methods", lambda directory: several)
    said: list[str] = []
    first = speech.speech(out=tmp_path, began=said.append)
    assert len(said) == 12
    kept = json.loads((tmp_path / "speech.json").read_text())
    assert kept["cells"] == first["cells"]
    by_name = {(c["method"], c["speaker"]): c for c in kept["cells"]}
    assert by_name["most frequent digit", "ann"]["accuracy"] == 0.5
    assert by_name["mel", "cat"]["accuracy"] == 1.0
    assert by_name["samples", "cat"]["rounds"] == 1
    assert "| mel | 48 |" in (tmp_path / "speech.md").read_text()
    kept["cells"] = [c for c in kept["cells"] if c["speaker"] != "ben"]
    (tmp_path / "speech.json").write_text(json.dumps(kept))
    said.clear()
    speech.speech(out=tmp_path, began=said.append)
    names = ("most frequent digit", "samples", "mel", MACHINE)
    assert said == [f"{name}: without ben" for name in names]
    said.clear()
    quick = speech.speech(out=tmp_path, quick=True, began=said.append)
    assert len(said) == 12
    assert {c["n_tested"] for c in quick["cells"]} == {10}  # type: ignore[union-attr, index, call-overload]


def test_a_remembered_map_gives_the_rows_of_its_own() -> None:
    inner = ct.EchoState(3).build(1, per_step=False, classes=True)
    us = [one.u for one in digits().clients["ann"][:3]]
    outer = speech.Remembered(inner)
    for _ in range(2):
        for ours, theirs in zip(outer.rows(us), inner.rows(us), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_macro_f1_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    label, said = rng.integers(0, 4, size=(2, 60))
    label[label == 3] = 0  # one digit is not there, and is said
    tested = [ct.Recording.labeled(np.zeros(3), int(k), 4) for k in label]
    accuracy, macro_f1 = speech._scores(tested, said)
    assert accuracy == (label == said).mean()
    assert macro_f1 == pytest.approx(f1_score(label, said, average="macro", labels=[0, 1, 2]))
