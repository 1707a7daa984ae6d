"""The C of a client of a Yule-Walker forecast: autocovariances in a few bytes for each lag."""

from __future__ import annotations

from pathlib import Path

from catchment_edge.c.code import tree

SOURCES = Path(__file__).parent.parent / "sources"
NAMES = ("lags.h", "lags.c")
MOST = 60_000  # lags that the counters hold


def lags_c_code(lookback: int, horizon: int, *, board: str | None = None) -> dict[str, str]:
    """Return the C of a client's autocovariances, by the names of its two files.

    It needs 7 bytes for each lag, below 8 kB for a lookback of 336 values and a horizon of 720, and
    makes the integers that `catchment.readout.autocovariances` makes. A value that is missing
    begins another series.

    Parameters
    ----------
    lookback, horizon
        As of the plan: its `delays`, and its largest horizon.
    board
        The files of the tree that this board's tools unpack, as of `CCode.firmware`.

    >>> files = lags_c_code(336, 720)
    >>> sorted(files), "#define LAGS 1056" in files["lags.h"]
    (['lags.c', 'lags.h'], True)
    """
    lags = lookback + horizon
    if not 0 < lookback < lags <= MOST:
        raise ValueError(
            f"lookback is {lookback} and horizon {horizon}; give two numbers from 1 on, together "
            f"{MOST} at most"
        )
    files = {name: (SOURCES / name).read_text(encoding="utf-8") for name in NAMES}
    files["lags.h"] = files["lags.h"].replace("#define LAGS 1056", f"#define LAGS {lags}")
    if board is None:
        return files
    main = SOURCES.parent / "firmware" / "parts" / f"{board}.c"
    marks = {
        "SENTENCE": f"Sums the autocovariances of one series up to lag {lags}.",
        "KEYWORDS": "\n".join(f"lags_{one}\tKEYWORD2" for one in ("start", "feed", "gap", "sent")),
        "SELFTEST_KCONFIG": "",
        "MAIN": main.read_text("utf-8") if main.exists() else "",
        "INCLUDES": "#include <zephyr/console/console.h>\n\n" if board == "zephyr" else "",
        "USE": "    lags.feed(lags.fixed(21.5, mean, scale))\n    sums = lags.sums()",
    }
    return tree(board, "lags", "autocovariances", files, marks)
