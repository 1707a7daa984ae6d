"""What prompts and low-rank adapters cost: the published table, what it leaves out, and ours.

A description of reservoir prompts (FedResPrompt, in the documentation of esnfed 1.7.1) compares
them with federated LoRA for five sizes of language model, width d and n layers:

    prompt bytes   2 m d 4               LoRA bytes   2 * 4 n * 2 * 2 r d
    edge FLOPs     T N^2 + k (N + 2)     LoRA FLOPs   6 (12 n d^2) 64

`published` gives these, to the digit. They do not compare like with like: the prompt's bytes are of
one example and the adapter's of one round; the controller, k (N + 2) + m d k numbers each way in a
round, is left out, and so are P and everything that the client computes backwards; a
multiplication and addition count as one; and the adapter's backward pass is charged for gradients
of frozen weights, which nobody computes. `corrected` counts per round and client, everything
included, two operations for a multiplication and addition, and 4 n_parameters per token for LoRA.

`frozen` is this library's variant: P from a seed and applied at the server, labels kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from catchment.wire import Message
from catchment_research.learn import TrainedSum
from catchment_research.prompt import Answer, Projection, Question

FLOAT = 4


@dataclass(frozen=True)
class Size:
    """A language model by its width and layers; the name is of one that has them.

    >>> Size("GPT-2", 768, 12).parameters
    84934656
    """

    name: str
    width: int
    layers: int

    @property
    def parameters(self) -> int:
        """12 n d^2: attention and feed-forward matrices, no embeddings."""
        return 12 * self.layers * self.width**2


SIZES = (
    Size("GPT-2", 768, 12),
    Size("GPT-2 large", 1280, 36),
    Size("OPT 1.3B", 2048, 24),
    Size("Llama 7B", 4096, 32),
    Size("Llama 13B", 5120, 40),
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything that the costs depend on besides the language model, as published.

    Parameters
    ----------
    units, inputs, steps
        N, I and T of the reservoir; it reads states, inputs and a constant, N + I + 1 features.
    bottleneck, length
        k, and m prompt vectors.
    rank, adapted
        r, and adapted matrices per layer, each with 2 r d numbers.
    tokens
        Of one example, for LoRA.
    labels
        L label words.
    """

    units: int = 200
    inputs: int = 1
    steps: int = 30
    bottleneck: int = 16
    length: int = 10
    rank: int = 8
    adapted: int = 2
    tokens: int = 64
    labels: int = 2

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1 + (name == "labels"):
                raise ValueError(f"{name} is {value}; pass at least {1 + (name == 'labels')}")

    @property
    def features(self) -> int:
        return self.units + self.inputs + 1

    def lora_floats(self, size: Size) -> int:
        """Numbers of the adapters, one way."""
        return size.layers * self.adapted * 2 * self.rank * size.width

    def prompt_floats(self, size: Size) -> int:
        return self.length * size.width


PUBLISHED = Setting()


@dataclass(frozen=True)
class Compared:
    """Bytes and operations of prompts and of LoRA, and how many times more LoRA takes."""

    size: Size
    prompt_bytes: int
    lora_bytes: int
    prompt_flops: int
    lora_flops: int

    @property
    def bytes_ratio(self) -> float:
        return self.lora_bytes / self.prompt_bytes

    @property
    def flops_ratio(self) -> float:
        return self.lora_flops / self.prompt_flops


def published(size: Size, setting: Setting = PUBLISHED) -> Compared:
    """Return a row of the published table: one example against one round.

    >>> row = published(SIZES[0])
    >>> row.prompt_bytes, row.lora_bytes, row.bytes_ratio, round(row.flops_ratio)
    (61440, 2359296, 38.4, 27106)
    """
    k, N, T = setting.bottleneck, setting.units, setting.steps
    return Compared(
        size,
        2 * FLOAT * setting.prompt_floats(size),
        2 * FLOAT * setting.lora_floats(size),
        T * N**2 + k * setting.features,
        6 * size.parameters * setting.tokens,
    )


def corrected(size: Size, examples: int, setting: Setting = PUBLISHED) -> Compared:
    """Return what one client and round really take: bytes of all, operations of one example.

    Parameters
    ----------
    examples
        That a client asks about in a round, all epochs together.

    >>> row = corrected(SIZES[0], 32)
    >>> round(row.bytes_ratio, 2), round(row.flops_ratio)
    (0.79, 6786)
    """
    k, md = setting.bottleneck, setting.prompt_floats(size)
    readout = k * setting.features
    return Compared(
        size,
        2 * FLOAT * (examples * md + readout + md * k),
        2 * FLOAT * setting.lora_floats(size),
        # Forwards the reservoir, W_out and P; backwards P'g, g b' and (P'g) z'.
        reservoir_flops(setting) + 4 * readout + 6 * md * k,
        4 * size.parameters * setting.tokens,
    )


