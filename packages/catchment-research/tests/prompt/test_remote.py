"""The language model in another process: the same bits, and strangers are turned away."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

from catchment.engine import run_locally
from catchment.errors import FederationError, IntegrityError
from catchment.federation import Plan
from catchment_research.prompt import LanguageServer, Question, RemoteServer, serve
from tests.prompt.world import MODEL, PROJECTION, WORDS, clients, training

KEY = b"sixteen bytes or more"
# A server of its own process: prints its port, and ends when its input does.
OTHER = """
import sys
from tests.prompt.world import MODEL, PROJECTION, WORDS
from catchment_research.prompt import LanguageServer
from catchment_research.prompt import serve

server = LanguageServer(MODEL, PROJECTION, WORDS)
with serve(server, key=b"sixteen bytes or more") as address:
    print(address[1], flush=True)
    sys.stdin.read()
    print(server.traffic["training"].bytes_up, flush=True)
"""


def link(address: tuple[str, int], **settings: object) -> RemoteServer:
    agreed = LanguageServer(MODEL, PROJECTION, WORDS).identity()
    return RemoteServer(
        **{"address": address, "key": KEY, "words": WORDS, "agreed": agreed, **settings}  # type: ignore[arg-type]
    )


def test_a_run_against_another_process_gives_the_same_bits() -> None:
    here = training(epochs=2)
    near = run_locally(Plan(algorithm=here, rounds=2), clients())
    with subprocess.Popen(
        [sys.executable, "-c", OTHER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        far_plan = Plan(algorithm=training(epochs=2, server=link(("127.0.0.1", port))), rounds=2)
        far = run_locally(far_plan, clients())
        process.stdin.close()
        counted = int(process.stdout.read())
    assert far.state.values[0].tobytes() == near.state.values[0].tobytes()
    # Where the server is reached is everyone's own business; what it is has been agreed on.
    elsewhere = training(epochs=2, server=link(("10.0.0.1", 1), key=2 * KEY))
    assert Plan(algorithm=elsewhere, rounds=2).fingerprint() == far_plan.fingerprint()
    assert counted == here.server.traffic["training"].bytes_up  # type: ignore[attr-defined]


def test_strangers_and_other_models_are_turned_away() -> None:
    server = LanguageServer(MODEL, PROJECTION, WORDS)
    message = Question(np.zeros((1, 6)), [np.array([3])], 1).to_bytes(PROJECTION)
    with serve(server, key=KEY) as address:
        with pytest.raises(FederationError, match="did not answer"):
            link(address, key=b"another key of some length").answers([message])
        with socket.create_connection(address) as silent, socket.create_connection(address) as rude:
            rude.sendall(b"GET / HTTP/1.1\r\n\r\n" + 40 * b"x")
            assert rude.recv(100) == b""
            # Those who know the key are served meanwhile, and told what is wrong.
            assert link(address).answers([message, message]) == 2 * server.answers([message])
            silent.close()
        with pytest.raises(FederationError, match=r"refused: .*too few for a header"):
            link(address).answers([b"anything"])
        with pytest.raises(FederationError, match="not the language model that was agreed on"):
            link(address, agreed="another model").answers([message])
        assert link(address).answers([]) == []
    with pytest.raises(FederationError, match="did not answer"):
        link(address).answers([message])


def test_a_reply_to_another_question_is_refused() -> None:
    """Who listens in and plays an old answer again is found out."""
    server = LanguageServer(MODEL, PROJECTION, WORDS)
    message = Question(np.zeros((1, 6)), [np.array([3])], 1).to_bytes(PROJECTION)
    with serve(server, key=KEY) as address, socket.create_server(("127.0.0.1", 0)) as between:
        heard: list[bytes] = []

        def relay() -> None:
            for _ in range(2):
                client, _ = between.accept()
                with client, socket.create_connection(address) as onward:
                    onward.sendall(client.recv(1 << 16))
                    heard.append(onward.recv(1 << 16))
                    client.sendall(heard[0])

        thread = threading.Thread(target=relay)
        thread.start()
        there = link(between.getsockname())
        assert there.answers([message]) == server.answers([message])
        with pytest.raises(IntegrityError, match="not made with the agreed key"):
            there.answers([message])
        thread.join()
        assert heard[0] != heard[1]


def test_short_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="the key has 5 bytes"):
        link(("127.0.0.1", 1), key=b"short")
    with (
        pytest.raises(ValueError, match="the key has 5 bytes"),
        serve(LanguageServer(MODEL, PROJECTION, WORDS), key=b"short"),
    ):
        pass
