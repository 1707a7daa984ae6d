"""The parts of a page: its frame and colors, figures, and how numbers are written.

Colors of every picture: told apart by color-blind readers, on a light or a dark page.

The series colors are those of Okabe and Ito (2008), ordered by contrast with the page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from importlib import resources


@dataclass(frozen=True)
class Theme:
    """Colors by their use, as hexadecimal strings."""

    page: str
    text: str
    muted: str
    grid: str
    series: tuple[str, ...]
    diverging: tuple[str, str, str, str, str]  # negative to positive, the middle near the page
    warning: str  # of words
    deepest: float  # most of the first series in a cell, in percent, on which text is still read


LIGHT = Theme(
    page="#ffffff",
    text="#1f2328",
    muted="#6b7280",
    grid="#e3e6ea",
    series=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
    diverging=("#b35806", "#f1a340", "#e6e6e6", "#6ba6cd", "#08519c"),
    warning="#b34700",
    deepest=65,
)
DARK = Theme(
    page="#14181d",
    text="#e6e9ed",
    muted="#9aa3ad",
    grid="#2c333b",
    series=("#56b4e9", "#e69f00", "#2bc499", "#e59ac0", "#f0e442", "#ff7f3f"),
    diverging=("#ffb366", "#c7701f", "#3a424b", "#3d86bd", "#8fd0ff"),
    warning="#f0a030",
    deepest=40,
)


def theme(dark: bool) -> Theme:
    """Return the colors for a light or a dark page.

    >>> theme(dark=False).page
    '#ffffff'
    """
    return DARK if dark else LIGHT


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, body: str) -> str:
    """Return a whole page that asks no one for anything: its policy forbids it to.

    >>> page("A & B", "<p>text</p>")[:35]
    '<!doctype html><html lang="en"><hea'
    """
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(title)}</title><style>{style()}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def scrolling(inside: str, label: str, *, broad: bool) -> str:
    """Return a table in a box that scrolls where it is too wide, and says that it does.

    The words below it show only while there is more to the right. Browsers that cannot tell show
    them on small screens under tables that are broad.
    """
    kind = ' class="more broad"' if broad else ' class="more"'
    about = f' role="region" aria-label="{escape(label)}"' if label else ""
    return (
        f'<div class="table"><div class="scroll" tabindex="0"{about}>{inside}</div>'
        f'<p{kind} aria-hidden="true">There is more to the right: scroll the table →</p></div>'
    )


def figure(title: str, inside: str, caption: str = "", *, anchor: str = "", kind: str = "") -> str:
    """Return a chart or a table with a heading above and a sentence below.

    Parameters
    ----------
    anchor
        By what a link finds it.
    kind
        "wide" has the whole width of the page, "tall" has two others beside it.

    >>> figure("A & B", "", "text")
    '<figure><h3>A &amp; B</h3><figcaption>text</figcaption></figure>'
    """
    marks = (f' id="{anchor}"' if anchor else "") + (f' class="{kind}"' if kind else "")
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure{marks}><h3>{escape(title)}</h3>{inside}{below}</figure>"


def named(name: str) -> str:
    """Return a name that cannot change the words around it, in whichever direction it is written.

    >>> named("a<b")
    '<bdi>a&lt;b</bdi>'
    """
    return f"<bdi>{escape(name)}</bdi>" if name else ""


def score(value: float, metric: str, digits: int = 4) -> str:
    """Return a score as people say it.

    >>> score(0.5, "accuracy"), score(0.5, "NRMSE"), score(math.nan, "NRMSE")
    ('50.0 %', '0.5', '-')
    """
    if math.isnan(value):
        return "-"
    return f"{100 * value:.1f} %" if metric == "accuracy" else f"{value:.{digits}g}"


def style() -> str:
    """Return the style sheet of pages, light and dark.

    >>> "prefers-color-scheme: dark" in style()
    True
    """
    css = (resources.files("catchment.report") / "report.css").read_text(encoding="utf-8")
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}"
    return f":root {{ {_variables(LIGHT)} }} {dark} {css}"


def _variables(theme: Theme) -> str:
    series = {f"s{k}": color for k, color in enumerate(theme.series)}
    colors = {
        "page": theme.page,
        "text": theme.text,
        "muted": theme.muted,
        "grid": theme.grid,
        "cell": theme.grid,
        "warn": theme.warning,
        "deep": f"{theme.deepest:g}%",
    }
    return " ".join(f"--{name}: {color};" for name, color in (colors | series).items())
