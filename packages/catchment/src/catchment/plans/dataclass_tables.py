"""Frozen dataclasses from tables, and the JSON schema of such tables.

Names, types, choices and defaults are those of the dataclass; a setting's description is that of
its parameter in the docstring. An unknown name is an error that says the nearest known one. Where
a setting may be None, a file says "none".
"""

from __future__ import annotations

import difflib
import inspect
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from catchment.arrays import Array

D = TypeVar("D")
Table = Mapping[str, object]
Choices = Mapping[object, Mapping[str, type]]
Maker = tuple[Callable[[object, str], object], Mapping[str, object]]

_PLAIN: dict[object, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


@dataclass(frozen=True)
class Reader:
    """How settings are read.

    Parameters
    ----------
    choices
        For a type that stands for several dataclasses: each by its name in the file, where it is
        the entry `name` of a table.
    hidden
        By dataclass: fields that do not come from a file.
    makers
        For a type that is read in a way of its own: what makes its value of a file's value and the
        place where it stands, and the JSON schema of the file's value.
    renamed
        By dataclass: fields that a file calls otherwise, and how.
    """

    choices: Choices = field(default_factory=dict)
    hidden: Mapping[type, Collection[str]] = field(default_factory=dict)
    makers: Mapping[object, Maker] = field(default_factory=dict)
    renamed: Mapping[type, Mapping[str, str]] = field(default_factory=dict)

    def read(
        self, kind: type[D], table: object, where: str, given: Mapping[str, object] | None = None
    ) -> D:
        """Return the dataclass that a table describes.

        Parameters
        ----------
        kind
            A dataclass.
        table
            Its settings by name.
        where
            How the table is called in errors, such as "[run]".
        given
            Settings that are already known and are not in the file.

        >>> @dataclass(frozen=True)
        ... class Walk:
        ...     steps: int = 10
        >>> Reader().read(Walk, {"steps": 3}, "[walk]")
        Walk(steps=3)
        >>> Reader().read(Walk, {"step": 3}, "[walk]")
        Traceback (most recent call last):
        ValueError: [walk] has no setting 'step'; did you mean 'steps'?
        """
        if not isinstance(table, Mapping):
            raise ValueError(f"{where} is {table!r}; make it a table of settings")
        known = {name: value for name, value in (given or {}).items() if name in _names(kind)}
        said = self.renamed.get(kind, {})
        fields_by_name = {said.get(f, f): f for f in self.settings(kind) if f not in known}
        refuse_unknown(table, fields_by_name, where)
        hints = _hints(kind)
        values = {
            fields_by_name[name]: self._value(
                hints[fields_by_name[name]], value, f"{name} in {where}"
            )
            for name, value in table.items()
        }
        required = [f.name for f in _fields(kind) if _required(f)]
        missing = [said.get(name, name) for name in required if name not in values | known]
        if missing:
            raise ValueError(f"{where} lacks {missing[0]!r}; add it")
        try:
            return kind(**known, **values)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}: {error}") from error

    def settings(self, kind: type) -> list[str]:
        """Return the fields of the settings that may be in a file."""
        hidden = self.hidden.get(kind, ())
        return [f.name for f in _fields(kind) if f.name not in hidden and f.init]

    def _value(self, hint: object, value: object, where: str) -> object:
        """Return a value as its type has it: lists become tuples, tables become dataclasses."""
        maker = self._maker(hint)
        if maker is not None and not (value == "none" and type(None) in get_args(hint)):
            return maker[0](value, where)
        if hint in self.choices:
            return self._chosen(hint, value, where)
        if isinstance(hint, type) and is_dataclass(hint):
            return self.read(hint, value, where)
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return self._one_of(arguments, value, where)
        if origin is Literal:
            if not any(value == option and type(value) is type(option) for option in arguments):
                raise _unlike(value, hint, where)
            return value
        if origin is tuple and isinstance(value, list):
            inner = arguments[:1] * len(value) if arguments[-1:] == (...,) else arguments
            if len(inner) != len(value):
                raise _unlike(value, hint, where)
            return tuple(
                self._value(part, item, f"{where}, entry {k + 1}")
                for k, (part, item) in enumerate(zip(inner, value, strict=True))
            )
        if origin in (dict, Mapping) and isinstance(value, Mapping):
            return {
                str(k): self._value(arguments[1], v, f"{k} of {where}") for k, v in value.items()
            }
        if origin is np.ndarray and isinstance(value, list):
            return _array(hint, value, where)
        if hint is float and type(value) is int:
            return float(value)
        if hint in _PLAIN and type(value) is hint:
            return value
        raise _unlike(value, hint, where)

    def _maker(self, hint: object) -> Maker | None:
        """Return how a type is read in a way of its own, also where it may be None."""
        options = [option for option in get_args(hint) if option is not type(None)]
        if get_origin(hint) in (Union, types.UnionType) and all(map(_is_class, options)):
            return self.makers.get(Union[tuple(options)])  # noqa: UP007
        return self.makers.get(hint)

    def _one_of(self, options: tuple[object, ...], value: object, where: str) -> object:
        wanted = [option for option in options if option is not type(None)]
        tables = [o for o in wanted if o in self.choices or is_dataclass(o)]
        if isinstance(value, Mapping) and len(tables) == 1:
            return self._value(tables[0], value, where)
        for option in wanted:
            try:
                return self._value(option, value, where)
            except ValueError:
                continue
        if value == "none" and type(None) in options:
            return None
        raise _unlike(value, options, where)

    def _chosen(self, hint: object, value: object, where: str) -> object:
        options = self.choices[hint]
        table = {"name": value} if isinstance(value, str) else value
        if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
            raise ValueError(f"{where} needs a name: one of {', '.join(options)}")
        name = str(table["name"])
        if name not in options:
            raise ValueError(f"{where} has the name {name!r}; {nearest(name, options)}")
        rest = {key: item for key, item in table.items() if key != "name"}
        return self.read(options[name], rest, where)

    def schema(self, kind: type, *, given: Iterable[str] = ()) -> dict[str, object]:
        """Return the JSON schema of a dataclass's table.

        >>> @dataclass(frozen=True)
        ... class Walk:
        ...     steps: int = 10
        >>> Reader().schema(Walk)["properties"]
        {'steps': {'type': 'integer', 'default': 10}}
        """
        hints, texts, known = _hints(kind), described(kind), set(given)
        said = self.renamed.get(kind, {})
        properties: dict[str, object] = {}
        shown = [f for f in _fields(kind) if f.name in self.settings(kind) and f.name not in known]
        for each in shown:
            entry = self._schema(hints[each.name])
            if each.default is not None and type(None) in get_args(hints[each.name]):
                entry = {"anyOf": [entry, {"const": "none"}]}
            if each.name in texts:
                entry["description"] = texts[each.name]
            if isinstance(each.default, str | int | float | bool):
                entry["default"] = each.default
            properties[said.get(each.name, each.name)] = entry
        made: dict[str, object] = {
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
        }
        required = [said.get(each.name, each.name) for each in shown if _required(each)]
        return made | ({"required": required} if required else {})

    def _schema(self, hint: object) -> dict[str, Any]:
        maker = self._maker(hint)
        if maker is not None:
            return dict(maker[1])
        if hint in self.choices:
            return {"oneOf": [self.named(name, kind) for name, kind in self.choices[hint].items()]}
        if isinstance(hint, type) and is_dataclass(hint):
            return dict(self.schema(hint))
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            options = [self._schema(a) for a in arguments if a is not type(None)]
            return options[0] if len(options) == 1 else {"anyOf": options}
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is np.ndarray:
            return {"type": "array"}
        if origin is tuple:
            return {"type": "array", "items": self._schema(arguments[0])}
        if origin in (dict, Mapping):
            return {"type": "object", "additionalProperties": self._schema(arguments[1])}
        return {"type": _PLAIN[hint]} if hint in _PLAIN else {}

    def named(
        self,
        name: str,
        kind: type,
        *,
        given: Iterable[str] = (),
        key: str = "name",
        optional: bool = False,
    ) -> dict[str, object]:
        """Return the schema of a table whose entry `key` says which dataclass it is."""
        made = self.schema(kind, given=given)
        inner, required = made["properties"], made.get("required", [])
        assert isinstance(inner, dict)
        assert isinstance(required, list)
        first_line = (inspect.getdoc(kind) or "").split("\n")[0]
        return made | {
            "description": first_line,
            "properties": {key: {"const": name}} | inner,
            "required": [*([] if optional else [key]), *required],
        }


