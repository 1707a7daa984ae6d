"""What the footers of a lake's files say of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow

from catchment import ordered_map
from catchment.data import nearest, values_of, whole_labels
from catchment.errors import SettingError
from catchment_fleet.parquet.index import columns_in
from catchment_fleet.parquet.storage import Storage, columns_of_folders, name_of


@dataclass(frozen=True, eq=False)
class Schemas:
    """The columns of each file by name, with their types; those of its folders are text."""

    storage: Storage
    files: Mapping[str, Mapping[str, pyarrow.DataType]]
    n_rows: int = 0

    def check(self, client: str, needed: Iterable[str]) -> None:
        """Raise ValueError if a file lacks a column."""
        wanted = list(needed)
        for path, columns in self.files.items():
            if client not in columns:
                raise ValueError(
                    f"{name_of(path)} has no column {client!r} that names clients; "
                    f"{nearest(client, columns)}"
                )
            missing = [name for name in wanted if name not in columns]
            if missing:
                raise ValueError(
                    f"{name_of(path)} has no column {missing[0]!r}; "
                    f"{nearest(missing[0], columns)}; write the file anew, or leave it out"
                )

    def numbers(self, named: set[str]) -> list[str]:
        """Return the columns of numbers besides those named, in the order of the first file."""
        found = {path: _numbers(columns, named) for path, columns in self.files.items()}
        first, *others = found
        for path in others:
            if set(found[path]) != set(found[first]):
                one = sorted(set(found[path]) ^ set(found[first]))[0]
                alike = [name for name in found[first] if all(name in f for f in found.values())]
                raise SettingError(
                    f"{name_of(path)} and {name_of(first)} differ in column {one!r}",
                    "inputs",
                    alike,
                )
        if not found[first]:
            raise ValueError(
                f"{name_of(first)} has no column of numbers besides those named; its columns are "
                f"{', '.join(self.files[first])}"
            )
        return found[first]

    def mixes_text(self, label: str) -> bool:
        """Return whether labels are text in some files and something else in others."""
        kinds = {_is_text(columns[label]) for columns in self.files.values()}
        return len(kinds - {None}) > 1

    def labels(self, label: str) -> tuple[Any, ...]:
        """Return the labels of all files, sorted."""

        def of_file(path: str) -> list[Any]:
            with self.storage.open(path) as file:
                own = columns_in(file, path)
                if label not in own:
                    return [columns_of_folders(path)[label]]
                read = (
                    file.read_row_group(k, columns=[own[label]]) for k in range(file.num_row_groups)
                )
                seen = [pyarrow.chunked_array([one.column(0).unique()]) for one in read]
                return [value for one in seen for value in whole_labels(values_of(one))]

        found = {v for values in ordered_map(of_file, self.files) for v in values if v is not None}
        if not found:
            raise ValueError(
                f"no file has a value in column {label!r}; fill it, or name no label for "
                "recordings without targets"
            )
        return tuple(sorted(map(str, found) if self.mixes_text(label) else found))


def schemas_of(storage: Storage, files: Sequence[str]) -> Schemas:
    """Return the columns of each file, from its footer."""

    def of_file(path: str) -> tuple[dict[str, pyarrow.DataType], int]:
        with storage.open(path) as file:
            kinds = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
            own = {name: kinds[original] for name, original in columns_in(file, path).items()}
            n_rows = file.metadata.num_rows
        return {**dict.fromkeys(columns_of_folders(path), pyarrow.string()), **own}, n_rows

    found = list(ordered_map(of_file, files))
    columns = {path: one for path, (one, _) in zip(files, found, strict=True)}
    return Schemas(storage, columns, sum(n_rows for _, n_rows in found))


def _numbers(columns: Mapping[str, pyarrow.DataType], named: set[str]) -> list[str]:
    # The index of a table that pandas wrote has no name, or one made up for Parquet.
    return [
        name
        for name, kind in columns.items()
        if name and not name.startswith("__index_level_") and name not in named and _counts(kind)
    ]


def _counts(kind: pyarrow.DataType) -> bool:
    """Return whether a column holds numbers."""
    types = pyarrow.types
    inner = kind.value_type if types.is_dictionary(kind) else kind
    return any(
        test(inner)
        for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    )


def _is_text(kind: pyarrow.DataType) -> bool | None:
    """Return whether a column holds text; None if it holds nothing."""
    inner = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if pyarrow.types.is_null(inner):
        return None
    return bool(pyarrow.types.is_string(inner) or pyarrow.types.is_large_string(inner))
