"""A14: pickles, bombs and lying headers are refused at once, for next to no memory."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from catchment.errors import IntegrityError, UploadError
from catchment.federation import REPLY_HEADER, Engine, Reply, RoundContext
from catchment.privacy import Journal
from catchment.wire import MAGIC, VERSION, Message
from tests.security.fleet import Fleet, released

PACKAGES = Path(__file__).parents[3]
SOURCES = sorted(PACKAGES.glob("*/src/**/*.py"))
# What a process wrote for its own workers, in a folder of its own.
READS_PICKLES = ("processes.py",)


def message(header: bytes, payload: bytes = b"", *, claimed: int | None = None) -> bytes:
    """Return a well-sealed message around any header."""
    size = len(header) if claimed is None else claimed
    body = struct.pack("<I", size) + header + payload
    return struct.pack("<4sHQ32s", MAGIC, VERSION, len(body), hashlib.sha256(body).digest()) + body


def header(arrays: object = (), facts: object = None) -> bytes:
    return json.dumps({"kind": "numbers", "facts": facts or {}, "arrays": arrays}).encode()


class Harmful:
    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch this_should_not_exist",)


def npz_bomb() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(20_000_000))
    return buffer.getvalue()


def lying_npy() -> bytes:
    head = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    text = head.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def object_array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return buffer.getvalue()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "a pickle": lambda: pickle.dumps(Harmful()),
    "a pickle in an envelope": lambda: message(pickle.dumps(Harmful())),
    "an object array": object_array,
    "an object array named so": lambda: message(header([["O8", [1]]]), b"12345678"),
    "a compressed bomb": npz_bomb,
    "a lying npy": lying_npy,
    "1e12 numbers promised": lambda: message(header([["f8", [10**12]]])),
    "1e30 numbers promised": lambda: message(header([["f8", [10**8] * 4]])),
    "a shape of nothing times much": lambda: message(header([["f8", [0, 2**40]]])),
    "a negative shape": lambda: message(header([["f8", [-1]]])),
    "a shape of floats": lambda: message(header([["f8", [1.0]]]), bytes(8)),
    "a shape of truths": lambda: message(header([["f8", [True]]]), bytes(8)),
    "many dimensions": lambda: message(header([["f8", [1] * 40]]), bytes(8)),
    "a header of 1 GB promised": lambda: message(b"{}", claimed=10**9),
    "a long header of lists": lambda: message(
        b'{"kind":"a","arrays":[],"facts":{"x":[' + b"[]," * (REPLY_HEADER // 3) + b"[]]}}"
    ),
    "a deep header": lambda: message(
        b'{"kind":"a","arrays":[],"facts":{"x":' + b"[" * 400 + b"]" * 400 + b"}}"
    ),
    "a very deep header": lambda: message(b"[" * 10**6),
    "a length beyond the message": lambda: message(header())[:-3],
    "bytes after the last array": lambda: message(header([["u1", [1]]]), b"12"),
    "a header that is a list": lambda: message(b"[]"),
    "a header that is a number": lambda: message(b"1" * 5000),
    "a huge number": lambda: message(
        b'{"kind":"a","arrays":[],"facts":{"x":' + b"9" * 5000 + b"}}"
    ),
    "no text": lambda: message(b"\xff\xfe"),
    "another magic": lambda: b"ZIPS" + message(header())[4:],
    "a newer format": lambda: message(header())[:4] + b"\x09\x00" + message(header())[6:],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_messages_are_refused_cheaply(name: str) -> None:
    hostile = HOSTILE[name]()
    tracemalloc.start()
    try:
        with pytest.raises(IntegrityError):
            Message.from_bytes(hostile, header_limit=REPLY_HEADER)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000
    assert not Path("this_should_not_exist").exists()


def test_the_longest_header_that_is_read_costs_little_memory() -> None:
    lists = b"[]," * (REPLY_HEADER // 3 - 30)
    longest = message(b'{"kind":"a","arrays":[],"facts":{"x":[' + lists + b"[]]}}")
    tracemalloc.start()
    try:
        assert Message.from_bytes(longest, header_limit=REPLY_HEADER).kind == "a"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000


@pytest.mark.parametrize("name", HOSTILE)
def test_a_round_goes_on_when_a_client_sends_them(name: str) -> None:
    fleet, hostile = Fleet.drawn(4), HOSTILE[name]()
    engine = fleet.engine()

    class Hostile(Engine):
        def clients(self) -> list[str]:
            return list(engine.clients())

        def ask(self, requests):  # type: ignore[no-untyped-def]
            for reply in engine.ask(requests):
                yield Reply("c002", hostile) if reply.client == "c002" else reply

    result = fleet.run(Hostile())
    np.testing.assert_array_equal(
        released(result), fleet.expected(c for c in fleet.vectors if c != "c002")
    )


@pytest.mark.parametrize(
    "outline",
    [
        None,
        {"kind": "numbers"},
        {"kind": "numbers", "facts": {}, "arrays": [["f8", [10**12]]]},
        {"kind": "numbers", "facts": {}, "arrays": [["O8", [3]]]},
        {"kind": "numbers", "facts": {}, "arrays": [["f8", [-3]]]},
        {"kind": "numbers", "facts": {}, "arrays": [["f8", [4]]]},
        {"kind": 7, "facts": {}, "arrays": []},
        {"kind": "numbers", "facts": [], "arrays": 3},
    ],
)
def test_outlines_that_lie_are_refused_before_anything_is_made(outline: object) -> None:
    fleet = Fleet.drawn(4)
    exchange = fleet.until("update")
    number = exchange.request("keys", "c000", Message("nothing")).facts["round"]
    arrays = (np.zeros((2, 3), dtype=np.uint64), np.zeros((1, 64), dtype=np.uint8))
    upload = Message("secure-upload", {"round": number, "outline": outline}, arrays)  # type: ignore[dict-item]
    tracemalloc.start()
    try:
        with pytest.raises((UploadError, IntegrityError)):
            exchange.take("update", upload, RoundContext(0, (), client="c000"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_bytes(pickle.dumps(Harmful()) * 100)
    with pytest.raises(IntegrityError, match="is not a journal"):
        Journal(tmp_path)


FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "joblib", "dill", "cloudpickle", "shelve"}
FORBIDDEN_MODULES |= {"marshal", "yaml"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}


def test_no_source_reads_data_that_could_run() -> None:
    assert len(SOURCES) > 250
    found = [f"{path.relative_to(PACKAGES)}: {what}" for path in SOURCES for what in runs(path)]
    assert found == []


def runs(path: Path) -> Iterator[str]:
    """Yield what a source does that could run what it reads."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        modules: set[str] = set()
        match node:
            case ast.Import(names=names):
                modules = {alias.name.split(".")[0] for alias in names}
            case ast.ImportFrom(module=str(module)):
                modules = {module.split(".")[0]}
            case ast.Call(func=ast.Name(id=called)) if called in FORBIDDEN_CALLS:
                yield f"{called} in line {node.lineno}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="load"), keywords=k):
                if not any(a.arg == "weights_only" and ast.unparse(a.value) == "True" for a in k):
                    yield f"torch.load in line {node.lineno}"
            case ast.Call(func=ast.Attribute(attr="load"), keywords=k):
                if any(a.arg == "allow_pickle" and ast.unparse(a.value) != "False" for a in k):
                    yield f"allow_pickle in line {node.lineno}"
        if path.name not in READS_PICKLES:
            yield from sorted(modules & FORBIDDEN_MODULES)


def test_a_source_that_runs_what_it_reads_is_seen(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import pickle\nx = eval('1')\ny = np.load('a', allow_pickle=True)\n")
    assert len(list(runs(bad))) == 3
