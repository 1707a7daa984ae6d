"""`python -m tools.walk [--json] [--order]`: count what a stranger passes in README's ten lines.

Runs `federate`, `save`, `load` and `predict` on eight synthetic people under `sys.setprofile`, and
prints how many modules of the packages were imported, how many of their functions ran, in how many
files, how deep, and which share of the functions has a single caller. `--order` prints the
functions in the order in which they are first met.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

SOURCES = tuple(
    f"{folder}/" for folder in sorted(Path(__file__).resolve().parents[1].glob("packages/*/src"))
)
Function = tuple[str, str]  # file and name


@dataclass
class Walk:
    """The functions of the packages that were called, by whom, and how deep."""

    callers: dict[Function, set[Function | None]] = field(default_factory=lambda: defaultdict(set))
    order: list[tuple[int, Function]] = field(default_factory=list)
    depth: int = 0
    _here: threading.local = field(default_factory=threading.local)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Take down a call or a return; what `sys.setprofile` calls."""
        path = frame.f_code.co_filename
        source = next((one for one in SOURCES if path.startswith(one)), None)
        if event not in ("call", "return") or source is None:
            return
        stack: list[Function] = self._here.__dict__.setdefault("stack", [])
        function = path.removeprefix(source), frame.f_code.co_qualname
        if event == "call":
            if function not in self.callers:
                self.order.append((len(stack), function))
            self.callers[function].add(stack[-1] if stack else None)
            stack.append(function)
            self.depth = max(self.depth, len(stack))
        elif function in stack:
            while stack and stack.pop() != function:
                pass

    def counts(self) -> dict[str, float]:
        """Return modules, functions, files, depth, and the share of functions with one caller."""
        functions = [one for one in self.callers if not one[1].startswith("<")]
        alone = sum(len(self.callers[one]) == 1 for one in functions)
        modules = [n for n in sys.modules if n.split(".")[0].split("_")[0] == "catchment"]
        return {
            "modules": len(modules),
            "functions": len(functions),
            "files": len({file for file, _ in functions}),
            "depth": self.depth,
            "one_caller": round(alone / len(functions), 2),
        }


def walked() -> Walk:
    """Return the walk of the ten lines, whose first run imports and compiles and is not counted."""
    import catchment as ct
    from catchment.data import synthetic_wearables

    train, test = ct.split(synthetic_wearables(8, seed=0), test=0.25, seed=0)

    def ten_lines() -> None:
        run = ct.federate("default", train, threads=2)  # as deep on every machine
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            run.model.save(path)
            held = next(iter(test.values()))
            ct.load(path).predict(held() if callable(held) else held)

    walk = Walk()
    ten_lines()
    threading.setprofile(walk)
    sys.setprofile(walk)
    ten_lines()
    sys.setprofile(None)
    threading.setprofile(None)
    return walk


def main() -> None:
    """Print the counts."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("--json", action="store_true")
    asked.add_argument("--order", action="store_true")
    options = asked.parse_args()
    walk = walked()
    if options.order:
        for depth, (file, name) in walk.order:
            if not name.startswith("<"):
                print("  " * min(depth, 30) + f"{name}   {file}")
    counts = walk.counts()
    print(json.dumps(counts) if options.json else "   ".join(f"{k} {v}" for k, v in counts.items()))


if __name__ == "__main__":
    main()
