"""What a GPU must do as a CPU does; skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from catchment.federation import RoundContext
from catchment_research.partial import (
    Dropout,
    EmnistCnn,
    Examples,
    LocalSteps,
    PartialNetwork,
    Recordings,
    frozen_part,
    masks_of,
    train_group,
)
from reproductions.networks import EMNIST_FREEZE

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
NETWORK = PartialNetwork(make=EmnistCnn, freeze=EMNIST_FREEZE, seed=3)


def test_the_frozen_part_is_the_same_bits() -> None:
    assert NETWORK.fingerprint("cuda") == NETWORK.fingerprint("cpu")


@pytest.mark.parametrize(
    "steps",
    [
        LocalSteps(learning_rate=0.05, batch_size=8),
        LocalSteps(learning_rate=0.02, momentum=0.9, prox=0.1, batch_size=8, epochs=2),
        LocalSteps(optimizer="adam", learning_rate=1e-3, batch_size=8),
    ],
)
def test_a_recorded_step_is_the_step(steps: LocalSteps) -> None:
    device = torch.device("cuda")
    names, frozen = frozen_part(NETWORK, device)
    built = dict(NETWORK.build(device).named_parameters())
    start = {name: built[name].detach() for name in names}
    rng = np.random.default_rng(0)
    clients = [
        Examples(rng.normal(size=(n, 1, 28, 28)).astype(np.float32), rng.integers(0, 62, n))
        for n in (20, 9, 16)
    ]
    schedules = [steps.schedule(len(c.x), np.random.default_rng(1)) for c in clients]

    def train(recordings: Recordings | None) -> dict[str, torch.Tensor]:
        group = train_group(
            NETWORK.skeleton(),
            start,
            frozen,
            clients,
            schedules,
            steps,
            learning_rate=steps.learning_rate,
            recordings=recordings,
        )
        told = {"loss": group.loss, "accuracy": group.accuracy}
        return {**group.values, **told}

    plain, kept = train(None), Recordings()
    for _ in range(2):  # recorded, then replayed
        again = train(kept)
        assert all(torch.equal(plain[name], again[name]) for name in plain)


def test_a_recorded_step_takes_the_units_of_each_round_anew() -> None:
    device, steps = torch.device("cuda"), LocalSteps(learning_rate=0.05, batch_size=8)
    names, frozen = frozen_part(NETWORK, device)
    built = dict(NETWORK.build(device).named_parameters())
    start = {name: built[name].detach() for name in names}
    dropout = Dropout(chains=(("conv1", "conv2", "hidden", "out"),), share=0.5)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, 1, 28, 28)).astype(np.float32)
    clients = [Examples(x, rng.integers(0, 62, 16))] * 2
    schedules = [steps.schedule(16, np.random.default_rng(1))] * 2
    kept = Recordings()
    moved = []
    for round_ in range(3):
        dealt = [dropout.kept(NETWORK.skeleton(), RoundContext(round_, (), client=c)) for c in "ab"]
        both = [
            train_group(
                NETWORK.skeleton(),
                start,
                frozen,
                clients,
                schedules,
                steps,
                learning_rate=0.05,
                masks=masks_of(dealt, start),
                recordings=recordings,
            ).values
            for recordings in (None, kept)
        ]
        assert all(torch.equal(both[0][name], both[1][name]) for name in names)
        moved.append(both[0]["conv2.weight"] != start["conv2.weight"])
    assert not torch.equal(moved[0], moved[1])
