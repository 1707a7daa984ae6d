"""Colours of every picture: told apart by colour-blind readers, on a light or a dark page.

The series colours are those of Okabe and Ito (2008), ordered by contrast with the page.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Theme:
    """Colours by their use, as hexadecimal strings."""

    page: str
    text: str
    muted: str
    grid: str
    series: tuple[str, ...]
    diverging: tuple[str, str, str, str, str]  # negative to positive, the middle near the page
    sequential: tuple[str, str, str]  # nothing to everything
    warning: str  # of words
    deepest: float  # most of the first series in a cell, in percent, on which text is still read


LIGHT = Theme(
    page="#ffffff",
    text="#1f2328",
    muted="#6b7280",
    grid="#e3e6ea",
    series=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
    diverging=("#b35806", "#f1a340", "#e6e6e6", "#6ba6cd", "#08519c"),
    sequential=("#ffffff", "#6baed6", "#08306b"),
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
    sequential=("#14181d", "#2f6f9f", "#b8e2ff"),
    warning="#f0a030",
    deepest=40,
)


def theme(dark: bool) -> Theme:
    """Return the colours for a light or a dark page.

    >>> theme(dark=False).page
    '#ffffff'
    """
    return DARK if dark else LIGHT
