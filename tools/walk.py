"""`python -m tools.walk [--json] [--order]`: count what a stranger passes in README's ten lines.

Runs `federate`, `save`, `load` and `predict` on eight synthetic people under `sys.setprofile`, and
prints how many modules of the packages were imported, how many of their functions ran, in how many
files, how deep, and which share of the functions has a single caller. `--order` prints the
functions in the order in which they are first met.

`--figures` draws the walk, and that of a request through Flower, into docs/images from the same
trace, made on one core so that it is the same on every machine; `--figures --check` writes nothing
and is exit code 1 if a drawing is not what the trace gives.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from xml.sax.saxutils import escape

SOURCES = tuple(
    f"{folder}/" for folder in sorted(Path(__file__).resolve().parents[1].glob("packages/*/src"))
)
IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
Function = tuple[str, str]  # file and name


@dataclass
class Walk:
    """The functions of the packages that were called, by whom, and how deep."""

    callers: dict[Function, set[Function | None]] = field(default_factory=lambda: defaultdict(set))
    order: list[tuple[Function, ...]] = field(default_factory=list)  # a function below its callers
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
                self.order.append((*stack, function))
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


def walked(threads: int = 2) -> Walk:
    """Return the walk of the ten lines; two threads are as deep on every machine."""
    import catchment as ct
    from catchment.data import synthetic_wearables

    train, test = ct.split(synthetic_wearables(8, seed=0), test=0.25, seed=0)

    def ten_lines() -> None:
        run = ct.federate("default", train, threads=threads)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            run.model.save(path)
            held = next(iter(test.values()))
            ct.load(path).predict(held() if callable(held) else held)

    return traced(ten_lines)


def requested() -> Walk:
    """Return the walk of a plan's request through Flower's apps, both of them in this process.

    The two apps and Flower's messages are the real ones. What lies between them, a SuperLink and a
    SuperNode, has none of our functions; here it is a dictionary.
    """
    from flwr.app import Context, RecordDict
    from flwr.supercore.task_identity import TaskIdentity

    from catchment.data import narma
    from catchment.features import NVAR
    from catchment.federation import Plan
    from catchment.federation.learn import FederatedRidge
    from catchment_fleet.flower import Terms, client_app, server_app

    logging.disable(logging.WARNING)  # of nodes whose memory lasts as long as the run
    warnings.simplefilter("ignore", UserWarning)  # of what statistics in the clear tell
    TaskIdentity._run_id = TaskIdentity._task_id = TaskIdentity._node_id = 1  # as Flower does
    held = {name: [narma(2000, seed=k)] for k, name in enumerate(("ann", "ben", "cem"))}
    features = NVAR(delays=2).build(1, per_step=True)
    plan = Plan(algorithm=FederatedRidge(features=features, ridge=1.0))
    nodes = client_app(plan, lambda node: held[str(node["name"])], allow_plain_statistics=True)
    states = {k: Context(1, k, {"name": name}, RecordDict(), {}) for k, name in enumerate(held)}

    terms = Terms(expect=len(held), allow_plain_statistics=True)
    grid: Any = Carried(nodes, states)
    server = server_app(plan, terms=terms)
    return traced(lambda: server(grid, Context(1, 0, {}, RecordDict(), {})))


@dataclass
class Carried:
    """A Flower grid whose letters are answered by an app of this process when they are pushed."""

    nodes: Callable[..., Any]
    states: dict[int, Any]
    replies: dict[str, Any] = field(default_factory=dict)

    def get_node_ids(self) -> list[int]:
        """Return the numbers of the nodes."""
        return list(self.states)

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        """Have messages answered; return a ticket for each."""
        tickets = []
        for message in messages:
            tickets.append(str(len(self.replies)))
            message.metadata.__dict__["_message_id"] = tickets[-1]
            state = self.states[message.metadata.dst_node_id]
            self.replies[tickets[-1]] = self.nodes(message, state)
        return tickets

    def pull_messages(self, tickets: Iterable[str]) -> list[Any]:
        """Return the answers of tickets."""
        return [self.replies[ticket] for ticket in tickets]


def traced(work: Callable[[], None]) -> Walk:
    """Return the walk of some work, whose first run imports and compiles and is not counted."""
    walk = Walk()
    work()
    threading.setprofile(walk)
    sys.setprofile(walk)
    work()
    sys.setprofile(None)
    threading.setprofile(None)
    return walk


FIGURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 {height}" \
font-family="system-ui, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="13" role="img" \
aria-labeledby="t">
  <title id="t">{title}</title>
  <style>
    text {{ fill: #78828e; }} .room {{ fill: #3a8cc0; font-weight: 600; }}
    .n {{ text-anchor: end; }}
    .met {{ stroke: #dd7430; }} .node {{ stroke: #3a8cc0; }}
    .met, .node {{ stroke-width: {width}; }}
    .from {{ stroke: #78828e; stroke-opacity: .3; }}
    .verb {{ stroke: #4a9a62; stroke-dasharray: 3 3; }} .said {{ fill: #4a9a62; font-weight: 600; }}
  </style>
{shapes}
</svg>
"""


