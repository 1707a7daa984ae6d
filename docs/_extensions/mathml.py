"""Write formulas as MathML, which browsers draw by themselves: no script and no other host."""

from __future__ import annotations

import html

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

# A prime in a superscript is made small twice; page.css undoes one of them.
PRIME = ("<mi>&#x02032;</mi>", '<mo class="prime" lspace="0" rspace="0">&#x02032;</mo>')


def mathml(formula: str, display: str) -> str:
    """Return a formula in TeX as MathML, with the TeX as what a screen reader may say instead.

    Examples
    --------
    >>> mathml("x", "inline").startswith("<math")
    True
    """
    known = formula.replace("{aligned}", "{align*}")  # the one that latex2mathml knows
    written = convert(known, display=display).replace(*PRIME)
    return written.replace("<math ", f'<math alttext="{html.escape(formula.strip())}" ', 1)


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula that has lines of its own; a wide one scrolls by itself."""
    self.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer this way of writing formulas under the name "mathml"."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
