from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from catchment.errors import FingerprintError
from catchment_research.partial import EmnistCnn, Freeze, PartialNetwork, ResNet18
from reproductions.networks import (
    ECHO_FREEZE,
    EMNIST_FREEZE,
    RESNET_FREEZES,
    TRANSFORMER_FREEZES,
    EchoState,
    Transformer,
)


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 30), nn.LayerNorm(30), nn.Linear(30, 3))


@pytest.mark.parametrize(
    ("make", "freeze", "total", "percent"),
    [
        (EmnistCnn, EMNIST_FREEZE, 1_690_046, 4.96),
        *[(ResNet18, freeze, 11_227_812, percent) for percent, freeze in RESNET_FREEZES.items()],
        *[(Transformer, f, 2_277_984, percent) for percent, f in TRANSFORMER_FREEZES.items()],
    ],
)
def test_networks_of_the_paper_have_its_counts(
    make: type[nn.Module], freeze: Freeze, total: int, percent: float
) -> None:
    share = PartialNetwork(make=make, freeze=freeze).share()
    assert share.total == total
    assert round(share.percent, 2) == percent
    assert share.reduction == pytest.approx(100 / share.percent)


def test_only_gain_shift_and_readout_of_an_echo_state_network_are_trained() -> None:
    network = PartialNetwork(make=lambda: EchoState(3, 20, 2), freeze=ECHO_FREEZE)
    trained = [name for name, p in network.build().named_parameters() if p.requires_grad]
    assert trained == ["gain", "shift", "out.weight", "out.bias"]


def test_norms_are_trained_unless_asked() -> None:
    assert "1.weight" not in Freeze(names=("*",)).frozen(small())
    assert "1.weight" in Freeze(names=("*",), norms=True).frozen(small())


def test_largest_and_sizes_choose_what_they_say() -> None:
    assert Freeze(largest=2).frozen(small()) == ("0.weight", "2.weight")
    assert Freeze(at_least=100).frozen(small()) == ("0.weight",)


def test_a_pattern_without_a_match_is_an_error() -> None:
    with pytest.raises(ValueError, match="no parameter matches 'conv"):
        Freeze(names=("conv*",)).frozen(small())


def test_equal_seeds_make_equal_bytes_and_others_do_not() -> None:
    freeze = Freeze(names=("0.weight",))
    one, two = (
        PartialNetwork(make=small, freeze=freeze, seed=1),
        PartialNetwork(make=small, freeze=freeze, seed=2),
    )
    torch.manual_seed(0)
    first = one.fingerprint()
    torch.manual_seed(99)
    assert one.fingerprint() == first != two.fingerprint()
    one.check(first)
    with pytest.raises(FingerprintError, match="expected"):
        two.check(first)


def test_identity_tells_architecture_freeze_and_seed_apart() -> None:
    base = PartialNetwork(make=small)
    others = [
        PartialNetwork(make=small, seed=1),
        PartialNetwork(make=small, freeze=Freeze(largest=1)),
        PartialNetwork(make=lambda: nn.Linear(4, 3)),
    ]
    assert len({n.identity() for n in [base, *others]}) == 4
    assert base.identity() == PartialNetwork(make=small).identity()


def test_drawn_weights_have_the_spread_of_their_inputs() -> None:
    weight = PartialNetwork(make=lambda: nn.Linear(400, 300), gain=1.0).build().weight
    assert isinstance(weight, torch.Tensor)
    assert float(weight.detach().std()) == pytest.approx(1 / np.sqrt(400), rel=0.02)
