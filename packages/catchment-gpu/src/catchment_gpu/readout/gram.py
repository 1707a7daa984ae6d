"""Sums of products of integers on a device, exact in whichever order it adds.

Rows E (R, n) hold integers; wanted is E E' as integers. Blocks of columns are multiplied
so that no sum passes what the type holds exactly, and added up as int64:

- float64: sums up to 2^53, so 2^53 / largest^2 columns at a time;
- float16 on a GPU, for numbers up to 2^11, with float32 sums up to 2^24: by the inequality of
  Cauchy and Schwarz it is enough that no row of a block has a larger sum of squares.
"""

from __future__ import annotations

from threading import Lock

import numpy as np
import torch
from torch import Tensor

from catchment.readout import Whole, integers

EXACT = 1 << 53  # of float64
LARGEST_HALF = 1 << 11  # integers up to here are float16 numbers
EXACT_SINGLE = float(1 << 24)
CHUNK, LONGEST = 128, 8192  # columns of a block of short numbers
PRODUCT_NUMBERS = 1 << 27  # of the products of some blocks
ROOM = 1 << 62  # an int64 total is taken to the host before it could pass this

_SETTINGS = Lock()  # torch's settings are those of the whole process


class Products:
    """E E' (R, R) of integer rows that are added some columns at a time.

    >>> products = Products(2, torch.device("cpu"))
    >>> products.add(torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]]).double(), largest=3)
    >>> products.total()
    array([[14, -1],
           [-1,  2]])
    """

    def __init__(self, n_rows: int, device: torch.device) -> None:
        self.sums = torch.zeros((n_rows, n_rows), dtype=torch.int64, device=device)
        self.bound, self.host = 0, np.zeros((n_rows, n_rows), dtype=np.int64)

    def add(self, E: Tensor, *, largest: int) -> None:
        """Add E (R, n) of float64 or float16, integers of absolute value up to `largest`."""
        if E.dtype == torch.float16:
            (R, n), size = E.shape, block_length(E)
            if size:
                self._reserve(n * largest**2)
                blocks = E.view(R, n // size, size).transpose(0, 1)
                for part in torch.split(blocks, max(1, PRODUCT_NUMBERS // (R * R))):
                    self.sums += _short_products(part).sum(0, dtype=torch.float64).to(torch.int64)
                return
        step = max(1, EXACT // largest**2)
        for start in range(0, E.shape[1], step):
            part = E[:, start : start + step].to(torch.float64)
            self._reserve(part.shape[1] * largest**2)
            self.sums += torch.mm(part, part.T).to(torch.int64)

    def _reserve(self, more: int) -> None:
        if self.bound + more > ROOM:
            self._to_host()
        self.bound += more

    def _to_host(self) -> None:
        self.host = integers.added(self.host, self.sums.cpu().numpy())
        self.sums.zero_()
        self.bound = 0

    def total(self) -> Whole:
        """Return what was added so far."""
        self._to_host()
        return self.host


def takes_short(device: torch.device) -> bool:
    """Whether a device multiplies float16 numbers with float32 sums (torch 2.8 and newer do)."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return device.type == "cuda" and version >= (2, 8)


def padded(n_columns: int) -> int:
    """Return the number of columns that rows of short numbers must have, zeros at the end.

    >>> padded(100), padded(129), padded(10_000)
    (128, 256, 16384)
    """
    if n_columns >= LONGEST:
        return -(-n_columns // LONGEST) * LONGEST
    return max(CHUNK, 1 << (n_columns - 1).bit_length())


def block_length(E: Tensor) -> int:
    """Return how many columns of E (R, n) may be multiplied at a time, 0 if too few.

    The sums of squares are float32 numbers themselves: one below 2^24 has seen no rounding, since
    sums of what is not negative only grow.
    """
    n, size = E.shape[1], CHUNK
    parts = torch.split(E, 64)
    energy = torch.cat([p.float().square_().view(len(p), -1, CHUNK).sum(2) for p in parts])
    if not float(energy.max()) < EXACT_SINGLE:
        return 0
    while 2 * size <= min(n, LONGEST) and n % (2 * size) == 0:
        energy = energy[:, ::2] + energy[:, 1::2]
        if not float(energy.max()) < EXACT_SINGLE:
            break
        size *= 2
    return size


def _short_products(blocks: Tensor) -> Tensor:
    """Return the products (m, R, R) of each block (R, size) with itself, float32."""
    if blocks.device.type != "cuda":
        return torch.bmm(blocks.float(), blocks.float().transpose(1, 2))
    # Sums in float16 would not be exact; torch may otherwise make them where it splits a product.
    settings = torch.backends.cuda.matmul
    with _SETTINGS:
        before = settings.allow_fp16_reduced_precision_reduction
        settings.allow_fp16_reduced_precision_reduction = False
        try:
            return torch.bmm(blocks, blocks.transpose(1, 2), out_dtype=torch.float32)
        finally:
            settings.allow_fp16_reduced_precision_reduction = before
