"""Start devices and stop them: an emulated board, or a program of this machine.

A device has its link on a TCP port of the loopback. The port is bound before the emulator starts
and handed to it, so that no two devices ever ask for the same. Each device is a process group of
its own that ends with its `with` block, whatever happens in it; if this process is killed, a shell
that waits for its end ends the device.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 30  # seconds that something may take which takes milliseconds
RAM = 0x20000000  # which begins with the stack
MARK = b"\x5a"  # on what the stack never reached
PSRAM = 0x21000000  # external memory of the board: 16 MB
TICK = 40  # instructions: the clock has 25 MHz, and one instruction is counted as a nanosecond
QEMU = ("qemu-system-arm", "-M", "mps2-an386", "-nographic", "-nodefaults")


class DeviceFailedError(RuntimeError):
    """A device could not be built or started."""


@dataclass(frozen=True)
class Firmware:
    """A program for the board, and what the linker gave it.

    Parameters
    ----------
    flash, ram
        Bytes of code and constants, and of RAM with the reserved stack.
    memory
        Whether it takes the sensor's bytes from external memory and not from its second line.
    counted
        Whether it tells how many instructions each answer took.
    """

    elf: Path
    flash: int
    ram: int
    memory: bool = False
    counted: bool = False


@dataclass(frozen=True)
class Running:
    """A device that runs: where its link is, and where it writes how long answers took."""

    port: int
    pid: int
    counts: Path | None = None
    monitor: Path | None = None

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def stack(self, length: int) -> int:
        """Return how many bytes of a board's stack were ever used, of those that are reserved."""
        if self.monitor is None:
            raise ValueError("only a board has a stack of its own; start one with board")
        kept = self.monitor.with_name(f"{self.monitor.name}.stack")
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(PATIENCE)
            line.connect(str(self.monitor))
            line.sendall(f'pmemsave {RAM} {length} "{kept}"\n'.encode())
            said = b""
            while said.count(b"(qemu) ") < 2 and (more := line.recv(4096)):
                said += more
        return len(kept.read_bytes().lstrip(MARK))

    def instructions(self, answers: int) -> list[int]:
        """Return how many instructions each of the first answers took, to 40, as qemu counts."""
        if self.counts is None:
            raise ValueError("this firmware does not count; build it with counted=True")
        lines: list[str] = []
        until = time.monotonic() + PATIENCE
        while len(lines) < answers:  # a line is written after its answer
            if time.monotonic() > until:
                raise DeviceFailedError(f"{len(lines)} of {answers} counts came; ask for fewer")
            time.sleep(0.01)
            lines = [line for line in self.counts.read_text().splitlines(True) if line[-1] == "\n"]
        return [TICK * int(line, 16) for line in lines[:answers]]


def build_board(
    folder: Path,
    *,
    model: str = "model",
    cpu: str = "cortex-m4",
    memory: bool = False,
    counted: bool = False,
) -> Firmware:
    """Return the firmware of an exported folder; DeviceFailedError with the linker's words."""
    defines = (["-DSENSOR_MEMORY"] if memory else []) + (["-DCOUNT_TICKS"] if counted else [])
    _make(folder, f"CPU={cpu}", f"DEFINES={' '.join(defines)}")
    elf = folder / f"{model}.elf"
    listed = _run(["arm-none-eabi-size", str(elf)]).splitlines()[1].split()
    text, data, bss = (int(number) for number in listed[:3])
    return Firmware(elf, text + data, data + bss, memory, counted)


def build_host(folder: Path, *, model: str = "model") -> Path:
    """Return the program that an exported folder with the port `host` makes."""
    _make(folder)
    return folder / model


@contextlib.contextmanager
def board(firmware: Firmware, sensor: Path) -> Iterator[Running]:
    """Start a board with this firmware; `sensor` is a file, or a pipe, of the sensor's bytes."""
    counts = firmware.elf.with_name(f"{sensor.name}.counts") if firmware.counted else None
    words = [*QEMU, "-kernel", str(firmware.elf)]
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        words += _serial("link", f"socket,fd={listener.fileno()},server=on,wait=off")
        words += _serial("sensor", "null" if firmware.memory else "stdio,signal=off")
        # A path of a socket must be short, which that of a test's folder may not be.
        monitor = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edge-"))) / "monitor"
        words += ["-monitor", f"unix:{monitor},server=on,wait=off"]
        if counts is not None:
            words += _serial("counts", f"file,path={counts}")
            words += ["-icount", "shift=0,sleep=off"]
        if firmware.memory:
            words += ["-device", f"loader,file={_kept(sensor)},addr={PSRAM},force-raw=on"]
        stdin = stack.enter_context(open(os.devnull if firmware.memory else sensor, "rb"))  # noqa: PTH123
        pid = stack.enter_context(_process(words, stdin.fileno(), listener.fileno())).pid
        port = listener.getsockname()[1]
        listener.close()
        yield Running(port, pid, counts, monitor)


@contextlib.contextmanager
def host(program: Path, sensor: Path) -> Iterator[Running]:
    """Start a device as a program of this machine."""
    words = [str(program), "0", str(sensor)]
    with _process(words, subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise DeviceFailedError(f"{program} ended with {process.wait()}; run it by hand")
        yield Running(int(line), process.pid)


def _kept(sensor: Path) -> Path:
    """Return a file of the sensor's bytes as the board's memory holds them: their number first."""
    content = sensor.read_bytes()
    kept = sensor.with_name(f"{sensor.name}.memory")
    kept.write_bytes(len(content).to_bytes(4, "little") + content)
    return kept


def _serial(name: str, backend: str) -> list[str]:
    kind, _, rest = backend.partition(",")
    return [
        "-chardev",
        f"{kind},id={name}" + (f",{rest}" if rest else ""),
        "-serial",
        f"chardev:{name}",
    ]


@contextlib.contextmanager
def _process(
    words: Sequence[str],
    stdin: int,
    *kept: int,
    stdout: int = subprocess.DEVNULL,
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        words,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        pass_fds=kept,
        start_new_session=True,
    )
    watcher = _killed_with_us(process.pid)
    try:
        yield process
    finally:
        _end(watcher)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _killed_with_us(group: int) -> subprocess.Popen[bytes]:
    """Start a shell that ends a process group when the pipe from this process is closed."""
    words = ["sh", "-c", 'read -r _; kill -9 "-$0"', str(group)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)


def _end(watcher: subprocess.Popen[bytes]) -> None:
    watcher.kill()
    watcher.wait()
    if watcher.stdin is not None:
        watcher.stdin.close()


def _make(folder: Path, *words: str) -> None:
    _run(["make", "-B", "-C", str(folder), *words])


def _run(words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeviceFailedError(f"{' '.join(words)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout
