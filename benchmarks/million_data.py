"""A million clients as Parquet files, the same values on every machine.

A client wears a sensor of two channels for 100 to 200 steps and does one of four things at a time;
each step has its label. Everything is integers until the last division by a power of two, so
that no processor and no library rounds otherwise. Names are in the order of the files, and a row
group holds 256 clients.

    python -m benchmarks.million_data FOLDER --clients 1000000
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = 1  # of the values
GROUP, GROUPS_PER_FILE = 256, 16
PER_FILE = GROUP * GROUPS_PER_FILE
SHORTEST, LENGTHS = 100, 101
CLASSES = ("rest", "walk", "run", "ride")
INPUTS = ("x", "y")
_SPEED = np.array([700, 2900, 5200, 9100])  # of each activity, in 1/65536 of a turn per step
_SIZE = np.array([3, 6, 12, 8])  # of its swing, in 1/16
_UNIT = np.float32(2**-14)
MADE = "made.json"

Words = NDArray[np.uint64]
Whole = NDArray[np.int64]


def word(*numbers: Any) -> Words:
    """Return a random word for each row of integers: SplitMix64 (Steele et al. 2014).

    >>> word(np.array([1]), np.array([2]))
    array([13608149317741381227], dtype=uint64)
    """
    found = np.zeros(1, np.uint64)
    with np.errstate(over="ignore"):
        for number in numbers:
            found = found + np.asarray(number).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
            found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            found ^= found >> np.uint64(31)
    return found


def lengths(clients: Whole, seed: int) -> Whole:
    """Return the number of steps (n,) of clients (n,), given by their numbers."""
    return SHORTEST + (word(seed, clients, 0) % np.uint64(LENGTHS)).astype(np.int64)


def values(clients: Whole, seed: int) -> dict[str, NDArray[Any]]:
    """Return the columns of clients (n,), one after the other: inputs, labels, and whose a row is.

    >>> held = values(np.arange(3), seed=0)
    >>> {name: column.dtype.name for name, column in held.items()}
    {'client': 'int32', 'x': 'float32', 'y': 'float32', 'label': 'int8'}
    """
    T = lengths(clients, seed)
    place = np.repeat(np.arange(len(clients), dtype=np.int32), T)
    step = np.arange(len(place)) - np.repeat(np.cumsum(T) - T, T)
    own = word(seed, clients, 1)
    segment = 20 + (own & np.uint64(31)).astype(np.int64)  # steps of one activity
    detuned = (own >> np.uint64(8) & np.uint64(511)).astype(np.int64)
    stage = step // segment[place]
    # One word for each segment of a client, not for each of its steps.
    table = word(seed, clients[:, None], 2 + np.arange(int(T.max()) // 20 + 1))
    drawn = table[place, stage]
    label = (drawn >> np.uint64(62)).astype(np.int64)
    turn = step * (_SPEED[label] + detuned[place]) + (drawn & np.uint64(0xFFFF)).astype(np.int64)
    noise = word(seed, clients[place], 1000 + step)
    held: dict[str, NDArray[Any]] = {"client": place}
    for k, name in enumerate(INPUTS):
        wave = np.abs((turn + 16384 * k & 0xFFFF) - 32768) - 16384
        some = (noise >> np.uint64(16 * k) & np.uint64(0x3FFF)).astype(np.int64) - 8192
        held[name] = ((_SIZE[label] * wave >> 4) + some).astype(np.float32) * _UNIT
    return held | {"label": label.astype(np.int8)}


def names(clients: Whole) -> list[str]:
    """Return the names of clients; their order is that of the numbers.

    >>> names(np.array([7, 123456]))
    ['c0000007', 'c0123456']
    """
    return [f"c{k:07d}" for k in clients]


def digest(held: dict[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of columns' values."""
    found = hashlib.sha256()
    for name in ("client", *INPUTS, "label"):
        column = held[name]
        found.update(column.astype(column.dtype.newbyteorder("<"), copy=False).tobytes())
    return found.hexdigest()


def make_file(folder: Path, seed: int, first: int, last: int) -> tuple[int, str]:
    """Write the clients from number `first` to before `last`; return their rows and a digest."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    clients = np.arange(first, last)
    held = values(clients, seed)
    own = pa.DictionaryArray.from_arrays(held["client"], pa.array(names(clients)))
    label = pa.DictionaryArray.from_arrays(held["label"], pa.array(CLASSES))
    table = pa.table({"client": own, **{name: held[name] for name in INPUTS}, "label": label})
    schema, bounds = table.schema, np.searchsorted(held["client"], np.arange(0, PER_FILE, GROUP))
    path = folder / f"part-{first // PER_FILE:05d}.parquet"
    written = path.with_suffix(".part")
    with pq.ParquetWriter(
        written, schema, compression="none", use_dictionary=["client", "label"]
    ) as out:
        for begin, end in zip(bounds, [*bounds[1:], len(table)], strict=True):
            if end > begin:
                out.write_table(table.slice(begin, end - begin), row_group_size=end - begin)
    written.rename(path)
    return len(table), digest(held)


def make(
    folder: Path, clients: int, *, seed: int = 0, workers: int | None = None
) -> dict[str, Any]:
    """Write all files unless they are there; return what is said of them."""
    wanted = {"version": VERSION, "clients": clients, "seed": seed}
    about = folder / MADE
    if about.is_file():
        found: dict[str, Any] = json.loads(about.read_text(encoding="utf-8"))
        if {name: found.get(name) for name in wanted} == wanted:
            return found
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    begin = time.perf_counter()
    firsts = range(0, clients, PER_FILE)
    lasts = [min(first + PER_FILE, clients) for first in firsts]
    work = partial(make_file, folder, seed)
    n_workers = workers or len(os.sched_getaffinity(0))
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_workers, mp_context=fresh) as pool:
        done = list(pool.map(work, firsts, lasts))
    found = wanted | {
        "rows": sum(rows for rows, _ in done),
        "files": len(done),
        "bytes": sum(path.stat().st_size for path in folder.glob("*.parquet")),
        "sha256 of the values": hashlib.sha256("".join(h for _, h in done).encode()).hexdigest(),
        "seconds to make": round(time.perf_counter() - begin, 1),
        "processes": n_workers,
    }
    about.write_text(json.dumps(found), encoding="utf-8")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int)
    options = parser.parse_args()
    print(make(options.folder, options.clients, seed=options.seed, workers=options.workers))


if __name__ == "__main__":
    main()
