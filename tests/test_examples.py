"""Every example runs, and the numbers it prints keep what the README says of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from catchment import ONCE
from reproductions.places import find, packed_directory

ROOT = Path(__file__).parents[1]
EXAMPLES = {path.stem for path in (ROOT / "examples").glob("*.py")}
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(map(str, ROOT.glob("packages/*/src"))),
    "PYTHONIOENCODING": "utf-8",
    # Other tests run at the same time; threads of small products would wait for their cores.
    "OPENBLAS_NUM_THREADS": "1",
}
REAL = ("japanese_vowels", "uci_har")


def run(name: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one example as a user would, from another folder."""
    return subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py", *arguments],
        cwd=folder,
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def printed(name: str, folder: Path, *arguments: str) -> dict[str, list[float]]:
    """Return the numbers in each line of an example's table, by the words before them."""
    done = run(name, folder, "--quick", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr.removeprefix(f"{ONCE}\n") == ""
    rows = re.findall(r"^(\S.*?) {2,}(\d.*)$|^(\S.*\S) (\d\.\d{4}.*)$", done.stdout, re.MULTILINE)
    return {
        (a or c): [float(value) for value in re.findall(r"\d+\.\d{4}", b or d)]
        for a, b, c, d in rows
    }


def test_narma(tmp_path: Path) -> None:
    table = printed("narma", tmp_path)
    assert table["mean of the target"][0] == pytest.approx(1.0, abs=0.05)
    assert table["linear, last 30 inputs"][0] > 0.3
    assert table["reservoir, N = 200"][0] <= 0.213
    assert table["reservoir, N = 400"][0] <= 0.145


def test_forecast_mackey_glass(tmp_path: Path) -> None:
    table = printed("forecast_mackey_glass", tmp_path, "--picture", "forecast.png")
    clean, _, noisy, _ = table["reservoir, N = 300"]
    assert clean < 0.01 < table["linear autoregression"][0] < table["last value"][0]
    assert noisy < 0.5 * table["linear autoregression"][2]
    assert 0.8 < table["coverage, 90 % asked"][0] <= 1.0
    assert (tmp_path / "forecast.png").read_bytes().startswith(b"\x89PNG")


def test_forecast_many(tmp_path: Path) -> None:
    table = printed("forecast_many", tmp_path)
    naive, shared, own = (table[name] for name in ("same hour yesterday", "shared", "personal"))
    assert all(ours < 0.7 * theirs for ours, theirs in zip(shared, naive, strict=True))
    assert sum(own) < sum(shared)
    assert all(0.85 < share < 0.95 for share in table["inside 90 % intervals"])


def test_sensor_folder(tmp_path: Path) -> None:
    table = printed("sensor_folder", tmp_path)
    assert table["reservoir, saved and loaded"][0] < 0.4
    assert 0.7 < table["linear in the weather now"][0] < table["mean level"][0] < 1.05


def test_online(tmp_path: Path) -> None:
    table = printed("online", tmp_path)
    naive = table["last value"][0]
    assert table["learns on, forgetting 0.995"][0] < 0.7 < naive
    assert table["learns on, window of 500"][0] < 0.8
    assert table["learned before the change only"][0] > naive
    assert table["learns on, forgets nothing"][0] > naive


def test_remaining_life(tmp_path: Path) -> None:
    done = run("remaining_life", tmp_path)
    assert done.returncode == 0, done.stderr
    error, share = re.findall(r"wrong by (\S+) cycles|hold (\d+) %", done.stdout)
    assert float(error[0]) < 10.0
    assert 82 <= int(share[1]) <= 97


def test_new_class(tmp_path: Path) -> None:
    done = run("new_class", tmp_path)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^([^\d\n]+?) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", done.stdout, re.M)
    table = {name: [float(value) for value in values] for name, *values in found}
    assert min(table["two classes"][:2]) > 0.95
    assert min(table["grown by dora"][:3]) > 0.95
    assert table["may say unknown"][3] > 0.95
    assert 1.7 < sum(table["may say unknown"][:2]) < 2.0
    assert done.stdout.count("to the bit: True") == 2


def test_fleet_over_weeks(tmp_path: Path) -> None:
    done = run("fleet_over_weeks", tmp_path, "--quick", "--picture", "weeks.png")
    assert done.returncode == 0, done.stderr
    whole, worn, _ = re.split(r"^mean NRMSE of .*$", done.stdout, flags=re.MULTILINE)[1:]
    for part in (whole, worn):
        own, shared = (
            float(re.findall(rf"^{name}, forgetting 0.7 +(\S+)$", part, re.MULTILINE)[0])
            for name in ("personal", "shared")
        )
        assert own < 0.85 * shared
    noticed = dict(re.findall(r"^ +(\d+) .*?\d {2}(pump.*)$", done.stdout, re.MULTILINE))
    assert noticed == {"14": "pump 7 (inputs)", "15": "pump 3 (errors), pump 7 (inputs)"}
    assert (tmp_path / "weeks.png").read_bytes().startswith(b"\x89PNG")


def data_directory(name: str) -> str:
    if find(name) is None:
        pytest.skip(f"{name} is not on this machine")
    return str(packed_directory(name))


def test_japanese_vowels(tmp_path: Path) -> None:
    table = printed("japanese_vowels", tmp_path, "--data", data_directory("japanese_vowels"))
    assert table["largest class"][0] < 0.15
    assert table["ridge on the mean frame"][0] < 0.9
    assert table["ridge on six summaries"][0] > 0.97  # as good as the reservoir: said in the docs
    assert table["reservoir, N = 120"][0] >= 0.976


def test_uci_har(tmp_path: Path) -> None:
    table = printed("uci_har", tmp_path, "--data", data_directory("uci_har"))
    assert table["largest class"][0] < 0.2
    assert table["ridge on channel means and sds"][0] < 0.85
    assert table["reservoir, N = 120, federated"][0] >= 0.918


def test_anomalies(tmp_path: Path) -> None:
    done = run("anomalies", tmp_path)
    assert done.returncode == 0, done.stderr
    shares = re.findall(r"([\d.]+)% +(\d+)%", done.stdout)
    assert len(shares) == 2
    assert all(float(false) < 3 and float(seen) > 50 for false, seen in shares)


@pytest.mark.parametrize("name", REAL)
def test_missing_data_is_one_sentence(name: str, tmp_path: Path) -> None:
    done = run(name, tmp_path, "--data", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith(f"{name} (")
    assert "Traceback" not in done.stderr


def test_every_example_is_run_here() -> None:
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert tested >= EXAMPLES >= set(REAL)
