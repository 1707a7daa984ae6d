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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from catchment.arrays import Array, Integers
from catchment.data.recording import Recording
from catchment.engine.local import run_locally
from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.federation.learn.optimisers import Adam, Arrays
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.plan import Plan
from catchment.prompt.causal import TransformersLM
from catchment.prompt.controller import EdgeController, Example, Projection
from catchment.prompt.exchange import LanguageServer
from catchment.prompt.prompter import Prompter
from catchment.prompt.questions import Answer, Question
from catchment.prompt.split import PromptTraining
from catchment.prompt.start import values_of
from catchment.readout.readout import Readout
from reproductions.fedresprompt_values import Cell, Job, PromptSettings
from reproductions.instructed import (
    ANSWERS,
    INSTRUCTIONS,
    PROPERTIES,
    STRENGTHS,
    TEMPLATE,
    Case,
    InstructedTask,
    Window,
    answer_tokens,
    examples,
    in_words,
    nearest_instruction,
    uci_har_task,
)
from reproductions.prompt_runs import Watch, begin_with, cooled, measured, trained

SENSING = "This is what the motion sensor of a phone says that somebody is doing now."
YES_NO = ("yes", "no")
GROUPS = (tuple(said[0] for said in PROPERTIES.values()), YES_NO, YES_NO, YES_NO, STRENGTHS)
MIXED = 0.3  # of what is mixed into the states that bottlenecks are trained for
DEVELOPMENT = 1000  # cases that a curve is drawn by
Guesser = Callable[[Sequence[Case]], Integers]


def run(settings: PromptSettings, job: Job, model: TransformersLM) -> Cell:
    """Return what came of a job on the task."""
    task = task_of(settings.directory, settings.instructed_most, job.seed)
    # Short texts, but as many logits as the vocabulary has for every token of an answer.
    model = replace(model, batch_size=512)
    match job.variant.method:
        case "largest":
            return _largest(job, task)
        case "zero-shot":
            return _asked(job, task, model, None)
        case "signal" | "ridge" | "words":
            return _readout_alone(job, task, model)
        case _:
            return _prompted(settings, job, task, model)


@lru_cache(maxsize=3)
def task_of(directory: str | None, most: int, seed: int) -> InstructedTask:
    """Return the task with a seed's clients."""
    return uci_har_task(most=most, seed=seed, directory=directory)


def judged(job: Job, task: InstructedTask, guess: Guesser, **extra: float) -> Cell:
    """Return a cell: known wordings as test accuracy, new ones and each instruction beside it."""
    figures, people = dict(extra), {}
    accuracy = {}
    for name in ("development", "known", "new"):
        cases: Sequence[Case] = getattr(task, name)
        right = guess(cases) == np.array([case.label for case in cases])
        accuracy[name] = float(right.mean())
        if name == "development":
            continue
        for k, one in enumerate(INSTRUCTIONS):
            asked = np.array([case.instruction == k for case in cases])
            figures[f"{name}: {one.name}"] = float(right[asked].mean())
        people[name] = _by_person(cases, right)
    figures["new wordings"] = accuracy["new"]
    return Cell(
        job=job,
        development=accuracy["development"],
        test=accuracy["known"],
        extra=figures,
        people=people,
    )


def _by_person(cases: Sequence[Case], right: Integers) -> dict[str, tuple[float, float]]:
    names = np.array([case.window.person for case in cases])
    return {
        str(name): (float(right[names == name].sum()), float((names == name).sum()))
        for name in np.unique(names)
    }


def _largest(job: Job, task: InstructedTask) -> Cell:
    """Return the most frequent answer; beside it that to each instruction."""
    held = [case for cases in task.clients.values() for case in cases]
    counts = np.zeros((len(INSTRUCTIONS), len(ANSWERS)))
    for case in held:
        counts[case.instruction, case.label] += 1
    whole, each = int(counts.sum(axis=0).argmax()), counts.argmax(axis=1)

    def by_instruction(cases: Sequence[Case]) -> Integers:
        return np.array([each[case.instruction] for case in cases])

    informed = judged(job, task, by_instruction)
    return judged(
        job,
        task,
        lambda cases: np.full(len(cases), whole),
        **{"known, by instruction": informed.test},
    )


