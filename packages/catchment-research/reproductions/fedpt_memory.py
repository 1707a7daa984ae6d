"""What one client's training takes on a CPU, by the share that is trained (the paper's Table 4).

Each share is trained in a process of its own: one client's round, as the library does it. Memory
is the largest resident size of that process while it trains, less what it holds before (Python,
libraries, the client's images and the network received), as Linux counts it: what is free is given
back and the mark set back before training. The paper profiled a whole simulation, so that its
figures have a large constant in them. Seconds are of processor time, all threads together: other
work on the machine does not count.
"""

from __future__ import annotations

import ctypes
import gc
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from catchment.engine import data_of
from catchment.errors import FederationError
from catchment.federation import RoundContext
from catchment_research.partial import frozen_part
from reproductions.fedpt_search import freezes_of
from reproductions.fedpt_tasks import task_of
from reproductions.fedpt_train import training
from reproductions.fedpt_values import FedptSettings, MemoryRow
from reproductions.pool import Pool

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
THREADS = 2
REPETITIONS = 3
PART = "cifar_many"


def memory(
    settings: FedptSettings, directory: Path | None = None, *, repetitions: int = REPETITIONS
) -> Iterator[MemoryRow]:
    """Yield the measurements of every share, one process after the other."""
    jobs = [
        (percent, k) for k in range(repetitions) for percent in (100.0, *sorted_shares(settings))
    ]
    for job in jobs:
        # A pool for each, so that it is never two processes at a time.
        with Pool(partial(measured, settings, directory), 2, fresh=True) as pool:
            for _, outcome in pool.run([job]):
                if isinstance(outcome, Exception):
                    raise outcome
                yield outcome


def sorted_shares(settings: FedptSettings) -> Sequence[float]:
    """Return the shares below the whole, the largest first."""
    return sorted((share for share in settings.many.shares if share < 100), reverse=True)


def measured(settings: FedptSettings, directory: Path | None, job: tuple[float, int]) -> MemoryRow:
    """Return what a client's round takes, in this process."""
    percent, k = job
    torch.set_num_threads(THREADS)
    on_cpu = replace(settings, precision="float32")
    task = task_of(PART, on_cpu, directory, whole=percent == 100.0)
    made = training(task, freezes_of(PART)[percent], seed=0, settings=on_cpu)
    algorithm = replace(made, device="cpu", at_once=None)
    client = sorted(task.clients)[0]
    context = RoundContext(0, (client,), client=client)
    received = algorithm.broadcast(algorithm.start(), context)
    data = data_of(task.clients[client])
    frozen_part(algorithm.network, torch.device("cpu"))  # made once, not in every round
    before = resident(reset=True)
    began = time.process_time()
    algorithm.client_update(received, data, context)
    seconds = time.process_time() - began
    share = algorithm.network.share()
    return MemoryRow(
        percent=share.percent,
        repetition=k,
        mebibytes=resident(peak=True) - before,
        mebibytes_before=before,
        seconds=seconds,
        n_images=len(next(iter(data())).x),
        batch=algorithm.steps.batch_size,
        threads=THREADS,
    )


def resident(*, peak: bool = False, reset: bool = False) -> float:
    """Return the mebibytes that this process holds, or held at most since they were set back."""
    if reset and CLEAR.exists():
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        CLEAR.write_text("5")
    if not STATUS.is_file():
        raise FederationError("resident memory is read from /proc; run this part on Linux")
    name = "VmHWM" if peak else "VmRSS"
    (kibibytes,) = re.findall(rf"^{name}:\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE)
    return int(kibibytes) / 1024
