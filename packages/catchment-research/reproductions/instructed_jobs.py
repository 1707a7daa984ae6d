"""The methods on the task that needs text and signal, and how each is judged.

    largest       the most frequent answer; with the instruction known, the most frequent to it
    zero-shot     the language model reads the question, nothing says what the signal was
    subspace      the same with one trained prompt for everybody
    signal        ridge readout of the signal's features to answers; it does not see the question
    ridge         the same by instruction: features times one-hot instruction, which can do it
    words         what the readout found is told in words, and the language model answers
    closed-form   a prompt from one round of ridge regression; nothing is trained on clients
    reservoir     the same, trained further by the whole vocabulary's loss on answers' tokens

A one-hot instruction cannot read a new wording: there `ridge` takes the instruction whose known
wording has the most similar bag of words, or the nearest state of the language model.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from catchment import Array, Integers
from catchment.readout import Readout
from catchment_research.learn import Adam, Arrays
from catchment_research.prompt import (
    Answer,
    EdgeController,
    LanguageServer,
    Projection,
    Prompter,
    PromptTraining,
    Question,
    TransformersLM,
    values_of,
)
from reproductions.fedresprompt_values import Cell, Job, PromptSettings
from reproductions.instructed import (
    INSTRUCTIONS,
    TEMPLATE,
    Case,
    InstructedTask,
    Window,
    answer_tokens,
    examples,
    uci_har_task,
)
from reproductions.instructed_readouts import asked, judged, largest, read_signals, readout_alone
from reproductions.prompt_runs import Watch, begin_with, cooled, measured, trained

SENSING = "This is what the motion sensor of a phone says that somebody is doing now."
MIXED = 0.3  # of what is mixed into the states that bottlenecks are trained for
CURVE, SPOKEN = 300, 1000  # cases that a curve is drawn by, and that the model speaks of


def run(settings: PromptSettings, job: Job, model: TransformersLM) -> Cell:
    """Return what came of a job on the task."""
    task = task_of(settings.directory, settings.instructed_most, job.seed)
    # Short texts, but as many logits as the vocabulary has for every token of an answer.
    model = replace(model, batch_size=1024)
    match job.variant.method:
        case "largest":
            return largest(job, task)
        case "zero-shot":
            return asked(job, task, model, None)
        case "signal" | "ridge" | "words":
            return readout_alone(job, task, model)
        case _:
            return _prompted(settings, job, task, model)


@lru_cache(maxsize=3)
def task_of(directory: str | None, most: int, seed: int) -> InstructedTask:
    """Return the task with a seed's clients."""
    return uci_har_task(most=most, seed=seed, directory=directory)


