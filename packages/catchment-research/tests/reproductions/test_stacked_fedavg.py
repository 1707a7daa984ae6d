"""Stacks of networks against torch's own modules, and averaging against sums written out."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from reproductions.stacked_fedavg import (  # noqa: E402
    DECAY,
    Group,
    Settings,
    Windows,
    cell,
    chosen_of,
    left_out,
    trained,
)
from reproductions.stacked_networks import Network, Stack, stacked  # noqa: E402

CHANNELS, CLASSES, STEPS = 3, 4, 24

COUNTED = ("numbers", "rounds", "bytes_up", "windows", "correct", "classes")


def windows(counts: tuple[int, ...], folds: tuple[tuple[int, ...], ...] = ((0,),)) -> Windows:
    """Return people whose classes differ in frequency."""
    rng = np.random.default_rng(0)
    label = rng.integers(CLASSES, size=sum(counts))
    t = np.arange(STEPS)[None, :, None]
    phase = rng.uniform(0, 6, size=(len(label), 1, CHANNELS))
    x = np.sin((0.3 + 0.5 * label[:, None, None]) * t + phase) + 0.1 * rng.normal(
        size=(len(label), STEPS, CHANNELS)
    )
    return Windows(
        "toy",
        torch.tensor(x, dtype=torch.float32),
        torch.tensor(label),
        np.repeat(np.arange(len(counts)), counts),
        tuple(f"p{k}" for k in range(len(counts))),
        folds,
        CLASSES,
    )


class Plain(nn.Module):
    """The same convolutional network by torch's modules."""

    def __init__(self, model: Stack) -> None:
        super().__init__()
        self.convs = nn.ModuleList()
        self.norms = nn.ModuleList()
        for k in range(3):
            kernel = model[f"conv{k}"]  # (k, C, O)
            conv = nn.Conv1d(
                kernel.shape[1], kernel.shape[2], len(kernel), padding=len(kernel) // 2, bias=False
            )
            conv.weight.data = kernel.permute(2, 1, 0).clone()
            self.convs.append(conv)
            self.norms.append(nn.BatchNorm1d(kernel.shape[2]))
        self.head = nn.Linear(64, CLASSES)
        self.head.weight.data = model["head.weight"].T.clone()
        self.head.bias.data = model["head.bias"].clone()

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(1, 2)
        for k, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = torch.relu(norm(conv(x)))
            if k < 2:
                x = nn.functional.max_pool1d(x, 2)
        found: Tensor = self.head(x.mean(2))
        return found


def test_scores_are_those_of_torch_modules() -> None:
    net = Network("cnn", CHANNELS, CLASSES)
    models = [net.start(seed) for seed in (0, 1)]
    x = torch.randn(2, 5, STEPS, CHANNELS, generator=torch.Generator().manual_seed(0))
    scores = net.scores(stacked(models), x, {})
    for k, model in enumerate(models):
        torch.testing.assert_close(scores[k], Plain(model)(x[k]), rtol=1e-4, atol=1e-5)


