"""Packages beside the core: taken away, each is a sentence with its remedy; others plug in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest

import catchment as ct
from catchment.plugins import KNOWN, Group, extra_of, installed
from catchment.readout import Stored, to_bytes
from catchment.testing import synthetic_clients

GROUPS: tuple[Group, ...] = get_args(Group)
WEARABLES = '[data]\nsource = "wearables"\nusers = 4\n'
FILES = '[data]\nfiles = "lake"\nclient = "who"\ninputs = ["x"]\ntarget = "y"\nper_step = true\n'

# Words after `catchment` that need what a package brings, by group and name.
COMMANDS = {
    "export": "export model.safetensors --to onnx",
    "drop": "drop plan.toml --out inbox",
    "flower": "flower init",
    "audit": "audit plan.toml",
    "data": "data list",
    "search": "search plan.toml",
    "watch": "watch run",
}
OTHERS = {
    ("engines", "device"): "run plan.toml --edge-client board=tcp://127.0.0.1:7007",
    ("engines", "flower"): "run plan.toml --engine flower",
    ("engines", "ray"): "run plan.toml --engine ray",
    ("forms", "torch"): "predict model.safetensors one.csv --device cpu",
    ("readers", "parquet"): "plan lake.toml",
    ("reports", "served"): "diagnose run --client client-0",
    ("models", "network"): "predict network.safetensors one.csv",
    ("models", "prompt"): "predict prompt.safetensors one.csv",
}
PLANS = {
    "maps": WEARABLES + '[features]\nmap = "{}"\n',
    "plasticity": WEARABLES + '[features]\nunits = 5\n[plasticity]\nname = "{}"\n',
    "sources": '[data]\nsource = "{}"\n',
    "algorithms": WEARABLES + '[learn]\nalgorithm = "{}"\n',
    "protections": WEARABLES + '[[protections]]\nname = "{}"\n',
}

TAKEN_AWAY = """
import importlib.abc, importlib.metadata, os, sys

GONE = os.environ["GONE"]

