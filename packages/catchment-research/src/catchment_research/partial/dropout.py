"""Sub-networks for single clients: federated dropout, and ordered dropout.

A client trains some of the hidden units only (Caldas et al., 2018): in the chain of layers that the
user names, a layer's outputs are the next one's inputs, and a unit that a client is not dealt is
left out of both, the rows that make it and the columns that read it. Which ones they are follows
from the plan's seed, the round and the client, so that only numbers of the sub-network travel and
both sides know where they belong. Ordered dropout deals the first units, of a share that is drawn
for every client and round (Horvath et al., FjORD, NeurIPS 2021).

Frozen layers stay as the seed makes them. Where only one side of a link is trained, only that side
is cut: rows of a trained layer that a frozen one reads are zero in the sub-network, which leaves
the unit out as long as what lies between keeps zeros (ReLU and tanh do, sigmoid does not).

Every number is averaged over the clients that had it. The whole network is used in the end, as it
is: no output is rescaled by the share.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from catchment import Integers
from catchment.arrays import Factor, check_fields
from catchment.federation import RoundContext

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_STREAM = 0xD409  # keeps these draws apart from the client's others

Shape = tuple[int, ...]
D = TypeVar("D", bound=np.generic)


@dataclass(frozen=True)
class Kept:
    """Which rows and columns of a tensor are in a sub-network; None for all of them.

    >>> kept = Kept(np.array([0, 2]), np.array([1]))
    >>> kept.of(np.arange(6).reshape(3, 2))
    array([[1],
           [5]])
    >>> kept.back(np.array([[7], [8]]), (3, 2))
    array([[0, 7],
           [0, 0],
           [0, 8]])
    """

    rows: Integers | None = None
    columns: Integers | None = None

    def shape(self, whole: Shape) -> Shape:
        """Return the shape of the part that is in the sub-network."""
        kept = [len(one) for one in (self.rows,) if one is not None] or list(whole[:1])
        if self.columns is not None:
            kept.append(len(self.columns))
        return (*kept, *whole[len(kept) :])

    def of(self, array: NDArray[D]) -> NDArray[D]:
        """Return the part of an array that is in the sub-network."""
        part = array if self.rows is None else array[self.rows]
        return part if self.columns is None else part[:, self.columns]

    def back(self, part: NDArray[D], whole: Shape) -> NDArray[D]:
        """Return an array of a tensor's whole shape with the part in its place, zeros elsewhere."""
        array = np.zeros(whole, part.dtype)
        rows = np.arange(whole[0]) if self.rows is None else self.rows
        if self.columns is None:
            array[rows] = part
        else:
            array[np.ix_(rows, self.columns)] = part
        return array


WHOLE = Kept()


