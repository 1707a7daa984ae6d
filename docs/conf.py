"""Sphinx settings; every warning is an error (`make docs`)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

import catchment

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "catchment"
author = "The catchment authors"
copyright = "The catchment authors"
release = version = catchment.__version__

extensions = [
    "described",
    "mathml",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
html_math_renderer = "mathml"
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build", "_extensions"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
# Notebooks are kept with their outputs, and the tests run them: a build only draws them.
nb_execution_mode = "off"
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {"Array": "Array", "ArrayLike": "ArrayLike", "Integers": "Integers"}
napoleon_google_docstring = False
napoleon_numpy_docstring = True
# Docstrings write `name` for code, as Markdown does.
default_role = "code"
python_use_unqualified_type_names = True
add_module_names = False
maximum_signature_line_length = 90

html_theme = "furo"
pygments_dark_style = "github-dark"
html_static_path = ["_static"]
html_extra_path = ["_extra"]  # the playground, a page of its own
html_css_files = ["page.css"]
html_title = f"catchment {version}"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072b2", "color-brand-content": "#0072b2"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
}


VERBATIM = ".. code-block:: text"


def head_examples(
    app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]
) -> None:
    """Put a heading over examples that follow parameters, or they would pass for one of them."""
    sections = [k for k, line in enumerate(lines) if set(line) == {"-"}]
    for k in range(sections[0] if sections else len(lines), len(lines)):
        if lines[k].startswith(">>>"):
            lines[k:k] = ["Examples", "--------"]
            return


def keep_formulas(
    app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]
) -> None:
    """Set the indented passages of a module's docstring as they are written."""
    if what != "module":
        return
    kept: list[str] = []
    inside = False
    for line in lines:
        indented = line.startswith("    ")
        if indented and not inside and (not kept or not kept[-1]):
            kept += [VERBATIM, ""]
            inside = True
        elif line and not indented and inside:
            inside = False
            if kept[-1]:
                kept.append("")
        kept.append(line)
    lines[:] = kept


def keep_signs(
    app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]
) -> None:
    """Keep |x|, W_-k and *.csv from being taken for markup: our docstrings use backticks only."""
    literal = example = False
    for k, line in enumerate(lines):
        literal = line == VERBATIM or (literal and (not line or line.startswith("    ")))
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if literal or example or re.fullmatch(r"\s*[\w, ]*", line):
            continue
        pieces = re.split(r"(`[^`]*`)", line)
        pieces[::2] = [re.sub(r"[|*]|(?<=\w)_(?!\w)", r"\\\g<0>", piece) for piece in pieces[::2]]
        lines[k] = "".join(pieces)


def name_aliases(
    app: Sphinx,
    what: str,
    name: str,
    item: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str, str | None] | None:
    """Write a type alias by its name where Sphinx shows how it remembers it."""
    if signature is None:
        return None
    if signature == "(*args, **kwargs)":
        return "", None  # a protocol, which nobody calls
    signature = without_marks(signature)
    # With such a default Sphinx cannot parse the signature, and shows what it cannot link.
    if "<factory>" in signature:
        signature = re.sub(r"~(?:\w+\.)+", "", signature)
    remembered = re.compile(r"~?(?:sphinx\.util\.inspect\.)?TypeAliasForwardRef\('(\w+)'\)")
    short = None if returns is None else remembered.sub(r"\1", returns)
    return remembered.sub(r"\1", signature), short


def without_marks(signature: str) -> str:
    """Write Annotated[type, how it adds] as the type alone."""
    while (start := signature.find("Annotated[")) >= 0:
        first = start + len("Annotated[")
        depth, comma, end = 1, 0, first
        while depth:
            depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(signature[end], 0)
            comma = comma or (end if signature[end] == "," and depth == 1 else 0)
            end += 1
        before = signature[:start].removesuffix("typing.").removesuffix("~")
        signature = before + signature[first : comma or end - 1] + signature[end:]
    return signature


def setup(app: Sphinx) -> None:
    """Adjust docstrings and signatures before they are parsed."""
    app.connect("autodoc-process-docstring", head_examples, priority=1)
    app.connect("autodoc-process-docstring", keep_formulas, priority=2)
    app.connect("autodoc-process-docstring", keep_signs, priority=3)
    app.connect("autodoc-process-signature", name_aliases)
