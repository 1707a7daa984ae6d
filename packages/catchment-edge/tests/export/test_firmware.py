"""Trees for boards: what the boards' own tools make of them, and what runs of them here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

import catchment as ct
from catchment.cli import main
from catchment.data import synthetic_wearables
from catchment.readout import Model
from catchment_edge import c_code, lags_c_code

AVR_CORE = Path("/usr/share/arduino/hardware/arduino/avr")
BOARDS = ("arduino", "zephyr", "esp-idf", "platformio", "micropython")
LOOKBACK, HORIZON = 48, 12


@pytest.fixture(scope="module")
def model() -> Model:
    people = synthetic_wearables(4, windows_per_user=6, steps=100)
    data = [recording for person in people.values() for recording in person]
    return ct.fit(ct.Pipeline(ct.Preprocessing(window=50), ct.EchoState(20)), data)


@pytest.fixture(scope="module")
def number() -> Model:
    rng = np.random.default_rng(0)
    data = [ct.Recording(rng.normal(size=(50, 2)), np.array([k % 3.0])) for k in range(12)]
    return ct.fit(ct.EchoState(20), data)


def trees(model: Model, number: Model, target: str) -> Iterator[Mapping[str, str]]:
    yield c_code(model, name="wrist").firmware(target)
    yield c_code(number, name="speed").firmware(target)
    yield lags_c_code(LOOKBACK, HORIZON, board=target)


def written(tree: Mapping[str, str], folder: Path) -> Path:
    for path, text in tree.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def ran(*command: str | Path, cwd: Path | None = None) -> str:
    given = [*map(str, command)]
    done = subprocess.run(given, cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("target", BOARDS)
def test_a_tree_has_the_sources_and_no_mark_left(target: str, model: Model, number: Model) -> None:
    for tree in trees(model, number, target):
        assert any(path.endswith(".c") and path.startswith("src/") for path in tree)
        for path, text in tree.items():
            assert not re.search("@[A-Z_]+@", path + text), path
    assert (
        c_code(model, name="wrist").firmware(target)["src/wrist.c"]
        == c_code(model, name="wrist").source
    )


PLAN = """
[data]
files = "*.csv"
inputs = ["load"]
[preprocessing]
horizon = [1, 24]
[features]
map = "nvar"
order = 1
delays = 96
[learn]
algorithm = "{}"
"""


def test_the_command_writes_a_tree_once(
    model: Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    model.save("wrist.safetensors")
    Path("lags.toml").write_text(PLAN.format("yule_walker"))
    Path("ridge.toml").write_text(PLAN.format("ridge"))
    commands = {
        "wrist.safetensors --to esp-idf --name wrist": 0,
        "lags.toml --train --to zephyr": 0,
        "ridge.toml --train --to zephyr": 1,  # has no tree
        "lags.toml --train --to arduino": 1,  # the folder is there already
        "lags.toml --train --to arduino --name wrist": 1,  # the files are called lags
    }
    for command, status in commands.items():
        with pytest.raises(SystemExit) as ended:
            main(["export", *command.split()])
        assert bool(ended.value.code) == bool(status), command
    said = capsys.readouterr().err
    assert "export --train --to c for any other plan" in said
    assert "name an empty folder with --out" in said
    assert "--name, --rows, --port and --masks are for --train --to c" in said
    assert Path("wrist/idf_component.yml").exists()
    assert "#define LAGS 120" in Path("lags/src/lags.h").read_text()


def test_an_unknown_target_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="take one of arduino, zephyr"):
        lags_c_code(LOOKBACK, HORIZON, board="pico")


def test_a_library_for_arduino_keeps_the_rules_of_its_linter(model: Model, number: Model) -> None:
    for tree in trees(model, number, "arduino"):
        lines = tree["library.properties"].splitlines()
        fields = dict(line.split("=", 1) for line in lines)
        assert {"name", "version", "author", "maintainer", "sentence", "paragraph", "category",
                "url", "architectures"} <= fields.keys()  # fmt: skip
        assert all(fields.values())
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,62}", fields["name"])
        assert "arduino" not in fields["name"].lower()
        assert re.fullmatch(r"\d+\.\d+\.\d+", fields["version"])
        assert f"src/{fields['includes']}" in tree
        (sketch,) = (Path(path) for path in tree if path.endswith(".ino"))
        assert sketch.stem == sketch.parent.name  # the IDE opens no other
        words = (line.split("\t") for line in tree["keywords.txt"].splitlines())
        assert all(len(word) == 2 and word[1] == "KEYWORD2" for word in words)


def test_sketches_compile_with_the_core_of_arduino(
    model: Model, number: Model, tmp_path: Path
) -> None:
    cpp, c = program("avr-g++"), program("avr-gcc")
    if not AVR_CORE.exists():
        pytest.skip("arduino-core-avr is not installed")
    board = ("-Os", "-mmcu=atmega2560", "-DF_CPU=16000000L", "-DARDUINO=10819", "-Wall", "-Werror")
    for k, tree in enumerate(trees(model, number, "arduino")):
        folder = written(tree, tmp_path / str(k))
        (sketch,) = folder.rglob("*.ino")
        (folder / "sketch.cpp").write_text("#include <Arduino.h>\n" + sketch.read_text())
        includes = [f"-I{AVR_CORE / 'cores/arduino'}", f"-I{AVR_CORE / 'variants/mega'}"]
        includes.append(f"-I{folder / 'src'}")
        ran(cpp, "-std=gnu++11", *board, *includes, "-c", "sketch.cpp", cwd=folder)
        for source in (folder / "src").glob("*.c"):
            ran(c, "-std=c99", *board, *includes, "-c", source, cwd=folder)


def test_platformio_packs_the_library(model: Model, number: Model, tmp_path: Path) -> None:
    for k, tree in enumerate(trees(model, number, "platformio")):
        folder = written(tree, tmp_path / str(k))
        told = json.loads(tree["library.json"])
        assert f"src/{told['headers']}" in tree
        (example,) = told["examples"]
        assert f"{example['base']}/{example['files'][0]}" in tree
        if shutil.which("pio"):
            said = ran("pio", "pkg", "pack", "-o", tmp_path / f"{k}.tar.gz", cwd=folder)
            assert "Wrote a tarball" in said


def test_the_component_manager_packs_the_component(
    model: Model, number: Model, tmp_path: Path
) -> None:
    compote = program("compote")
    for k, tree in enumerate(trees(model, number, "esp-idf")):
        folder = written(tree, tmp_path / str(k))
        ran(compote, "component", "pack", "--name", "one", "--dest-dir", tmp_path, cwd=folder)


def test_the_example_for_esp_idf_says_what_the_model_says(model: Model, tmp_path: Path) -> None:
    """Its main.c needs C's library alone, so it runs here as it is."""
    folder = written(c_code(model, name="wrist").firmware("esp-idf"), tmp_path)
    (main,) = folder.rglob("main.c")
    ran("gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-Dapp_main=main", "-Wno-main",
        f"-I{folder / 'src'}", main, folder / "src" / "wrist.c", "-o", folder / "run")  # fmt: skip
    new = synthetic_wearables(5, windows_per_user=2, steps=100)["user-004"][0]
    lines = "".join(" ".join(f"{x:.17g}" for x in row) + "\n" for row in new.u)
    said = first_lines(folder / "run", lines, 2)
    assert model.classes is not None
    assert said == [model.classes[k] for k in model.outputs(new)[0].argmax(axis=1)]


