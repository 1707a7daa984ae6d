"""What reservoir prompts are judged against: adapters inside the language model, federated.

Low-rank adapters (LoRA, Hu et al., 2021; made by peft) and plain soft prompts (Lester et al.,
2021), trained by clients that hold the whole language model themselves. Each round the server sends
the adapter, clients take local steps, and the mean of their changes, weighted by examples, moves
the server: the same loop, clients, rounds and batches as for reservoir prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from catchment import Integers
from catchment.errors import MissingExtraError
from catchment.federation import Algorithm, Data, RoundContext
from catchment.wire import Message
from catchment_research.learn import Arrays, Mean, Progress, ServerOptimizer, TrainedSum
from catchment_research.partial import LocalSteps, gaussian
from catchment_research.prompt import Example, TransformersLM, as_tokens

try:
    import torch
    from peft import LoraConfig, inject_adapter_in_model
except ImportError as error:
    raise MissingExtraError("research", needed_for="adapters of language models") from error

Floats = tuple[NDArray[np.float32], ...]
NOTHING_TOLD = Progress()
STEPS = LocalSteps(optimizer="adam", learning_rate=1e-3, batch_size=32)
MEAN = Mean()


@dataclass(frozen=True, kw_only=True)
class Lora:
    """Low-rank changes B A alpha / rank of some matrices of every layer; B starts at zero."""

    rank: int = 8
    alpha: int = 16
    targets: tuple[str, ...] = ("q_proj", "v_proj")

    def __post_init__(self) -> None:
        if self.rank < 1 or self.alpha < 1 or not self.targets:
            raise ValueError(
                f"rank {self.rank}, alpha {self.alpha} and {len(self.targets)} targets; "
                "all must be above 0"
            )


@dataclass(frozen=True, kw_only=True)
class SoftPrompt:
    """Vectors in front of the context, which start as the embeddings of these tokens."""

    words: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.words:
            raise ValueError("a prompt of no vectors trains nothing; pass at least one word")


@dataclass(frozen=True, eq=False)
class Adapted:
    """The adapter's values so far, what the server's optimizer remembers, and how clients did."""

    values: Arrays
    memory: Arrays = ()
    progress: Progress = NOTHING_TOLD


@dataclass(frozen=True, kw_only=True, eq=False)
class AdapterTraining(Algorithm[Adapted, TrainedSum, "Speaker"]):
    """Federated averaging of an adapter; the language model is on every client.

    Parameters
    ----------
    language
        The frozen language model; it is copied, and left as it is.
    words
        Tokens of the label words.
    adapter
        What is trained.
    steps
        What a client does in a round.
    optimizer
        What the server does with the mean change.
    seed
        Of the adapter's start.
    initial
        Values to begin with instead.
    """

    language: TransformersLM
    words: tuple[int, ...]
    adapter: Lora | SoftPrompt
    steps: LocalSteps = STEPS
    optimizer: ServerOptimizer = MEAN
    seed: int = 0
    initial: Arrays | None = None

    @property
    def n_trained(self) -> int:
        """Numbers that are trained, and travel in every round."""
        return sum(p.numel() for p in self.fitted.trained)

    def start(self) -> Adapted:
        values = self.initial or tuple(p.astype(np.float64) for p in self.fitted.start)
        return Adapted(values, self.optimizer.start(values))

    def broadcast(self, state: Adapted, context: RoundContext) -> Message:
        return Message("adapter", {}, tuple(value.astype(np.float32) for value in state.values))

    def group_size(self, n_clients: int, n_threads: int) -> int:
        """Return all clients: they share one copy of the network, so one thread serves them."""
        return max(1, n_clients)

    def client_update(self, received: Message, data: Data, context: RoundContext) -> TrainedSum:
        return self.client_updates(received, [(data, context)])[0]

    def client_updates(
        self, received: Message, clients: Sequence[tuple[Data, RoundContext]]
    ) -> list[TrainedSum]:
        values = received.expect("adapter", len(self.fitted.trained)).arrays
        found = []
        for data, context in clients:
            examples = cast(list[Example], list(data()))
            if not examples:
                raise ValueError("the client has no examples; pass at least one")
            after, loss = self._trained(values, examples, context.rng())
            moved = tuple(a.astype(np.float64) - b for a, b in zip(after, values, strict=True))
            found.append(TrainedSum.of(moved, float(len(examples))).told(Progress(loss)))
        return found

    def _trained(
        self, values: Floats, examples: Sequence[Example], rng: np.random.Generator
    ) -> tuple[Floats, float]:
        """Return the values after a client's steps, and the mean loss of the examples they met."""
        fitted, losses, met = self.fitted, 0.0, 0
        fitted.set(values)
        rule = torch.optim.Adam if self.steps.optimizer == "adam" else torch.optim.SGD
        optimizer = rule(fitted.trained, lr=self.steps.learning_rate)
        labels = np.array([example.label for example in examples])
        for rows in self.steps.schedule(len(examples), rng):
            rows = rows[rows >= 0]
            logits = fitted.logits([as_tokens(examples[k].context) for k in rows], self.words)
            y = torch.from_numpy(labels[rows]).to(logits.device)
            loss = torch.nn.functional.cross_entropy(logits, y)
            losses, met = losses + loss.item() * len(rows), met + len(rows)
            for parameter, slope in zip(
                fitted.trained, torch.autograd.grad(loss, fitted.trained), strict=True
            ):
                parameter.grad = slope
            optimizer.step()
        return fitted.get(), losses / met

    def read_update(self, parts: Message, context: RoundContext) -> TrainedSum:
        shapes = [value.shape for value in self.fitted.start]
        return TrainedSum.from_message(parts).expect(*shapes)

    def server_update(self, state: Adapted, total: TrainedSum, context: RoundContext) -> Adapted:
        values, memory = self.optimizer.step(state.values, total.mean(), state.memory)
        return Adapted(values, memory, total.progress(scored=False))

    def figures(self, state: Adapted) -> dict[str, float]:
        return state.progress.figures

    @cached_property
    def fitted(self) -> _Fitted:
        return _Fitted.of(self.language, self.adapter, self.seed)

    def result(self, state: Adapted) -> Speaker:
        """Return the language model with the adapter's values."""
        return Speaker(self, state.values)


