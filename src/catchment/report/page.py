"""The parts of a page: its frame and colours, tables, figures, and how numbers are written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from catchment.report.theme import DARK, LIGHT, Theme

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
        f"<title>{escape(title)}</title><style>{_style()}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def table(
    head: Sequence[str],
    rows: Sequence[tuple[str, Sequence[str]]],
    numbers: Iterable[int],
    kind: str,
) -> str:
    """Return a table; each row has its class and its cells, which are HTML already.

    >>> table(["a"], [("", ["1"])], [0], "").count("<td class=n>1</td>")
    1
    """
    right = set(numbers)

    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if k in right else ''}>{text}</{tag}>"
            for k, text in enumerate(texts)
        )

    body = "".join(
        f"<tr{f' class={mark}' if mark else ''}>{cells('td', row)}</tr>" for mark, row in rows
    )
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{cells("th", head)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def figure(title: str, chart: str, caption: str) -> str:
    """Return a chart with a heading above and a sentence below."""
    return f"<figure><h3>{title}</h3>{chart}<figcaption>{escape(caption)}</figcaption></figure>"


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
    return _style()


def _style() -> str:
    css = (resources.files("catchment.report") / "page.css").read_text(encoding="utf-8")
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}"
    return f":root {{ {_variables(LIGHT)} }} {dark} {css}"


def _variables(theme: Theme) -> str:
    series = {f"s{k}": colour for k, colour in enumerate(theme.series)}
    colours = {
        "page": theme.page,
        "text": theme.text,
        "muted": theme.muted,
        "grid": theme.grid,
        "cell": theme.grid,
    }
    return " ".join(f"--{name}: {colour};" for name, colour in (colours | series).items())
