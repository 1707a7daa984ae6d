"""The jobs of `fedresprompt`: each trains one method on one task and counts what crossed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from catchment import Integers
from catchment.engine import run_locally
from catchment.features import EchoState, Reservoir
from catchment.federation import Plan
from catchment.federation.learn import FederatedRidge
from catchment.readout import Readout
from catchment_research.learn import Adam, Mean
from catchment_research.partial import LocalSteps
from catchment_research.prompt import (
    EdgeController,
    Example,
    LanguageServer,
    Projection,
    PromptNoise,
    PromptTraining,
    TransformersLM,
    as_tokens,
    label_targets,
    values_of,
)
from reproductions import instructed_jobs
from reproductions.fedresprompt_values import Cell, Job, PromptSettings, Variant
from reproductions.lora import AdapterTraining, Lora, SoftPrompt
from reproductions.map_values import counted
from reproductions.prompt_runs import Watch, begin_with, cooled, measured, trained
from reproductions.prompt_tasks import WordTask, recorded, routing_task, sensors_task, sst2_task
from reproductions.smollm2 import locate_model

# What prompts begin as: the end of a text, as many tokens as the prompt has vectors.
BEGIN = {
    "sst2": "Is the following review of a film negative or positive? Answer with one word:",
    "routing": "The signal says which of the three ways to take from here.",
}
SENSING = "This is what the motion sensor of a phone says that somebody is doing now."
DELTA = 1e-5


def run(settings: PromptSettings, job: Job) -> Cell:
    """Return what came of a job."""
    if job.task == "instructed":
        return instructed_jobs.timed(settings, job, language_of(settings))
    began = time.perf_counter()
    task, sentences = task_of(settings, job.task, job.seed), job.task == "sst2"
    # 128 sentences at once take some 12 GB of a GPU on the way back; signals have short contexts.
    model = replace(language_of(settings), batch_size=128 if sentences else 1024)
    match job.variant.method:
        case "zero-shot":
            cell = _zero_shot(job, task, model)
        case "ridge":
            cell = _ridge(job, task)[0]
        case "prompt" | "lora":
            cell = _adapter(settings, job, task, model)
        case _:
            cell = (_sentences if sentences else _signals)(settings, job, task, model)
    return replace(cell, seconds=time.perf_counter() - began)


def language_of(settings: PromptSettings) -> TransformersLM:
    """Return the language model, loaded once in a process."""
    return _loaded(settings.model, settings.device, settings.precision)


@lru_cache(maxsize=1)
def _loaded(model: str, device: str, precision: str | None) -> TransformersLM:
    return TransformersLM.load(locate_model(model), device=device, precision=precision)


@lru_cache(maxsize=3)
def task_of(settings: PromptSettings, name: str, seed: int) -> WordTask:
    """Return a task with a seed's clients."""
    model, directory = language_of(settings), settings.directory
    if name == "routing":
        task = routing_task(model, seed=seed)
    elif name == "sst2":
        task = sst2_task(model, seed=seed, directory=directory)
    else:
        kind: Any = name
        task = sensors_task(model, kind, seed=seed, directory=directory)
    return task if settings.most is None else task.within(settings.most)


def features_of(task: WordTask, units: int, seed: int) -> EchoState:
    """Return the reservoir's features: the mean over words; mean and deviation over a window."""
    if task.name == "sst2":
        recipe = Reservoir(
            units=units, inputs=task.n_inputs, leak_rate=0.4, input_scaling=0.1, seed=seed
        )
        return EchoState.of(recipe, bias=True, input=False, pool="mean")
    recipe = Reservoir(
        units=units, inputs=task.n_inputs, leak_rate=0.5, input_scaling=0.3, seed=seed
    )
    return EchoState.of(recipe, bias=True, input=False, pool="mean_std")


def begin(task: WordTask, model: TransformersLM, length: int) -> tuple[int, ...]:
    """Return the tokens that a prompt begins as."""
    return begin_with(BEGIN.get(task.name, SENSING), model, length)


def _measured(
    job: Job, task: WordTask, algorithm: Any, state: Any, watch: Watch, n_trained: int
) -> Cell:
    cell = _answered(
        Cell(job=job, development=0.0, test=0.0), task, algorithm.result(state).guesses
    )
    return measured(cell, watch, getattr(algorithm, "server", None), n_trained)


