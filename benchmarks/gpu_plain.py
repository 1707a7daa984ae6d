"""What one writes without a library: echo states and a Gram matrix in plain torch, float64."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

STEPS = 64  # of a graph


def plain_steps(W: Tensor, W_in: Tensor, u: Tensor, X: Tensor | None = None) -> Tensor:
    """Return the states (N, T, K) that inputs u (I, T, K) drive tanh units through, one by one."""
    (I, T, K), N = u.shape, len(W)
    D = torch.mm(W_in, u.reshape(I, T * K)).view(N, T, K)
    states = torch.empty((N, T, K), dtype=torch.float64, device=u.device)
    X = torch.zeros((N, K), dtype=torch.float64, device=u.device) if X is None else X
    for t in range(T):
        X = torch.tanh(torch.addmm(D[:, t], W, X))
        states[:, t] = X
    return states


def graphed(W: Tensor, W_in: Tensor, u: Tensor) -> Callable[[], None]:
    """Return a function that runs the same steps as a CUDA graph of 64 of them, over and over."""
    _, T, K = u.shape
    part, X = u[:, :STEPS].contiguous(), torch.zeros((len(W), K), dtype=u.dtype, device=u.device)

    def steps() -> None:
        X.copy_(plain_steps(W, W_in, part, X)[:, -1])

    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        steps()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        steps()

    def replay() -> None:
        X.zero_()
        for start in range(0, T, STEPS):
            part.copy_(u[:, start : start + STEPS])
            graph.replay()

    return replay


def plain_gram(z: Tensor) -> Tensor:
    """Return z z' of features (F, n)."""
    return torch.mm(z, z.T)
