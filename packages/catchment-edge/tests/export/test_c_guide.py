"""The guide's session: train, export, compile, run, and the same classes as in Python."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from catchment.cli import main
from tests.export.compiled import build

PAGE = Path(__file__).parents[4] / "docs" / "guides" / "export-c.md"
BLOCK = re.compile(r"^```(python|c)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[\d,]*\d")


def test_the_program_of_the_guide_says_what_the_library_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    page = text[text.index("\n## C\n") : text.index("\n### Integers")]
    found: dict[str, list[str]] = {"python": [], "c": []}
    for language, block in BLOCK.findall(page):
        found[language].append(block)
    names: dict[str, Any] = {}
    for block in found["python"]:
        exec(block, names)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["export", "wrist.safetensors", "--to", "c", "--name", "wrist", "--out", "device"])
    printed = "".join(capsys.readouterr())
    shown = re.search(r"^\$ catchment export wrist.*?\n(.*?)^```", page, re.M | re.S)
    assert shown is not None
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown[1])
    for ours, theirs in zip(NUMBER.findall(printed), NUMBER.findall(shown[1]), strict=True):
        assert int(ours.replace(",", "")) == pytest.approx(int(theirs.replace(",", "")), rel=0.02)
    Path("main.c").write_text(found["c"][0])
    build(["-O1", "-DWRIST_SELFTEST", "-Idevice", "device/wrist.c", "main.c", "-o", "wrist"])
    samples = Path("samples.txt").read_text()
    done = subprocess.run(["./wrist"], input=samples, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == names["model"].predict(names["new"])
