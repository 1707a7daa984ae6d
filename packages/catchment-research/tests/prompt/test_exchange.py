"""What crosses to the language model's server: its size to the byte, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from catchment.errors import IntegrityError
from catchment.wire import Message
from catchment_research.prompt import Answer, LanguageServer, Projection, Question, as_tokens
from tests.prompt.world import MODEL, PROJECTION, WORDS

RNG = np.random.default_rng(1)
CODES = RNG.normal(size=(4, 6))
CONTEXTS = [RNG.integers(0, 40, size=n) for n in (3, 1, 5, 2)]


def server(**settings: object) -> LanguageServer:
    return LanguageServer(MODEL, replace(PROJECTION, **settings), WORDS)  # type: ignore[arg-type]


def asked(question: Question, at: LanguageServer) -> Answer:
    return Answer.from_bytes(at.answers([question.to_bytes(at.projection)])[0])


def test_the_server_makes_prompts_and_pulls_gradients_back() -> None:
    words = (7, 8, 9)
    at = server(words=words)
    answer = asked(Question(CODES, CONTEXTS, 4), at)
    prompts = (CODES.astype(np.float32) @ PROJECTION.matrix.T).reshape(4, 3, 12)
    truth = MODEL.slopes(prompts + MODEL.embed(words), CONTEXTS, WORDS)
    np.testing.assert_allclose(answer.values, truth.values, rtol=1e-5, atol=1e-6)
    assert answer.gradients is not None
    pulled = truth.gradients.reshape(4, 2, 36) @ PROJECTION.matrix
    np.testing.assert_allclose(answer.gradients, pulled, rtol=1e-5, atol=1e-6)


def test_whole_prompts_are_answered_with_whole_gradients() -> None:
    at = server()
    answer = asked(Question(PROJECTION.prompts(CODES), CONTEXTS, 4), at)
    assert answer.gradients is not None
    assert answer.gradients.shape == (4, 2, 3, 12)
    pulled = PROJECTION.pull_back(answer.gradients)
    of_codes = asked(Question(CODES, CONTEXTS, 4), at).gradients
    assert of_codes is not None
    np.testing.assert_allclose(pulled, of_codes, rtol=1e-4, atol=1e-5)


def test_what_is_everyones_is_sent_once() -> None:
    at = server()
    rows = Question(np.repeat(CODES[:1], 4, axis=0), [CONTEXTS[0]] * 4, 4)
    once = Question(CODES[:1], CONTEXTS[:1], 4)
    a, b = asked(rows, at), asked(once, at)
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.gradients, b.gradients)
    assert len(once.to_bytes(PROJECTION)) < len(rows.to_bytes(PROJECTION))


def test_told_labels_and_one_prompt_give_one_gradient() -> None:
    labels = np.array([0, 2, 1, 1])
    at = server()
    each = asked(Question(np.repeat(CODES[:1], 4, axis=0), CONTEXTS, 4, labels), at)
    once = asked(Question(CODES[:1], CONTEXTS, 4, labels), at)
    assert each.gradients is not None
    assert once.gradients is not None
    assert each.gradients.shape == (4, 6)
    assert once.gradients.shape == (1, 6)
    np.testing.assert_allclose(once.gradients[0], each.gradients.sum(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(once.values, each.values)


def test_questions_of_several_clients_are_answered_as_if_alone() -> None:
    labels = np.array([0, 2, 1, 1])
    at = server()
    questions = [
        Question(CODES, CONTEXTS, 4),
        Question(CODES[:1], CONTEXTS, 4, labels),
        Question(CODES[:2], CONTEXTS[:2], 2, gradient=False),
        Question(PROJECTION.prompts(CODES[:2]), CONTEXTS[:2], 2),
        Question(CODES[2:], CONTEXTS[2:], 2),
    ]
    messages = [question.to_bytes(PROJECTION) for question in questions]
    assert at.answers(messages) == [at.answers([message])[0] for message in messages]


def test_traffic_is_what_the_messages_weigh() -> None:
    at = server()
    message = Question(CODES, CONTEXTS, 4).to_bytes(PROJECTION)
    reply = at.answers([message])[0]
    ask = Question(CODES, CONTEXTS, 4, gradient=False).to_bytes(PROJECTION)
    at.answers([ask, ask])
    seen = at.traffic
    assert seen["training"].bytes_up == len(message)
    assert seen["training"].bytes_down == len(reply)
    assert (seen["asking"].messages, seen["asking"].examples) == (2, 8)
    # Beyond the header, 4 bytes for every number and token that has to cross.
    n, k, rest = 4, 6, len(WORDS) - 1
    empty = len(Question(CODES[:0], [], 4).to_bytes(PROJECTION))
    assert 0 <= len(message) - empty - 4 * (n * k + 11 + n) <= 8
    assert 0 <= len(reply) - 4 * n * (rest + rest * k) <= 200


def test_a_copy_elsewhere_answers_the_same_and_counts_for_itself() -> None:
    at = server()
    message = Question(CODES, CONTEXTS, 4).to_bytes(PROJECTION)
    replies = at.answers([message])
    copy = pickle.loads(pickle.dumps(at))
    assert copy.identity() == at.identity()
    assert copy.traffic == {}
    assert copy.answers([message]) == replies


WRONG = {
    "kind": lambda p: replace(p, kind="answer"),
    "arrays": lambda p: replace(p, arrays=p.arrays[:2]),
    "projection": lambda p: replace(p, facts={**p.facts, "projection": "0" * 16}),
    "examples": lambda p: replace(p, facts={**p.facts, "examples": 0}),
    "many": lambda p: replace(p, facts={**p.facts, "examples": 1 << 40}),
    "text": lambda p: replace(p, facts={**p.facts, "examples": "4"}),
    "gradient": lambda p: replace(p, facts={**p.facts, "gradient": 1}),
    "narrow": lambda p: replace(p, arrays=(p.arrays[0][:, :5], *p.arrays[1:])),
    "short": lambda p: replace(p, arrays=(p.arrays[0][:3], *p.arrays[1:])),
    "double": lambda p: replace(p, arrays=(p.arrays[0].astype(float), *p.arrays[1:])),
    "nan": lambda p: replace(p, arrays=(p.arrays[0] * np.float32(np.nan), *p.arrays[1:])),
    "tokens": lambda p: replace(p, arrays=(p.arrays[0], p.arrays[1][:-1], *p.arrays[2:])),
    "lengths": lambda p: replace(p, arrays=(*p.arrays[:2], p.arrays[2][:, None], p.arrays[3])),
    "labels": lambda p: replace(p, arrays=(*p.arrays[:3], p.arrays[3] + 3)),
    "no number": lambda p: replace(p, arrays=(*p.arrays[:3], p.arrays[3] * np.nan)),
    "scalar": lambda p: replace(p, arrays=(p.arrays[0][0, 0], *p.arrays[1:])),
    "fewer": lambda p: replace(p, arrays=(*p.arrays[:3], p.arrays[3][:2])),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_question_that_is_wrong_in_one_place_is_refused(name: str) -> None:
    at = server()
    labels = np.array([0, 2, 1, 1])
    parts = Message.from_bytes(Question(CODES, CONTEXTS, 4, labels).to_bytes(PROJECTION))
    at.answers([parts.to_bytes()])
    with pytest.raises(IntegrityError):
        at.answers([WRONG[name](parts).to_bytes()])


def test_tokens_the_model_does_not_know_are_refused() -> None:
    with pytest.raises(ValueError, match="the model knows 0 to 39"):
        asked(Question(CODES[:1], [np.array([40])], 1), server())
    with pytest.raises(ValueError, match="not a row of tokens"):
        as_tokens(np.array([-1]))
    with pytest.raises(ValueError, match="not a row of tokens"):
        as_tokens(np.zeros((2, 2), dtype=np.int64))


def test_answers_are_checked() -> None:
    with pytest.raises(IntegrityError, match="expected an answer"):
        Answer.from_bytes(Message("nothing").to_bytes())
    with pytest.raises(IntegrityError, match="not finite"):
        Answer.from_bytes(Message("answer", {}, (np.array([np.nan], np.float32),)).to_bytes())


def test_a_server_is_checked() -> None:
    with pytest.raises(ValueError, match="pass width=12"):
        LanguageServer(MODEL, Projection(bottleneck=2, length=1, width=5), WORDS)
    with pytest.raises(ValueError, match="2 or more different"):
        LanguageServer(MODEL, PROJECTION, (1, 1))
    with pytest.raises(ValueError, match="40 tokens"):
        LanguageServer(MODEL, PROJECTION, (1, 40))
    with pytest.raises(ValueError, match="40 tokens"):
        LanguageServer(MODEL, replace(PROJECTION, words=(1, 2, 99)), WORDS)
