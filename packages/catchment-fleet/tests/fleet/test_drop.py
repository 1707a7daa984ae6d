"""The drop takes contributions to one plan, over HTTPS, and nothing else."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.client import HTTPSConnection
from pathlib import Path

import numpy as np
import pytest

from catchment.plans import AwaitedError, assist, combine, contribute, kit, read_plan
from catchment.privacy import FileMemory
from catchment.privacy.secure_aggregation import sign
from catchment.wire import Message, join, split
from catchment_fleet import Drop, drop_of, drop_server
from catchment_fleet.deploy import make_keys

PLAN = """
[data]
files = "*.csv"
label = "activity"
inputs = ["ax"]
classes = ["rest", "walk"]
per_step = true

[preprocessing]
scale = "own"

[features]
map = "nvar"
delays = 3
order = 1
"""


def contribution(folder: Path, name: str, level: float = 1.0, keys: str = "keys") -> bytes:
    """Return a client's contribution as its file holds it."""
    plan, data = folder / "plan.toml", folder / f"{name}.csv"
    plan.write_text(PLAN)
    rows = [f"{level * (k % 7)},{'rest' if k < 150 else 'walk'}" for k in range(300)]
    data.write_text("\n".join(["ax,activity", *rows]))
    own = folder / f"{name}.{keys}"
    return contribute(plan, data, name=name, keys=own, clear=True).to_bytes()


@contextmanager
def listening(drop: Drop, folder: Path) -> Iterator[tuple[int, ssl.SSLContext]]:
    make_keys(folder, ["127.0.0.1"], [])
    server = drop_server(
        drop,
        ("127.0.0.1", 0),
        certificate=folder / "server" / "server.crt",
        key=folder / "server" / "server.key",
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    trusted = ssl.create_default_context(cafile=str(folder / "server" / "ca.crt"))
    try:
        yield server.server_address[1], trusted
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def sent(port: int, trusted: ssl.SSLContext, content: bytes, how: str = "POST") -> tuple[int, str]:
    line = HTTPSConnection("127.0.0.1", port, context=trusted, timeout=30)
    line.request(how, "/", body=content)
    answer = line.getresponse()
    return answer.status, answer.read().decode().strip()


def test_what_is_dropped_is_combined_and_what_is_not_for_the_plan_is_refused(
    tmp_path: Path,
) -> None:
    ann, ben = contribution(tmp_path, "ann"), contribution(tmp_path, "ben", 2.0)
    file = read_plan(tmp_path / "plan.toml")
    drop = Drop(tmp_path / "dropped", file.fingerprint, most_bytes=len(ann) + 500)
    damaged = ann[:-3] + bytes([ann[-3] ^ 1]) + ann[-2:]
    with listening(drop, tmp_path / "keys") as line:
        assert sent(*line, ann) == (201, f"kept: ann, training, {len(ann)} bytes")
        assert sent(*line, ann)[0] == 201  # the same again is no other
        assert sent(*line, ben, "PUT")[0] == 201
        assert sent(*line, damaged)[0] == 422
        assert sent(*line, bytes(len(ann) + 501))[0] == 413
        assert sent(*line, b"", "GET")[0] == 501
        assert sent(*line, contribution(tmp_path, "ann", 3.0, "other"))[0] == 409
    kept = sorted((tmp_path / "dropped").iterdir())
    assert [path.name for path in kept] == [
        "ann.training.contribution",
        "ben.training.contribution",
    ]
    done = combine(kept, tmp_path / "plan.toml", out=tmp_path / "run")
    assert done.finished.run.latest["training"][-1].n_used == 2


def test_a_drop_knows_its_clients_and_their_pace(tmp_path: Path) -> None:
    ann = contribution(tmp_path, "ann")
    file = read_plan(tmp_path / "plan.toml")
    drop = Drop(tmp_path / "dropped", file.fingerprint, {"ben": "00" * 32}, per_minute=1)
    with listening(drop, tmp_path / "keys") as line:
        status, words = sent(*line, ann)
        assert (status, words[:33]) == (422, "refused: ann is not registered wi")
        assert sent(*line, ann)[0] == 429
    assert not (tmp_path / "dropped").exists()


def test_a_drop_without_https_or_keys_is_for_this_machine_alone(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="without HTTPS"):
        drop_server(Drop(tmp_path, "", {"ann": "00" * 32}), ("0.0.0.0", 0))
    make_keys(tmp_path, ["127.0.0.1"], [])
    own = tmp_path / "server"
    with pytest.raises(ValueError, match="without knowing its clients"):
        drop_server(
            Drop(tmp_path, ""),
            ("0.0.0.0", 0),
            certificate=own / "server.crt",
            key=own / "server.key",
        )
    server = drop_server(Drop(tmp_path, ""), ("127.0.0.1", 0))
    server.server_close()


def test_the_drop_writes_no_file_outside_its_folder(tmp_path: Path) -> None:
    ward = contribution(tmp_path, "ann")
    file = read_plan(tmp_path / "plan.toml")
    name = "ward 3/bed 2"
    data = tmp_path / "ann.csv"
    made = contribute(
        tmp_path / "plan.toml", data, name=name, keys=tmp_path / "ward", clear=True
    ).to_bytes()
    drop = Drop(tmp_path / "dropped", file.fingerprint)
    assert drop.take(made)[0] == drop.take(ward)[0] == 201
    assert [path.name for path in sorted((tmp_path / "dropped").iterdir())] == [
        "ann.training.contribution",
        "ward%203%2Fbed%202.training.contribution",
    ]


def test_who_is_silent_or_slow_holds_up_nobody_and_is_cut_off(tmp_path: Path) -> None:
    ann = contribution(tmp_path, "ann")
    file = read_plan(tmp_path / "plan.toml")
    drop = Drop(tmp_path / "dropped", file.fingerprint, seconds=3.0)
    with listening(drop, tmp_path / "keys") as (port, trusted):
        mute = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]  # no HTTPS begun
        slow = []
        for sent_so_far in (b"POST / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nab"):
            line = socket.create_connection(("127.0.0.1", port))
            slow.append(trusted.wrap_socket(line, server_hostname="127.0.0.1"))
            slow[-1].sendall(sent_so_far)
        assert sent(port, trusted, ann)[0] == 201  # while the ten are there
        for one in (*mute, *slow):
            one.settimeout(30)
            with one, suppress(ConnectionError, ssl.SSLError):  # an end, and no timeout
                while one.recv(1000):
                    pass
    assert [path.name for path in (tmp_path / "dropped").iterdir()] == ["ann.training.contribution"]


