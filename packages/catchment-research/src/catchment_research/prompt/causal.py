"""Any causal language model of transformers, frozen, read at the end of prompt and context.

A batch is laid out with the padding behind: prompt, context, padding. Positions then count from 0
in every row, no real token attends to padding, and a row's scores are read at its own last real
position. An answer's tokens stand behind the context, and each is scored where it is about to be
said. (With the padding in front, or read at the last column, many models see or say something
else.) Examples are sorted by length before they are cut into batches, so that little is padded.

Weights never move and need no gradient; only the prompts do.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from catchment import Array, Integers
from catchment.arrays import PositiveInt, check_fields
from catchment.errors import MissingExtraError
from catchment_research.prompt.language import (
    Answers,
    Asked,
    Slopes,
    check_question,
    check_read,
    locate_model,
)

try:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as progress
except ImportError as error:
    raise MissingExtraError("research", needed_for="language models") from error


@dataclass(frozen=True, eq=False)
class TransformersLM:
    """A frozen causal language model.

    Parameters
    ----------
    model
        Of transformers; its weights are frozen here.
    tokenizer
        Of transformers; needed only for `tokens` and `word`.
    batch_size
        Examples that go through the model at once.
    """

    model: Any
    tokenizer: Any = None
    batch_size: PositiveInt = 64

    def __post_init__(self) -> None:
        check_fields(self)
        self.model.requires_grad_(False)
        self.model.eval()

    @classmethod
    def load(
        cls,
        name: str | Path,
        *,
        device: str = "auto",
        precision: str | None = None,
        batch_size: int = 64,
    ) -> TransformersLM:
        """Return the model of a folder, or of a name in the folder of models.

        Parameters
        ----------
        name
            A folder in the layout of transformers; or the name of one in $CATCHMENT_MODELS or
            the cache. Nothing is downloaded.
        device
            "cpu", "cuda", or "auto" for a GPU if there is one.
        precision
            "float32" or "bfloat16"; if not given, the latter on a GPU.
        """
        folder = locate_model(name)
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if precision is None:
            precision = "bfloat16" if device.startswith("cuda") else "float32"
        if precision not in ("float32", "bfloat16"):
            raise ValueError(f"precision is {precision!r}; use 'float32' or 'bfloat16'")
        with _quiet():
            model: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=getattr(torch, precision), local_files_only=True
            )
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return cls(model.to(device), tokenizer, batch_size)

    @property
    def width(self) -> int:
        return int(self._table.shape[1])

    @property
    def vocabulary(self) -> int:
        return int(self._table.shape[0])

    @cached_property
    def spread(self) -> float:
        return float(self._table.float().pow(2).mean().sqrt())

    @property
    def _table(self) -> torch.Tensor:
        weight: torch.Tensor = self.model.get_input_embeddings().weight
        return weight

    def identity(self) -> str:
        return self._identity

    @cached_property
    def _identity(self) -> str:
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
            digest.update(tensor.contiguous().cpu().view(torch.uint8).numpy().tobytes())
        return f"{type(self.model).__name__} {digest.hexdigest()}"

    def embed(self, tokens: Sequence[int] | Integers) -> Array:
        found = self._table[torch.as_tensor(np.asarray(tokens, dtype=np.int64)).to(self.device)]
        return np.asarray(found.double().cpu().numpy())

    def tokens(self, text: str) -> Integers:
        """Return the tokens (n,) of a text, without any that mark its beginning or end."""
        if self.tokenizer is None:
            raise ValueError("the model came without a tokenizer; pass one")
        found = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return np.array(found, dtype=np.int64)

    def label_words(self, words: Sequence[str], *, after: str = ".") -> tuple[int, ...]:
        """Return the first token of each word; ValueError if two words begin with the same.

        Parameters
        ----------
        words
            As they would be written on, most often with a space in front: " good", " bad".
        after
            Text that they follow.
        """
        before, found = self.tokens(after), []
        for word in words:
            whole = self.tokens(after + word)
            if len(whole) <= len(before) or (whole[: len(before)] != before).any():
                raise ValueError(f"{word!r} after {after!r} is not a word of its own; add a space")
            found.append(int(whole[len(before)]))
        if len(set(found)) < len(found):
            raise ValueError(
                f"the words {list(words)} begin with tokens {found}; choose words that differ there"
            )
        return tuple(found)

    def scores(self, prompts: Array, contexts: Sequence[Integers], words: Asked) -> Array:
        check_question(prompts, contexts, words, self)
        found = np.empty((len(prompts), _per_example(words)))
        with torch.inference_mode():
            for rows in self._batches(_whole(contexts, words)):
                p = self._on_device(prompts[rows])
                found[rows] = self._scored(p, contexts, words, rows).cpu().numpy()
        return found

    def slopes(
        self,
        prompts: Array,
        contexts: Sequence[Integers],
        words: Asked,
        labels: Integers | None = None,
    ) -> Slopes:
        check_question(prompts, contexts, words, self)
        R = _per_example(words) if labels is None else 1
        values = np.empty((len(prompts), R))
        gradients = np.empty((len(prompts), R, *prompts.shape[1:]))
        for rows in self._batches(_whole(contexts, words), copies=R):
            # A copy of each example for each gradient: one pass backwards gives them all, and a
            # GPU takes about as long for a large batch as for a small one.
            p = self._on_device(np.repeat(prompts[rows], R, axis=0)).requires_grad_()
            apart = self._scored(p, contexts, words, np.repeat(rows, R))
            if labels is None:
                wanted = torch.diagonal(apart.reshape(len(rows), R, R), dim1=1, dim2=2)
            else:
                y = torch.from_numpy(labels[rows]).to(p.device)
                # Only differences of scores matter, and the first word's is 0.
                logits = torch.nn.functional.pad(apart, (1, 0))
                wanted = torch.nn.functional.cross_entropy(logits, y, reduction="none")[:, None]
            # Rows of a batch do not see each other, so the gradient of the sum is each row's.
            (slope,) = torch.autograd.grad(wanted.sum(), p)
            values[rows] = wanted.detach().cpu().numpy()
            gradients[rows] = slope.cpu().numpy().reshape(len(rows), R, *prompts.shape[1:])
        return Slopes(values, gradients)

    def _scored(
        self, prompts: torch.Tensor, contexts: Sequence[Integers], words: Asked, rows: Integers
    ) -> torch.Tensor:
        """Return the scores (B, L - 1) or log-likelihoods (B, 1) of some rows of a question."""
        read = [contexts[row] for row in rows]
        if isinstance(words, Answers):
            return self.likelihoods(prompts, read, [words.tokens[row] for row in rows])[:, None]
        logits = self.logits(prompts, read, words)
        return logits[:, 1:] - logits[:, :1]

    def continued(
        self, prompts: Array, contexts: Sequence[Integers], most: int, end: int | None = None
    ) -> list[Integers]:
        check_read(prompts, contexts, self)
        said = [np.zeros(0, dtype=np.int64) for _ in contexts]
        going = np.arange(len(contexts))
        with torch.inference_mode():
            for _ in range(most):
                read = [np.concatenate([contexts[int(k)], said[k]]) for k in going]
                for rows in self._batches(read):
                    p = self._on_device(prompts[going[rows]])
                    logits = self.logits(p, [read[row] for row in rows], None)
                    for k, token in zip(going[rows], logits.argmax(dim=1).tolist(), strict=True):
                        said[k] = np.append(said[k], token)
                going = np.array([k for k in going if said[k][-1] != end], dtype=np.int64)
                if not len(going):
                    break
        return said

    def _batches(self, contexts: Sequence[Integers], copies: int = 1) -> Iterator[Integers]:
        """Yield the examples of each batch, those of like length together."""
        order = np.argsort([len(context) for context in contexts], kind="stable")
        size = max(1, self.batch_size // copies)
        for first in range(0, len(order), size):
            yield order[first : first + size]

    def logits(
        self,
        prompts: torch.Tensor,
        contexts: Sequence[Integers],
        words: Sequence[int] | None,
    ) -> torch.Tensor:
        """Return the logits (B, L) of words at each row's last real position.

        Parameters
        ----------
        prompts
            (B, m, d) on the model's device; gradients flow back to them.
        words
            L tokens; None for the whole vocabulary.
        """
        last = np.array([len(context) for context in contexts]) + prompts.shape[1] - 1
        return self._read(prompts, contexts, np.arange(len(contexts)), last, words)

    def likelihoods(
        self,
        prompts: torch.Tensor,
        contexts: Sequence[Integers],
        answers: Sequence[Integers],
    ) -> torch.Tensor:
        """Return the log-likelihoods (B,) of answers, each the sum over its tokens.

        Parameters
        ----------
        prompts
            (B, m, d) on the model's device; gradients flow back to them.
        """
        lengths = np.array([len(answer) for answer in answers])
        rows = np.repeat(np.arange(len(answers)), lengths)
        before = np.array([len(context) for context in contexts]) + prompts.shape[1]
        places = np.concatenate(
            [b - 1 + np.arange(n) for b, n in zip(before, lengths, strict=True)]
        )
        # The last token of an answer is never read: nothing is asked after it.
        read = [np.concatenate([c, a[:-1]]) for c, a in zip(contexts, answers, strict=True)]
        logits = self._read(prompts, read, rows, places, None)
        tokens = torch.from_numpy(np.concatenate(answers)).to(self.device)
        each = -torch.nn.functional.cross_entropy(logits, tokens, reduction="none")
        total = torch.zeros(len(answers), dtype=each.dtype, device=self.device)
        return total.index_add(0, torch.from_numpy(rows).to(self.device), each)

    def _read(
        self,
        prompts: torch.Tensor,
        contexts: Sequence[Integers],
        rows: Integers,
        places: Integers,
        words: Sequence[int] | None,
    ) -> torch.Tensor:
        """Return the logits (A, L) of words, or of all tokens, at A places of rows of a batch."""
        lengths = np.array([len(context) for context in contexts])
        tokens = np.zeros((len(contexts), lengths.max()), dtype=np.int64)
        for number, context in enumerate(contexts):
            tokens[number, : len(context)] = context
        table = self._table
        embedded = table[torch.from_numpy(tokens).to(self.device)]
        x = torch.cat([prompts.to(table.dtype), embedded], dim=1)
        steps = torch.arange(x.shape[1], device=self.device)
        ends = torch.from_numpy(lengths + prompts.shape[1]).to(self.device)
        given = {
            "inputs_embeds": x,
            "attention_mask": (steps[None] < ends[:, None]).long(),
            "position_ids": steps[None].expand(len(contexts), -1),
            "use_cache": False,
        }
        row, place = (torch.from_numpy(index).to(self.device) for index in (rows, places))
        chosen = slice(None) if words is None else torch.tensor(list(words), device=self.device)
        if self._plain_head:
            # The words that are asked about, in full precision, out of a vocabulary of thousands.
            h = self.model.base_model(**given).last_hidden_state[row, place]
            head = self.model.get_output_embeddings().weight[chosen]
            logits: torch.Tensor = h.to(self._precision) @ head.to(self._precision).T
            return logits
        kept, where = torch.unique(place, return_inverse=True)
        extra: dict[str, Any] = {"logits_to_keep": kept} if self._keeps else {}
        out = self.model(**given, **extra).logits
        found: torch.Tensor = out[row, where if self._keeps else place][:, chosen]
        return found.to(self._precision)

    @cached_property
    def _plain_head(self) -> bool:
        """Whether logits are the last states times the output matrix, with nothing after."""
        base, head = self.model.base_model, self.model.get_output_embeddings()
        if base is self.model or head is None or getattr(head, "bias", None) is not None:
            return False
        x = self._table[:2][None]
        with torch.inference_mode():
            states = base(inputs_embeds=x, use_cache=False).last_hidden_state
            whole = self.model(inputs_embeds=x, use_cache=False).logits.float()
            ours = states.float() @ head.weight.float().T
        apart = float((whole - ours).abs().max())
        return apart <= 0.02 * float(whole.abs().max())

    @cached_property
    def _keeps(self) -> bool:
        """Whether the model can leave out logits that nobody reads."""
        return "logits_to_keep" in inspect.signature(self.model.forward).parameters

    @property
    def device(self) -> torch.device:
        return self._table.device

    @property
    def _precision(self) -> torch.dtype:
        """Of prompts, scores and gradients: float32, or the model's own if that is finer."""
        return torch.promote_types(self._table.dtype, torch.float32)

    def _on_device(self, prompts: Array) -> torch.Tensor:
        return torch.tensor(prompts, dtype=self._precision, device=self.device)


def _per_example(words: Asked) -> int:
    """Return how many scores an example has."""
    return 1 if isinstance(words, Answers) else len(words) - 1


def _whole(contexts: Sequence[Integers], words: Asked) -> Sequence[Integers]:
    """Return all that a model reads behind each prompt."""
    if not isinstance(words, Answers):
        return contexts
    return [np.concatenate(pair) for pair in zip(contexts, words.tokens, strict=True)]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from drawing a bar; nothing prints but the command line."""
    drawn = progress.is_progress_bar_enabled()
    progress.disable_progress_bar()
    try:
        yield
    finally:
        if drawn:
            progress.enable_progress_bar()
