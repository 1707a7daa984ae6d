"""Several models as one C program, which reads recordings and writes their features and scores."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from catchment import Array
from catchment_edge import CCode
from tools.portable.machines import Machine

STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1")
HEAD = """#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static double read_number(void)
{
    double number = 0;
    if (fread(&number, sizeof number, 1, stdin) != 1)
        exit(1);
    return number;
}

static void write_number(double number)
{
    fwrite(&number, sizeof number, 1, stdout);
}
"""
ONE = """
#include "{name}.h"

static void {name}_answer(uint32_t steps)
{{
    static struct {name}_state s;
    static {name}_value samples[{most} * {macro}_CHANNELS];
    float scores[{macro}_OUTPUTS];
    uint32_t t, k;
    int found;
    for (t = 0; t < steps * {macro}_CHANNELS; t++)
        samples[t] = ({name}_value)read_number();
    {begin}
    for (t = 0; t <= steps; t++) {{
        found = t < steps ? {name}_step(&s, samples + t * {macro}_CHANNELS, scores)
                          : {name}_finish(&s, scores);
        write_number(found);
        for (k = 0; found > 0 && k < {macro}_FEATURES; k++)
            write_number((double)s.row[k]);
        for (k = 0; found > 0 && k < {macro}_OUTPUTS; k++)
            write_number((double)scores[k]);
    }}
    write_number({name}_predict(&s, samples, steps, scores));
    for (k = 0; k < {macro}_OUTPUTS; k++)
        write_number((double)scores[k]);
}}
"""


class Program:
    """Models compiled into one program for a machine."""

    def __init__(self, machine: Machine, codes: Sequence[CCode], folder: Path, most: int) -> None:
        self.machine, self.codes = machine, codes
        self.path = folder / f"{machine.name}.program"
        sources = []
        for code in codes:
            source, _ = code.write(folder)
            sources.append(str(source))
        main = folder / "main.c"
        main.write_text(_main(codes, most))
        command = [*machine.compiler, *STRICT, *machine.flags, *sources, str(main)]
        command += ["-o", str(self.path), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def answers(self, asked: Sequence[tuple[int, Array]]) -> list[tuple[Array, Array, Array]]:
        """Return features (n, F), scores (n, K) and mean scores (K,) of raw recordings (T, I).

        Parameters
        ----------
        asked
            The number of a model, and a recording, each.
        """
        stdin = b"".join(
            struct.pack("<dd", which, len(u)) + np.ascontiguousarray(u, "<f8").tobytes()
            for which, u in asked
        )
        numbers = np.frombuffer(self.machine.run(self.path, stdin), "<f8")
        found, place = [], 0
        for which, u in asked:
            layout = self.codes[which].layout
            F, K = layout.map.n_features, layout.n_outputs
            rows = []
            for _ in range(len(u) + 1):
                done, place = numbers[place], place + 1
                assert done >= 0, f"a step was refused: {done}"
                if done:
                    rows.append(numbers[place : place + F + K])
                    place += F + K
            mean, place = numbers[place + 1 : place + 1 + K], place + 1 + K
            all_ = np.array(rows).reshape(len(rows), F + K)
            digits = layout.map.digits
            z = all_[:, :F] if digits is None else np.ldexp(all_[:, :F], -np.asarray(digits))
            found.append((z, all_[:, F:], mean))
        assert place == len(numbers)
        return found


def _main(codes: Sequence[CCode], most: int) -> str:
    parts = [HEAD]
    for code in codes:
        name = code.layout.name
        begin = f"{name}_reset(&s);"
        if code.layout.told_steps:
            begin = f"{name}_begin(&s, steps);"
        parts.append(ONE.format(name=name, macro=name.upper(), most=most, begin=begin))
    calls = "\n".join(
        f"        case {k}: {code.layout.name}_answer(steps); break;"
        for k, code in enumerate(codes)
    )
    parts.append(f"""
int main(void)
{{
    double which;
    uint32_t steps;
    while (fread(&which, sizeof which, 1, stdin) == 1) {{
        steps = (uint32_t)read_number();
        switch ((int)which) {{
{calls}
        default: return 2;
        }}
    }}
    return 0;
}}
""")
    return "\n".join(parts)
