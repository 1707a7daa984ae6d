"""The C functions of a streaming map, from the few statements in which such maps differ.

A map that moves a state on with every step gives its rows from base features: at every step, or
pooled over a piece, or over each of its segments.
"""

from __future__ import annotations

from dataclasses import dataclass

from catchment_edge.c.map_code import Field


@dataclass(frozen=True)
class Sum:
    """A running number for each base feature, `s->PREFIX_NAME[j]`, and where a part starts it."""

    type: str
    name: str
    start: str = "0"


@dataclass(frozen=True)
class Streaming:
    """What a streaming map does.

    Parameters
    ----------
    base
        Features of one step.
    advance
        Statements that move the state on by the words `v`.
    reset
        Statements at the start of a piece; `i` is declared.
    sums
        What a pool keeps.
    add
        Statements that add base feature j of this step to the sums, in the body of a loop.
    write
        Statements that write row[j], and row[base + j] where there are two, after `steps` steps.
    declares
        Declarations that `advance` needs.
    """

    prefix: str
    base: int
    n_features: int
    advance: tuple[str, ...]
    reset: tuple[str, ...]
    write: tuple[str, ...]
    sums: tuple[Sum, ...] = ()
    add: tuple[str, ...] = ()
    declares: tuple[str, ...] = ()
    write_declares: tuple[str, ...] = ()
    washout: int = 0
    segments: int = 1

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the sums and of the segments."""
        found = [Field(one.type, f"{self.prefix}_{one.name}", self.base) for one in self.sums]
        part = [Field("uint32_t", f"{self.prefix}_part", 1)] if self.segments > 1 else []
        return (*found, *part)

    def text(self) -> str:
        """Return the functions reset, step and row."""
        return "\n\n".join(
            [*self._empty(), self._reset(), self._write(), self._step(), self._row()]
        )

    def _empty(self) -> list[str]:
        if not self.sums:
            return []
        lines = [f"s->{self.prefix}_{one.name}[i] = {one.start};" for one in self.sums]
        body = ["uint32_t i;", *_loop("i", self.base, lines)]
        return [_function(f"{self.prefix}_empty(state *s)", body)]

    def _reset(self) -> str:
        p = self.prefix
        body = ["uint32_t i;", *self.reset]
        body += [f"s->{p}_part[0] = 0;"] if self.segments > 1 else []
        body += [f"{p}_empty(s);"] if self.sums else []
        return _function(f"{p}_reset(state *s)", body)

    def _write(self) -> str:
        head = f"{self.prefix}_write(state *s, const word *v, uint32_t steps, feature *row)"
        body = ["uint32_t j;", *self.write_declares, "(void)v;", "(void)steps;"]
        return _function(head, [*body, *_loop("j", self.base, list(self.write))])

    def _step(self) -> str:
        head = f"{self.prefix}_step(state *s, const word *v, uint32_t t, uint32_t steps, "
        body = [*self.declares]
        body += ["uint32_t j;"] if self.sums else []
        body += ["uint32_t part, begin, end;"] if self.segments > 1 else []
        body += ["(void)t;", "(void)steps;", "(void)row;", *self.advance]
        if self.washout and (self.sums or self.segments > 1):
            body += [f"if (t < {self.washout})", "    return;"]
        body += _loop("j", self.base, list(self.add)) if self.sums else []
        body += self._part_ends() if self.segments > 1 else []
        return _function(head + "feature *row)", body)

    def _part_ends(self) -> list[str]:
        p, n = self.prefix, self.segments
        rest = f"(uint64_t)(steps - {self.washout})"
        return [
            f"part = s->{p}_part[0];",
            f"begin = (uint32_t)({rest} * part / {n});",
            f"end = (uint32_t)({rest} * (part + 1) / {n});",
            f"if (t + 1 - {self.washout} == end) {{",
            f"    {p}_write(s, v, end - begin, row + part * {self.n_features // n});",
            f"    s->{p}_part[0]++;",
            *([f"    {p}_empty(s);"] if self.sums else []),
            "}",
        ]

    def _row(self) -> str:
        p = self.prefix
        body = [f"{p}_write(s, v, t + 1 - {self.washout}, row);"]
        if self.segments > 1:  # `step` has written all parts
            body = ["(void)s;", "(void)v;", "(void)t;", "(void)row;"]
        return _function(f"{p}_row(state *s, const word *v, uint32_t t, feature *row)", body)


def _function(head: str, body: list[str]) -> str:
    lines = "\n".join(f"    {line}" for line in body)
    return f"static void {head}\n{{\n{lines}\n}}"


def _loop(index: str, n: int, body: list[str]) -> list[str]:
    lines = [f"    {line}" for line in body]
    return [f"for ({index} = 0; {index} < {n}; {index}++) {{", *lines, "}"]
