"""Work on fixed memory that a GPU repeats as one graph, instead of being told kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable

import torch


class Repeated:
    """Work that is done again and again on the same tensors.

    The first time it is done as it is, which also compiles and warms up what it needs; the second
    time it is recorded, and from then on repeated as one graph. Work that is done once is never
    recorded.

    Parameters
    ----------
    work
        Writes into tensors that exist already, and waits for nothing.
    device
        Where; graphs are of GPUs, elsewhere the work is done as it is.
    """

    def __init__(self, work: Callable[[], None], device: torch.device) -> None:
        self._work, self._device = work, device
        self._graph: torch.cuda.CUDAGraph | None = None
        self._begun = False

    def __call__(self) -> None:
        if self._device.type != "cuda" or not self._begun:
            self._work()
            self._begun = True
            return
        with torch.cuda.device(self._device):
            if self._graph is None:
                self._graph = self._recorded()
            self._graph.replay()

    def _recorded(self) -> torch.cuda.CUDAGraph:
        graph, here = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            # Other threads may allocate meanwhile: only this one must not.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                self._work()
            finally:
                graph.capture_end()
        here.wait_stream(aside)
        return graph
