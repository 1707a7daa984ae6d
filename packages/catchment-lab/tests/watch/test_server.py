"""The page's server: who may ask, for what, and what the streams say."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from catchment.cli import app
from catchment_lab.commands import has_screen
from catchment_lab.watch import HEADERS, Server, watching
from tests.watch.runs import run_in, running, wait_until


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs") / "noisy"
    run_in(place, lambda: None, rounds=3, rude="ann <b>", noisy=True)
    return place


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with watching(folder) as made:
        yield made


Answer = tuple[int, dict[str, str], bytes]


def ask(
    server: Server, path: str, method: str = "GET", headers: dict[str, str] | None = None
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def events(server: Server) -> Generator[dict[str, object], None, None]:
    """Yield what a stream sends, without end."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.getheader("Content-Type") == "text/event-stream"
        while line := answer.readline():
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/", "/style.css", "/watch.js", "/state.json"])
def test_every_answer_forbids_what_it_does_not_need(server: Server, path: str) -> None:
    status, headers, content = ask(server, path)
    assert status == 200
    assert content
    assert headers.items() >= HEADERS.items()
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_the_page_asks_no_one_else_for_anything(server: Server) -> None:
    page = b"".join(ask(server, path)[2] for path in ("/", "/style.css", "/watch.js")).decode()
    assert page.replace("http://www.w3.org/2000/svg", "").count("://") == 0
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "@import",
    ):
        assert word not in page


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "example.org:80",
        "127.0.0.1.example.org",
        "localhost.example.org",
        "[::1]",
        "0.0.0.0",
        "127.0.0.1@example.org",
        "localhost:80@example.org",
        "127.0.0.1:x",
    ],
)
@pytest.mark.parametrize("path", ["/", "/events", "/state.json"])
def test_names_of_other_machines_are_refused(server: Server, path: str, host: str) -> None:
    status, _, content = ask(server, path, headers={"Host": host})
    assert status == 403
    assert b"ann" not in content


def test_a_request_without_a_host_is_refused(server: Server) -> None:
    assert ask(server, "/", headers={"Host": ""})[0] == 403
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as line:
        line.sendall(b"GET /state.json HTTP/1.0\r\n\r\n")
        assert b" 403 " in line.recv(4096)


def test_a_tunnel_may_have_a_port_of_its_own(server: Server) -> None:
    assert ask(server, "/", headers={"Host": "localhost:9000"})[0] == 200


def test_other_sites_are_refused(server: Server) -> None:
    assert ask(server, "/state.json", headers={"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert ask(server, "/state.json", headers={"Sec-Fetch-Site": "same-origin"})[0] == 200


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_get_is_answered(server: Server, method: str) -> None:
    status, headers, _ = ask(server, "/", method)
    assert (status, headers["Allow"]) == (405, "GET")
    assert ask(server, "/", "TRACE")[0] == 501


@pytest.mark.parametrize(
    "path",
    [
        "/plan.toml",
        "/run.sqlite",
        "/../plan.toml",
        "/..%2fplan.toml",
        "/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/page.html",
        "/watch.css",
        "/state.json/../run.sqlite",
        "/\\..\\plan.toml",
    ],
)
def test_there_are_no_files(server: Server, path: str) -> None:
    status, _, content = ask(server, path)
    assert status == 404
    assert content == b"there is no such page\n"


def test_only_this_machine_is_listened_to(server: Server, tmp_path: Path) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert not server.verify_request(None, ("192.0.2.7", 4000))
    assert server.verify_request(None, ("127.0.0.1", 4000))
    for address in ("0.0.0.0", "192.0.2.7", "::"):
        with pytest.raises(ValueError, match="ssh -L"), watching(tmp_path, address=address):
            pass


def test_several_streams_see_a_run_grow(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with watching(folder) as server:
        streams = [events(server) for _ in range(3)]
        assert [next(stream)["state"] for stream in streams] == ["waiting"] * 3
        with running(folder, rounds=3) as gate:
            gate.open(2)
            for stream in streams:
                assert any(_trained(one) == 2 for one in stream)
        for stream in streams:
            last = next(one for one in stream if one["state"] == "finished")
            assert _trained(last) == 3
            stream.close()


def _trained(snapshot: dict[str, object]) -> int:
    counts = snapshot["n_rounds"]
    assert counts is None or isinstance(counts, dict)
    return int((counts or {}).get("training", 0))


def test_there_are_not_endlessly_many_streams(server: Server) -> None:
    streams = [events(server) for _ in range(32)]
    for stream in streams:
        next(stream)
    assert ask(server, "/events")[0] == 503
    assert ask(server, "/")[0] == 200
    for stream in streams:
        stream.close()


def test_the_end_of_the_block_ends_streams_and_threads(folder: Path) -> None:
    before = threading.active_count()
    with watching(folder) as server:
        stream = events(server)
        next(stream)
    assert next(stream, None) is None
    wait_until(lambda: threading.active_count() <= before)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.server_port), timeout=5)


def test_a_port_that_is_taken(server: Server, tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match=r"is not free .* pass --port 0"),
        watching(tmp_path, port=server.server_port),
    ):
        pass


def test_the_command_prints_a_run_once(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["watch", str(folder), "--once"])
    assert done.exit_code == 0, done.output
    assert "Steps <b>averaged</b>: finished" in done.output
    assert (
        "epsilon at most 2 at delta 1e-05 per client, 3 of 3 releases of training made"
        in done.output
    )
    assert "not used: ann <b>, training, 3 times: no battery" in done.output
    assert "accuracy" in done.output
    done = CliRunner().invoke(app, ["watch", str(folder), "--once", "--json"])
    assert json.loads(done.output)["state"] == "finished"
    done = CliRunner().invoke(app, ["watch", str(tmp_path / "none"), "--once"])
    assert "waiting" in done.output
    assert not (tmp_path / "none").exists()


def test_no_browser_takes_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not has_screen()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert has_screen()


@pytest.mark.skipif(os.name != "posix", reason="signals of this kind are of POSIX systems")
def test_ctrl_c_ends_the_command(folder: Path) -> None:
    command = [sys.executable, "-m", "catchment.cli", "watch", str(folder), "--no-open"]
    with subprocess.Popen(
        [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        port = int(line.split("127.0.0.1:")[1].split("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/events")  # a stream that is open must not keep it
        assert connection.getresponse().readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert said == "the page is closed\n"
    connection.close()