def refuse_unknown(table: Mapping[str, object], known: Iterable[str], where: str) -> None:
    """Raise ValueError for the first name of a table that is not known, with the nearest one."""
    names = list(known)
    for name in table:
        if name not in names:
            raise ValueError(f"{where} has no setting {name!r}; {nearest(name, names)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return what to say of a name that is not known.

    >>> nearest("rigde", ["ridge", "rounds"]), nearest("x", ["ridge", "rounds"])
    ("did you mean 'ridge'?", 'choose from ridge, rounds')
    """
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(names)}"


def described(kind: type) -> dict[str, str]:
    """Return each parameter's description, from a docstring with NumPy's sections.

    >>> described(Reader)["hidden"]
    'By dataclass: fields that do not come from a file.'
    """
    text = inspect.getdoc(kind) or ""
    _, _, section = text.partition("Parameters\n----------\n")
    texts: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if re.fullmatch(r"[a-z_]+(, [a-z_]+)*", line):
            names = line.split(", ")
        elif line.startswith("    ") and names:
            for name in names:
                texts[name] = f"{texts.get(name, '')} {line.strip()}".strip()
        elif line.strip():
            break
    return texts


def _is_class(hint: object) -> bool:
    return isinstance(hint, type)


def _fields(kind: type) -> tuple[Field[Any], ...]:
    return fields(kind)


def _names(kind: type) -> set[str]:
    return {f.name for f in _fields(kind)}


def _required(each: Field[Any]) -> bool:
    return each.init and each.default is MISSING and each.default_factory is MISSING


def _hints(kind: type) -> Mapping[str, object]:
    return _kept_hints(kind)


@cache
def _kept_hints(kind: type) -> Mapping[str, object]:
    """Return the types of a class's fields; kept, because they are compiled from their texts."""
    return types.MappingProxyType(get_type_hints(kind))


def _array(hint: object, value: list[object], where: str) -> Array:
    """Return numbers, or lists of numbers of one length, as an array of doubles."""
    try:
        found = np.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise _unlike(value, hint, where) from error
    if found.dtype.kind not in "if":
        raise _unlike(value, hint, where)
    return found.astype(np.float64)


def _unlike(value: object, hint: object, where: str) -> ValueError:
    return ValueError(f"{where} is {value!r}; give {_words(hint)}")


def _words(hint: object) -> str:
    """Return a type in words, as a reader of a file would say it."""
    if isinstance(hint, tuple):
        said = dict.fromkeys(_words(option) for option in hint if option is not type(None))
        return " or ".join(said)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _words(arguments)
    if origin is Literal:
        return " or ".join(repr(option) for option in arguments)
    if origin is tuple:
        return f"a list of {_words(arguments[0])}".replace("list of a ", "list of ")
    if origin is np.ndarray:
        return "a list of numbers, or of such lists of one length"
    plain = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
    return plain.get(hint, "a table")  # type: ignore[call-overload, no-any-return]
