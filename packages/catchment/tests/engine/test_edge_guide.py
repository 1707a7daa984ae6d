"""The guide to devices does what it shows: export, compile, start, run."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.test_docs import PIECE, ROOT, run_commands
from tools.fleet.deployment import free_port

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("make")), reason="no gcc here; install build tools"
)
PAGE = ROOT / "docs" / "guides" / "edge.md"


@contextmanager
def started(command: str) -> Iterator[None]:
    """Run a device in the background, from when it says its port."""
    words = shlex.split(command)
    with subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == words[1]
        try:
            yield
        finally:
            process.kill()


def test_from_a_plan_to_a_device_that_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8").replace("7007", str(free_port()))
    names: dict[str, object] = {"__name__": "page"}
    with ExitStack() as stack:
        for language, piece in PIECE.findall(text):
            if language == "toml":
                Path("plan.toml").write_text(piece, encoding="utf-8")
            elif language == "python":
                exec(piece, names)
            else:
                for one in re.findall(r"^\$ (?:.*\n)(?:(?!\$ ).*\n)*", piece, re.MULTILINE):
                    command = one.splitlines()[0].removeprefix("$ ")
                    if command.endswith("&"):
                        stack.enter_context(started(command.removesuffix("&")))
                    elif command.startswith("catchment"):
                        run_commands(one)
                    else:
                        subprocess.run(shlex.split(command), check=True)
    assert capsys.readouterr().out.split() == ["whole", "52", "True"]
