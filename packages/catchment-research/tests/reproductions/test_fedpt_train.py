"""One training of FedPT's experiment: simulated, killed and gone on with, and scored."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from catchment import Integers
from catchment.engine import run_locally
from catchment.errors import FederationError
from catchment.federation import Plan, Record
from catchment_research.learn import Mean, Momentum
from catchment_research.partial import (
    IGNORED,
    Examples,
    FederatedTraining,
    FollowTheLeader,
    Freeze,
    LocalSteps,
    PartialNetwork,
    Schedule,
    Trained,
)
from reproductions import fedpt_tasks, fedpt_train
from reproductions.convolve import JointConvolutions
from reproductions.fedpt import fedpt
from reproductions.fedpt_data import Augmented
from reproductions.fedpt_keep import Keeping
from reproductions.fedpt_memory import STATUS, measured, resident
from reproductions.fedpt_simulate import _State, followed, simulate
from reproductions.fedpt_tables import markdown
from reproductions.fedpt_tasks import Task
from reproductions.fedpt_train import answers, by_client, run
from reproductions.fedpt_values import (
    PAPER,
    PAPER_NOISES,
    QUICK,
    FedptResult,
    ManySettings,
    Row,
)


def small() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, 2, 1, bias=False),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3, 1, 1),
        nn.Conv2d(6, 4, 1, bias=False),
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(4, 3),
    )


def task(*, clients: int = 6, rounds: int = 7, rate: float = 0.1) -> Task:
    rng = np.random.default_rng(3)
    sources = {
        f"client-{k}": Augmented(
            rng.integers(0, 256, (5 + k, 10, 10, 3), dtype=np.uint8),
            rng.integers(0, 3, 5 + k),
            seed=[0, k],
            side=8,
        )
        for k in range(clients)
    }
    test = Examples(rng.normal(size=(30, 3, 8, 8)).astype(np.float32), rng.integers(0, 3, 30))
    return Task(
        name="toy",
        make=small,
        clients=sources,
        test=test,
        steps=LocalSteps(learning_rate=rate, batch_size=4),
        clients_per_round=3,
        rounds=rounds,
        optimizer=Momentum(momentum=0.5),
        schedule=Schedule(cosine=rounds),
    )


def plan_of(work: Task, **more: Any) -> Plan[Trained, Any, nn.Module]:
    algorithm = FederatedTraining(
        network=PartialNetwork(make=small, freeze=Freeze(names=("3.weight",)), seed=1),
        steps=work.steps,
        schedule=work.schedule,
        optimizer=work.optimizer,
        at_once=3,
        device="cpu",
    )
    share = work.clients_per_round / len(work.clients)
    return Plan(
        algorithm=replace(algorithm, **more), rounds=work.rounds, client_fraction=share, seed=5
    )


def test_joint_convolutions_are_the_convolutions_of_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    module = small().double()
    named = {name: p.detach() for name, p in module.named_parameters()}
    frozen = {"3.weight": named.pop("3.weight")}
    own = {
        name: p + torch.randn(2, *p.shape, generator=generator, dtype=p.dtype)
        for name, p in named.items()
    }
    x = torch.randn(2, 5, 3, 8, 8, generator=generator, dtype=torch.float64)

    def loss(values: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor = functional_call(module, {**frozen, **values}, (x,)).square().sum()
        return total

    with JointConvolutions():
        found = vmap(grad(loss))(own, x)
    for k in range(2):  # each client by itself, without any of it
        expected = grad(loss)({name: p[k] for name, p in own.items()}, x[k])
        for name, slope in expected.items():
            torch.testing.assert_close(found[name][k], slope)


ADAM = {"steps": LocalSteps(optimizer="adam", learning_rate=0.01, batch_size=4)}
NOISELESS = FollowTheLeader(noise_multiplier=0.0, clip=0.05, clients=3, rounds=7)


@pytest.mark.parametrize("more", [{}, ADAM, {"clip": 0.05}, {"clip": 0.05, "optimizer": NOISELESS}])
def test_a_simulated_training_is_that_of_the_round_loop(more: dict[str, Any]) -> None:
    real = run_locally(plan_of(task(), **more), task().clients, threads=1)
    simulated = simulate(plan_of(task(), **more), task().clients)
    for a, b in zip(real.state.values, simulated.state.values, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    assert len(simulated.records) == len(real.records)
    bytes_up = [record.bytes_up for record in real.records]
    for record, sent in zip(simulated.records, bytes_up, strict=True):
        assert 0 <= sent - record.bytes_up < 3 * 2000  # headers and names are not counted


def test_simulated_noise_is_that_of_a_tree() -> None:
    rule = FollowTheLeader(
        noise_multiplier=2.0, clip=1.0, clients=4, rounds=7, learning_rate=1.0, momentum=0.0
    )
    zero = np.zeros(40_000)
    state = _State.of(Trained((zero,), rule.start((zero,))), torch.device("cpu"))
    noise, places = torch.Generator().manual_seed(0), [zero]
    for _ in range(7):
        state = followed(rule, state, (torch.zeros(40_000, dtype=torch.float64),), noise)
        places.append(state.values[0].numpy())
    # A position is the noise of the nodes that cover the rounds so far: as many as t has bits.
    for t, place in enumerate(places):
        assert np.var(place) == pytest.approx(t.bit_count() * rule.spread**2, rel=0.05)
    # Rounds 5 and 6 stand on the node of the first four, and 7 on that of the first six.
    assert np.var(places[6] - places[4]) == pytest.approx(rule.spread**2, rel=0.05)
    assert np.var(places[7] - places[6]) == pytest.approx(rule.spread**2, rel=0.05)
    assert np.mean(places[5] * places[3]) == pytest.approx(0, abs=0.05 * rule.spread**2)


def test_what_is_not_simulated_is_refused() -> None:
    toeplitz = FollowTheLeader(
        noise_multiplier=1.0, clip=1.0, clients=3, rounds=7, mechanism="toeplitz"
    )
    with pytest.raises(ValueError, match="use run_locally"):
        simulate(plan_of(task(), clip=1.0, optimizer=toeplitz), task().clients)
    with pytest.raises(FederationError, match="no longer finite"):
        simulate(plan_of(task(rate=1e30)), task(rate=1e30).clients)
    plain = plan_of(task(rounds=2), optimizer=Mean())
    assert len(simulate(plain, task().clients).records) == 2


class KilledError(Exception):
    pass


@pytest.mark.parametrize("simulated", [True, False])
def test_a_training_that_was_killed_goes_on_to_the_same_bits(
    simulated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fedpt_train, "SIMULATED", ("cifar",) if simulated else ())

    def trained(keep: Path | None) -> Row:
        freeze = Freeze(names=("3.weight",))
        return run(
            "cifar", task(), freeze, 5, settings=QUICK, every=2, keep=keep, pause=0.0, rate=0.1
        )

    measure = fedpt_train.guesses
    whole = trained(None)
    close = Keeping.close_round

    def killing(self: Keeping, state: Trained | None, record: Record) -> None:
        close(self, state, record)
        if record.round == 4:
            raise KilledError

    monkeypatch.setattr(Keeping, "close_round", killing)
    with pytest.raises(KilledError):
        trained(tmp_path)
    monkeypatch.setattr(Keeping, "close_round", close)
    (file,) = tmp_path.iterdir()
    assert file.suffix == ".npz"
    asked = list[int]()

    def counted(module: nn.Module, test: Examples) -> tuple[Integers, Integers]:
        asked.append(1)
        return measure(module, test)

    monkeypatch.setattr(fedpt_train, "guesses", counted)
    again = trained(tmp_path)
    assert again.curve == whole.curve
    assert (again.accuracy, again.right) == (whole.accuracy, whole.right)
    right, said, are = np.array(again.classes).sum(axis=0)
    assert (right, said, are) == (again.right.count("1"), len(again.right), len(again.right))
    assert len(asked) == 2  # after round 6, and at the end: what was done is not done again
    assert not list(tmp_path.iterdir())


def test_the_state_of_a_resumed_training_has_the_same_bits(tmp_path: Path) -> None:
    work = task()
    plan = plan_of(work)
    whole = simulate(plan, task().clients)

    def restored(work: Task) -> Callable[[int], None]:
        def restore(rounds: int) -> None:
            for name, source in work.clients.items():
                assert isinstance(source, Augmented)
                source.drawn = sum(
                    name in plan.cohort(list(work.clients), k) for k in range(rounds)
                )

        return restore

    first = Keeping(lambda state: 0.0, path=tmp_path / "a.npz", pause=0.0)
    short = replace(plan, rounds=4)
    simulate(short, work.clients, keeper=first)
    fresh = task()
    second = Keeping(lambda state: 0.0, path=tmp_path / "a.npz", restore=restored(fresh))
    on = simulate(plan, fresh.clients, keeper=second)
    assert [v.tobytes() for v in on.state.values] == [v.tobytes() for v in whole.state.values]
    assert len(on.records) == work.rounds


def test_a_curve_has_a_point_every_so_many_rounds() -> None:
    keeping = Keeping(lambda state: state.values[0] / 10, 2)
    for k in range(5):
        keeping.close_round(Trained((k,)), Record(k, 1, 1, 0.0, 0, 0))  # type: ignore[arg-type]
    assert keeping.points == [(2, 0.1), (4, 0.3)]
    assert keeping.resume() is None


def test_answers_leave_out_what_does_not_count() -> None:
    class Always(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scores = nn.Parameter(torch.tensor([0.0, 1.0, 0.0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.scores.expand(*x.shape, 3)

    y = np.array([[1, 0, IGNORED], [1, 1, IGNORED]])
    right = answers(Always(), Examples(np.zeros((2, 3), np.float32), y))
    assert right.tolist() == [True, False, True, True]


def test_a_clients_accuracy_is_of_its_own_images_or_classes() -> None:
    y = np.array([0, 0, 1, 1])
    right = np.array([True, True, True, False])
    test = Examples(np.zeros((4, 1), np.float32), y)
    owned = replace(task(), test=test, owners=("b", "a", "a", "b"))
    assert by_client(owned, right) == (("a", 2.0, 2.0), ("b", 1.0, 2.0))
    dealt = replace(task(), test=test, classes={"c": np.array([3, 1]), "d": np.array([0, 2])})
    assert by_client(dealt, right) == (("c", 3.5, 4.0), ("d", 1.0, 2.0))
    assert by_client(task(), right) == ()


class Thin(nn.Module):
    """A network with the names of ResNet-18 and next to nothing in them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 7, 4, 3, bias=False)
        self.stage1, self.stage2, self.stage3, self.stage4 = (
            nn.Sequential(nn.Sequential(OrderedDict(conv1=nn.Conv2d(4, 4, 3, 1, 1, bias=False))))
            for _ in range(4)
        )
        self.out = nn.Linear(4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stage4(self.stage3(self.stage2(self.stage1(self.stem(x)))))
        logits: torch.Tensor = self.out(x.mean((2, 3)))
        return logits


MANY = replace(
    QUICK,
    n_test=40,
    many=replace(
        QUICK.many,
        rounds=3,
        clients=50,
        cohort=3,
        shares=(100.0, 2.16),
        candidates=(0.1, 0.2),
        search_rounds=2,
        held_out=200,
        every=2,
    ),
)


def test_many_clients_from_the_choice_of_a_rate_to_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fedpt_tasks, "ResNet18", Thin)
    assert fedpt_tasks.task_of("cifar_many", MANY, tmp_path).classes
    result = fedpt(MANY, parts=["cifar_many"], directory=tmp_path, keep=tmp_path / "keep")
    assert len(result.search) == 4
    assert {row.rounds for row in result.search} == {2}
    full, less = result.rows
    assert full.n_clients == 50
    assert (len(full.right), len(full.by_client)) == (40, 50)
    assert full.accuracy == full.right.count("1") / 40
    assert full.curve[0][0] == 2
    assert less.bytes_up_per_client < full.bytes_up_per_client
    assert "## Tables 2 and 4 again: CIFAR-10 with many clients and rounds" in markdown(result)
    assert not list(tmp_path.glob("keep/*"))


@pytest.mark.skipif(not STATUS.is_file(), reason="Linux says what a process holds")
def test_memory_is_that_of_training_on_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fedpt_tasks, "ResNet18", Thin)
    row = measured(MANY, tmp_path, (100.0, 0))
    assert row.mebibytes_before > 50  # Python and torch
    assert -1 <= row.mebibytes < row.mebibytes_before
    assert (row.n_images, row.batch) == (20, 20)
    before = resident(reset=True)
    held = np.ones(30 << 17)  # 30 MiB
    del held
    assert 25 < resident(peak=True) - before < 60
    result = FedptResult(settings={}, rows=(), environment={}, memory=(row, row))
    assert "## Table 4 on a CPU" in markdown(result)
    assert "(565 in all)" in markdown(result)


def test_the_papers_settings_are_its_own() -> None:
    assert (PAPER.hundred.rounds, PAPER.hundred.cohort, PAPER.hundred.delta) == (1600, 100, 1e-6)
    assert PAPER.hundred.noises == PAPER_NOISES
    assert (PAPER.many.clients, PAPER.many.shares) == (500, ManySettings().shares)