def _prompted(
    settings: PromptSettings, job: Job, task: InstructedTask, model: TransformersLM
) -> Cell:
    """Return prompts: one for everybody, or a reservoir's, as it starts or trained further."""
    v, crossed = job.variant, (0, 0)
    projection = Projection(
        bottleneck=v.bottleneck,
        length=settings.instructed_length,
        width=model.width,
        seed=job.seed,
        scale=model.spread,
        words=begin_with(SENSING, model, settings.instructed_length),
    )
    server, initial = LanguageServer(model, projection, ()), None
    controller, z, read_by = EdgeController(projection=projection), None, ""
    if v.units:
        read = read_signals(task, v.units, job.seed)
        controller, z = EdgeController(projection=projection, features=read.features), read.z
        read_by, crossed = read.features.fingerprint, read.crossed
        if v.method != "scratch":
            B = state_targets(settings, server, projection, model, job.seed)
            initial = values_of(controller, _told(read.readout), B)
    whole = PromptTraining(
        controller=controller,
        server=server,
        epochs=settings.instructed_steps,
        batch_size=settings.instructed_batch,
        max_steps=settings.instructed_steps,
        at_once=64,
        tell_labels=True,
        loss="tokens",
        initial=initial,
    )
    prepared = {k: examples(held, model, z, read_by) for k, held in task.clients.items()}
    look = _evenly(task.development, CURVE)
    dev = examples(look, model, z, read_by)
    state, watch = whole.start(), Watch(lambda s: whole.result(s).accuracy(dev), 1)
    if v.method != "closed-form":
        rounds = max(2, settings.instructed_rounds // (2 if job.search else 1))
        stages = [
            (n, lambda values, rate=rate: _at(whole, rate, values or initial))
            for n, rate in cooled(rounds, v.rate)
        ]
        watch = replace(watch, every=max(1, rounds // settings.points))
        _, state = trained(stages, prepared, watch, job.seed)
    prompter = whole.result(state)

    def guess(cases: Sequence[Case]) -> Integers:
        return prompter.guesses(examples(cases, model, z, read_by))

    cell = measured(judged(job, task, guess), watch, server, controller.n_trained)
    said = {} if job.search else _spoken(prompter, task, model, z, read_by)
    return replace(
        cell,
        rounds=max(cell.rounds, 1),
        bytes_up=cell.bytes_up + crossed[0],
        bytes_down=cell.bytes_down + crossed[1],
        extra={**cell.extra, **said},
    )


def _spoken(
    prompter: Prompter,
    task: InstructedTask,
    model: TransformersLM,
    z: Mapping[int, Array] | None,
    read_by: str,
) -> dict[str, float]:
    """Return how often the model, left to itself, says the right answer word by word."""
    answers = answer_tokens(model)
    figures = {}
    for name in ("known", "new"):
        cases = _evenly(getattr(task, name), SPOKEN)
        made = examples(cases, model, z, read_by)
        said = prompter.says(made, most=max(map(len, answers)), end=int(answers[0][-1]))
        right = [np.array_equal(s, answers[c.label]) for s, c in zip(said, cases, strict=True)]
        figures[f"{name}, left to itself"] = float(np.mean(right))
        short = prompter.guesses(made, per_token=True) == [c.label for c in cases]
        figures[f"{name}, per token"] = float(np.mean(short))
    return figures


def _at(whole: PromptTraining, rate: float, values: Arrays | None) -> PromptTraining:
    return replace(whole, local=Adam(learning_rate=rate, tau=1e-8), initial=values)


def _told(readout: Readout) -> Readout:
    """Return the readout's activities and strengths."""
    pick = np.r_[:6, len(readout.intercept) - 3 : len(readout.intercept)]
    return Readout(readout.weights[:, pick], readout.intercept[pick])


def state_targets(
    settings: PromptSettings,
    server: LanguageServer,
    projection: Projection,
    model: TransformersLM,
    seed: int,
) -> Array:
    """Return bottlenecks (9, k) of six activities and three strengths, found without any client.

    A window's bottleneck is the sum of its activity's and its strength's. They are trained on the
    known wordings alone, with mixtures such as a regression makes, to give every right answer.
    """
    rng, n = np.random.default_rng([seed, 0x7A26]), 6 * settings.instructed_copies
    tokens, texts = (
        answer_tokens(model),
        [[model.tokens(TEMPLATE.format(t)) for t in one.known] for one in INSTRUCTIONS],
    )
    values: Arrays = (np.zeros((9, projection.bottleneck)),)
    rule = Adam(learning_rate=settings.instructed_rate, tau=1e-8)
    memory = rule.start(values)
    for _ in range(settings.instructed_targets):
        mixed = np.concatenate(
            [np.eye(6)[rng.integers(6, size=n)], np.eye(3)[rng.integers(3, size=n)]], axis=1
        ) + MIXED * rng.normal(size=(n, 9))
        asked = rng.integers(len(INSTRUCTIONS), size=n)
        contexts, choices = [], []
        for row, k in zip(mixed, asked, strict=True):
            truth = Window(row, "", int(row[:6].argmax()), int(row[6:].argmax())).truth
            contexts.append(texts[k][int(rng.integers(len(texts[k])))])
            choices.append([tokens[truth[k]]])
        question = Question(mixed @ values[0], contexts, n, None, True, choices)
        (reply,) = server.answers([question.to_bytes(projection)])
        gradients = Answer.from_bytes(reply).gradients
        assert gradients is not None
        lengths = np.array([len(one[0]) for one in choices])[:, None]
        values, memory = rule.step(values, (mixed.T @ (gradients / lengths) / n,), memory)
    return values[0]


def _evenly(cases: Sequence[Case], n: int) -> Sequence[Case]:
    """Return about n cases; whole windows, so that every instruction is asked as often."""
    each = len(INSTRUCTIONS)
    windows = np.linspace(0, len(cases) // each - 1, min(n, len(cases)) // each).round().astype(int)
    return [cases[each * w + k] for w in windows for k in range(each)]


def timed(settings: PromptSettings, job: Job, model: TransformersLM) -> Cell:
    """Return what came of a job, with its seconds."""
    began = time.perf_counter()
    return replace(run(settings, job, model), seconds=time.perf_counter() - began)
