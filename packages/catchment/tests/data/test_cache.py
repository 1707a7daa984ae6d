from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from catchment.data import PROCESS_CACHE, Cache, Cached, Recording


@dataclass(frozen=True)
class Source:
    """A file that counts its readings; two of one name are equal."""

    name: str
    steps: int = 10
    reads: list[str] = field(default_factory=list, compare=False)

    def __call__(self) -> list[Recording]:
        self.reads.append(self.name)
        return [Recording(np.zeros(self.steps), np.zeros(self.steps))]


def test_a_source_is_read_once() -> None:
    source = Source("ann")
    cached = Cached(source, Cache[Any]())
    first, again = cached(), cached()
    assert source.reads == ["ann"]
    assert first[0] is again[0]
    first.clear()
    assert len(cached()) == 1


def test_equal_sources_share_a_reading() -> None:
    cache, reads = Cache[Any](), list[str]()
    for _ in range(3):
        Cached(Source("ann", reads=reads), cache)()
    Cached(Source("bob", reads=reads), cache)()
    assert reads == ["ann", "bob"]


def test_what_was_asked_for_longest_ago_is_dropped_first() -> None:
    cache, reads = Cache[Any](max_bytes=400), list[str]()

    def ask(name: str) -> None:
        Cached(Source(name, reads=reads), cache)()

    for name in ("ann", "bob", "ann", "cy"):  # 160 bytes each: bob goes
        ask(name)
    assert cache.n_bytes == 320
    for name in ("ann", "cy", "bob"):
        ask(name)
    assert reads == ["ann", "bob", "cy", "bob"]


def test_what_is_larger_than_the_cache_is_read_each_time() -> None:
    cache, source = Cache[Any](max_bytes=100), Source("ann")
    assert Cached(source, cache)()[0].n_steps == Cached(source, cache)()[0].n_steps == 10
    assert len(source.reads) == 2
    assert cache.n_bytes == 0


def test_threads_that_ask_at_once_wait_for_one_reading() -> None:
    reads: list[int] = []

    def slow() -> list[Recording]:
        reads.append(1)
        time.sleep(0.05)
        return [Recording(np.zeros(3))]

    cached, got = Cached(slow, Cache[Any]()), list[list[Recording]]()
    threads = [threading.Thread(target=lambda: got.append(cached())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reads) == 1
    assert len({id(one) for (one,) in got}) == 1


def test_a_reading_that_fails_is_tried_again() -> None:
    tries: list[int] = []

    def flaky() -> list[Recording]:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("the disk is away")
        return [Recording(np.zeros(3))]

    cached = Cached(flaky, Cache[Any]())
    with pytest.raises(OSError, match="the disk is away"):
        cached()
    assert len(cached()) == 1


def test_a_source_travels_without_what_it_holds() -> None:
    cached = Cached(Source("ann"), Cache[Any](max_bytes=1000))
    cached()
    there: Callable[[], list[Recording]] = pickle.loads(pickle.dumps(cached))
    assert isinstance(there, Cached)
    assert there.cache is not None
    assert (there.cache.max_bytes, there.cache.n_bytes) == (1000, 0)


def test_the_cache_of_the_process_is_used_unless_another_is_given() -> None:
    source = Source("somebody that no other test asks for")
    Cached(source)()
    Cached(source)()
    assert len(source.reads) == 1
    assert PROCESS_CACHE.max_bytes == 2**30
    PROCESS_CACHE.clear()
    Cached(source)()
    assert len(source.reads) == 2


def test_a_negative_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="max_bytes is -1"):
        Cache[Any](max_bytes=-1)
