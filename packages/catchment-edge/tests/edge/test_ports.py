"""Ports by themselves: start-up, lines, faults and limits, with a stand-in for the model."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from catchment_edge.ports import PORTS, STACK, port_files
from tools.edge.devices import DeviceFailedError, Firmware, board, build_board, build_host, host
from tools.edge.needs import missing

HERE = Path(__file__).parent
TAKES = pytest.mark.skipif(bool(missing()), reason=missing() or "all is here")


def written(folder: Path, port: str, *, code: int = 8192, stack: int = STACK) -> Path:
    for name, content in port_files(port, model="probe", code=code, stack=stack).items():
        (folder / name).write_text(content)
    for name in ("probe.c", "probe.h"):
        shutil.copy(HERE / name, folder)
    return folder


def sensor_file(folder: Path, content: bytes) -> Path:
    file = folder / "sensor"
    file.write_bytes(content)
    return file


def asked(port: int, *requests: int, answer: int) -> bytes:
    """Return that many bytes of what the device says to some requests; fewer if it closes."""
    said = b""
    with socket.create_connection(("127.0.0.1", port), 30) as link:
        link.sendall(bytes(requests))
        while len(said) < answer and (more := link.recv(answer - len(said))):
            said += more
    return said


def alive(pid: int) -> bool:
    """Return whether a process runs; one that ended and waits for its parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Firmware:
    return build_board(written(tmp_path_factory.mktemp("board"), "mps2_an386"), model="probe")


def test_an_unknown_port_is_named() -> None:
    with pytest.raises(ValueError, match="no port 'arduino'; take one of host, mps2_an386"):
        port_files("arduino")
    assert {name for port in PORTS for name in port_files(port)} >= {"host.c", "board.ld"}


def test_a_program_of_this_machine_keeps_running_when_a_gateway_goes(tmp_path: Path) -> None:
    program = build_host(written(tmp_path, "host"), model="probe")
    with host(program, sensor_file(tmp_path, b"abcdef")) as device:
        assert asked(device.port, 202, 4, answer=8) == bytes([0, 0, 7, 9]) + b"abcd"
        assert asked(device.port, 3, answer=3) == b"ef!"
    assert not alive(device.pid)


STARTS_ONE = """
import sys, time
from pathlib import Path
from tools.edge.devices import host
with host(Path(sys.argv[1]), Path(sys.argv[2])) as device:
    print(device.pid, flush=True)
    time.sleep(600)
"""


def test_a_device_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    program = build_host(written(tmp_path, "host"), model="probe")
    words = [sys.executable, "-c", STARTS_ONE, str(program), str(sensor_file(tmp_path, b""))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=tmp_path) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert alive(pid)
        owner.kill()
    until = time.monotonic() + 30
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert not alive(pid)


@TAKES
@pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m0plus"])
def test_a_board_starts_and_has_two_lines(cpu: str, tmp_path: Path) -> None:
    """Memory that must be zero is, constants are copied from flash, and both lines work."""
    firmware = build_board(written(tmp_path, "mps2_an386"), model="probe", cpu=cpu)
    with board(firmware, sensor_file(tmp_path, b"abcdef")) as device:
        assert asked(device.port, 202, 4, answer=8) == bytes([0, 0, 7, 9]) + b"abcd"
        assert asked(device.port, 2, answer=2) == b"ef"
    assert not alive(device.pid)


@TAKES
def test_samples_in_memory_end_where_they_end(tmp_path: Path) -> None:
    folder = written(tmp_path, "mps2_an386")
    firmware = build_board(folder, model="probe", memory=True, counted=True)
    with board(firmware, sensor_file(tmp_path, b"abcdef")) as device:
        assert asked(device.port, 4, 4, answer=8) == b"abcdef!!"
        few, many = device.instructions(2)
        assert 0 < few < 2000
        assert 0 < many < 2000


@TAKES
def test_how_deep_the_stack_went_can_be_seen(probe: Firmware, tmp_path: Path) -> None:
    with board(probe, sensor_file(tmp_path, b"")) as device:
        asked(device.port, 202, answer=4)
        few = device.stack(STACK)
        asked(device.port, 203, answer=4)
        many = device.stack(STACK)
    assert 0 < few < 400
    assert 1024 <= many < STACK


@TAKES
def test_a_fault_is_told_at_once(probe: Firmware, tmp_path: Path) -> None:
    with board(probe, sensor_file(tmp_path, b"")) as device:
        frame = asked(device.port, 200, answer=36)
    assert frame[:2] == b"\xca\x7c"
    assert frame[2:7] == b"n" + (25).to_bytes(4, "little")
    assert frame[7:-4] == b"the processor met a fault"
    assert frame[-4:] == zlib.crc32(frame[2:-4]).to_bytes(4, "little")


@TAKES
def test_a_stack_that_grows_too_far_cannot_reach_the_state(probe: Firmware, tmp_path: Path) -> None:
    """It leaves the memory there is: the processor locks up, and the link is closed."""
    with board(probe, sensor_file(tmp_path, b"")) as device:
        assert b"\0\0\7\11" not in asked(device.port, 201, 202, answer=36)


@TAKES
@pytest.mark.parametrize(
    ("sizes", "region"), [({"code": 256}, "FLASH"), ({"stack": 66_000}, "RAM")]
)
def test_the_linker_refuses_what_does_not_fit(
    sizes: dict[str, int], region: str, tmp_path: Path
) -> None:
    with pytest.raises(DeviceFailedError, match=f"region `{region}' overflowed"):
        build_board(written(tmp_path, "mps2_an386", **sizes), model="probe")