def figure(title: str, walk: Walk, *, node: str = "") -> str:
    """Return a drawing of a walk: a line per file, a mark per function, from left to right.

    Rooms, and the files in them, stand in the order in which they are first met; behind a file are
    its number of functions and the first of them. What runs below a function whose name ends on
    `node` has another color.
    """
    met = [stack for stack in walk.order if not stack[-1][1].startswith("<")]
    rooms: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, (*_, (path, _)) in enumerate(met):
        package, *folders, file = path.split("/")
        rooms["/".join(folders if package == "catchment" else [package, *folders])][file] += [place]
    width = 350 / len(met)
    shapes, y = [], 16 + 15 * sum(len(stack) == 1 for stack in met)
    for room, files in rooms.items():
        shapes.append(f'  <text class="room" x="12" y="{y + 14}">{room or "catchment"}</text>')
        for file, places in files.items():
            shapes += [
                f'  <path class="from" d="M340 {y + 18.5}H690"/>',
                f'  <text class="n" x="332" y="{y + 14}">{file}</text>',
                f'  <text class="n" x="722" y="{y + 14}">{len(places)}</text>',
                f'  <text x="734" y="{y + 14}">{_shown(met[places[0]][-1][1])}</text>',
            ]
            for place in places:
                below = any(node and name.endswith(node) for _, name in met[place])
                x = 340 + width * (place + 0.5)
                kind = "node" if below else "met"
                shapes.append(f'  <path class="{kind}" d="M{x:.1f} {y + 4}v11"/>')
            y += 19
        y += 5
    verbs = ((k, stack[0][1]) for k, stack in enumerate(met) if len(stack) == 1)
    for row, (place, name) in enumerate(verbs):
        x = 340 + width * place
        shapes += [
            f'  <path class="verb" d="M{x:.1f} {22 + 15 * row}V{y}"/>',
            f'  <text class="said" x="{x:.1f}" y="{17 + 15 * row}">{_shown(name)}</text>',
        ]
    drawn = "\n".join(shapes)
    return FIGURE.format(height=y + 6, title=title, width=f"{max(width, 1):.2f}", shapes=drawn)


def _shown(name: str) -> str:
    return escape(name.split(".<locals>.")[-1].removesuffix(".__init__"))


def draw(*, check: bool) -> bool:
    """Write both figures, or only look; return whether they were what the traces give."""
    from catchment.parallel import use_cores

    use_cores(1)
    drawn = {
        "walk": figure("README's ten lines: which functions are met, file by file", walked(1)),
        "request": figure(
            "A plan through Flower: which functions are met, file by file",
            requested(),
            node="query",
        ),
    }
    right = True
    for name, text in drawn.items():
        path = IMAGES / f"{name}.svg"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            right = False
            print(f"{path.name} is not what the trace gives; run python -m tools.walk --figures")
            if not check:
                path.write_text(text, encoding="utf-8")
    return right


def main() -> None:
    """Print the counts, or draw."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("--json", action="store_true")
    asked.add_argument("--order", action="store_true")
    asked.add_argument("--figures", action="store_true")
    asked.add_argument("--check", action="store_true", help="with --figures: write nothing")
    options = asked.parse_args()
    if options.figures:
        sys.exit(0 if draw(check=options.check) or not options.check else 1)
    walk = walked()
    if options.order:
        for *callers, (file, name) in walk.order:
            if not name.startswith("<"):
                print("  " * min(len(callers), 30) + f"{name}   {file}")
    counts = walk.counts()
    print(json.dumps(counts) if options.json else "   ".join(f"{k} {v}" for k, v in counts.items()))


if __name__ == "__main__":
    main()
