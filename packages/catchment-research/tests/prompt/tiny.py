"""A tiny random language model with a tokenizer of whole words, for tests without downloads."""

from __future__ import annotations

from pathlib import Path

VOCABULARY = (
    *("<unk>", ":", ".", "?", "The", "person", "is", "Go", "Review", "Sentiment"),
    *("a", "b", "film", "good", "bad", "nice", "dull", "one", "word", "Answer", "with"),
    *("left", "right", "home", "negative", "positive", "walking", "climbing"),
    *("descending", "sitting", "standing", "lying", "jogging"),
)


def tiny_model(folder: Path) -> Path:
    """Return a folder in the layout of transformers: two layers of width 16, random weights."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.4,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    words = {word: number for number, word in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    whole = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")
    whole.save_pretrained(folder)
    return folder
