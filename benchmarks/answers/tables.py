"""The tables of docs/answers, made from the files that the scripts beside this one wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.measured_people import benchmark, grid


def sums_table() -> str:
    """Return the average that comes out of SecAgg+ and of secure aggregation, case by case."""
    found = benchmark("answers_secagg")
    rows = [
        [
            f"{row['case']} ({row['issue']})" if row["issue"] else row["case"],
            _numbers(row["true"]),
            _numbers(row["flower"]),
            "a line in the log" if row["flower warns"] else "nothing",
            _numbers(row["catchment"]),
            "yes" if row["sum exact to the bit"] else "no",
        ]
        for row in found["cases"]
    ]
    flower = f"Flower {found['flwr']}"
    return grid(["case", "true average", flower, f"{flower} says", "catchment", "exact"], rows)


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


def refusal() -> str:
    """Return what clients say whose numbers could wrap the ring, as a quotation."""
    return f"> {benchmark('answers_secagg')['refused']}"


PROBLEMS = {"digits": "digits, accuracy", "diabetes": "diabetes, R²"}


def averaging_table() -> str:
    """Return score and distance from the pooled model of every method on both problems."""
    found = benchmark("answers_ridge")
    of = {name: found[name]["methods"] for name in PROBLEMS}
    rows = []
    for k, row in enumerate(of["digits"]):
        cells = [_score_and_distance(of[name][k]) for name in PROBLEMS]
        rounds = str(row["rounds"]) if row["rounds"] else "-"
        rows.append([row["method"], rounds, *(cell for pair in cells for cell in pair)])
    head = ["", "rounds"]
    for name, words in PROBLEMS.items():
        head += [f"{words}, {found[name]['clients']} clients", "distance from pooled"]
    return grid(head, rows)


def _score_and_distance(row: dict[str, Any]) -> tuple[str, str]:
    far = row["distance"]
    return f"{row['score']:.3f}", f"{far:.2f}" if far > 1e-3 else (f"{far:.0e}" if far else "0")


RUNNERS = {
    "catchment": "catchment, one process",
    "loop": "a plain loop that keeps all updates",
    "flower": "Flower's simulation, FedAvg",
}


def memory_table() -> str:
    """Return seconds and peak memory of each simulation."""
    rows = [
        [
            RUNNERS[row["runner"]],
            f"{row['clients']:,}".replace(",", " "),
            f"{row['peak MiB']} MiB",
            str(row["processes"]),
            f"{row['seconds']:.0f} s" if row["finished"] else f"ended after {row['seconds']:.0f} s",
        ]
        for row in benchmark("answers_memory")["runs"]
    ]
    return grid(["simulation", "clients", "peak memory", "processes", "time"], rows)


def files_table() -> str:
    """Return peak memory, time and accuracy of MiniRocket over folders."""
    rows = [
        [
            row["library"],
            f"{row['files']} files, {row['MiB']} MiB",
            f"{row['windows']:,}".replace(",", " "),
            f"{row['peak MiB']} MiB",
            f"{row['seconds']:.0f} s",
            f"{row['accuracy']:.3f}" if row["finished"] else "not finished",
        ]
        for row in benchmark("answers_files")["runs"]
    ]
    head = ["MiniRocket", "folder", "windows", "peak memory", "time", "accuracy on unseen people"]
    return grid(head, rows)


ANSWERS: dict[str, dict[str, Callable[[], str]]] = {
    "docs/answers/secure-aggregation.md": {"sums": sums_table, "refusal": refusal},
    "docs/answers/ridge-by-averaging.md": {"averaging": averaging_table},
    "docs/answers/simulation-memory.md": {"memory": memory_table},
    "docs/answers/minirocket-many-files.md": {"files": files_table},
}