@dataclass(frozen=True, eq=False)
class Speaker:
    """A language model with a trained adapter."""

    training: AdapterTraining
    values: Arrays

    def guesses(self, examples: Sequence[Example]) -> Integers:
        """Return the label (n,) whose word scores highest."""
        fitted = self.training.fitted
        fitted.set(tuple(value.astype(np.float32) for value in self.values))
        contexts = [as_tokens(example.context) for example in examples]
        order = np.argsort([len(context) for context in contexts], kind="stable")
        found = np.empty(len(examples), dtype=np.int64)
        with torch.no_grad():
            for rows in np.split(order, range(256, len(order), 256)):
                logits = fitted.logits([contexts[row] for row in rows], self.training.words)
                found[rows] = logits.argmax(dim=1).cpu().numpy()
        return found

    def accuracy(self, examples: Sequence[Example]) -> float:
        """Return the share of examples whose label word scores highest."""
        labels = np.array([example.label for example in examples])
        return float((self.guesses(examples) == labels).mean())


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A copy of the language model with the adapter in place."""

    language: TransformersLM
    trained: list[torch.nn.Parameter]
    prompt: torch.nn.Parameter | None
    start: Floats

    @classmethod
    def of(cls, language: TransformersLM, adapter: Lora | SoftPrompt, seed: int) -> _Fitted:
        if isinstance(adapter, SoftPrompt):
            begin = torch.from_numpy(language.embed(adapter.words).astype(np.float32))
            prompt = torch.nn.Parameter(begin.to(language.device))
            return cls(language, [prompt], prompt, (begin.numpy().copy(),))
        copy = TransformersLM(deepcopy(language.model), language.tokenizer, language.batch_size)
        config = LoraConfig(
            r=adapter.rank, lora_alpha=adapter.alpha, target_modules=list(adapter.targets)
        )
        inject_adapter_in_model(config, copy.model)
        named = [(n, p) for n, p in copy.model.named_parameters() if p.requires_grad]
        for name, parameter in named:
            # Peft's start depends on torch's global generator; ours is the same on every machine.
            begin = torch.zeros(parameter.shape)
            if "lora_A" in name:
                bound = parameter.shape[1] ** -0.5
                begin = gaussian(seed, name, tuple(parameter.shape)) * bound
            parameter.data = begin.to(parameter.device)
        trained = [p for _, p in named]
        return cls(copy, trained, None, tuple(p.detach().cpu().numpy().copy() for p in trained))

    def logits(self, contexts: Sequence[Integers], words: Sequence[int]) -> torch.Tensor:
        """Return the logits (n, L) of label words after the prompt, if any, and the contexts."""
        n, width = len(contexts), self.language.width
        if self.prompt is None:
            before = torch.zeros((n, 0, width), device=self.language.device)
        else:
            before = self.prompt.expand(n, -1, -1)
        return self.language.logits(before, contexts, words)

    def set(self, values: Floats) -> None:
        with torch.no_grad():
            for parameter, value in zip(self.trained, values, strict=True):
                parameter.copy_(torch.from_numpy(value))

    def get(self) -> Floats:
        return tuple(p.detach().cpu().numpy().copy() for p in self.trained)
