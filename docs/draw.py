"""Draw the pictures of the documentation and the README into docs/images."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import catchment as ct
from catchment.data import mackey_glass
from catchment.federation.learn import FederatedAnomalyDetector
from catchment_lab import plots

IMAGES = Path(__file__).parent / "images"
PLAYGROUND = Path(__file__).parent / "_extra" / "playground" / "index.html"
PLAYGROUND_HEIGHT = 1574  # down to the end of the sums
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# A window has a least width, so that a page as narrow as a phone's is shown in a frame.
PHONE = """<!doctype html><meta name="color-scheme" content="light dark"><body style="margin:0">
<iframe style="width:390px;height:1500px;border:0" src="report.html"></iframe>"""


SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 740 {height}" \
font-family="system-ui, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="15" role="img" \
aria-labeledby="t">
  <title id="t">{title}</title>
  <style>
    text {{ fill: #78828e; }} .name {{ fill: #3a8cc0; font-weight: 600; }}
    .no {{ fill: #dd7430; font-weight: 600; }} .yes {{ fill: #4a9a62; font-weight: 600; }}
    .box {{ fill: none; stroke: #78828e; stroke-opacity: .55; stroke-width: 1.4; }}
    .spent {{ fill: #dd7430; fill-opacity: .6; }}
  </style>
{shapes}
</svg>
"""


def ledger_pictures() -> None:
    """Draw the three promises of a client's ledger: a line each of who, what and the answer."""
    promises = {
        "ledger-same-set": (
            "The same set: exact sums of the same data go with one set of clients",
            [
                ("first sum", "ann  ben  cat  dan", "yes", "opened: ann's set from now on"),
                ("another plan", "ann  ben  cat  dan", "yes", "the same set: opened"),
                ("another plan", "ben  cat  dan", "no", "refused: the difference would be ann"),
            ],
        ),
        "ledger-what-left": (
            "What has left counts: an upload is entered before it goes out",
            [
                ("ann enters", "ann  ben  cat  dan", "yes", "then her upload leaves"),
                ("ann is lost", "ben  cat  dan", "yes", "open the sum of all four without her"),
                ("ann, one row more", "ann  ben  cat  dan", "no", "refused: the row would be read"),
            ],
        ),
    }
    for name, (title, lines) in promises.items():
        shapes = []
        for k, (when, who, answer, why) in enumerate(lines):
            y = 16 + 52 * k
            shapes += [
                f'  <rect class="box" x="170" y="{y}" width="200" height="38" rx="9"/>',
                f'  <text x="12" y="{y + 25}">{when}</text>',
                f'  <text class="name" x="186" y="{y + 25}" xml:space="preserve">{who}</text>',
                f'  <text class="{answer}" x="390" y="{y + 25}">{why}</text>',
            ]
        _write_svg(name, title, shapes, 16 + 52 * len(lines))
    shapes = ['  <rect class="box" x="170" y="16" width="260" height="38" rx="9"/>']
    for k, when in enumerate(("first plan", "another order", "fewer columns")):
        x = 170 + 112 * k
        shapes += [
            f'  <rect class="spent" x="{x}" y="16" width="110" height="38" rx="9"/>',
            f'  <text x="{x + 4}" y="76">{when}</text>',
        ]
    shapes += [
        '  <text x="12" y="41">what may be told</text>',
        '  <text class="no" x="516" y="41">refused: above epsilon</text>',
    ]
    _write_svg("ledger-noise", "Noise adds up, whatever a plan reads", shapes, 92)


