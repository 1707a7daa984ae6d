"""The task that needs text and signal, end to end on a tiny random Qwen2 folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("peft")

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from catchment.data import Recording
from catchment_research.prompt import TransformersLM
from reproductions import instructed_jobs
from reproductions.fedresprompt import fedresprompt
from reproductions.fedresprompt_tables import markdown, write
from reproductions.fedresprompt_values import (
    QUICK,
    PromptResult,
    PromptSettings,
    instructed,
    load_prompts,
)
from reproductions.instructed import (
    ANSWERS,
    INSTRUCTIONS,
    PROPERTIES,
    TEMPLATE,
    InstructedTask,
    answer_tokens,
    examples,
    instructed_task,
    nearest_instruction,
)
from reproductions.instructed_readouts import GROUPS


def tiny_qwen2(folder: Path) -> Path:
    """Return a folder with a random Qwen2 and a byte-level tokenizer of the task's own words."""
    texts = [w for one in INSTRUCTIONS for w in (*one.known, *one.tried, *one.new)]
    said = [TEMPLATE.format(text) + f" {answer}." for text in texts for answer in ANSWERS]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(said, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


def synthetic(n_people: int = 8, seed: int = 0) -> InstructedTask:
    """Return windows whose level is the activity and whose noise is the strength."""
    rng = np.random.default_rng(seed)
    recordings = {}
    for person in range(n_people):
        held = []
        for activity in range(6):
            for size in (0.05, 0.15, 0.3):
                level = np.eye(6)[activity] - np.eye(6).mean(axis=0)
                u = level + size * rng.normal(size=(20, 6))
                held.append(Recording.labeled(u, activity, 6))
        recordings[f"person-{person}"] = held
    return instructed_task(recordings, ("person-0", "person-1"), tuple(PROPERTIES), seed=seed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_qwen2(tmp_path_factory.mktemp("models") / "qwen2")


@pytest.fixture(scope="module")
def settings(folder: Path) -> PromptSettings:
    return replace(
        QUICK,
        model=str(folder),
        device="cpu",
        instructed=instructed(8, units=30, constant=0.01, rates=(1e-3,)),
        instructed_targets=10,
        instructed_copies=2,
        points=2,
    )


@pytest.fixture(scope="module")
def result(settings: PromptSettings) -> PromptResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instructed_jobs, "task_of", lambda *_: synthetic())
        return fedresprompt(settings, ("instructed",))


def test_no_wording_is_in_two_places_and_answers_need_both() -> None:
    wordings = [w for one in INSTRUCTIONS for w in (*one.known, *one.tried, *one.new)]
    assert len(set(wordings)) == len(wordings)
    assert {(len(one.known), len(one.tried), len(one.new)) for one in INSTRUCTIONS} == {(6, 1, 2)}
    # Two people who stand and lie are alike to one question and not to another.
    answers = {name: said[1:] for name, said in PROPERTIES.items()}
    assert answers["STANDING"] == ("no", "yes", "no")
    assert len(set(answers.values())) == 4
    assert sum(map(len, GROUPS)) == 15


def test_every_window_is_asked_everything_by_people_kept_apart() -> None:
    task = synthetic()
    assert set(task.clients) <= {f"person-{k}" for k in range(2, 8)}
    assert {case.window.person for case in task.known} == {"person-0", "person-1"}
    tried = {case.window.person for case in task.development}
    assert not tried & (set(task.clients) | {"person-0", "person-1"})
    for known, new in zip(task.known, task.new, strict=True):
        assert known.window is new.window
        assert known.label == new.label
        assert known.wording in INSTRUCTIONS[known.instruction].known
        assert new.wording in INSTRUCTIONS[new.instruction].new
    strong = [case for case in task.known if case.instruction == 4]
    assert [ANSWERS[case.label] for case in strong[:3]] == ["weak", "medium", "strong"]


def test_answers_are_tokens_that_end(folder: Path) -> None:
    model = TransformersLM.load(folder, device="cpu")
    tokens = answer_tokens(model)
    assert len({tuple(one.tolist()) for one in tokens}) == len(ANSWERS)
    assert len({int(one[-1]) for one in tokens}) == 1
    assert len({len(one) for one in tokens}) > 1
    assert [model.tokenizer.decode(one) for one in tokens] == [f" {a}." for a in ANSWERS]
    made = examples(synthetic().known[:5], model)
    assert len({e.context.tobytes() for e in made}) == 5  # type: ignore[union-attr]
    read = model.tokenizer.decode(made[1].context)
    assert read == TEMPLATE.format(synthetic().known[1].wording)


def test_a_bag_of_words_knows_its_own_wordings() -> None:
    for k, one in enumerate(INSTRUCTIONS):
        assert {nearest_instruction(text) for text in one.known} == {k}


def test_every_method_answers_and_the_honest_baseline_can_do_it(result: PromptResult) -> None:
    assert not result.notes
    found = {cell.job.variant.method: cell for cell in result.cells}
    for method in ("largest", "zero-shot", "signal", "words", "subspace", "closed-form"):
        assert 0 <= found[method].test < found["ridge"].test
    ridge, blind = found["ridge"], found["signal"]
    assert ridge.test > 0.85
    assert ridge.extra["new wordings, instruction told"] == ridge.test
    assert ridge.extra["new wordings"] < ridge.test
    # A readout that does not see the question says one thing to all five.
    assert blind.test < 0.61
    assert blind.test == blind.extra["new wordings"]
    for cell in found.values():
        right, _, asked = np.sum(cell.classes, axis=0)
        assert right / asked == pytest.approx(cell.test)
    trained = found["reservoir"]
    assert len(trained.losses) == trained.rounds == 2
    assert all(np.isfinite(trained.losses))
    assert trained.bytes_asked > 0
    assert set(trained.people["new"]) == {"person-0", "person-1"}
    right = sum(a for a, _ in trained.people["new"].values())
    assert right / (2 * 18 * 5) == pytest.approx(trained.extra["new wordings"])
    assert {"known, left to itself", "new, per token"} <= set(trained.extra)


def test_results_survive_the_disk(result: PromptResult, tmp_path: Path) -> None:
    paths = write(result, tmp_path)
    assert load_prompts(paths[0]).cells == result.cells
    text = markdown(result)
    assert "| ridge | 1 |" in text
    assert "left to itself" in text