def _asked(
    job: Job, task: InstructedTask, model: TransformersLM, told: Mapping[int, str] | None
) -> Cell:
    """Return the language model as it is, with or without a text before the question."""

    def guess(cases: Sequence[Case]) -> Integers:
        made = examples(cases, model, before=told)
        seen: dict[bytes, int] = {}
        order = [seen.setdefault(np.asarray(e.context).tobytes(), len(seen)) for e in made]
        firsts = [order.index(k) for k in range(len(seen))]
        return _likeliest(model, [made[k] for k in firsts])[order]

    return judged(job, task, guess)


def _likeliest(model: TransformersLM, held: Sequence[Example]) -> Integers:
    """Return the likeliest choice of each example, without a prompt."""
    from catchment.prompt.language import Answers

    C = len(ANSWERS)
    contexts = [np.asarray(e.context) for e in held for _ in range(C)]
    answers = Answers([np.asarray(answer) for e in held for answer in e.choices])
    scores = model.scores(np.zeros((len(contexts), 0, model.width)), contexts, answers)
    return np.asarray(scores.reshape(-1, C).argmax(axis=1))


@dataclass(frozen=True, eq=False)
class Read:
    """A federated readout of all answers to all instructions, and features by window."""

    features: EchoStateMap
    readout: Readout
    z: Mapping[int, Array]
    crossed: tuple[int, int]

    def outputs(self, cases: Sequence[Case]) -> Array:
        """Return outputs (n, 15), those to each instruction side by side."""
        return self.readout(np.stack([self.z[id(case.window)] for case in cases]))


def read_signals(task: InstructedTask, units: int, seed: int) -> Read:
    """Return the exact readout of one round.

    Every window is asked every instruction, so features times one-hot instruction have one Gram
    matrix for each instruction, all the same: fifteen outputs on the features are that readout.
    """
    recipe = Recipe(units=units, inputs=task.n_inputs, leak_rate=0.5, input_scaling=0.3, seed=seed)
    features = EchoStateMap(Reservoir.from_recipe(recipe), bias=True, input=False, pool="mean_std")
    plan = Plan(algorithm=FederatedRidge(features=features, ridge="clients"))
    clients = {
        name: [Recording(w.u, _targets(w), per_step=False) for w in windows]
        for name, windows in task.windows.items()
    }
    result = run_locally(plan, clients, threads=1)
    readout = result.state.readout
    assert readout is not None
    (record,) = result.records
    held = [w for windows in task.windows.values() for w in windows]
    held += [case.window for case in (*task.development, *task.known)]
    every = list({id(w): w for w in held}.values())
    rows = np.concatenate(features.rows([w.u for w in every], threads=1))
    z = {id(w): row for w, row in zip(every, rows, strict=True)}
    return Read(features, readout, z, (record.bytes_up, record.bytes_down))


def _targets(window: Window) -> Array:
    """Return a row (15,) with a one at the right answer to each instruction."""
    said = [ANSWERS[k] for k in window.truth]
    return np.concatenate(
        [np.array(group) == answer for group, answer in zip(GROUPS, said, strict=True)]
    ).astype(np.float64)


