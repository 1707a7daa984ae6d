from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from catchment import Plan, federate
from catchment.engine import LocalEngine
from catchment.errors import FederationError, UploadError
from catchment.federation import Reply, RoundContext, run
from catchment.wire import Message
from catchment_research.partial import (
    IGNORED,
    Change,
    EmnistCnn,
    Examples,
    FederatedTraining,
    Freeze,
    LocalSteps,
    Moved,
    PartialNetwork,
    cross_entropy,
    train_group,
)
from reproductions.networks import EMNIST_FREEZE, Transformer


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.LayerNorm(12), nn.Linear(12, 3))


NETWORK = PartialNetwork(make=small, freeze=Freeze(names=("0.weight",)), seed=4)


def client(n: int, seed: int) -> Examples:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5)).astype(np.float32)
    return Examples(x, (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0).astype(np.int64))


CLIENTS = {f"c{k}": [client(n, k)] for k, n in enumerate((20, 35, 7))}


@pytest.mark.parametrize(
    "steps",
    [
        LocalSteps(learning_rate=0.2, batch_size=8),
        LocalSteps(learning_rate=0.1, momentum=0.9, batch_size=6, epochs=2, prox=0.3),
        LocalSteps(optimizer="adam", learning_rate=0.01, batch_size=8, epochs=3, max_steps=4),
    ],
)
def test_a_group_trains_as_torch_trains_each_by_itself(steps: LocalSteps) -> None:
    examples = [client(n, k) for k, n in enumerate((20, 35, 7))]
    schedules = [steps.schedule(len(e.x), np.random.default_rng(k)) for k, e in enumerate(examples)]
    named = dict(NETWORK.build().named_parameters())
    start = {n: p.detach().clone() for n, p in named.items() if p.requires_grad}
    frozen = {n: p.detach() for n, p in named.items() if not p.requires_grad}
    group = train_group(
        NETWORK.skeleton(),
        start,
        frozen,
        examples,
        schedules,
        steps,
        learning_rate=steps.learning_rate,
    )
    for k, (e, schedule) in enumerate(zip(examples, schedules, strict=True)):
        alone, loss, accuracy = _train_alone(e, schedule, steps)
        assert group.loss[k].item() == pytest.approx(loss, rel=2e-4)
        assert group.accuracy[k].item() == pytest.approx(accuracy)
        for name, value in group.values.items():
            torch.testing.assert_close(value[k], alone[name], rtol=2e-4, atol=2e-5)


def _train_alone(
    e: Examples, schedule: NDArray[np.int64], steps: LocalSteps
) -> tuple[dict[str, torch.Tensor], float, float]:
    module = NETWORK.build()
    met = []
    trained = [p for p in module.parameters() if p.requires_grad]
    before = [p.detach().clone() for p in trained]
    optimizer = (
        torch.optim.SGD(trained, lr=steps.learning_rate, momentum=steps.momentum)
        if steps.optimizer == "sgd"
        else torch.optim.Adam(trained, lr=steps.learning_rate)
    )
    for batch in schedule:
        rows = batch[batch >= 0]
        optimizer.zero_grad()
        logits, y = module(torch.from_numpy(e.x[rows])), torch.from_numpy(e.y[rows])
        loss = functional.cross_entropy(logits, y)
        met += [(loss.item(), right) for right in (logits.argmax(1) == y).tolist()]
        apart = sum(((p - b) ** 2).sum() for p, b in zip(trained, before, strict=True))
        torch.autograd.backward(loss + 0.5 * steps.prox * apart)
        optimizer.step()
    loss_of_all, accuracy = np.mean(met, axis=0)
    values = {n: p.detach() for n, p in module.named_parameters() if p.requires_grad}
    return values, float(loss_of_all), float(accuracy)


def test_ignored_targets_and_absent_examples_do_not_count() -> None:
    logits, y = torch.randn(4, 6, 5), torch.randint(0, 5, (4, 6))
    y[1, 3:] = IGNORED
    counts = torch.tensor([1.0, 1.0, 0.0, 1.0])
    present = [0, 1, 3]
    expected = functional.cross_entropy(
        logits[present].flatten(0, 1), y[present].flatten(), ignore_index=IGNORED
    )
    torch.testing.assert_close(cross_entropy(logits, y, counts), expected)


