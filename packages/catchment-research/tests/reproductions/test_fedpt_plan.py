"""The paper's network for federated EMNIST in a plan file: digits of writers, a row a step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catchment.plans import parse_plan, run_plan
from catchment_research.partial import EmnistCnn
from reproductions.data.arrays import read_arrays
from reproductions.places import find

PLAN = """
[data]
files = "people/*.csv"
label = "digit"
recording = "image"
test = 0.25
test_of = "clients"

[learn]
algorithm = "partial"
network = "emnist_cnn"
freeze = ["hidden.*"]
learning_rate = 0.05
server = {name = "momentum", momentum = 0.9}

[run]
rounds = 8
baselines = []
"""


@pytest.mark.skipif(find("mnist_writers") is None, reason="the digits are not on this machine")
def test_the_papers_network_learns_from_files_of_writers(tmp_path: Path) -> None:
    place = find("mnist_writers")
    assert place is not None
    keys = ("train_images", "train_labels", "train_writer")
    held = read_arrays(place.directory / "mnist_writers.npz", keys)
    images, labels, writers = (held[key] for key in keys)
    (tmp_path / "people").mkdir()
    head = ",".join(["image", "digit", *(f"c{k}" for k in range(28))])
    for writer in range(16):
        lines = [
            f"{n},d{labels[at]}," + ",".join(f"{pixel / 255:.3f}" for pixel in row)
            for n, at in enumerate(np.flatnonzero(writers == writer)[:40])
            for row in images[at]
        ]
        (tmp_path / "people" / f"w{writer:02d}.csv").write_text("\n".join([head, *lines, ""]))
    done = run_plan(parse_plan(PLAN, base=tmp_path), tmp_path / "run")
    assert done.scores.total is not None
    assert done.scores.total.value > 0.5  # of four unseen writers; the largest class has a ninth
    last = done.run.rounds["training"][-1]
    module = EmnistCnn(10)
    trained = sum(p.numel() for name, p in module.named_parameters() if "hidden" not in name)
    assert 4 * trained < last.bytes_up / last.n_used < 4 * trained + 1500  # float32 and headers
