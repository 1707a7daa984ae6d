"""Operations of which torch does not promise the bits of IEEE 754, done so that they have them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def root(x: Tensor) -> Tensor:
    """Return square roots of float64 numbers, rounded correctly.

    A GPU's are. On the CPU torch may ask a library that is wrong in the last digit now and then.

    >>> root(torch.tensor([2.0, 9.0]).double()).tolist()
    [1.4142135623730951, 3.0]
    """
    if x.device.type == "cpu":
        return torch.from_numpy(np.sqrt(x.numpy()))
    return x.sqrt()


def quotient(x: Tensor, divisor: float) -> Tensor:
    """Return float64 numbers divided by one number, rounded correctly.

    On a GPU torch multiplies by the reciprocal of what is no tensor there.

    >>> quotient(torch.tensor([1.0]).double(), 3).item()
    0.3333333333333333
    """
    return x / torch.full((1,), divisor, dtype=torch.float64, device=x.device)
