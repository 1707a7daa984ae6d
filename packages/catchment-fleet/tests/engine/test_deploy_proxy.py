"""The proxy as strangers meet it: Debian's nginx before a server that says what reached it."""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from catchment_fleet.deploy import make_keys
from tools.fleet.deployment import (
    Deployment,
    find_nginx,
    free_port,
    listens,
    proxy_configuration,
)
from tools.fleet.processes import Processes

try:
    find_nginx()
except FileNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)


# What a registered node calls. Registering and leaving for good are for the server's keeper.
FLEET_PATHS = (
    "activate-node",
    "deactivate-node",
    "send-node-heartbeat",
    "pull-messages",
    "push-messages",
    "pull-object",
    "push-object",
    "confirm-message-received",
    "get-run",
    "get-fab",
)


@dataclass
class Door:
    """A proxy, and the requests that came through it."""

    deployment: Deployment
    authority: Path
    came: list[str] = field(default_factory=list)

    def ask(self, path: str, method: str = "POST", body: bytes = b"x") -> int:
        """Return the status of a request whose path is sent as it is."""
        context = ssl.create_default_context(cafile=str(self.authority))
        line = http.client.HTTPSConnection("127.0.0.1", self.deployment.proxy_port, context=context)
        try:
            line.putrequest(method, path, skip_accept_encoding=True)
            line.putheader("Content-Length", str(len(body)))
            line.endheaders(body)
            return line.getresponse().status
        finally:
            line.close()


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with opened(tmp_path_factory.mktemp("proxy")) as made:
        yield made


@contextmanager
def opened(folder: Path, **limits: int) -> Iterator[Door]:
    """Start a proxy before a server that says what reached it."""
    make_keys(folder, ["localhost"], [])
    deployment = Deployment(folder)
    made = Door(deployment, folder / "server" / "ca.crt")

    class Superlink(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.came.append(self.path)
            n_bytes = int(self.headers.get("Content-Length", 0))
            read = len(self.rfile.read(n_bytes))
            self.send_response(200 if read == n_bytes else 500)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_DELETE = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", deployment.superlink_port), Superlink)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server" / "server.crt", folder / "server" / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with deployment:
        deployment.start_proxy(**limits)
        yield made
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("path", FLEET_PATHS)
def test_what_nodes_need_is_passed_on(door: Door, path: str) -> None:
    door.came.clear()
    assert door.ask(f"/v1/fleet/{path}") == 200
    assert door.came == [f"/v1/fleet/{path}"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1/control/start-run",
        "/v1/control/register-node",
        "/v1/control/list-runs",
        "/v1/runtime/acquire-task",
        "/v1/fleet/register-node",
        "/v1/fleet/unregister-node",
        "/v1/fleet/",
        "/v1/fleet/pull-messages/",
        "/v1/fleet/pull-messages/x",
        "/v1/fleet/../control/start-run",
        "/v1/fleet/%2e%2e/control/start-run",
        "/v1/fleet/..%2fcontrol/start-run",
        "/v1/fleet/pull-messages/../../control/start-run",
        "/v1/fleet/pull-messages;/../../control/start-run",
        "//v1/control/start-run",
        "/v1//control/start-run",
        "/V1/FLEET/PULL-MESSAGES",
        "/docs",
        "/openapi.json",
        "/health",
    ],
)
def test_nothing_else_is(door: Door, path: str) -> None:
    door.came.clear()
    assert door.ask(path) in (400, 404)
    assert door.came == []


@pytest.mark.parametrize(
    ("path", "reached"),
    [
        ("/v1/control/../fleet/get-run", ["/v1/fleet/get-run"]),
        ("/v1/fleet/%67et-run", ["/v1/fleet/get-run"]),
        ("/v1/fleet/get-run?/../../control/start-run", ["/v1/fleet/get-run"]),
        ("https://localhost/v1/fleet/get-run", ["/v1/fleet/get-run"]),
    ],
)
def test_other_spellings_of_a_path_arrive_as_that_path(
    door: Door, path: str, reached: list[str]
) -> None:
    door.came.clear()
    door.ask(path)
    assert [each.split("?")[0] for each in door.came] == reached


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
def test_only_posting_is_allowed(door: Door, method: str) -> None:
    door.came.clear()
    assert door.ask("/v1/fleet/get-run", method) in (403, 405)
    assert door.came == []


def test_a_second_request_cannot_hide_in_the_first(door: Door) -> None:
    """Two lengths, or a length and chunks: the two servers must not read them differently."""
    hidden = b"POST /v1/control/start-run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    chunked = b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (
        len(hidden) + 5
    )
    twice = b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(hidden)
    for lengths in (chunked, twice):
        door.came.clear()
        context = ssl.create_default_context(cafile=str(door.authority))
        with (
            socket.create_connection(("127.0.0.1", door.deployment.proxy_port)) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as line,
        ):
            head = b"POST /v1/fleet/get-run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            line.sendall(head + lengths + hidden)
            line.settimeout(10)
            while line.recv(4096):
                pass
        assert not [path for path in door.came if "control" in path]


def test_a_piece_of_a_large_array_passes_and_a_flood_does_not(door: Door) -> None:
    assert door.ask("/v1/fleet/push-object", body=bytes(6 << 20)) == 200
    door.came.clear()
    try:
        status = door.ask("/v1/fleet/push-object", body=bytes(17 << 20))
    except OSError:  # the proxy hangs up while we still send
        status = 413
    assert status == 413
    assert door.came == []


