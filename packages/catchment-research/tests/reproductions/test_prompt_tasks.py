"""Tasks: who gets what, and what the words are."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")

from catchment_research.prompt import Example, TransformersLM
from reproductions.places import find
from reproductions.prompt_tasks import (
    LEVELS,
    recorded,
    routing_task,
    sensors_task,
    sst2_task,
)
from tests.prompt.tiny import VOCABULARY, tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TransformersLM:
    return TransformersLM.load(tiny_model(tmp_path_factory.mktemp("models") / "tiny"), device="cpu")


def reviews(folder: Path) -> Path:
    """Write a few reviews in the compact form."""
    place = folder / "sst2"
    place.mkdir()
    rows = [
        f"a {word} film\t{label}" for label, word in enumerate(("bad", "good")) for _ in range(30)
    ]
    names = ("phrases_train", "dev", "sentences_train", "sentences_dev", "sentences_test")
    for name in names:
        text = "\n".join(["sentence\tlabel", *rows[: 60 if "train" in name else 40]]) + "\n"
        (place / f"{name}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    return folder


def test_routing_levels_are_the_labels(model: TransformersLM) -> None:
    task = routing_task(model, n_clients=2, per_client=6, n_test=9, noise=0.01)
    assert [VOCABULARY[word] for word in task.words] == ["left", "right", "home"]
    assert (task.n_train, len(task.development), len(task.test), task.n_inputs) == (12, 9, 9, 1)
    for example in task.test:
        assert example.u is not None
        assert abs(example.u.mean() - LEVELS[example.label]) < 0.05
    assert task.clients["client-000"][0].u is not None
    again = routing_task(model, n_clients=2, per_client=6, n_test=9, noise=0.01)
    np.testing.assert_array_equal(again.test[3].u, task.test[3].u)


def test_sentences_are_cut_whole_and_read_by_both(model: TransformersLM, tmp_path: Path) -> None:
    task = sst2_task(model, n_clients=3, channels=5, directory=reviews(tmp_path), seed=1)
    assert [VOCABULARY[word] for word in task.words] == ["negative", "positive"]
    assert task.n_train == 60
    assert len(task.development) == len(task.test) == 40
    assert task.n_inputs == 5
    first = task.test[0]
    read = " ".join(VOCABULARY[token] for token in first.context)
    assert read == "Review : a bad film Sentiment :"
    embedded = model.embed(model.tokens("a bad film"))
    assert first.u is not None
    # Channels are mixtures of embeddings: the same word is the same row, and lengths are kept.
    np.testing.assert_allclose(first.u[0], task.test[39].u[0], rtol=1e-6)  # type: ignore[index]
    ratio = np.linalg.norm(first.u) / np.linalg.norm(embedded) * model.spread / np.sqrt(5)
    assert 0.1 < ratio * np.sqrt(model.width) < 10
    labels = [[e.label for e in held] for held in task.clients.values()]
    assert sorted(label for one in labels for label in one) == [0] * 30 + [1] * 30
    assert len({np.mean(one) for one in labels}) > 1


@pytest.mark.skipif(find("uci_har") is None, reason="UCI HAR is not on this machine")
def test_sensors_keep_test_subjects_apart(model: TransformersLM) -> None:
    task = sensors_task(model, "uci_har", seed=2)
    assert [VOCABULARY[word] for word in task.words] == list(task.classes)
    assert len(task.clients) == 17
    assert len(task.test) == 2947
    assert task.n_train + len(task.development) + len(task.test) == 10_299
    assert len(task.contexts) == 1
    few = task.within(5)
    assert (few.n_train, len(few.test)) == (85, 5)


def test_examples_become_sequences() -> None:
    assert recorded([Example(1, np.zeros((4, 2)))], 2)[0].y is not None
    with pytest.raises(ValueError, match="no signal"):
        recorded([Example(1)], 2)