def by_files_pictures() -> None:
    """Draw the way of the files with two servers, and what is in a site's folder."""
    shapes = []
    for k, name in enumerate(("site 1", "site 2", "site 12")):
        y = 16 + 56 * k
        shapes += [
            f'  <rect class="box" x="12" y="{y}" width="100" height="38" rx="9"/>',
            f'  <text class="name" x="28" y="{y + 25}">{name}</text>',
            f'  <path class="box" d="M116 {y + 19} L318 91" marker-end="url(#end)"/>',
        ]
    shapes += [
        '  <defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path class="box" d="M1 1 L7 4 L1 7"/></marker></defs>',
        '  <text x="176" y="26">masked numbers</text>',
        '  <text x="176" y="44">and a sealed seed</text>',
        '  <rect class="box" x="322" y="72" width="120" height="38" rx="9"/>',
        '  <text class="name" x="338" y="97">leader</text>',
        '  <text x="322" y="62">adds the numbers</text>',
        '  <rect class="box" x="606" y="72" width="120" height="38" rx="9"/>',
        '  <text class="name" x="622" y="97">helper</text>',
        '  <text x="606" y="62">opens seeds</text>',
        '  <path class="box" d="M446 82 L600 82" marker-end="url(#end)"/>',
        '  <text x="470" y="72">seeds of a batch</text>',
        '  <path class="box" d="M602 102 L450 102" marker-end="url(#end)"/>',
        '  <text x="446" y="124">signed sum of masks</text>',
        '  <text class="yes" x="322" y="172">sum - masks = the exact sum, and the model</text>',
    ]
    title = "Each site sends one file; leader and helper learn the sum of a batch, or nothing"
    _write_svg("by-files", title, shapes, 190)
    held = [
        ("plan.toml", "what is learned, from which columns", "name"),
        ("README.txt", "what to type, and the columns that files must have", "name"),
        ("identities.json", "everybody's public keys", "name"),
        ("keys/", "the private key, the ledger and the policy: stay here", "no"),
        ("data/", "the recordings: stay here", "no"),
        ("site1.contribution", "signed: this file is mailed", "yes"),
    ]
    shapes = ['  <rect class="box" x="12" y="12" width="716" height="192" rx="9"/>']
    for k, (name, what, kind) in enumerate(held):
        shapes += [
            f'  <text class="{kind}" x="30" y="{40 + 29 * k}">{name}</text>',
            f'  <text x="230" y="{40 + 29 * k}">{what}</text>',
        ]
    _write_svg("by-files-kit", "What is in a site's folder", shapes, 216)


def _write_svg(name: str, title: str, shapes: list[str], height: int) -> None:
    text = SVG.format(height=height, title=title, shapes="\n".join(shapes))
    (IMAGES / f"{name}.svg").write_text(text)


def reservoir_pictures() -> None:
    """Draw a small-world reservoir, its spectrum and its states."""
    reservoir = ct.Reservoir(
        units=80, topology="small_world", connections=4, rewiring=0.15, leak_rate=0.3, seed=2
    )
    _save(plots.reservoir_graph(reservoir.layers[0]), "graph")
    _save(plots.spectrum(reservoir.layers[0]), "spectrum")
    u = mackey_glass(400, seed=1) - 0.9
    driven = replace(reservoir, input_scaling=2.0, bias_scaling=0.0)
    _save(plots.states(driven.states(u), inputs=u, units=5), "states")


def anomaly_picture() -> None:
    """Draw the channels of a machine with a fault, its scores, the threshold and the alarms."""
    rng = [np.random.default_rng(k) for k in range(10)]
    time = np.arange(800) / 6
    waves = np.column_stack([np.sin(time), np.cos(time)])
    machines = [waves + 0.1 * one.normal(size=waves.shape) for one in rng]
    features = ct.NVAR(delays=3, order=1, washout=3).build(2, per_step=True)
    plan = ct.Plan(
        algorithm=FederatedAnomalyDetector(features=features, false_positive_rate=0.01), rounds=2
    )
    clients = {f"machine-{k}": [ct.Recording(u)] for k, u in enumerate(machines[:6])}
    detector = ct.federate(plan, clients).result
    new = machines[9].copy()
    new[500:530, 1] += 1.5
    scores = -detector.score_samples(new)
    steps = detector.washout + np.arange(len(scores))
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for channel, color in enumerate(("#0072b2", "#e69f00")):
        above.plot(new[:, channel], lw=0.8, color=color, label=f"channel {channel + 1}")
    below.semilogy(steps, scores, lw=0.8, color="0.35", label="score")
    alarms = scores > detector.threshold
    below.plot(steps[alarms], scores[alarms], ".", color="#d55e00", label="alarm")
    below.axhline(detector.threshold, color="#d55e00", ls="--", lw=1, label="threshold, for 1 %")
    for axes in (above, below):
        axes.axvspan(500, 530, color="#d55e00", alpha=0.12, lw=0)
        axes.legend(loc="upper left", ncols=3, fontsize=8)
        axes.set_xlim(300, 700)
    above.set_ylim(-2, 4)
    below.set_ylim(0.01, 3000)
    above.set_ylabel("inputs")
    below.set_ylabel("score")
    below.set_xlabel("step; the fault is shaded")
    _save(figure, "anomalies")