def reservoir_flops(setting: Setting) -> int:
    """Return the operations of a dense reservoir on one context.

    Per step and unit: 2 N for the recurrent sum, 2 for each input and the constant, 1 to add the
    two sums, 1 for the activation, and 3 for the leak.

    >>> reservoir_flops(Setting())
    2454000
    """
    each = 2 * setting.units + 2 * (setting.inputs + 1) + 5
    return setting.steps * setting.units * each


def break_even(size: Size, setting: Setting = PUBLISHED) -> float:
    """Return the examples per round and client from which LoRA sends less than whole prompts.

    >>> [round(break_even(size)) for size in SIZES]
    [22, 99, 61, 86, 112]
    """
    md = setting.prompt_floats(size)
    controller = setting.bottleneck * (setting.features + md)
    return (setting.lora_floats(size) - controller) / md


@dataclass(frozen=True)
class Frozen:
    """Numbers of our variant per client and round, both ways, and the bytes they come to."""

    size: Size
    controller_floats: int
    exchange_floats: int
    lora_bytes: int

    @property
    def bytes(self) -> int:
        return FLOAT * (self.controller_floats + self.exchange_floats)

    @property
    def bytes_ratio(self) -> float:
        return self.lora_bytes / self.bytes

    @property
    def local_ratio(self) -> float:
        """The same where every client runs the language model itself, as it must for LoRA."""
        return self.lora_bytes / (FLOAT * self.controller_floats)


def frozen(
    size: Size, examples: int, setting: Setting = PUBLISHED, *, reservoir: bool = True
) -> Frozen:
    """Return the cost with P from a seed, applied at the server, labels kept by the client.

    An example takes k numbers up, and L - 1 scores and their gradients of k numbers down; the
    tokens of a context, if it has any, come on top of it with every method whose model is remote.

    Parameters
    ----------
    reservoir
        False for one prompt that is everyone's: the controller is k numbers, and bottlenecks are
        sent once a batch, counted here as nothing.

    >>> row = frozen(SIZES[0], 32)
    >>> row.controller_floats, row.exchange_floats, round(row.bytes_ratio, 1)
    (6464, 1056, 78.4)
    """
    k, rest = setting.bottleneck, setting.labels - 1
    each = (k if reservoir else 0) + rest * (k + 1)
    controller = k * (setting.features if reservoir else 1)
    return Frozen(size, 2 * controller, examples * each, 2 * FLOAT * setting.lora_floats(size))


def messages(size: Size, examples: int, setting: Setting = PUBLISHED) -> tuple[int, int]:
    """Return the bytes (up, down) of the real messages of `frozen`, in batches of 16, no tokens.

    Headers, checksums and the weight of the mean are in it, and changes travel as float32.

    >>> up, down = messages(SIZES[0], 32)
    >>> up + down > frozen(SIZES[0], 32).bytes
    True
    """
    k, rest = setting.bottleneck, setting.labels - 1
    projection = Projection(bottleneck=k, length=setting.length, width=size.width)
    W_out = np.zeros((k, setting.features))
    change = TrainedSum.of((W_out,), float(examples)).parts()
    arrays = tuple(array.astype(np.float32) for array in change.arrays)
    up = len(Message(change.kind, change.facts, arrays).to_bytes())
    down = len(Message("controller", {}, (W_out.astype(np.float32),)).to_bytes())
    for first in range(0, examples, 16):
        n = min(16, examples - first)
        question = Question(np.zeros((n, k)), [np.zeros(0, dtype=np.int64)], n)
        up += len(question.to_bytes(projection))
        down += len(Answer(np.zeros((n, rest)), np.zeros((n, rest, k))).to_bytes())
    return up, down


@dataclass(frozen=True)
class SentimentRun:
    """One published run on SST-2: 128 examples per client, 2 epochs, prompts of 4 vectors.

    >>> [round(run.claimed, 1) for run in SENTIMENT_RUNS]
    [8.9, 13.7, 10.8, 19.0, 12.8, 25.4]
    >>> [round(run.two_way, 2) for run in SENTIMENT_RUNS]
    [0.55, 0.83, 0.65, 1.13, 0.76, 1.51]
    """

    model: str
    width: int
    controller_floats: int
    lora_floats: int

    @property
    def claimed(self) -> float:
        """How many times more LoRA sends, the exchange with the language model left out."""
        return self.lora_floats / self.controller_floats

    @property
    def two_way(self) -> float:
        """The same with the exchange: a prompt up and its gradient down for every example."""
        return self.lora_floats / (self.controller_floats + 4 * self.width * 128 * 2)


SENTIMENT_RUNS = (
    SentimentRun("Qwen2.5 0.5B", 896, 60_544, 540_672),
    SentimentRun("Qwen2.5 3B", 2048, 134_272, 1_843_200),
    SentimentRun("Qwen2.5 7B", 3584, 232_576, 2_523_136),
    SentimentRun("Qwen2.5 14B", 5120, 330_880, 6_291_456),
    SentimentRun("Mistral 7B", 4096, 265_344, 3_407_872),
    SentimentRun("Qwen2.5 32B", 5120, 330_880, 8_388_608),
)