def test_inception_module_is_four_convolutions_side_by_side() -> None:
    net = Network("inception", CHANNELS, CLASSES, depth=3)
    one = net.start(0)
    x = torch.randn(1, 2, 50, CHANNELS, generator=torch.Generator().manual_seed(1))
    moments: Stack = {}
    net.scores(stacked([one]), x, moments)
    u = x[0].transpose(1, 2)

    def conv(v: Tensor, kernel: Tensor) -> Tensor:
        return nn.functional.conv1d(v, kernel.permute(2, 1, 0), padding=len(kernel) // 2)

    narrow = conv(u, one["narrow0"])
    branches = [conv(narrow, one[f"conv0.{k}"]) for k in (39, 19, 9)]
    pooled = nn.functional.max_pool1d(u, 3, stride=1, padding=1)
    module = torch.cat([*branches, conv(pooled, one["pool0"])], 1)
    torch.testing.assert_close(moments["norm0.mean"][0], module.mean((0, 2)), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        moments["norm0.variance"][0], module.var((0, 2), correction=0), rtol=1e-4, atol=1e-5
    )


def test_a_round_is_sgd_on_every_client_and_a_weighted_mean() -> None:
    # With 32 and 64 windows the order of a client's windows matters to the second alone; the
    # first is one full batch, so its copy is torch's to rounding.
    data = windows((32, 32))
    net = Network("cnn", CHANNELS, CLASSES)
    rate = 0.05
    made = trained(data, net, [Group((0, 1), (), rate, 1, 7)], epochs=1)
    copies = []
    for person in (0, 1):
        plain = Plain(net.start(7))
        rows = data.rows(person)
        descent = torch.optim.SGD(plain.parameters(), lr=rate, momentum=0.9, weight_decay=DECAY)
        nn.functional.cross_entropy(plain(data.x[rows]), data.label[rows]).backward()  # type: ignore[no-untyped-call]
        descent.step()
        copies.append(copy.deepcopy(plain))
    heads = [one.head.weight for one in copies]
    mean = (heads[0] + heads[1]) / 2
    torch.testing.assert_close(made["head.weight"][0], mean.T, rtol=1e-4, atol=1e-6)
    first, second = (one.state_dict()["convs.1.weight"] for one in copies)
    kernels = (first + second) / 2
    torch.testing.assert_close(made["conv1"][0], kernels.permute(2, 1, 0), rtol=1e-3, atol=1e-6)


def test_a_larger_client_counts_for_more() -> None:
    data = windows((32, 96))
    net = Network("cnn", CHANNELS, CLASSES)
    alone = [trained(data, net, [Group((p,), (), 0.0, 1, 3)], 1)["norm0.mean"] for p in (0, 1)]
    both = trained(data, net, [Group((0, 1), (), 0.0, 1, 3)], 1)["norm0.mean"]
    # Without a rate nothing moves, the running moments neither: all are as at the start.
    assert torch.equal(both, alone[0])
    moved = [trained(data, net, [Group((p,), (), 1e-9, 1, 3)], 1)["norm0.mean"] for p in (0, 1)]
    both = trained(data, net, [Group((0, 1), (), 1e-9, 1, 3)], 1)["norm0.mean"]
    # Batches are drawn anew, so the second client's moments differ a little between the two runs.
    torch.testing.assert_close(both, 0.25 * moved[0] + 0.75 * moved[1], rtol=0.1, atol=0.01)


def test_groups_do_not_touch_one_another() -> None:
    data = windows((32, 32, 32))
    net = Network("cnn", CHANNELS, CLASSES)
    groups = [Group((0, 1), (), 0.05, 1, 1), Group((2,), (), 0.1, 2, 2)]
    both = trained(data, net, groups, epochs=2)
    for k, group in enumerate(groups):
        alone = trained(data, net, [group], epochs=2)
        for name, value in alone.items():
            torch.testing.assert_close(both[name][k], value[0], rtol=1e-3, atol=1e-4)


def test_a_cell_learns_and_its_choice_sees_no_test_person() -> None:
    data = windows((32, 32, 32, 32), folds=((0, 1), (2, 3)))
    settings = Settings(
        rates=(0.02, 0.1), local_epochs=(1,), epochs=(2, 20), seeds=1, inner=1, depth=3
    )
    found = cell(data, "cnn", settings)
    right = sum(map(sum, found["correct"].values()))
    assert right / sum(found["windows"].values()) > 0.6
    assert found["bytes_up"] == [n * found["numbers"] * 4 for n in found["rounds"]]
    choices = [found["folds"][k]["choice"] for k in ("0", "1")]
    assert all(
        choice in [row[:3] for row in found["folds"]["0"]["tried"]]
        for choice in [list(c) for c in choices]
    )
    for a, b in pairwise(found["folds"]["0"]["tried"]):
        assert a[3] >= b[3]
    ((name, given),) = chosen_of(json.loads(json.dumps([found]))).items()
    assert name == (data.name, "cnn", False)
    again = cell(data, "cnn", *given)  # with the choices as they are, nothing is searched
    assert [again[key] for key in COUNTED] == [found[key] for key in COUNTED]
    assert np.sum(again["classes"], axis=1).tolist() == [[right, len(data.x), len(data.x)]]


def test_people_left_out_are_training_people() -> None:
    people = (3, 5, 8, 9, 11, 12)
    out = left_out(people, 4)
    assert len(out) == 1
    assert set(out) <= set(people)


def test_pooled_data_train_one_copy_on_everybodys_windows() -> None:
    data = windows((32, 64))
    net = Network("cnn", CHANNELS, CLASSES)
    pooled = trained(data, net, [Group((0, 1), (), 0.05, 1, 7, (), True)], epochs=1)
    one = replace(data, person=np.zeros_like(data.person), names=("all",))
    alone = trained(one, net, [Group((0,), (), 0.05, 1, 7)], epochs=1)
    torch.testing.assert_close(pooled["head.weight"], alone["head.weight"])