class Nowhere(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == GONE:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

whole = importlib.metadata.distributions
importlib.metadata.distributions = lambda **given: (
    one for one in whole(**given) if one.name.replace("-", "_") != GONE
)
sys.meta_path.insert(0, Nowhere())
"""

COMMAND_LINES = """
import contextlib, io, json, sys
from catchment.cli import main

said = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
            main(words.split())
    except SystemExit as ended:
        said.append([ended.code or 0, out.getvalue(), err.getvalue()])
print(json.dumps(said))
"""


def typed_in(
    folder: Path, lines: Sequence[str], *, beside: Path, gone: str = ""
) -> list[tuple[int, str, str]]:
    """Return exit code, output and errors of command lines, in a process with a path of its own."""
    path = os.pathsep.join([str(beside), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = subprocess.run(
        [sys.executable, "-c", COMMAND_LINES, json.dumps(lines)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "GONE": gone},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with plans, a model, a run and files for every command line above."""
    folder = tmp_path_factory.mktemp("taken-away")
    (folder / "plan.toml").write_text(WEARABLES)
    (folder / "lake.toml").write_text(FILES)
    (folder / "lake").mkdir()
    (folder / "lake" / "part.parquet").write_bytes(b"PAR1")
    for group, text in PLANS.items():
        for brought in KNOWN.values():
            for name in brought.get(group, "").split():
                (folder / f"{group}-{name}.toml").write_text(text.format(name))
    clients = {
        name: [replace(one, channels=("x", "y")) for one in held]
        for name, held in synthetic_clients(3, channels=2, per_step=True).items()
    }
    run = ct.federate(ct.EchoState(8), clients, out=folder / "run")
    run.model.save(folder / "model.safetensors")
    rows = "\n".join(f"{x},{y}" for x, y in clients["client-0"][0].u)
    (folder / "one.csv").write_text(f"x,y\n{rows}\n")
    for kind in ("network", "prompt"):
        held: Any = SimpleNamespace(stored=partial(Stored, kind, {}, {"weights": np.zeros(1)}))
        content = to_bytes(held)
        (folder / f"{kind}.safetensors").write_bytes(content)
    return folder


def words_for(group: str, name: str) -> str:
    """Return a command line that needs what a package brings under a name."""
    if group == "commands":
        return COMMANDS[name]
    return f"plan {group}-{name}.toml" if group in PLANS else OTHERS[group, name]


@pytest.mark.parametrize("extra", KNOWN)
def test_a_package_taken_away_is_one_sentence_with_its_remedy(
    extra: str, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(TAKEN_AWAY)
    brought = [(group, name) for group, names in KNOWN[extra].items() for name in names.split()]
    lines = [words_for(*one) for one in brought]
    said = typed_in(place, lines, beside=tmp_path, gone=f"catchment_{extra}")
    for line, (code, _, err) in zip(lines, said, strict=True):
        assert code == 2, (line, err)
        assert err.count("\n") == 1, (line, err)
        assert f'need an extra; pip install "catchment[{extra}]"' in err, (line, err)


def test_encoder_without_its_package_is_one_sentence_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(TAKEN_AWAY)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = subprocess.run(
        [sys.executable, "-c", "import catchment as ct; ct.Encoder"],
        env={**os.environ, "PYTHONPATH": path, "GONE": "catchment_edge"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 1
    said = 'MissingExtraError: encoders need an extra; pip install "catchment[edge]"'
    assert said in done.stderr.splitlines()[-1]


def test_every_package_here_brings_what_is_said_of_it() -> None:
    found = {(group, name): one for group in GROUPS for name, one in installed(group).items()}
    ours = {at: one.dist.name for at, one in found.items() if one.dist is not None}
    assert ours == {at: f"catchment-{extra_of(*at)}" for at in found}
    known = {(g, n) for brought in KNOWN.values() for g in brought for n in brought[g].split()}
    assert known == set(found)


THIRD = '''
from dataclasses import dataclass

import numpy as np
import typer

from catchment.features import FeatureMap
from catchment.federation.learn import FederatedRidge

@dataclass(frozen=True)
class Means(FeatureMap):
    """The mean of every channel."""

    channels: int = 6
    bounds = property(lambda self: np.full(self.n_features, 1e6))

    @property
    def n_features(self):
        return self.channels

    def compute_rows(self, inputs, threads):
        return [u.mean(axis=0, keepdims=True) for u in inputs]

@dataclass(frozen=True, kw_only=True)
class Firm(FederatedRidge):
    """A ridge that is always strong."""

    ridge: float = 10.0

def greet(name: str) -> None:
    """Say hello."""
    typer.echo(f"hello {name}")
'''
ENTRY_POINTS = """
[catchment.maps]
means = third:Means
[catchment.algorithms]
firm = third:Firm
[catchment.commands]
greet = third:greet
"""


def test_a_third_party_brings_a_map_an_algorithm_and_a_command(tmp_path: Path) -> None:
    beside = tmp_path / "site"
    about = beside / "third-1.0.dist-info"
    about.mkdir(parents=True)
    (beside / "third.py").write_text(THIRD)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: third\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    plan = WEARABLES + '[features]\nmap = "means"\n[learn]\nalgorithm = "firm"\n'
    (tmp_path / "plan.toml").write_text(plan + "[run]\nbaselines = []\n")
    lines = ["greet Ada", "plan plan.toml", "run plan.toml --out run"]
    greeted, checked, ran = typed_in(tmp_path, lines, beside=beside)
    assert greeted[:2] == (0, "hello Ada\n")
    assert checked[0] == 0, checked
    assert ran[0] == 0, ran
    (without,) = typed_in(tmp_path, ["plan plan.toml"], beside=tmp_path)
    assert without[0] == 2
    assert "'means'" in without[2]
