"""Whole answers in the whole vocabulary: against transformers' own loss, autograd and speech."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, final

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from catchment import Array, Integers  # noqa: E402
from catchment.engine import run_locally  # noqa: E402
from catchment.errors import FederationError, IntegrityError  # noqa: E402
from catchment.federation import Plan  # noqa: E402
from catchment.wire import Message  # noqa: E402
from catchment_research.learn import Adam, Mean  # noqa: E402
from catchment_research.prompt import (  # noqa: E402  # noqa: E402  # noqa: E402
    Answer,
    Answers,
    EdgeController,
    Example,
    LanguageServer,
    Projection,
    Question,
    TransformersLM,
    said_from_bytes,
    said_to_bytes,
)
from tests.prompt.test_causal import CONTEXTS, RNG, gpt2, llama  # noqa: E402
from tests.prompt.world import MODEL, PROJECTION, WORDS, clients, features, training  # noqa: E402

RATE = 0.3
SAID = [RNG.integers(0, 40, size=n) for n in (2, 1, 3, 4, 1, 2)]
CHOICES = ((5,), (9, 3), (23, 1, 30))


@cache
def qwen2() -> TransformersLM:
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    return TransformersLM(transformers.Qwen2ForCausalLM(config), batch_size=4)


MODELS = pytest.mark.parametrize("make", [llama, gpt2, qwen2], ids=lambda make: make.__name__)


def own_loss(
    lm: TransformersLM, prompt: Array, context: Integers, answer: Integers
) -> tuple[float, Array]:
    """Return the mean loss of an answer's tokens and its gradient, by transformers, unpadded."""
    table = lm.model.get_input_embeddings().weight
    leaf = torch.tensor(prompt, dtype=torch.float32, requires_grad=True)
    tokens = torch.tensor(np.concatenate([context, answer]), dtype=torch.long)
    labels = torch.tensor([-100] * (len(prompt) + len(context)) + answer.tolist())
    x = torch.cat([leaf, table[tokens]])[None]
    loss = lm.model(inputs_embeds=x, labels=labels[None]).loss
    (slope,) = torch.autograd.grad(loss, leaf)
    return loss.item(), slope.numpy()


@MODELS
def test_a_padded_batch_of_answers_has_each_rows_own_loss_and_gradient(make: Any) -> None:
    lm = make()
    prompts = lm.spread * RNG.normal(size=(len(CONTEXTS), 2, lm.width))
    answers = Answers(SAID)
    found, scores = lm.slopes(prompts, CONTEXTS, answers), lm.scores(prompts, CONTEXTS, answers)
    np.testing.assert_allclose(scores, found.values, rtol=1e-5)
    for k, context in enumerate(CONTEXTS):
        loss, slope = own_loss(lm, prompts[k], context, SAID[k])
        assert -found.values[k, 0] / len(SAID[k]) == pytest.approx(loss, rel=1e-4)
        theirs = -slope * len(SAID[k])
        size = float(np.abs(theirs).max())
        np.testing.assert_allclose(found.gradients[k, 0], theirs, rtol=1e-3, atol=1e-4 * size)


def test_gradients_of_answers_are_numeric_ones() -> None:
    # In double precision, which GPT-2 keeps to the end and Llama's normalization does not.
    torch.manual_seed(1)
    lm = TransformersLM(transformers.GPT2LMHeadModel(gpt2().model.config).double(), batch_size=8)
    prompts, contexts = RNG.normal(size=(2, 2, 16)), [CONTEXTS[0], CONTEXTS[3]]
    answers = Answers([SAID[2], SAID[0]])
    for model in (lm, MODEL):
        at = prompts[:, :, : model.width]
        found = model.slopes(at, contexts, answers).gradients
        for place in [(0, 0, 3), (0, 1, 11), (1, 0, 0), (1, 1, 7)]:
            moved = []
            for step in (1e-5, -1e-5):
                there = at.copy()
                there[place] += step
                moved.append(model.scores(there, contexts, answers)[place[0], 0])
            numeric = (moved[0] - moved[1]) / 2e-5
            assert found[place[0], 0, place[1], place[2]] == pytest.approx(numeric, rel=1e-5)


