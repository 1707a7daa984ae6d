"""What the examples print, kept as JSON for the tables of docs/results.md.

    python -m benchmarks.examples [--data DIR]         # results/examples.json

NARMA-10 needs no data; Japanese Vowels and UCI HAR are left as they are in the file if their data
are not there. Five seeds each, so this takes minutes.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.record import RESULTS, machine

EXAMPLES = Path(__file__).parents[1] / "examples"
FILE = RESULTS / "examples.json"
ROW = re.compile(r"^(\S.*?) {2,}(\d+\.\d{4})(?: ± (\d+\.\d{4}))?", re.MULTILINE)


def parse(printed: str) -> dict[str, list[float]]:
    """Return the value of each line of a table, and its deviation where it has one.

    >>> parse("NARMA-10, NRMSE\\nmean of the target   1.0069 ± 0.0134\\nlargest class   0.1822\\n")
    {'mean of the target': [1.0069, 0.0134], 'largest class': [0.1822]}
    """
    return {name: [float(n) for n in numbers if n] for name, *numbers in ROW.findall(printed)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="data directory")
    options = parser.parse_args()
    kept = json.loads(FILE.read_text())["examples"] if FILE.exists() else {}
    for name in ("narma", "japanese_vowels", "uci_har"):
        data = ["--data", options.data] if options.data and name != "narma" else []
        command = [sys.executable, str(EXAMPLES / f"{name}.py"), *data]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        print(done.stdout or done.stderr, flush=True)
        if done.returncode == 0:
            kept[name] = parse(done.stdout)
            FILE.write_text(json.dumps({"machine": machine(), "examples": kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