def test_who_asks_too_often_is_told_to_come_again(tmp_path: Path) -> None:
    with opened(tmp_path, requests=1, burst=3) as door:
        context = ssl.create_default_context(cafile=str(door.authority))
        line = http.client.HTTPSConnection("127.0.0.1", door.deployment.proxy_port, context=context)
        start, statuses = time.monotonic(), []
        for _ in range(300):
            line.request("POST", "/v1/fleet/get-run", b"x")
            answer = line.getresponse()
            answer.read()
            statuses.append(answer.status)
        seconds = time.monotonic() - start
        line.close()
    assert set(statuses) == {200, 503}
    assert len(door.came) == statuses.count(200) <= 1 + 3 + seconds + 1


def test_who_holds_too_many_places_is_told_to_come_again(tmp_path: Path) -> None:
    with opened(tmp_path, connections=2) as door, ExitStack() as stack:
        context = ssl.create_default_context(cafile=str(door.authority))
        head = (
            b"POST /v1/fleet/push-object HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n"
        )
        lines = []
        for number in (1, 2):
            raw = socket.create_connection(("127.0.0.1", door.deployment.proxy_port))
            lines.append(stack.enter_context(context.wrap_socket(raw, server_hostname="localhost")))
            lines[-1].sendall(head)
            while len(door.came) < number:  # it has been let through
                time.sleep(0.01)
        assert door.ask("/v1/fleet/get-run") == 503
        for line in lines:
            line.sendall(b"x")
            assert line.recv(4096).startswith(b"HTTP/1.1 200")
        assert door.ask("/v1/fleet/get-run") == 200


def test_old_tls_and_no_tls_are_refused(door: Door) -> None:
    context = ssl.create_default_context(cafile=str(door.authority))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    port = door.deployment.proxy_port
    with socket.create_connection(("127.0.0.1", port)) as raw, pytest.raises(ssl.SSLError):
        context.wrap_socket(raw, server_hostname="localhost")
    line = http.client.HTTPConnection("127.0.0.1", port)
    line.request("POST", "/v1/fleet/get-run", b"")
    assert line.getresponse().status == 400
    line.close()


def test_a_superlink_that_is_away_is_worth_another_try(tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost"], [])
    with Deployment(tmp_path) as deployment:
        deployment.start_proxy()
        assert Door(deployment, tmp_path / "server" / "ca.crt").ask("/v1/fleet/get-run") == 503


def test_the_proxy_talks_to_its_own_superlink_only(tmp_path: Path) -> None:
    """Another process that took the SuperLink's port has no certificate of our authority."""
    make_keys(tmp_path / "ours", ["localhost"], [])
    make_keys(tmp_path / "theirs", ["localhost"], [])
    deployment = Deployment(tmp_path / "ours")
    asked: list[bytes] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    keys = tmp_path / "theirs" / "server"
    context.load_cert_chain(keys / "server.crt", keys / "server.key")
    with socket.create_server(("127.0.0.1", deployment.superlink_port)) as plain, deployment:

        def serve() -> None:
            try:
                with context.wrap_socket(plain.accept()[0], server_side=True) as line:
                    asked.append(line.recv(4096))
            except OSError:
                pass

        thread = threading.Thread(target=serve)
        thread.start()
        deployment.start_proxy()
        door = Door(deployment, tmp_path / "ours" / "server" / "ca.crt")
        assert door.ask("/v1/fleet/get-run") == 503
        thread.join()
    assert b"".join(asked) == b""


def test_callers_can_be_asked_for_a_certificate_too(tmp_path: Path) -> None:
    """Strangers are turned away; who has a certificate gets as far as an absent SuperLink."""
    make_keys(tmp_path, ["localhost"], [])
    certificate = client_certificate(tmp_path)
    port, logs = free_port(), tmp_path / "logs"
    logs.mkdir()
    asked = {"# ssl_client_certificate": "ssl_client_certificate", "# ssl_verify": "ssl_verify"}
    asked["server/callers.crt"] = "server/ca.crt"
    address = f"127.0.0.1:{port}"
    text = proxy_configuration(tmp_path / "server", logs, free_port(), address, asked)
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(text)
    command = [find_nginx(), "-p", str(logs), "-c", str(configuration), "-e", str(logs / "e.log")]
    with Processes(logs) as processes:
        processes.start("nginx", command)
        processes.wait_until("nginx", lambda: listens(port), seconds=20)
        statuses = []
        for known in (False, True):
            context = ssl.create_default_context(cafile=str(tmp_path / "server" / "ca.crt"))
            if known:
                context.load_cert_chain(certificate)
            line = http.client.HTTPSConnection("127.0.0.1", port, context=context)
            line.request("POST", "/v1/fleet/get-run", b"")
            statuses.append(line.getresponse().status)
            line.close()
    assert statuses == [400, 503]


def client_certificate(folder: Path) -> Path:
    """Make a caller's key and certificate with OpenSSL, in one file."""
    ca, made = folder / "ca", folder / "caller.pem"
    run = partial(subprocess.run, check=True, capture_output=True, cwd=folder)
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "k.pem"]
    run(["openssl", "req", *new, "-out", "c.csr", "-subj", "/CN=caller"])
    signer = ["-CA", str(ca / "ca.crt"), "-CAkey", str(ca / "ca.key"), "-CAcreateserial"]
    run(["openssl", "x509", "-req", "-in", "c.csr", *signer, "-days", "2", "-out", "c.pem"])
    made.write_text((folder / "k.pem").read_text() + (folder / "c.pem").read_text())
    return made