def report_pictures() -> None:
    """Photograph the report of the demonstration."""
    with tempfile.TemporaryDirectory() as place:
        demo = [sys.executable, "-m", "catchment.cli", "demo", "--out", place]
        subprocess.run(demo, check=True, capture_output=True)
        _photograph("report", (Path(place) / "report.html").as_uri(), 1100, 1840)


def page_pictures() -> None:
    """Photograph the first page and a guide of the built documentation: light, dark, on a phone."""
    built = Path(__file__).parent / "_build" / "html"
    for name, page in (("first-page", "index.html"), ("guide", "guides/by-files.html")):
        address = (built / page).as_uri()
        shots = [IMAGES / f"{name}-{k}.png" for k in range(3)]
        with tempfile.TemporaryDirectory() as place:
            narrow = Path(place) / "narrow.html"
            narrow.write_text(PHONE.replace("report.html", address), encoding="utf-8")
            _photograph(shots[0].stem, address, 1280, 1000)
            _photograph(shots[1].stem, address, 1280, 1000, dark=True)
            _photograph(shots[2].stem, narrow.as_uri(), 390, 1000)
        widths, sheet = (640, 640, 195), Image.new("RGB", (1495, 500), "#888")
        for shot, width, left in zip(shots, widths, (0, 650, 1300), strict=True):
            seen = Image.open(shot).convert("RGB").resize((width, 500), Image.Resampling.LANCZOS)
            sheet.paste(seen, (left, 0))
            shot.unlink()
        _few_colors(sheet).save(IMAGES / f"{name}.png", optimize=True)


def playground_picture() -> None:
    """Photograph the playground with one client taken out, down to the sums."""
    _photograph("playground", f"{PLAYGROUND.as_uri()}#out=2", 1200, PLAYGROUND_HEIGHT)


def _photograph(name: str, url: str, width: int, height: int, *, dark: bool = False) -> None:
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise SystemExit("pages are drawn with chromium, which is not here; run make browser")
    with tempfile.TemporaryDirectory() as place:
        raw = Path(place) / "raw.png"
        command = [
            *(browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--no-first-run", "--disable-dev-shm-usage", f"--user-data-dir={place}/profile"),
            *(f"--screenshot={raw}", f"--window-size={width},{height}"),
            *(f"--blink-settings=preferredColorScheme={0 if dark else 1}", url),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        IMAGES.mkdir(exist_ok=True)
        shown = Image.open(raw).convert("RGB").crop((0, 0, width, height))
        _few_colors(shown).save(IMAGES / f"{name}.png", optimize=True)


def _few_colors(image: Image.Image) -> Image.Image:
    """Return the picture in 256 colors: the 64 that cover most, and 192 for the others.

    Each of the others counts by the root of its area: by area, the many shades of heat maps would
    take the colors of lines away.
    """
    found = sorted(image.getcolors(image.width * image.height) or [], reverse=True)
    kept = [color for _, color in found[:64]]
    rest = [color for count, color in found[64:] for _ in range(1 + round(count**0.5))]
    if not rest:
        return image.quantize(256)
    sample = Image.fromarray(np.array([rest], dtype=np.uint8)).quantize(192)
    table = Image.new("P", (1, 1))
    table.putpalette(
        [*np.array(kept, dtype=np.uint8).ravel().tolist(), *(sample.getpalette() or [])]
    )
    return image.quantize(palette=table, dither=Image.Dither.NONE)


def _save(figure: Figure, name: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(IMAGES / f"{name}.png", dpi=90, metadata={"Software": None})


if __name__ == "__main__":
    ledger_pictures()
    by_files_pictures()
    reservoir_pictures()
    anomaly_picture()
    report_pictures()
    playground_picture()
    page_pictures()
