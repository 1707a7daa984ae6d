"""Costs: the published figures to the digit, and what a real round sends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

from catchment.engine import run_locally
from catchment.federation import Plan
from catchment_research.prompt import EdgeController
from reproductions.__main__ import app
from reproductions.prompt_cost import (
    SENTIMENT_RUNS,
    SIZES,
    Setting,
    Size,
    break_even,
    corrected,
    frozen,
    messages,
    published,
    reservoir_flops,
)
from reproductions.prompt_runs import Float32
from tests.prompt.world import training, waves

ROOT = Path(__file__).parents[4]


def test_the_published_table_is_reproduced() -> None:
    rows = [published(size) for size in SIZES]
    assert rows[0].prompt_bytes / 1024 == 60
    assert f"{rows[0].lora_bytes / 1024**2:.1f}" == "2.2"
    assert rows[0].prompt_flops == 1_203_232
    assert [row.bytes_ratio for row in rows] == pytest.approx([38.4, 115.2, 76.8, 102.4, 128.0])
    ratios = [27_106, 225_884, 385_509, 2_056_047, 4_015_716]
    assert [round(row.flops_ratio) for row in rows] == ratios


def test_the_corrected_table_is_reproduced() -> None:
    one, many = ([corrected(size, n) for size in SIZES] for n in (1, 32))
    assert [round(row.bytes_ratio, 1) for row in one] == [2.2, 6.7, 4.5, 6.0, 7.5]
    assert [round(row.bytes_ratio, 2) for row in many] == [0.79, 2.39, 1.59, 2.13, 2.66]
    assert [round(break_even(size)) for size in SIZES] == [22, 99, 61, 86, 112]
    ratios = [6_786, 49_028, 69_758, 257_735, 436_355]
    assert [round(row.flops_ratio) for row in many] == ratios
    # What the table leaves out for GPT-2: the controller, one way.
    setting, size = Setting(), SIZES[0]
    controller = setting.bottleneck * (setting.features + setting.prompt_floats(size))
    assert 2 * 4 * controller / 1024 == pytest.approx(985, abs=1)


def test_the_published_runs_on_sst2_are_reproduced() -> None:
    assert [round(run.claimed, 1) for run in SENTIMENT_RUNS] == [8.9, 13.7, 10.8, 19.0, 12.8, 25.4]
    assert [round(run.two_way, 2) for run in SENTIMENT_RUNS] == [0.55, 0.83, 0.65, 1.13, 0.76, 1.51]
    # Their controllers are 200 features of 16 numbers, and prompts of 4 vectors.
    assert all(16 * (200 + 4 * run.width) == run.controller_floats for run in SENTIMENT_RUNS)


def test_seed_frozen_prompts_send_hundreds_of_times_less_than_whole_ones() -> None:
    setting = Setting()
    per_example = [setting.prompt_floats(size) / setting.bottleneck for size in SIZES]
    assert per_example[0] == 480
    assert per_example[-1] == 3200
    row = frozen(SIZES[0], 32)
    assert row.controller_floats == 2 * 3232
    assert frozen(SIZES[0], 32, reservoir=False).controller_floats == 2 * 16
    assert row.bytes < corrected(SIZES[0], 32).prompt_bytes / 90


def test_operations_are_those_that_torch_counts() -> None:
    setting = Setting(units=20, inputs=1, steps=7, bottleneck=3, length=2)
    d, k, F = 5, 3, 22
    W, W_in = torch.randn(20, 20), torch.randn(20, 2)
    W_out, P = torch.randn(k, F, requires_grad=True), torch.randn(10, k, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        x = torch.zeros(20, 1)
        for _ in range(7):
            u = torch.ones(2, 1)
            x = 0.5 * x + 0.5 * torch.tanh(W @ x + W_in @ u)
        z = torch.cat([u, x])
        (P @ (W_out @ z)).sum().backward()  # type: ignore[no-untyped-call]
    each = setting.steps * setting.units
    # It counts products of matrices only: the additions, activations and leaks are the other 5.
    ours = corrected(Size("", d, 1), 1, setting).prompt_flops - 5 * each
    assert counter.get_total_flops() == ours
    assert reservoir_flops(setting) == 5 * each + 7 * 2 * 20 * (20 + 2)


def test_messages_are_what_a_real_round_sends() -> None:
    algorithm = training(batch_size=16)
    controller: EdgeController = algorithm.controller
    held = [type(e)(e.label, e.u) for e in waves(40, 1)]
    result = run_locally(Plan(algorithm=algorithm, protections=(Float32(),)), {"a": held})
    seen = algorithm.server.traffic["training"]  # type: ignore[attr-defined]
    setting = Setting(units=15, bottleneck=6, length=3, labels=3)
    assert setting.features == controller.n_features
    up, down = messages(Size("", 12, 1), 40, setting)
    assert seen.bytes_up + result.records[0].bytes_up == up
    # The broadcast also has an envelope with the plan and the round.
    assert 0 <= seen.bytes_down + result.records[0].bytes_down - down < 400
    counted = frozen(Size("", 12, 1), 40, setting).bytes
    assert counted < up + down < counted + 3000


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="labels is 1; pass at least 2"):
        Setting(labels=1)
    with pytest.raises(ValueError, match="rank is 0"):
        Setting(rank=0)


def test_the_command_prints_and_speaks_json() -> None:
    printed = CliRunner().invoke(app, ["cost"])
    assert printed.exit_code == 0
    assert all(text in printed.output for text in ("60 KB", "2.2 MB", "38.4", "27,106", "0.79"))
    cells = json.loads((ROOT / "results" / "fedresprompt.json").read_text("utf-8"))["cells"]
    sent = {
        method: sum(
            cell["bytes_up"] + cell["bytes_down"]
            for cell in cells
            if (cell["job"]["task"], cell["job"]["search"]) == ("sst2", False)
            and cell["job"]["variant"]["method"] == method
            and not cell["job"]["variant"].get("rounds")
        )
        for method in ("lora", "published")
    }
    assert f"; {sent['lora'] / sent['published']:.1f} times (" in printed.output
    said = json.loads(CliRunner().invoke(app, ["cost", "--json", "--examples", "1"]).output)
    assert said["published"][0]["FLOPs ratio"] == 27106
    assert said["corrected"][0]["bytes ratio"] == 2.2
    assert said["sst2"][0]["true"] == 0.55
    assert said["frozen"][0]["bytes"] < said["frozen"][0]["message bytes"]
    assert CliRunner().invoke(app, ["cost", "--examples", "0"]).exit_code == 2
