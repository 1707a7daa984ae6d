"""Adapting without labels on a device: the rule of `catchment.readout.adapt` as C, in float32.

Feature rows are integers of 16 bits. All else is float32: a Cholesky factor in fixed point would
need a scale of its own in every row. The inverse of G + r I lies in flash, as a lower triangle.
Adapting reads it twice for every row, once for Q and once to move the weights by the rows kept.

    NAME_adapt_add(state, row)      keep a row; the oldest goes when `rows` are there
    NAME_adapt_run(state)           adapt to the rows kept; how many were learned from, or 0
    NAME_adapt_scores(state, row, scores)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from catchment.readout import Model, SelfTraining, needed, rescaled, scale_of
from catchment_edge.c.code import check_name
from catchment_edge.c.map_code import Table, table_text
from catchment_edge.ports import write_files

SOURCES = Path(__file__).parent.parent / "sources"


@dataclass(frozen=True)
class AdaptCode:
    """C that adapts a model on a device, and what it takes.

    Parameters
    ----------
    source, header
        Two files, `NAME_adapt.c` and `NAME_adapt.h`.
    ram, flash
        Bytes of its state and of its constants.
    operations
        Multiplications with additions of one adaptation to a full store, at most.
    """

    name: str
    source: str
    header: str
    ram: int
    flash: int
    operations: int

    def write(self, folder: str | Path) -> list[Path]:
        """Write both files and return their paths."""
        texts = {f"{self.name}_adapt.c": self.source, f"{self.name}_adapt.h": self.header}
        return write_files(texts, Path(folder), self.name)


def adapt_code(
    model: Model, *, rows: int = 32, name: str = "model", rule: SelfTraining | None = None
) -> AdaptCode:
    """Return C that adapts a model, with the sums it carries, to the last rows of its owner.

    Parameters
    ----------
    model
        Of classes, in fixed point, with its sums (`adaptable=True`).
    rows
        How many feature rows the device keeps.
    name
        What functions and files begin with.
    """
    how, (statistics, classes) = rule or SelfTraining(), needed(model)
    if statistics.fixed is None or statistics.fixed.bits > 15 or np.ndim(model.readout.ridge):
        raise ValueError(
            "the device keeps rows as integers of 16 bits and has one ridge for all outputs; use a "
            "map in fixed point of up to 15 bits, such as the default, and one ridge"
        )
    check_name(name)
    if not 1 <= rows <= 1024:
        raise ValueError(f"rows is {rows}; keep 1 to 1024 of them")
    F, K, N = statistics.n_features, len(classes), rows
    floats, scale = statistics.floats, scale_of(statistics, model.features.standardize)
    d = np.ones(F) if scale is None else scale
    G, _ = rescaled(floats, scale).moments()
    G[np.diag_indices_from(G)] += float(model.readout.ridge)
    half = np.linalg.inv(np.linalg.cholesky(G))
    mean, unit = floats.feature_sum / floats.weight, statistics.fixed.scale
    values = {
        "mean": mean / unit,
        "unit": unit / d,
        "start_intercept": model.readout.intercept + mean @ model.readout.weights,
        "start_weights": model.readout.weights * d[:, None],
        "inverse": (half.T @ half)[np.tril_indices(F)],
    }
    tables = [Table("float", f"model_{key}", value) for key, value in values.items()]
    settings = {
        "SHARE": f"{np.float32(how.share)}f",
        "MOST": f"{np.float32(how.most)}f",
        "PER_CLASS": f"{np.float32(how.weight * floats.weight / K)}f",
        "PER_ROW": f"{np.float32(1.0 / floats.weight)}f",
        "ENOUGH": how.enough,
        "TURNS": how.iterations,
        "RENAMED": how.renamed,
    }
    headers = ('"model_adapt.h"', "<float.h>", "<math.h>", "<string.h>")
    lines = [f"#include {one}" for one in headers]
    lines += [f"#define model_{key} {value}" for key, value in settings.items()]
    source, header = ((SOURCES / f"adapt.{kind}").read_text("utf-8") for kind in "ch")
    source = "\n".join([*lines, *map(table_text, tables), source])
    for key, size in (("FEATURES", F), ("OUTPUTS", K), ("ROWS", N)):
        header = header.replace(f"model_{key} = 1", f"model_{key} = {size}")
    ram = 2 * N * F + 4 * (F * K + K + 3 * N * K + 2 * N * N + 2 * N + 2 * F + 2) + 3 * N
    products = 2 * N * F * F + N * N * F // 2 + 2 * N * F * K
    products += how.iterations * (N**3 // 6 + 2 * N * N * K)
    flash = sum(table.n_bytes for table in tables)
    source, header = (text.replace("model_", f"{name}_") for text in (source, header))
    return AdaptCode(name, source, header, ram, flash, products)