def _answered(cell: Cell, task: WordTask, said: Callable[[Sequence[Example]], Integers]) -> Cell:
    """Return a cell with the accuracies of what is said, and the counts of the test by class."""
    (own, named), (label, answer) = (
        (np.array([example.label for example in examples]), said(examples))
        for examples in (task.development, task.test)
    )
    return replace(
        cell,
        development=float((named == own).mean()),
        test=float((answer == label).mean()),
        classes=counted(label, answer),
    )


def _zero_shot(job: Job, task: WordTask, model: TransformersLM) -> Cell:
    def said(examples: Sequence[Example]) -> Integers:
        contexts = [as_tokens(example.context) for example in examples]
        scores = model.scores(np.zeros((len(contexts), 0, model.width)), contexts, task.words)
        best: Integers = np.concatenate([np.zeros((len(scores), 1)), scores], axis=1).argmax(axis=1)
        return best

    return _answered(Cell(job=job, development=0.0, test=0.0), task, said)


def _ridge(job: Job, task: WordTask) -> tuple[Cell, EchoState, Readout]:
    """Return the exact federated readout on the reservoir's features."""
    features = features_of(task, job.variant.units, job.seed)
    K = len(task.classes)
    plan = Plan(
        algorithm=FederatedRidge(
            features=features, ridge="leave-one-client-out", classes=task.classes
        )
    )
    clients = {name: recorded(examples, K) for name, examples in task.clients.items()}
    result = run_locally(plan, clients, threads=1)
    readout = result.state.readout
    assert readout is not None

    def said(examples: Sequence[Example]) -> Integers:
        z = np.concatenate(features.rows([e.u for e in examples if e.u is not None], threads=1))
        best: Integers = readout(z).argmax(axis=1)
        return best

    (record,) = result.records
    cell = Cell(
        job=job,
        development=0.0,
        test=0.0,
        trained=readout.weights.size + readout.intercept.size,
        rounds=1,
        bytes_up=record.bytes_up,
        bytes_down=record.bytes_down,
    )
    return _answered(cell, task, said), features, readout


def _adapter(settings: PromptSettings, job: Job, task: WordTask, model: TransformersLM) -> Cell:
    """Return LoRA, or plain prompt tuning: clients hold the language model."""
    v = job.variant
    rounds = settings.search_rounds if job.search else settings.rounds
    if v.method == "lora":
        rounds = settings.lora_search_rounds if job.search else v.rounds or settings.lora_rounds
        adapter: Lora | SoftPrompt = Lora(rank=v.rank, alpha=2 * v.rank)
        scale = 1.0
    else:
        adapter, scale = SoftPrompt(words=begin(task, model, settings.length)), model.spread
    steps = LocalSteps(learning_rate=1.0, batch_size=settings.batch_size, max_steps=1)
    whole = AdapterTraining(
        language=model, words=task.words, adapter=adapter, steps=steps, seed=job.seed
    )
    return _step_by_step(settings, job, task, whole, rounds, v.rate * scale, whole.n_trained)


def _sentences(settings: PromptSettings, job: Job, task: WordTask, model: TransformersLM) -> Cell:
    """Return a constant prompt in a subspace, or a reservoir's, trained step by step."""
    controller = _controller(settings, job, task, model)
    prepared = _prepared(controller, task)
    whole = PromptTraining(
        controller=controller,
        server=LanguageServer(model, controller.projection, task.words),
        batch_size=settings.batch_size,
        max_steps=1,
        local=Mean(),
    )
    rounds = settings.search_rounds if job.search else settings.rounds
    rate, n_trained = job.variant.rate, controller.n_trained
    return _step_by_step(settings, job, prepared, whole, rounds, rate, n_trained)


def _step_by_step(
    settings: PromptSettings,
    job: Job,
    task: WordTask,
    whole: Any,
    rounds: int,
    rate: float,
    n_trained: int,
) -> Cell:
    """Return a training whose clients take one step a round, which the server's Adam applies."""
    stages = [
        (n, lambda values, rate=rate: replace(whole, optimizer=_adam(rate), initial=values))
        for n, rate in cooled(rounds, rate)
    ]
    watch = Watch(
        lambda state: whole.result(state).accuracy(task.development), _every(rounds, settings)
    )
    algorithm, state = trained(stages, task.clients, watch, job.seed)
    return _measured(job, task, algorithm, state, watch, n_trained)