def test_the_example_of_lags_sends_the_sums_of_the_series(tmp_path: Path) -> None:
    folder = written(lags_c_code(LOOKBACK, HORIZON, board="esp-idf"), tmp_path)
    (main,) = folder.rglob("main.c")
    ran("gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-Dapp_main=main", "-Wno-main",
        f"-I{folder / 'src'}", main, folder / "src" / "lags.c", "-o", folder / "run")  # fmt: skip
    x = np.random.default_rng(1).normal(size=200)
    lines = "".join(f"{value:.17g}\n" for value in x) + "send\n"
    said = first_lines(folder / "run", lines, LOOKBACK + HORIZON)
    whole = np.rint(x * 4096).astype(int)
    expected = [(whole[k:] @ whole[: 200 - k], 200 - k) for k in range(LOOKBACK + HORIZON)]
    assert said == [f"{product} {pairs}" for product, pairs in expected]


def first_lines(path: Path, lines: str, n: int) -> list[str]:
    """Return the first lines that a program, which never ends, writes of a whole input."""
    with subprocess.Popen(
        ["stdbuf", "-oL", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines)
        process.stdin.close()
        found = [process.stdout.readline().strip() for _ in range(n)]
        process.kill()
    return found


ZEPHYR = """
cmake_minimum_required(VERSION 3.20)
project(zephyr_of_one_module C)
set(CONFIG_@UPPER@ y)
set(CONFIG_@UPPER@_SELFTEST y)
macro(zephyr_include_directories)
  include_directories(${ARGN})
endmacro()
macro(zephyr_library)
  add_library(module)
endmacro()
macro(zephyr_library_sources)
  target_sources(module PRIVATE ${ARGN})
endmacro()
macro(zephyr_compile_definitions)
  target_compile_definitions(module PRIVATE ${ARGN})
endmacro()
include(zephyr/CMakeLists.txt)
"""


def test_cmake_builds_the_module_for_zephyr(model: Model, tmp_path: Path) -> None:
    """Zephyr itself is not to be had here: its four functions are macros with their meaning."""
    cmake = program("cmake")
    folder = written(c_code(model, name="wrist").firmware("zephyr"), tmp_path / "tree")
    here = "${CMAKE_CURRENT_SOURCE_DIR}"
    text = (folder / "zephyr/CMakeLists.txt").read_text().replace(f"{here}/..", here)
    (folder / "zephyr/CMakeLists.txt").write_text(text)
    (folder / "CMakeLists.txt").write_text(ZEPHYR.replace("@UPPER@", "WRIST"))
    ran(cmake, "-S", folder, "-B", tmp_path / "build")
    ran(cmake, "--build", tmp_path / "build")
    assert "wrist_selftest" in ran("nm", tmp_path / "build" / "libmodule.a")
    assert "CONFIG_WRIST=y" in (folder / "samples/stream/prj.conf").read_text()


USE = """
import {name}
{body}
"""


@pytest.mark.skipif("MPY_DIR" not in os.environ, reason="MPY_DIR names no tree of MicroPython")
def test_micropython_imports_the_native_modules(
    model: Model, number: Model, tmp_path: Path
) -> None:
    """Built by MicroPython's own linker, run by its unix port."""
    home = Path(os.environ["MPY_DIR"])
    new = synthetic_wearables(5, windows_per_user=2, steps=100)["user-004"][0]
    body = f"out = [s for s in map(wrist.step, {new.u.tolist()}) if s]\nprint(out)"
    for k, tree in enumerate(trees(model, number, "micropython")):
        folder = written(tree, tmp_path / str(k))
        known = (f"MPY_DIR={home}", f"PYTHON={os.environ.get('MPY_PYTHON', 'python3')}")
        for architecture in ("armv7emsp", "x64"):
            ran("make", "clean", *known, cwd=folder)
            ran("make", *known, f"ARCH={architecture}", cwd=folder)
    whole = np.rint(np.arange(80) % 7 * 4096 / 8).astype(int)
    body_of_lags = "for i in range(80): lags.feed(lags.fixed(i % 7 / 8, 0.0, 1.0))\n"
    body_of_lags += "print([(h * 2**32 + l, n) for h, l, n in lags.sums()])"
    for k, name, code in ((0, "wrist", body), (2, "lags", body_of_lags)):
        script = tmp_path / str(k) / "use.py"
        script.write_text(USE.format(name=name, body=code))
        said = json.loads(
            ran(home / "ports/unix/build-standard/micropython", script.name, cwd=script.parent)
            .replace("(", "[")
            .replace(")", "]")
        )
        if name == "wrist":
            np.testing.assert_allclose(said, model.outputs(new)[0], atol=1e-6)
        else:
            lags = range(LOOKBACK + HORIZON)
            assert said == [[int(whole[k:] @ whole[: 80 - k]), 80 - k] for k in lags]
