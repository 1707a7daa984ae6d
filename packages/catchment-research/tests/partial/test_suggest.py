from __future__ import annotations

import pytest
from torch import nn

from catchment_research.partial import EmnistCnn, Freeze, ResNet18, by_size, suggest_freeze
from reproductions.networks import RESNET_FREEZES


def score(harm: dict[str, float]) -> tuple[list[Freeze], object]:
    seen: list[Freeze] = []

    def evaluate(freeze: Freeze) -> float:
        seen.append(freeze)
        return 0.9 - sum(harm.get(name.split(".")[0], 0.0) for name in freeze.names)

    return seen, evaluate


def test_the_largest_layer_comes_first_and_a_costly_one_is_left_out() -> None:
    seen, evaluate = score({"out": 0.3})
    found = suggest_freeze(EmnistCnn(), evaluate, tolerance=0.02)  # type: ignore[arg-type]
    assert seen[0] == Freeze()
    # hidden 1 606 144, conv2 51 264, out 31 806; conv1 has less than a hundredth of all.
    assert [a.block for a in found.attempts] == ["hidden", "conv2", "out"]
    assert [a.kept for a in found.attempts] == [True, True, False]
    assert found.freeze.names == ("hidden.weight", "hidden.bias", "conv2.weight", "conv2.bias")
    assert found.score == pytest.approx(0.9)
    assert found.attempts[0].share.trainable == 83_902


def test_it_stops_when_enough_is_frozen() -> None:
    seen, evaluate = score({})
    found = suggest_freeze(EmnistCnn(), evaluate, tolerance=0.0, enough=5.0)  # type: ignore[arg-type]
    assert [a.block for a in found.attempts] == ["hidden"]
    assert len(seen) == 2


def test_blocks_of_ones_own_find_the_papers_choice() -> None:
    blocks = [f"stage{k}.*.conv?.weight" for k in (1, 2, 3, 4)]

    def evaluate(freeze: Freeze) -> float:
        return 0.8 - 0.1 * any(name.startswith("stage2") for name in freeze.names)

    found = suggest_freeze(ResNet18(), evaluate, tolerance=0.05, blocks=blocks)
    assert [a.block for a in found.attempts] == [blocks[3], blocks[2], blocks[1], blocks[0]]
    assert [a.kept for a in found.attempts] == [True, True, False, True]
    stages = RESNET_FREEZES[8.07].frozen(ResNet18())
    assert set(stages) < set(found.freeze.names)


def test_nothing_frozen_is_an_answer_too() -> None:
    found = suggest_freeze(
        nn.Sequential(nn.Linear(9, 9), nn.Linear(9, 2)),
        lambda freeze: float(not freeze.names),
        tolerance=0.1,
    )
    assert found.freeze == Freeze()
    assert found.score == 1.0
    assert all(not a.kept for a in found.attempts)


def test_something_is_always_trained() -> None:
    found = suggest_freeze(nn.Linear(3, 2), lambda freeze: 1.0, tolerance=0.0)
    assert found.attempts == ()


def test_norms_are_in_no_block_and_bad_arguments_are_told() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    assert by_size(net) == [("0", ("0.weight", "0.bias"))]
    with pytest.raises(ValueError, match="matches '1"):
        by_size(net, blocks=["1.*"])
    with pytest.raises(ValueError, match="tolerance is -1"):
        suggest_freeze(net, lambda freeze: 1.0, tolerance=-1)
