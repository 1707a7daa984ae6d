"""The columns of several files, made to agree: which are inputs, which labels there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.data.columns import first_text, holds_text, missing_values
from catchment.data.frames import from_frame
from catchment.data.frames import nearest as nearest_column
from catchment.data.recording import Recording
from catchment.errors import SettingError


@dataclass(frozen=True)
class Table:
    """A file and its columns; what is wrong with them is told with the file's name."""

    path: Path
    columns: Mapping[str, NDArray[Any]]
    client_by: str = "file"

    @property
    def client(self) -> str:
        if self.client_by == "folder":
            return self.path.resolve().parent.name
        name = self.path.name
        return name[: -len(".gz")].rpartition(".")[0] if name.endswith(".gz") else self.path.stem

    def column(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise ValueError(
                f"{self.path.name} has no column {name!r}; it has {', '.join(self.columns)}"
                f"{_perhaps(name, self.columns)}"
            )
        return self.columns[name]

    def recordings(self, **named: Any) -> dict[str, list[Recording]]:
        try:
            clients = from_frame(self.columns, **named)
        except SettingError as error:
            raise error.within(self.path.name) from error
        except ValueError as error:
            raise ValueError(f"{self.path.name}: {error}") from error
        if named["client"] is None:
            return {self.client: [one for held in clients.values() for one in held]}
        return clients


def listed(columns: str | Sequence[str] | None) -> list[str]:
    if columns is None:
        return []
    return [columns] if isinstance(columns, str) else list(columns)


def _in_all(name: str, tables: list[Table]) -> bool:
    """Return whether a column has numbers in all files, or nothing."""
    return all(name in table.columns and not holds_text(table.columns[name]) for table in tables)


def _perhaps(name: str, known: Mapping[str, object]) -> str:
    near = nearest_column(name, known)
    return f"; {near}" if near.startswith("did") else ""


def inputs_of(tables: list[Table], named: set[str]) -> list[str]:
    """Return the columns of numbers, in the order of the first file; all files must have them."""
    chosen: dict[str, Table] = {}
    for table in tables:
        for name, values in table.columns.items():
            # The index of a table that pandas wrote has no name, or one made up for Parquet.
            unnamed = not name or name.startswith("__index_level_")
            if not unnamed and name not in named and values.dtype.kind in "iufb":
                chosen.setdefault(name, table)
    for name, origin in chosen.items():
        for table in tables:
            if name not in table.columns:
                raise SettingError(
                    f"{table.path.name} has no column {name!r}, which {origin.path.name} has",
                    "inputs",
                    [other for other in chosen if _in_all(other, tables)],
                    otherwise="mend it",
                )
            values = table.columns[name]
            missing = missing_values(values)
            if values.dtype.kind not in "iufb" and not missing.all():
                odd = first_text(values) or repr(values[~missing][0])
                raise SettingError(
                    f"{table.path.name} has {odd} of column {name!r}, where {origin.path.name} has "
                    "numbers",
                    "inputs",
                    [other for other in chosen if _in_all(other, tables)],
                    otherwise="mend it",
                )
    if not chosen:
        raise ValueError(
            f"{tables[0].path.name} has no column of numbers besides those named; its columns are "
            f"{', '.join(tables[0].columns)}"
        )
    return list(chosen)


def with_comparable_labels(tables: list[Table], label: str) -> list[Table]:
    """Return the tables with labels of one kind: whole numbers as such, or text in all files."""
    columns = [whole_labels(table.column(label)) for table in tables]
    kinds = {type(value) for values in columns for value in values if value is not None}
    if str in kinds and len(kinds) > 1:
        columns = [[None if v is None else str(v) for v in values] for values in columns]
    made = []
    for table, values in zip(tables, columns, strict=True):
        own = np.empty(len(values), dtype=object)
        own[:] = values
        made.append(Table(table.path, {**table.columns, label: own}, table.client_by))
    return made


def refuse_text(tables: list[Table], targets: list[str]) -> None:
    """Raise SettingError if a target that should be a number is text, which is a label."""
    for table in tables:
        for name in targets:
            values = table.columns.get(name)
            if values is not None and holds_text(values):
                raise SettingError(
                    f"{table.path.name}: target {name!r} holds text, {first_text(values)}",
                    "label",
                    name,
                    otherwise="mend it",
                )


def whole_labels(values: NDArray[Any]) -> list[Any]:
    """Return labels as Python values, None where missing; 1.0 is the label 1."""
    missing = missing_values(values)
    known = values[~missing]
    if values.dtype.kind == "f" and (known == np.floor(known)).all():
        known = known.astype(np.int64)
    labels: list[Any] = [None] * len(values)
    for row, value in zip(np.flatnonzero(~missing).tolist(), known.tolist(), strict=True):
        labels[row] = value
    return labels


def classes_of(tables: list[Table], label: str) -> tuple[Any, ...]:
    labels = {value for table in tables for value in table.column(label) if value is not None}
    if not labels:
        raise ValueError(
            f"{tables[0].path.name} has no value in column {label!r}, nor has any other file; "
            "fill it, or name no label for recordings without targets"
        )
    return tuple(sorted(labels))


def targets_change(
    tables: list[Table],
    target: str | Sequence[str] | None,
    client: str | None,
    recording: str | None,
    per_step: bool | None,
) -> bool:
    """Return whether a target changes within any recording, unless that is settled."""
    if per_step is not None:
        return per_step
    for table in tables:
        groups = [table.column(name).tolist() for name in (*listed(client), *listed(recording))]
        keys = list(zip(*groups, strict=True)) if groups else None
        for name in listed(target):
            values = table.column(name)
            first: dict[Any, Any] = {}
            for row in np.flatnonzero(~missing_values(values)).tolist():
                key = None if keys is None else keys[row]
                if first.setdefault(key, values[row]) != values[row]:
                    return True
    return False