@dataclass(frozen=True, kw_only=True)
class Dropout:
    """Clients train a share of the hidden units, and only that part of the network travels.

    Parameters
    ----------
    chains
        Names of fully connected or convolution layers, each of whose outputs are the next one's
        inputs, such as `(("conv1", "conv2", "hidden", "out"),)`. Units between two of them are
        dealt; flattened maps may lie between. Layers in no chain are trained whole.
    share
        Of the units, for every client in every round; of several each client draws one anew.
    order
        "random" deals any units, "first" the first ones, in which the network is then ordered.

    >>> dropout = Dropout(chains=(("0", "2"),), share=0.5)
    >>> net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> shapes = {name: tuple(p.shape) for name, p in net.named_parameters()}
    >>> kept = dropout.kept(net, RoundContext(0, (), client="a"))
    >>> {name: kept[name].shape(shapes[name]) for name in kept}
    {'0.weight': (4, 3), '0.bias': (4,), '2.weight': (2, 4)}
    """

    chains: tuple[tuple[str, ...], ...]
    share: Factor | tuple[Factor, ...] = 0.5
    order: Literal["random", "first"] = "random"

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.shares:
            raise ValueError(f"share is {self.share}; pass fractions above 0 and at most 1")
        if self.order == "first" and max(self.shares) < 1:
            raise ValueError(
                f"with order 'first' and shares of at most {max(self.shares):g} nobody trains the "
                "last units; pass several shares, one of them 1, such as share=(0.25, 0.5, 1.0)"
            )
        if any(len(chain) < 2 for chain in self.chains) or not self.chains:
            raise ValueError(f"chains is {self.chains}; name at least two layers in each")

    @property
    def shares(self) -> tuple[float, ...]:
        return self.share if isinstance(self.share, tuple) else (self.share,)

    def kept(self, module: nn.Module, context: RoundContext) -> dict[str, Kept]:
        """Return what a client has of each tensor of the chains, in its round."""
        rng = np.random.default_rng(
            [context.seed, context.round, zlib.crc32(context.client.encode()), _STREAM]
        )
        share = self.shares[int(rng.integers(len(self.shares)))]
        found: dict[str, Kept] = {}
        for source, target, n, each in links(module, self.chains):
            k = max(1, round(share * n))
            units = np.arange(k) if self.order == "first" else np.sort(rng.permutation(n)[:k])
            columns = (units[:, None] * each + np.arange(each)).ravel()
            found[f"{source}.weight"] = Kept(units, found.get(f"{source}.weight", WHOLE).columns)
            found[f"{source}.bias"] = Kept(units)
            after = found.get(f"{target}.weight", WHOLE)
            found[f"{target}.weight"] = Kept(after.rows, columns)
        names = {name for name, _ in module.named_parameters()}
        return {name: kept for name, kept in found.items() if name in names}


def links(
    module: nn.Module, chains: tuple[tuple[str, ...], ...]
) -> list[tuple[str, str, int, int]]:
    """Return neighbors in the chains, how many units one gives, and the inputs of the other each.

    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 9, 2))
    >>> links(net, (("0", "2"),))
    [('0', '2', 4, 9)]
    """
    parts = dict(module.named_modules())
    found = []
    for source, target in (pair for chain in chains for pair in pairwise(chain)):
        for name in (source, target):
            part = parts.get(name)
            if not isinstance(part, LAYERS):
                known = [name for name, one in parts.items() if isinstance(one, LAYERS)]
                raise ValueError(
                    f"{name!r} is no fully connected or convolution layer of the network; there "
                    f"are {', '.join(known[:8])}"
                )
            if not isinstance(part, nn.Linear) and part.groups > 1:
                raise ValueError(f"{name!r} is a convolution in groups; leave it out of the chains")
        n, inputs = _shape(parts[source])[0], _shape(parts[target])[1]
        if inputs % n:
            raise ValueError(
                f"{target!r} has {inputs} inputs, no multiple of the {n} outputs of {source!r}; "
                "name layers that follow each other"
            )
        found.append((source, target, n, inputs // n))
    if len({source for source, *_ in found}) < len(found):
        raise ValueError(f"a layer has two followers in the chains {chains}; name it once")
    if len({target for _, target, *_ in found}) < len(found):
        raise ValueError(
            f"a layer reads two others in the chains {chains}; leave all but one of them out"
        )
    return found


def _shape(module: nn.Module) -> Shape:
    weight = module.weight
    return tuple(weight.shape) if isinstance(weight, nn.Parameter) else ()


def masks_of(kept: Sequence[Mapping[str, Kept]], start: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return ones (clients, ...) for the numbers that each client has, and zeros for others.

    >>> masks_of([{"w": Kept(np.array([1]))}, {}], {"w": torch.zeros(3)})["w"].tolist()
    [[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """
    masks = {}
    for name in sorted({name for one in kept for name in one if name in start}):
        whole = tuple(start[name].shape)
        own = [one.get(name, WHOLE) for one in kept]
        ones = [part.back(np.ones(part.shape(whole), np.float32), whole) for part in own]
        masks[name] = torch.from_numpy(np.stack(ones)).to(start[name].device)
    return masks
