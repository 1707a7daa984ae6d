"""What prompts are compared with where an instruction says what to name, and how all are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from catchment import Array, Integers
from catchment.data import Recording
from catchment.engine import run_locally
from catchment.features import EchoState, Reservoir
from catchment.federation import Plan
from catchment.federation.learn import FederatedRidge
from catchment.readout import Readout
from catchment_research.prompt import Answers, Example, TransformersLM
from reproductions.fedresprompt_values import Cell, Job
from reproductions.instructed import (
    ANSWERS,
    INSTRUCTIONS,
    PROPERTIES,
    STRENGTHS,
    Case,
    InstructedTask,
    Window,
    examples,
    in_words,
    nearest_instruction,
)
from reproductions.map_values import counted

YES_NO = ("yes", "no")
GROUPS = (tuple(said[0] for said in PROPERTIES.values()), YES_NO, YES_NO, YES_NO, STRENGTHS)
Guesser = Callable[[Sequence[Case]], Integers]


def judged(job: Job, task: InstructedTask, guess: Guesser, **extra: float) -> Cell:
    """Return a cell: known wordings as test accuracy, new ones and each instruction beside it.

    A job that only chooses settings is not judged on test people: its test accuracy is 0.
    """
    figures, people = dict(extra), {}
    classes: tuple[tuple[int, ...], ...] = ()
    accuracy = {"known": 0.0, "new": 0.0}
    for name in ("development",) if job.search else ("development", "known", "new"):
        cases: Sequence[Case] = getattr(task, name)
        label, said = np.array([case.label for case in cases]), guess(cases)
        right = said == label
        accuracy[name] = float(right.mean())
        if name == "development":
            continue
        for k, one in enumerate(INSTRUCTIONS):
            asked = np.array([case.instruction == k for case in cases])
            figures[f"{name}: {one.name}"] = float(right[asked].mean())
        people[name] = _by_person(cases, right)
        if name == "known":
            classes = counted(label, said)
    figures["new wordings"] = accuracy["new"]
    return Cell(
        job=job,
        development=accuracy["development"],
        test=accuracy["known"],
        extra=figures,
        people=people,
        classes=classes,
    )


def _by_person(cases: Sequence[Case], right: Integers) -> dict[str, tuple[float, float]]:
    names = np.array([case.window.person for case in cases])
    return {
        str(name): (float(right[names == name].sum()), float((names == name).sum()))
        for name in np.unique(names)
    }


def largest(job: Job, task: InstructedTask) -> Cell:
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


def asked(
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
    C = len(ANSWERS)
    contexts = [np.asarray(e.context) for e in held for _ in range(C)]
    answers = Answers([np.asarray(answer) for e in held for answer in e.choices])
    scores = model.scores(np.zeros((len(contexts), 0, model.width)), contexts, answers)
    return np.asarray(scores.reshape(-1, C).argmax(axis=1))


@dataclass(frozen=True, eq=False)
class Read:
    """A federated readout of all answers to all instructions, and features by window."""

    features: EchoState
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
    recipe = Reservoir(
        units=units, inputs=task.n_inputs, leak_rate=0.5, input_scaling=0.3, seed=seed
    )
    features = EchoState.of(recipe, bias=True, input=False, pool="mean_std")
    plan = Plan(algorithm=FederatedRidge(features=features, ridge="leave-one-client-out"))
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


def readout_alone(job: Job, task: InstructedTask, model: TransformersLM) -> Cell:
    read = read_signals(task, job.variant.units, job.seed)
    if job.variant.method == "words":
        every = {id(c.window): c for c in (*task.development, *task.known)}
        found = read.outputs(list(every.values()))
        acts, levels = found[:, :6].argmax(axis=1), found[:, -3:].argmax(axis=1)
        told = {at: in_words(int(a), int(b)) for at, a, b in zip(every, acts, levels, strict=True)}
        cell = asked(job, task, model, told)
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
    found = []
    with torch.inference_mode():
        for text in texts:
            tokens = torch.tensor(model.tokens(text), device=model.device)[None]
            states = model.model.base_model(tokens, use_cache=False).last_hidden_state[0]
            found.append(states.double().mean(dim=0).cpu().numpy())
    rows = np.stack(found)
    rows = rows - rows.mean(axis=0)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
