"""Frames and samples that are damaged, wrong or hostile: refused with a reason, nothing lost."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from catchment import EchoState, Preprocessing, Recording
from catchment.data import Scaler
from catchment.readout import Readout
from catchment_edge.training import Layout, Task, TrainingDevice
from tests.export.trained import (
    Program,
    acknowledge,
    frame,
    measure,
    messages,
    needs_gcc,
    readout,
    scale,
    train,
)

pytestmark = needs_gcc
FITTED = Preprocessing(scale=Scaler(np.array([0.5]), np.array([2.0])))
FEATURES = EchoState(6, seed=3, pool="max").build(1, per_step=False, classes=True)
READOUT = readout(Readout(np.ones((FEATURES.n_features, 2)), np.zeros(2), 0.0))
READY = scale(FITTED) + READOUT


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    layout = Layout(Task(FEATURES, Preprocessing(), 1, 2, ("a", "b")), "tiny", 50)
    return Program.of(TrainingDevice(layout), tmp_path_factory.mktemp("tiny"))


def data(n: int = 3) -> list[Recording]:
    rng = np.random.default_rng(n)
    return [Recording.labeled(rng.normal(size=(9, 1)), k % 2, 2) for k in range(n)]


def damaged(good: bytes, at: int) -> bytes:
    return good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :]


WRONG = {
    "a bit of the payload": damaged(train(1), 8),
    "a bit of the type": damaged(train(1), 2),
    "a bit of the CRC": damaged(train(1), len(train(1)) - 1),
    "an unknown type": frame("X", b"1234"),
    "an unknown type of no length": frame("\x00"),
    "a train of four bytes": frame("T", b"\x01\0\0\0"),
    "a hello with a payload": frame("H", b"?"),
    "a longer frame than there is": b"\xca\x7cT" + struct.pack("<I", 1 << 31),
    "a scale of another number of channels": frame("S", bytes(32)),
    "a scale of zero": frame("S", bytes(16)),
    "a mean that is not a number": frame("S", struct.pack("<dd", np.nan, 1.0)),
    "a readout of another size": frame("R", bytes(8)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_frame_is_refused_and_nothing_is_lost(name: str, program: Program) -> None:
    sensor = program.sensor(data()) + program.sensor(data(2))
    before, after = program.talk(READY + train(0), sensor), frame("H") + train(0)
    answers = program.talk(READY + train(0) + WRONG[name] + after, sensor)
    assert answers[: len(before)] == before
    refused, hello, *again = answers[len(before) :]
    assert refused[0] == "n"
    assert refused[1].isascii()
    assert len(refused[1]) > 10
    assert hello[0] == "h"
    assert hello[1][10] & 8  # the readout is still there
    assert messages(again) == messages(before)


def test_a_readout_that_came_damaged_is_not_used(program: Program) -> None:
    asked = READY + damaged(READOUT, 20) + frame("H") + frame("P") + READOUT + frame("P")
    answers = program.talk(asked, program.sensor(data()))
    assert [kind for kind, _ in answers] == list("kknhnk") + ["p"] * 3 + ["e"]
    assert not answers[3][1][10] & 8


def test_a_readout_that_is_not_finite_is_refused(program: Program) -> None:
    bad = readout(Readout(np.full((FEATURES.n_features, 2), np.inf), np.zeros(2), 0.0))
    answers = program.talk(READY + bad + frame("P"), program.sensor(data()))
    assert [kind for kind, _ in answers] == list("kknn")


SAMPLE = struct.Struct("<Bdi")
SENSORS = {
    "an infinite sample": SAMPLE.pack(1, np.inf, 0) + b"\x02\x03",
    "a label that is no class": SAMPLE.pack(1, 1.0, 2) + b"\x02\x03",
    "a negative label": SAMPLE.pack(1, 1.0, -2) + b"\x02\x03",
    "something else than samples": b"\x09\x03",
    "an end within a sample": SAMPLE.pack(1, 1.0, 0)[:-1],
}


@pytest.mark.parametrize("name", SENSORS)
def test_a_segment_that_is_wrong_is_refused_every_time(name: str, program: Program) -> None:
    sensor = program.sensor(data()) + SENSORS[name] + program.sensor(data(2))
    asked = READY + train(0) + train(1) + train(1) + train(2)
    answers = program.talk(asked, sensor)
    assert sum(kind == "n" for kind, _ in answers) == 2
    assert len(messages(answers)) == 2


def test_moments_refuse_what_the_library_refuses(program: Program) -> None:
    large = SAMPLE.pack(1, 2.0**40, 0) + b"\x02\x03"
    missing = SAMPLE.pack(1, np.nan, 0) + b"\x02\x03"
    answers = program.talk(measure(0) + measure(1), large + missing)
    assert [kind for kind, _ in answers] == ["n", "n"]
    assert b"2^40" in answers[0][1]
    assert b"nothing to scale by" in answers[1][1]


def test_random_frames_never_break_it(program: Program) -> None:
    """Bits are turned, pieces left out and put in twice; then it still answers as it should."""
    rng = random.Random(7)
    good = [READY, READOUT, scale(FITTED), train(0), train(1, new=True), acknowledge(0)]
    good += [measure(), frame("P"), frame("H"), *WRONG.values()]
    for _ in range(25):
        asked = bytearray(b"".join(rng.choice(good) for _ in range(30)))
        for _ in range(rng.randrange(20)):
            at = rng.randrange(len(asked))
            match rng.randrange(3):
                case 0:
                    asked[at] ^= 1 << rng.randrange(8)
                case 1:
                    del asked[at : at + rng.randrange(40)]
                case 2:
                    asked[at:at] = rng.randbytes(rng.randrange(40))
        # A frame may have been cut short, so that what follows is taken for its payload.
        asked += bytes(len(READOUT)) + frame("H")
        sensor = bytearray(b"".join(program.sensor(data(n)) for n in range(1, 6)))
        for _ in range(rng.randrange(6)):
            sensor[rng.randrange(len(sensor))] ^= 1 << rng.randrange(8)
        answers = program.talk(bytes(asked), bytes(sensor))
        assert answers[-1][0] == "h"