def _signals(settings: PromptSettings, job: Job, task: WordTask, model: TransformersLM) -> Cell:
    """Return prompts that tell the language model what only the reservoir has seen."""
    v = job.variant
    controller = _controller(settings, job, task, model)
    prepared = _prepared(controller, task)
    whole = PromptTraining(
        controller=controller,
        server=LanguageServer(model, controller.projection, task.words),
        epochs=settings.sensor_steps,
        batch_size=settings.sensor_batch,
        max_steps=settings.sensor_steps,
        at_once=64,
    )
    first = Cell(job=job, development=0.0, test=0.0)
    extra: dict[str, float] = {}
    if controller.features is not None:
        first, whole, extra = _start(settings, job, prepared, whole)
    if v.method == "closed-form":
        return replace(first, extra=extra)
    rounds = max(2, settings.sensor_rounds // (2 if job.search else 1))
    stages = [
        (
            n,
            lambda values, rate=rate: replace(
                whole, local=Adam(learning_rate=rate, tau=1e-8), initial=values or whole.initial
            ),
        )
        for n, rate in cooled(rounds, v.rate)
    ]
    watch = Watch(
        lambda s: whole.result(s).accuracy(prepared.development), _every(rounds, settings)
    )
    algorithm, state = trained(stages, prepared.clients, watch, job.seed)
    cell = _measured(job, prepared, algorithm, state, watch, controller.n_trained)
    return replace(
        cell,
        bytes_up=cell.bytes_up + first.bytes_up,
        bytes_down=cell.bytes_down + first.bytes_down,
        extra=extra,
    )


def _start(
    settings: PromptSettings, job: Job, task: WordTask, whole: PromptTraining
) -> tuple[Cell, PromptTraining, dict[str, float]]:
    """Return the closed-form start as a cell of its own, and a training that begins there.

    Ridge regression is linear in its targets, so the readout of labels, times the labels'
    bottlenecks, is the readout of bottlenecks. The bottlenecks are found without any client.
    """
    units = job.variant.units
    readout_job = replace(job, variant=Variant(method="ridge", units=units))
    ridge, _, readout = _ridge(readout_job, task)
    targets = label_targets(
        whole.server,
        whole.controller.projection,
        task.contexts,
        steps=settings.target_steps,
        copies=settings.target_copies,
        rule=_adam(settings.target_rate),
    )
    length = float(np.linalg.norm(targets, axis=1).mean())
    extra = {"target length": length, "ridge test": ridge.test}
    guard = None
    if job.variant.noise:
        guard = PromptNoise(bound=2 * length, multiplier=job.variant.noise)
        extra["epsilon of one question"] = guard.epsilon(1, DELTA)
    begun = replace(whole, initial=values_of(whole.controller, readout, targets), guard=guard)
    cell = replace(ridge, job=job, trained=begun.controller.n_trained)
    if job.variant.method == "closed-form":
        cell = _answered(cell, task, begun.result(begun.start()).guesses)
    return cell, begun, extra


def _controller(
    settings: PromptSettings, job: Job, task: WordTask, model: TransformersLM
) -> EdgeController:
    v = job.variant
    length = settings.length if job.task == "sst2" else settings.sensor_length
    projection = Projection(
        bottleneck=v.bottleneck,
        length=length,
        width=model.width,
        seed=job.seed,
        scale=model.spread,
        words=begin(task, model, length),
    )
    features = features_of(task, v.units, job.seed) if v.units else None
    trained = v.method == "published"
    return EdgeController(projection=projection, features=features, train_projection=trained)


def _prepared(controller: EdgeController, task: WordTask) -> WordTask:
    return replace(
        task,
        clients={name: controller.prepared(held) for name, held in task.clients.items()},
        development=controller.prepared(task.development),
        test=controller.prepared(task.test),
    )


def _adam(rate: float) -> Adam:
    return Adam(learning_rate=rate, tau=1e-8)


def _every(rounds: int, settings: PromptSettings) -> int:
    return max(1, rounds // settings.points)