@pytest.mark.parametrize("length", ["9" * 5000, "-1", "1e3", "0x10", ""])
def test_a_length_that_is_none_is_refused(tmp_path: Path, length: str) -> None:
    drop = Drop(tmp_path / "dropped", "plan")
    server = drop_server(drop, ("127.0.0.1", 0))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as line:
            line.sendall(f"POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
            assert line.recv(100).split()[1] in (b"411", b"413")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert not (tmp_path / "dropped").exists()


def test_a_stage_that_no_plan_has_and_a_name_too_long_for_the_disk_are_refused(
    tmp_path: Path,
) -> None:
    contribution(tmp_path, "ann")
    file = read_plan(tmp_path / "plan.toml")
    drop = Drop(tmp_path / "dropped", file.fingerprint)
    plan, data, own = tmp_path / "plan.toml", tmp_path / "ann.csv", tmp_path / "keys"
    one = contribute(plan, data, name="ä" * 100, keys=own, clear=True)
    assert drop.take(one.to_bytes())[0] == 507
    tea = replace(one, client="ann", stage="tea/../../x")
    memory = FileMemory(own / "memory")
    tea = replace(tea, signature=sign(memory, b"catchment-contribution-1", tea._signed()))
    assert drop.take(tea.to_bytes())[0] == 422
    assert list((tmp_path / "dropped").iterdir()) == []


TWO_SERVERS = """
[[protections]]
name = "secure_aggregation"
servers = 2
min_clients = 3
rows_per_feature = 2
"""


def test_leader_and_helper_work_by_a_drop_each_and_keep_nothing_unsigned(tmp_path: Path) -> None:
    names = ("ann", "ben", "cid")
    (tmp_path / "plan.toml").write_text(PLAN + TWO_SERVERS)
    kits = kit(tmp_path / "plan.toml", names, tmp_path / "kits")
    plan, keys = kits / "plan.toml", kits / "identities.json"
    leader, helper = tmp_path / "leader", tmp_path / "helper"
    with listening(drop_of(plan, leader, keys), tmp_path / "keys") as line:
        for k, name in enumerate(names):
            contribution(tmp_path, name, 1.0 + k)  # writes its recordings
            data, own = tmp_path / f"{name}.csv", kits / name / "keys"
            one = contribute(plan, data, name=name, keys=own, identities=keys)
            assert sent(*line, one.to_bytes())[0] == 201
        with pytest.raises(AwaitedError) as awaited:
            combine(leader.iterdir(), plan, out=tmp_path / "run", identities=keys)
        batch = awaited.value.content
        parts = split(Message.from_bytes(batch), "secure-batch")
        ann, ben = parts["ann"], parts["ben"]
        with listening(drop_of(plan, helper, keys), tmp_path / "other") as there:
            assert sent(*there, batch)[0] == 201
            for wrong in ({"ann": ben, "ben": ben}, {"ann": ann, "eve": ann}, {}):
                status, said = sent(*there, join("secure-batch", wrong).to_bytes())
                assert (status, said[:8]) == (422, "refused:")
        (kept,) = helper.iterdir()
        own = kits / "helper" / "keys"
        answer = assist(kept, plan, keys=own, identities=keys)
        whole = Message.from_bytes(answer)
        forged = replace(whole, arrays=(whole.arrays[0] + np.uint64(1),)).to_bytes()
        assert sent(*line, forged) == (422, "refused: the plan's helper did not sign this answer")
        other = tmp_path / "other.toml"
        other.write_text(plan.read_text() + "\n[learn]\nridge = 0.5\n")
        elsewhere = assist(kept, other, keys=own, identities=keys)
        assert sent(*line, elsewhere) == (422, "refused: it was made for another plan")
        assert sent(*line, answer)[0] == 201
        assert sent(*line, answer)[0] == 201  # the same again is no other
    (path,) = leader.glob("*.answer")
    assert path.stem == kept.stem
    done = combine(
        leader.glob("*.contribution"), plan, out=tmp_path / "run", identities=keys, answers=[path]
    )
    assert done.finished.run.latest["training"][-1].n_used == 3