@MODELS
def test_left_to_itself_the_model_says_what_it_would_generate(make: Any) -> None:
    lm = make()
    contexts = [context for context in CONTEXTS if len(context)]
    said = lm.continued(np.zeros((len(contexts), 0, lm.width)), contexts, 5)
    for context, ours in zip(contexts, said, strict=True):
        theirs = lm.model.generate(
            torch.tensor(context)[None],
            attention_mask=torch.ones(1, len(context), dtype=torch.long),
            max_new_tokens=5,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        assert ours.tolist() == theirs[0, len(context) :].tolist()
    end = int(said[0][1])
    stopped = lm.continued(np.zeros((len(contexts), 0, lm.width)), contexts, 5, end)
    for whole, cut in zip(said, stopped, strict=True):
        n = whole.tolist().index(end) + 1 if end in whole else 5
        assert cut.tolist() == whole[:n].tolist()


def answered(held: Sequence[Example]) -> list[Example]:
    """Return examples whose label chooses among answers of one, two and three tokens."""
    return [replace(example, choices=CHOICES) for example in held]


def pooled(examples: Sequence[Example], loss: str) -> tuple[Array, float]:
    """Return W_out after one step on all examples, and the loss before it, all in torch."""
    controller = EdgeController(projection=PROJECTION, features=features())
    W = torch.tensor(controller.start()[0], requires_grad=True)
    P, E = torch.tensor(PROJECTION.matrix), torch.tensor(MODEL.embeddings)
    q, M = torch.tensor(MODEL._question), torch.tensor(MODEL._mixing)
    base = E[list(PROJECTION.first_words(40))]
    total = torch.zeros((), dtype=torch.float64)
    for z, example in zip(controller.rows(examples), examples, strict=True):
        prompt = base + (P @ (W @ torch.tensor(z))).reshape(3, 12)
        answer = CHOICES[example.label]
        for j, token in enumerate(answer):
            read = torch.tensor([*np.asarray(example.context), *answer[:j]], dtype=torch.long)
            x = torch.cat([prompt, E[read]])
            a = torch.softmax(x @ q / 12**0.5, dim=0)
            each = -torch.log_softmax(E @ torch.tanh(M @ (a @ x)), dim=0)[token]
            total = total + each / (len(answer) if loss == "tokens" else 1)
    mean = total / len(examples)
    (slope,) = torch.autograd.grad(mean, W)
    return (W - RATE * slope).detach().numpy(), mean.item()


@pytest.mark.parametrize("tell_labels", [False, True])
@pytest.mark.parametrize("loss", ["tokens", "answers"])
def test_one_step_of_all_clients_is_one_step_on_pooled_data(loss: str, tell_labels: bool) -> None:
    server = LanguageServer(MODEL, PROJECTION, ())
    algorithm = training(
        server=server,
        local=Mean(learning_rate=RATE),
        batch_size=100,
        loss=loss,
        tell_labels=tell_labels,
    )
    held = {name: answered(examples) for name, examples in clients().items()}
    result = run_locally(Plan(algorithm=algorithm), held)
    truth, before = pooled([e for part in held.values() for e in part], loss)
    np.testing.assert_allclose(result.state.values[0], truth, rtol=1e-4, atol=1e-6)
    figures = result.records[0].figures
    assert figures["training loss"] == pytest.approx(before, rel=1e-5)
    assert "training accuracy" not in figures


def test_a_client_that_keeps_its_label_asks_about_every_choice() -> None:
    seen: list[Question] = []

    class Listening:
        """A link that reads along."""

        def __init__(self) -> None:
            self.inner = LanguageServer(MODEL, PROJECTION, ())
            self.words = self.inner.words

        def identity(self) -> str:
            return self.inner.identity()

        def answers(self, messages: list[bytes]) -> list[bytes]:
            seen.extend(Question.from_bytes(m, PROJECTION, 0) for m in messages)
            return self.inner.answers(messages)

    held = answered(clients()["client-0"])
    for tell_labels in (False, True):
        algorithm = training(server=Listening(), loss="tokens", tell_labels=tell_labels)
        run_locally(Plan(algorithm=algorithm), {"a": held})
    kept, told = (
        {tuple(tuple(a.tolist()) for a in one) for q in part for one in q.choices}
        for part in (seen[: len(seen) // 2], seen[len(seen) // 2 :])
    )
    assert kept == {CHOICES}
    assert told == {(one,) for one in CHOICES}
    assert all(q.labels is None for q in seen)


def test_training_learns_to_say_answers_of_several_tokens() -> None:
    # What is read after the prompt is one token, so that a toy can be steered to end a sentence.
    server = LanguageServer(MODEL, PROJECTION, ())
    algorithm = training(
        server=server, loss="tokens", epochs=4, local=Adam(learning_rate=0.03, tau=1e-8)
    )
    held = {name: answered(examples) for name, examples in clients(n=40).items()}
    result = run_locally(Plan(algorithm=algorithm, rounds=6), held)
    test = answered(clients(1, n=100)["client-0"])
    prompter = result.result
    assert algorithm.result(algorithm.start()).accuracy(test) < 0.6
    assert prompter.accuracy(test, per_token=True) > 0.8
    losses = [record.figures["training loss"] for record in result.records]
    assert losses[-1] < 0.8 * losses[0]
    np.testing.assert_allclose(prompter.chances(test[:5]).sum(axis=1), 1.0)


def test_choices_are_weighed_by_total_or_by_token() -> None:
    prompter = training(loss="answers").result(training().start())
    example = replace(clients()["client-0"][0], label=0, choices=((5,), (5, 9, 5, 9)))
    single, four = prompter.likelihoods([example])[0]
    assert four < single < 0
    np.testing.assert_allclose(
        prompter.likelihoods([example], per_token=True)[0], [single, four / 4]
    )
    free = replace(example, choices=((5,),))
    assert [len(one) for one in prompter.likelihoods([example, free])] == [2, 1]
    with pytest.raises(ValueError, match="different numbers of choices"):
        prompter.chances([example, free])


def test_what_the_model_says_crosses_like_everything_else() -> None:
    server = LanguageServer(MODEL, PROJECTION, ())
    prompter = training(server=server, loss="tokens").result(training().start())
    held = answered(clients()["client-1"])
    said = prompter.says(held, most=3)
    z = prompter.training.controller.rows(held)
    prompts = prompter.training.controller.prompts(prompter.values, z) + server._base
    truth = MODEL.continued(prompts, [np.asarray(e.context) for e in held], 3)
    assert [s.tolist() for s in said] == [t.tolist() for t in truth]
    assert server.traffic["asking"].examples >= len(held)
    with pytest.raises(ValueError, match="most is 0"):
        prompter.says(held, most=0)


def test_messages_about_label_words_are_what_they_were() -> None:
    projection = Projection(bottleneck=2, length=3, width=8, seed=1)
    prompts, contexts = np.arange(4.0).reshape(2, 2), [np.array([3, 4]), np.array([5])]
    digests = [
        hashlib.sha256(Question(prompts, contexts, 2, *more).to_bytes(projection)).hexdigest()[:16]
        for more in ((), (np.array([1, 0]),), (None, False))
    ]
    assert digests == GOLDEN


GOLDEN = ["7eb1190f1eb74cdb", "180c9815f4d93bab", "5a83094f5f2a2736"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"loss": "letters"}, "loss is 'letters'"),
        ({"loss": "words", "server": LanguageServer(MODEL, PROJECTION, ())}, "no label words"),
    ],
)
def test_settings_are_checked(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        training(**wrong)


@pytest.mark.parametrize("choices", [(), ((5,),), ((5,), ()), ((5,), (99,))])
def test_an_example_without_a_right_answer_says_so(choices: Any) -> None:
    held = [replace(clients()["client-0"][0], label=1, choices=choices)]
    with pytest.raises(FederationError, match=r"label 1 and \d choices|the model knows"):
        run_locally(Plan(algorithm=training(loss="tokens")), {"a": held})


def test_questions_that_cannot_be_are_refused() -> None:
    def asked(**changes: Any) -> bytes:
        fine = Question(np.zeros((2, 6)), [np.array([1])], 2, None, True, [[np.array([3])]])
        return replace(fine, **changes).to_bytes(PROJECTION)

    assert Question.from_bytes(asked(), PROJECTION, 0).counts.tolist() == [1, 1]
    empty = [[np.array([], dtype=np.int64)]]
    three = [[np.array([3])]] * 3
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"choices": empty}, "do not fit the examples"),
        ({"choices": three}, "do not fit the examples"),
        ({"choices": ()}, "no label words"),
        ({"choices": (), "most": 1 << 13}, "says at most"),
    ]
    for changes, said in wrong:
        with pytest.raises(IntegrityError, match=said):
            Question.from_bytes(asked(**changes), PROJECTION, 0)
    with pytest.raises(IntegrityError, match="expected what was said"):
        said_from_bytes(Answer(np.zeros(2)).to_bytes(), 2, most=4)
    lengths = np.array(1, np.uint32), np.array([1], np.uint32)
    for one in lengths:
        with pytest.raises(IntegrityError, match="of 2 examples"):
            said_from_bytes(Message("said", {}, (lengths[1], one)).to_bytes(), 2, most=4)
    with pytest.raises(IntegrityError, match="5 tokens were said, 4 were asked for"):
        said_from_bytes(said_to_bytes([np.arange(5)]), 1, most=4)


