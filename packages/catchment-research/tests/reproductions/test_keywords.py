"""The study of new keywords: its protocol on synthetic rows, and what its pages say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from reproductions.keywords import (
    BALANCED,
    EVERYBODY,
    GROWN,
    MAJORITY,
    MEANS,
    TUNED,
    TUNED_FAST,
    TUNED_ON,
    keywords,
    load_keywords,
)
from reproductions.keywords_baselines import fine_tuned, softmax_of
from reproductions.keywords_data import of_word, said, synthetic
from reproductions.keywords_tables import (
    accuracies,
    all_words,
    aurocs,
    before,
    largest,
    markdown,
    write,
)

ROOT = Path(__file__).parents[4]


def test_the_protocol_on_synthetic_words(tmp_path: Path) -> None:
    words = synthetic(8, n_speakers=2)
    new = of_word(words.test, "a")
    assert {said(one) for held in new.values() for one in held} == {"a"}
    result = keywords(words, quick=True)
    assert [len(one.brought) for one in result.words] == [2, 2]
    assert [(one.n_new, one.n_old) for one in result.words] == [(4, 32)] * 2
    found = largest(result)
    assert found["start"] == found["retired"] == 0.0
    assert found["pooled"] <= 1e-9
    assert accuracies(result, MAJORITY)[0].value == 0.0
    assert accuracies(result, EVERYBODY)[0].value > 0.9
    # One word is always said: its F1 is 2 p / (1 + p), that of the others 0.
    p = 32 / (len(words.names) - 1) / (4 + 32)
    assert all_words(result, MAJORITY) == pytest.approx(2 * p / (1 + p) / len(words.names))
    assert all_words(result, EVERYBODY) > 0.9
    write(result, tmp_path)
    kept = load_keywords(tmp_path / "keywords-quick.json")
    assert markdown(kept) == markdown(result)
    assert keywords(words, quick=True, earlier=kept) == kept


def test_a_first_gradient_is_that_of_the_softmax() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=(60, 3)) + 3 * np.eye(3)[np.arange(60) % 3]
    names = ("a", "b", "c")
    labels = [names[k % 3] for k in range(60)]
    start = softmax_of(z, labels, names)
    theirs = LogisticRegression(max_iter=500).fit((z - z.mean(0)) / z.std(0), labels)
    agreed = [names[k] for k in start(z).argmax(axis=1)] == theirs.predict(
        (z - z.mean(0)) / z.std(0)
    )
    assert agreed.all()
    row = rng.normal(size=(1, 3))
    tuned = fine_tuned(start, row, epochs=1, rate=1e-6)
    W = np.column_stack([start.weights, start.weights.mean(axis=1)])
    x = start.rows(row)[0]

    def loss(weights: np.ndarray) -> float:
        scores = x @ weights
        return float(np.log(np.exp(scores).sum()) - scores[3])

    for place in ((0, 1), (2, 3), (3, 0)):
        moved = W.copy()
        moved[place] += 1e-5
        slope = (loss(moved) - loss(W)) / 1e-5
        assert (W - tuned.weights)[place] / 1e-6 == pytest.approx(slope, rel=1e-3, abs=1e-6)


def test_the_results_and_the_guide_say_the_same() -> None:
    result = load_keywords(ROOT / "results" / "keywords.json")
    assert (ROOT / "results" / "keywords.md").read_text("utf-8") == markdown(result) + "\n"
    assert [len(word.brought) for word in result.words] == [6] * 10
    found = largest(result)
    assert found["start"] == found["retired"] == 0.0
    assert found["pooled"] <= 1e-9
    guide = (ROOT / "docs/guides/new-classes.md").read_text("utf-8")
    rows = [
        [part.strip() for part in line.strip("|").split("|")]
        for line in guide.split("## Measured")[1].splitlines()
        if line.startswith("|")
    ]
    printed = {row[0]: row[1:] for row in rows}
    for name, method in GUIDE.items():
        new, old = accuracies(result, method)
        assert printed[name] == [new.shown(), f"{100 * old.value:.1f}"], name
    areas = aurocs(result)
    text = " ".join(guide.split())
    assert f"{areas['own'].value:.3f} (" in text
    assert f"{areas['shared'].value:.3f} (" in text
    assert f"{areas['largest output'].value:.3f}" in text
    assert f"{100 * before(result, GROWN):.1f} % before" in text
    found_in = {
        (word.word, method): np.mean([one.right[method][0] for one in word.brought.values()])
        / word.n_new
        for word in result.words
        for method in (GROWN, BALANCED)
    }
    nine, four, alike = (found_in[key] for key in (("9", GROWN), ("4", GROWN), ("4", BALANCED)))
    assert f'"9" in {100 * nine:.0f} % of the cases and "4" in {100 * four:.0f} %, or ' in text
    assert f"or {100 * alike:.0f} % with classes weighed alike" in text


GUIDE = {
    "nearest class mean, grown": MEANS,
    "fine-tuned by the bringing speaker until its clips are right": TUNED,
    "the same, 100 epochs": TUNED_ON,
    "the same, 100 epochs, ten times the rate": TUNED_FAST,
    "ridge, grown by `add_clients`": GROWN,
    "ridge, classes weighed alike, grown": BALANCED,
    "everybody brings the word": EVERYBODY,
}
