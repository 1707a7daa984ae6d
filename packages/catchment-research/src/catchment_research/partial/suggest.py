"""Which parts of a network can stay frozen: the rule of the FedPT paper as a search.

    1  Order the blocks of the network by their size.
    2  Freeze the largest, with all that is frozen so far, and train.
    3  If the score holds, keep it frozen.
    4  If not, train it after all; either way go on with the next smaller block.

A score holds if it is no more than a tolerance below that of full training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import inf

from torch import nn

from catchment_research.partial.freeze import Freeze, Share, norm_parameters, share_of


@dataclass(frozen=True)
class Attempt:
    """One block more frozen, what is then left to train, its score, and whether it was kept."""

    block: str
    freeze: Freeze
    share: Share
    score: float
    kept: bool


@dataclass(frozen=True)
class Suggestion:
    """What to freeze, the score of full training, and every attempt in its order."""

    freeze: Freeze
    full_score: float
    attempts: tuple[Attempt, ...]

    @property
    def score(self) -> float:
        """The score with the suggested freeze."""
        return next((a.score for a in reversed(self.attempts) if a.kept), self.full_score)


def suggest_freeze(
    module: nn.Module,
    evaluate: Callable[[Freeze], float],
    *,
    tolerance: float,
    blocks: Sequence[str] | None = None,
    enough: float = 1.0,
    smallest: float = 0.01,
) -> Suggestion:
    """Return the freeze that a greedy search from the largest block down finds.

    Parameters
    ----------
    module
        The network, for its names and shapes.
    evaluate
        Trains with a freeze and returns a score, the higher the better; once for full training and
        once per block. Judge on validation clients: the search looks at every score.
    tolerance
        How far below full training a score may be.
    blocks
        Patterns of parameter names, each a block; if not given, every layer by itself.
    enough
        Stop when at most this percentage of the parameters is trained.
    smallest
        Blocks with less than this share of all parameters are not worth a training.

    >>> net = nn.Sequential(nn.Linear(8, 100), nn.Linear(100, 50), nn.Linear(50, 2))
    >>> found = suggest_freeze(
    ...     net, lambda freeze: 0.5 if "0.weight" in freeze.names else 0.9, tolerance=0.01
    ... )
    >>> found.freeze.names, [attempt.kept for attempt in found.attempts]
    (('1.weight', '1.bias', '2.weight', '2.bias'), [True, False, True])
    """
    if not 0 <= tolerance < inf:
        raise ValueError(f"tolerance is {tolerance}; pass how far the score may fall, 0 or more")
    full = evaluate(Freeze())
    kept: tuple[str, ...] = ()
    attempts: list[Attempt] = []
    for block, names in by_size(module, blocks, smallest):
        freeze = Freeze(names=(*kept, *names))
        share = share_of(module, freeze)
        if share.trainable == 0:
            continue
        score = evaluate(freeze)
        holds = score >= full - tolerance
        attempts.append(Attempt(block, freeze, share, score, holds))
        if holds:
            kept = freeze.names
            if share.percent <= enough:
                break
    return Suggestion(Freeze(names=kept), full, tuple(attempts))


def by_size(
    module: nn.Module, blocks: Sequence[str] | None = None, smallest: float = 0.0
) -> list[tuple[str, tuple[str, ...]]]:
    """Return blocks with the parameters they hold, the largest first; no normalization layers.

    >>> by_size(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 9, bias=False)))
    [('2', ('2.weight',)), ('0', ('0.weight', '0.bias'))]
    """
    spared = norm_parameters(module)
    sizes = {name: p.numel() for name, p in module.named_parameters()}
    free = [name for name in sizes if name not in spared]
    if blocks is None:
        owners = {name: name.rpartition(".")[0] for name in free}
    else:
        owners = {}
        for name in free:
            matching = [pattern for pattern in blocks if fnmatchcase(name, pattern)]
            if matching:
                owners[name] = matching[0]
    held: dict[str, tuple[str, ...]] = {}
    for name, owner in owners.items():
        held[owner] = (*held.get(owner, ()), name)
    for pattern in blocks or ():
        if pattern not in held:
            raise ValueError(
                f"no parameter that may be frozen matches {pattern!r}, or an earlier block has it; "
                f"there are {', '.join(free[:8])}"
            )
    weight = {owner: sum(sizes[name] for name in names) for owner, names in held.items()}
    least = smallest * sum(sizes.values())
    order = sorted((o for o in held if weight[o] >= least), key=lambda o: (-weight[o], o))
    return [(owner, held[owner]) for owner in order]