@final
class Liar:
    """A language model's server whose answers are made into others on their way."""

    def __init__(self, words: tuple[int, ...], lie: Callable[[Answer], Answer]) -> None:
        self._server, self._lie = LanguageServer(MODEL, PROJECTION, words), lie
        self.words = words

    def identity(self) -> str:
        return self._server.identity()

    def answers(self, messages: Sequence[bytes]) -> list[bytes]:
        told = map(Answer.from_bytes, self._server.answers(messages))
        return [self._lie(one).to_bytes() for one in told]


def sliced(answer: Answer) -> Answer:
    assert answer.gradients is not None
    return replace(answer, gradients=answer.gradients[..., :1])


def first_alone(answer: Answer) -> Answer:
    assert answer.gradients is not None
    return replace(answer, gradients=answer.gradients[:1])


@pytest.mark.parametrize("lie", [sliced, first_alone])
@pytest.mark.parametrize("tell_labels", [False, True])
@pytest.mark.parametrize("loss", ["words", "answers"])
def test_gradients_of_other_shapes_are_not_followed(
    loss: str, tell_labels: bool, lie: Callable[[Answer], Answer]
) -> None:
    words = WORDS if loss == "words" else ()
    algorithm = training(server=Liar(words, lie), loss=loss, tell_labels=tell_labels)
    held = answered(clients()["client-0"])
    with pytest.raises(FederationError, match="answered another question"):
        run_locally(Plan(algorithm=algorithm), {"a": held})


def test_scores_of_other_shapes_are_not_believed() -> None:
    wide = Liar(WORDS, lambda answer: Answer(np.hstack([answer.values] * 2)))
    with pytest.raises(IntegrityError, match="answered another question"):
        training(server=wide).result(training().start()).guesses(clients()["client-0"])
    with pytest.raises(ValueError, match="has no tokens"):
        Answers([np.array([], dtype=np.int64)])
    with pytest.raises(ValueError, match="1 answers came for 2"):
        MODEL.scores(np.zeros((2, 1, 12)), CONTEXTS[:2], Answers(SAID[:1]))
