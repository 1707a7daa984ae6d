"""`python -m reproductions cost`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli import JsonOption, print_json, print_table

if TYPE_CHECKING:
    from reproductions.prompt_cost import Size

Row = dict[str, str | int | float]
ROOT = Path(__file__).resolve().parents[3]


def cost(
    examples: Annotated[
        int, typer.Option(min=1, help="Examples that a client asks about in a round.")
    ] = 32,
    labels: Annotated[int, typer.Option(min=2, help="Label words.")] = 2,
    bottleneck: Annotated[
        int, typer.Option(min=1, help="Numbers per prompt, in our variant.")
    ] = 16,
    as_json: JsonOption = False,
) -> None:
    """Show what reservoir prompts cost beside federated LoRA: as published, corrected, and ours."""
    from reproductions.prompt_cost import SENTIMENT_RUNS, SIZES

    ours = [_ours(size, examples, labels, bottleneck) for size in SIZES]
    tables: dict[str, tuple[str, list[Row]]] = {
        "published": (
            "As published: the prompt of one example against a round of LoRA (KB of 1024 bytes)",
            [_published(size) for size in SIZES],
        ),
        "corrected": (
            f"Corrected: everything that one client and round send, {examples} examples; "
            "FLOPs of one",
            [_corrected(size, examples) for size in SIZES],
        ),
        "sst2": (
            "The published runs on SST-2: floats of LoRA over those of prompts",
            [
                {"model": r.model, "claimed": round(r.claimed, 1), "true": round(r.two_way, 2)}
                for r in SENTIMENT_RUNS
            ],
        ),
        "frozen": (
            f"Ours, P from a seed and labels kept: {examples} examples, {labels} label words, "
            f"bottleneck {bottleneck}",
            ours,
        ),
    }
    if as_json:
        print_json({name: rows for name, (_, rows) in tables.items()})
        return
    for name, (heading, rows) in tables.items():
        cells = [[_cell(v, name, column) for column, v in row.items()] for row in rows]
        typer.echo(heading)
        print_table(tuple(rows[0]), cells, right=tuple(rows[0])[1:])
        typer.echo("")
    typer.echo("Tokens of contexts are not counted; `message bytes` has every header.")
    typer.echo(_whole_trainings())


def _whole_trainings() -> str:
    """Return what was measured of whole trainings, beside which a round says little."""
    from reproductions.claims import Results
    from reproductions.claims_prompts import KINDS, cells_of, fewer_in_all

    results = Results(ROOT / "results", ROOT / "benchmarks" / "results")
    lora = cells_of(results, "sst2", "lora")
    told = []
    for method, name in KINDS.items():
        fewer = fewer_in_all(cells_of(results, "sst2", method), lora)
        told.append(f"{fewer[0]:.1f} times ({fewer[1]:.1f} with the model on a server) {name}")
    return (
        "These are of one round. A whole training on SST-2 sent fewer bytes than LoRA's: "
        f"{'; '.join(told)}."
    )


def _about(size: Size) -> Row:
    return {"model": size.name, "width": size.width, "layers": size.layers}


def _published(size: Size) -> Row:
    from reproductions.prompt_cost import published

    row = published(size)
    return {
        **_about(size),
        "prompt bytes": row.prompt_bytes,
        "LoRA bytes": row.lora_bytes,
        "bytes ratio": round(row.bytes_ratio, 1),
        "prompt FLOPs": row.prompt_flops,
        "LoRA FLOPs": row.lora_flops,
        "FLOPs ratio": round(row.flops_ratio),
    }


def _corrected(size: Size, examples: int) -> Row:
    from reproductions.prompt_cost import break_even, corrected

    row = corrected(size, examples)
    return {
        **_about(size),
        "prompt bytes": row.prompt_bytes,
        "LoRA bytes": row.lora_bytes,
        "bytes ratio": round(row.bytes_ratio, 2),
        "break-even examples": round(break_even(size)),
        "FLOPs ratio": round(row.flops_ratio),
    }


def _ours(size: Size, examples: int, labels: int, bottleneck: int) -> Row:
    from reproductions.prompt_cost import Setting, frozen, messages

    setting = Setting(labels=labels, bottleneck=bottleneck)
    row = frozen(size, examples, setting)
    constant = frozen(size, examples, setting, reservoir=False)
    return {
        **_about(size),
        "bytes": row.bytes,
        "message bytes": sum(messages(size, examples, setting)),
        "bytes ratio": round(row.bytes_ratio, 1),
        "without reservoir": round(constant.bytes_ratio, 1),
        "model at client": round(row.local_ratio, 1),
        "both": round(constant.local_ratio, 1),
    }


def _cell(value: str | float, table: str, column: str) -> str:
    """Return a number as people write it; bytes of the published table as they are there."""
    if table == "published" and column.endswith("bytes") and isinstance(value, int):
        return f"{value / 2**20:.1f} MB" if value >= 2**20 else f"{value / 2**10:.0f} KB"
    if isinstance(value, int):
        return f"{value:.3g}" if value >= 10**9 else f"{value:,}"
    return str(value)