def test_groups_and_single_clients_give_the_same_round() -> None:
    states = [
        federate(
            Plan(algorithm=FederatedTraining(network=NETWORK, at_once=n, device="cpu")), CLIENTS
        ).state
        for n in (1, 2, 3)
    ]
    for other in states[1:]:
        for a, b in zip(states[0].values, other.values, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_groups_are_large_on_a_gpu_unless_messages_are_long() -> None:
    def size(network: PartialNetwork, device: str, at_once: int | None = None) -> int:
        algorithm = FederatedTraining(network=network, device=device, at_once=at_once)
        return algorithm.group_size(40, 8)

    whole = PartialNetwork(make=EmnistCnn)
    part = PartialNetwork(make=EmnistCnn, freeze=EMNIST_FREEZE)
    assert (size(whole, "cpu"), size(part, "cpu")) == (1, 1)
    assert (size(whole, "cuda"), size(part, "cuda")) == (5, 100)
    assert size(whole, "cuda", at_once=17) == 17


def test_a_transformer_learns_the_order_of_words() -> None:
    def said(n: int, seed: int) -> Examples:
        ids = (seed + 5 * np.arange(n + 1)) % 12
        return Examples(ids[:-1].reshape(-1, 6), ids[1:].reshape(-1, 6))

    network = PartialNetwork(
        make=lambda: Transformer(12, 8, 16, 1, 2), freeze=Freeze(names=("layers.0.feed.*",))
    )
    steps = LocalSteps(learning_rate=0.3, batch_size=8)
    algorithm = FederatedTraining(network=network, steps=steps, device="cpu")
    clients = {f"c{k}": [said(96, k)] for k in range(3)}
    module = federate(Plan(algorithm=algorithm, rounds=12), clients).result
    test = said(60, 7)
    right = module(torch.from_numpy(test.x)).argmax(-1).numpy() == test.y
    assert right.mean() > 0.9


def test_training_learns_and_leaves_the_frozen_part_alone() -> None:
    algorithm = FederatedTraining(
        network=NETWORK, steps=LocalSteps(learning_rate=0.3, batch_size=8), device="cpu"
    )
    result = federate(Plan(algorithm=algorithm, rounds=30), CLIENTS)
    module = result.result
    frozen = dict(module.named_parameters())["0.weight"]
    assert torch.equal(frozen, dict(NETWORK.build().named_parameters())["0.weight"])
    e = client(300, 99)
    right = module(torch.from_numpy(e.x)).argmax(1).numpy() == e.y
    guess = np.bincount(e.y).max() / len(e.y)
    assert right.mean() > guess + 0.15
    trainable = NETWORK.share().trainable
    assert result.records[0].bytes_up < 3 * (4 * trainable + 400)


def test_a_weak_client_trains_less_and_does_not_dilute_the_mean() -> None:
    weak = {"c2": Freeze(names=("3.*",))}
    both = FederatedTraining(network=NETWORK, weak=weak, device="cpu")
    strong = FederatedTraining(network=NETWORK, device="cpu")
    got = federate(Plan(algorithm=both), CLIENTS).state
    alone = federate(Plan(algorithm=strong), {n: CLIENTS[n] for n in ("c0", "c1")}).state
    everyone = federate(Plan(algorithm=strong), CLIENTS).state
    names = [n for n, p in NETWORK.build().named_parameters() if p.requires_grad]
    for name, a, b, c in zip(names, got.values, alone.values, everyone.values, strict=True):
        expected = b if name.startswith("3.") else c
        np.testing.assert_allclose(a, expected, rtol=1e-5, atol=1e-7)


def test_a_clipped_change_is_no_longer_than_its_bound() -> None:
    algorithm = FederatedTraining(
        network=NETWORK, steps=LocalSteps(learning_rate=5.0), clip=0.01, device="cpu"
    )
    change = algorithm.client_update(
        algorithm.broadcast(algorithm.start(), RoundContext(0, ())),
        lambda: CLIENTS["c0"],
        RoundContext(0, (), client="c0"),
    )
    length = np.sqrt(sum((c.astype(np.float64) ** 2).sum() for c in change.changes))
    assert 0.0099 < length <= 0.01
    assert change.weight == 1.0


def changes_of(algorithm: FederatedTraining) -> dict[str, Change]:
    told = algorithm.broadcast(algorithm.start(), RoundContext(0, tuple(CLIENTS)))
    found = {}
    for name, e in CLIENTS.items():
        context = RoundContext(0, tuple(CLIENTS), client=name)
        found[name] = algorithm.client_update(told, lambda e=e: e, context)  # type: ignore[misc]
    return found


def test_the_server_moves_by_the_mean_over_examples_not_over_clients() -> None:
    """Clients of 20, 35 and 7 examples: the mean is written out here."""
    algorithm = FederatedTraining(network=NETWORK, device="cpu")
    sent = changes_of(algorithm)
    sizes = {name: len(pieces[0].x) for name, pieces in CLIENTS.items()}
    assert {name: change.weight for name, change in sent.items()} == sizes
    assert len(set(sizes.values())) == 3
    before = algorithm.start().values
    after = federate(Plan(algorithm=algorithm), CLIENTS).state.values
    for k, (start, end) in enumerate(zip(before, after, strict=True)):
        moved = {name: change.changes[k] / sizes[name] for name, change in sent.items()}
        mean = sum(sizes[name] * moved[name] for name in sizes) / 62
        alike = sum(moved.values()) / 3
        np.testing.assert_allclose(end - start, mean, rtol=1e-4, atol=1e-7)
        assert np.abs(alike - mean).max() > 1e-3 * np.abs(mean).max()


def test_a_change_below_the_bound_is_sent_as_it_is() -> None:
    free = changes_of(FederatedTraining(network=NETWORK, device="cpu"))
    short = changes_of(FederatedTraining(network=NETWORK, clip=1e3, device="cpu"))
    for name, change in short.items():
        assert change.weight == 1.0
        for ours, theirs in zip(change.changes, free[name].changes, strict=True):
            np.testing.assert_allclose(ours, theirs / free[name].weight, rtol=1e-6)


def test_a_change_just_below_the_bound_is_not_lengthened_to_it() -> None:
    free = changes_of(FederatedTraining(network=NETWORK, device="cpu"))["c0"]
    length = float(np.sqrt(sum((c.astype(np.float64) ** 2).sum() for c in free.changes)))
    bound = 1.05 * length / free.weight
    sent = changes_of(FederatedTraining(network=NETWORK, clip=bound, device="cpu"))["c0"]
    for ours, theirs in zip(sent.changes, free.changes, strict=True):
        np.testing.assert_allclose(ours, theirs / free.weight, rtol=1e-6)


def test_one_client_cannot_outweigh_the_others_by_its_word() -> None:
    algorithm = FederatedTraining(network=NETWORK, device="cpu")
    clients = {f"c{k}": [client(10 + k, k)] for k in range(6)}
    plan = Plan(algorithm=algorithm)

    class Boasting(LocalEngine[Any, Any, Any]):
        def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
            for reply in super().ask(requests):
                if reply.client == "c5" and reply.message is not None:
                    sent = Message.from_bytes(reply.message)
                    heavy = tuple(array * array.dtype.type(1e6) for array in sent.arrays)
                    reply = Reply("c5", replace(sent, arrays=heavy).to_bytes())
                yield reply

    result = run(plan, Boasting(plan, clients))
    assert [(r.client, r.code) for r in result.records[0].refused] == [("c5", "over-median")]
    others = federate(plan, {name: data for name, data in clients.items() if name != "c5"})
    for ours, theirs in zip(result.state.values, others.state.values, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_where_changes_are_clipped_every_client_weighs_one() -> None:
    algorithm = FederatedTraining(network=NETWORK, clip=0.1, device="cpu")
    parts = replace(changes_of(algorithm)["c0"], weight=2.0).parts()
    with pytest.raises(UploadError, match="weight is 2") as caught:
        algorithm.read_update(parts, RoundContext(0, (), client="c0"))
    assert caught.value.code == "weight"
    long = changes_of(FederatedTraining(network=NETWORK, clip=1.0, device="cpu"))["c0"]
    with pytest.raises(UploadError, match="longer than") as caught:
        algorithm.read_update(long.parts(), RoundContext(0, (), client="c0"))
    assert caught.value.code == "bound"


def test_bad_changes_are_refused_with_their_code() -> None:
    algorithm = FederatedTraining(network=NETWORK, device="cpu")
    parts = algorithm.client_update(
        algorithm.broadcast(algorithm.start(), RoundContext(0, ())),
        lambda: CLIENTS["c0"],
        RoundContext(0, (), client="c0"),
    ).parts()
    parts.arrays[2].flat[0] = np.nan
    with pytest.raises(UploadError, match="finite") as caught:
        algorithm.read_update(parts, RoundContext(0, (), client="c0"))
    assert caught.value.code == "not-finite"


def test_state_survives_being_kept() -> None:
    algorithm = FederatedTraining(network=NETWORK, device="cpu")
    state = federate(Plan(algorithm=algorithm), CLIENTS).state
    again = algorithm.load_state(algorithm.save_state(state))
    for a, b in zip(state.values, again.values, strict=True):
        assert np.array_equal(a, b)


def test_examples_must_fit_and_be_finite() -> None:
    with pytest.raises(ValueError, match="0 inputs and 0 targets"):
        Examples(np.zeros((0, 5), np.float32), np.zeros(0, np.int64))
    with pytest.raises(ValueError, match="not finite"):
        Examples(np.full((2, 5), np.nan, np.float32), np.zeros(2, np.int64))
    for bad, words in ((np.ones((2, 5), complex), "complex"), (np.ma.ones((2, 5)), "mask")):
        with pytest.raises(ValueError, match=words):
            Examples(bad, np.zeros(2, np.int64))


def test_the_loss_of_a_round_is_torchs_and_falls() -> None:
    steps = LocalSteps(learning_rate=0.5, batch_size=64)
    algorithm = FederatedTraining(network=NETWORK, steps=steps, device="cpu")
    records = federate(Plan(algorithm=algorithm, rounds=20), CLIENTS).records
    every = [one for pieces in CLIENTS.values() for one in pieces]
    x = torch.from_numpy(np.concatenate([e.x for e in every]))
    y = torch.from_numpy(np.concatenate([e.y for e in every]))
    logits = NETWORK.build()(x)  # one batch is all that a client has: its loss is that of the start
    loss = functional.cross_entropy(logits, y).item()
    assert records[0].figures["training loss"] == pytest.approx(loss, rel=1e-5)
    right = (logits.argmax(1) == y).double().mean().item()
    assert records[0].figures["training accuracy"] == pytest.approx(right)
    assert records[-1].figures["training loss"] < 0.8 * loss
    assert records[-1].figures["training accuracy"] > right


def test_clipped_changes_come_without_a_loss() -> None:
    algorithm = FederatedTraining(network=NETWORK, clip=0.1, device="cpu")
    (record,) = federate(Plan(algorithm=algorithm), CLIENTS).records
    assert set(record.figures) == {"weight norm"}
    told = algorithm.broadcast(algorithm.start(), RoundContext(0, ()))
    sent = algorithm.client_update(told, lambda: CLIENTS["c0"], RoundContext(0, (), client="c0"))
    assert (sent.telling, sent.loss, sent.right) == (0.0, 0.0, 0.0)


def test_weights_below_one_count_and_none_at_all_is_an_error() -> None:
    change, told = (np.array([1.0]),), np.zeros(3)
    (mean,) = Moved(("a",), change, np.array([0.5]), told).mean()
    assert mean == 2.0
    with pytest.raises(FederationError, match="no client trained anything"):
        Moved(("a",), change, np.array([0.0]), told).mean()


def test_a_change_as_long_as_was_agreed_on_is_taken_and_tells_nothing_else() -> None:
    change = Change((np.array([3.0, 4.0], dtype=np.float32),), 1.0)
    assert (change.telling, change.loss, change.right) == (0.0, 0.0, 0.0)
    FederatedTraining._check_clipped(change, 5.0)
    with pytest.raises(UploadError, match="longer than"):
        FederatedTraining._check_clipped(change, 4.999)
