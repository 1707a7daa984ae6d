"""Hidden states as features: those of the model on one sentence alone, kept and looked up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

import catchment as ct
from reproductions import sentences
from reproductions.sentences import HiddenStates, markdown
from tests.prompt.test_causal import llama

RNG = np.random.default_rng(4)
TOKENS = [RNG.integers(0, 40, size=n) for n in (5, 1, 9, 3, 9, 2)]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sentences, "LAYERS", (1, 2))
    monkeypatch.setattr(sentences, "_known", {})
    lm = llama()
    monkeypatch.setitem(sentences._readers, lm.identity(), lm)
    return lm.identity()


@pytest.mark.parametrize("layer", [1, 2])
def test_states_are_those_of_each_sentence_alone(model: str, layer: int) -> None:
    us = [one[:, None].astype(float) for one in TOKENS]
    mean, last = (
        HiddenStates(model, layer, kind, n_features=16).rows(us) for kind in ("mean", "last")
    )
    for tokens, a, b in zip(TOKENS, mean, last, strict=True):
        with torch.no_grad():
            told = llama().model.model(torch.tensor(tokens)[None], output_hidden_states=True)
        x = told.hidden_states[layer][0].double().numpy()
        step = 64 / 2**12
        np.testing.assert_allclose(a[0], x.mean(0), atol=step / 2 + 1e-4)
        np.testing.assert_allclose(b[0], x[-1], atol=step / 2 + 1e-4)


def test_no_sentence_is_computed_twice(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = sentences.states(model, TOKENS)
    sentences._known.clear()

    def never(*args: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(sentences, "_computed", never)
    np.testing.assert_array_equal(sentences.states(model, TOKENS), first)


def test_its_readout_is_federated(model: str) -> None:
    clients = {
        name: [
            ct.Recording.labeled(RNG.integers(0, 2, size=(6, 1)) + 30.0 * k, k, ("a", "b"))
            for k in (0, 1) * 10
        ]
        for name in ("ann", "ben", "cat")
    }
    made = HiddenStates(model, 2, "mean", n_features=16)
    run = ct.federate(ct.Pipeline(ct.Preprocessing(scale="none"), made), clients)
    everybody = [one for held in clients.values() for one in held]
    assert sentences._accuracy(run.model, everybody) > 0.9


def test_the_table_has_a_row_for_each_seed() -> None:
    cell = {"seed": 0, "n_train": 10, "chosen": "20 mean", "development": 0.9, "test": 0.8}
    counts = {"classes": [[4, 5, 5], [4, 5, 5]]}
    assert markdown([cell | {"majority": 0.5, "bytes_up": 5e5} | counts]).splitlines()[-1] == (
        "| 0 | 10 | layer 20 mean | 90.0 | 80.0 | 0.800 | 50.0 | 0.50 |"
    )