def _readout_alone(job: Job, task: InstructedTask, model: TransformersLM) -> Cell:
    read = read_signals(task, job.variant.units, job.seed)
    if job.variant.method == "words":
        every = {id(c.window): c for c in (*task.development, *task.known)}
        found = read.outputs(list(every.values()))
        acts, levels = found[:, :6].argmax(axis=1), found[:, -3:].argmax(axis=1)
        told = {at: in_words(int(a), int(b)) for at, a, b in zip(every, acts, levels, strict=True)}
        cell = _asked(job, task, model, told)
    elif job.variant.method == "signal":
        cell = judged(job, task, lambda cases: _without_question(read.outputs(cases)))
    else:
        nearest = _nearest_state(task, model)
        by_state = judged(job, task, lambda c: _answered(read, c, [nearest[x.wording] for x in c]))
        by_truth = judged(job, task, lambda c: _answered(read, c, [x.instruction for x in c]))
        told_new = by_truth.extra["new wordings"]
        cell = judged(
            job,
            task,
            lambda c: _answered(read, c, [nearest_instruction(x.wording) for x in c]),
            **{
                "new wordings, by nearest state": by_state.extra["new wordings"],
                "new wordings, instruction told": told_new,
            },
        )
    up, down = read.crossed
    return replace(cell, trained=read.readout.weights.size, rounds=1, bytes_up=up, bytes_down=down)


def _without_question(outputs: Array) -> Integers:
    """Return the answer with the largest sum of outputs over all instructions."""
    names = [answer for group in GROUPS for answer in group]
    joined = np.stack(
        [outputs[:, [n == answer for n in names]].sum(axis=1) for answer in ANSWERS], axis=1
    )
    return np.asarray(joined.argmax(axis=1))


def _answered(read: Read, cases: Sequence[Case], instructions: Sequence[int]) -> Integers:
    """Return the readout's answers to instructions."""
    outputs, firsts = read.outputs(cases), np.cumsum([0, *map(len, GROUPS)])
    found = []
    for row, k in zip(outputs, instructions, strict=True):
        best = int(row[firsts[k] : firsts[k + 1]].argmax())
        found.append(ANSWERS.index(GROUPS[k][best]))
    return np.array(found)


def _nearest_state(task: InstructedTask, model: TransformersLM) -> dict[str, int]:
    """Return the instruction of each wording by the nearest last state of the language model."""
    texts = [(k, text) for k, one in enumerate(INSTRUCTIONS) for text in one.known]
    known = _states(model, [text for _, text in texts])
    wordings = sorted({c.wording for c in (*task.development, *task.known, *task.new)})
    near = _states(model, wordings) @ known.T
    return {text: texts[int(row.argmax())][0] for text, row in zip(wordings, near, strict=True)}


def _states(model: TransformersLM, texts: Sequence[str]) -> Array:
    """Return the mean last states (n, d) of texts, less what all have in common, of length one."""
    import torch

    found = []
    with torch.inference_mode():
        for text in texts:
            tokens = torch.tensor(model.tokens(text), device=model.device)[None]
            states = model.model.base_model(tokens, use_cache=False).last_hidden_state[0]
            found.append(states.double().mean(dim=0).cpu().numpy())
    rows = np.stack(found)
    rows = rows - rows.mean(axis=0)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


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
            initial = values_of(controller, _towards(read.readout, B))
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
    look = _evenly(task.development, DEVELOPMENT)
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
        cases = _evenly(getattr(task, name), DEVELOPMENT)
        made = examples(cases, model, z, read_by)
        said = prompter.says(made, most=max(map(len, answers)), end=int(answers[0][-1]))
        right = [np.array_equal(s, answers[c.label]) for s, c in zip(said, cases, strict=True)]
        figures[f"{name}, left to itself"] = float(np.mean(right))
        short = prompter.guesses(made, per_token=True) == [c.label for c in cases]
        figures[f"{name}, per token"] = float(np.mean(short))
    return figures


def _at(whole: PromptTraining, rate: float, values: Arrays | None) -> PromptTraining:
    return replace(whole, local=Adam(learning_rate=rate, tau=1e-8), initial=values)


def _towards(readout: Readout, B: Array) -> Readout:
    """Return the readout of bottlenecks: activities and strengths, times what says each."""
    pick = np.r_[:6, len(readout.intercept) - 3 : len(readout.intercept)]
    return Readout(readout.weights[:, pick] @ B, readout.intercept[pick] @ B)


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
