"""Say in every page's head what it is about, and let the search find it by the words of the field.

The description is the page's first paragraph. The keywords are below: a word leads to the pages
that are about it, in the built-in search too.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx

WORDS = {
    "analytic federated learning": ("concepts/analytic-federated-learning",),
    "audit": ("guides/audit",),
    "closed-form": ("concepts/statistics", "index"),
    "conformal intervals": ("guides/forecasting", "notebooks/forecasting"),
    "convolution kernels": ("guides/random-convolutions",),
    "cross-validation": ("guides/cross-validation",),
    "differential privacy": ("guides/differential-privacy",),
    "drift": ("guides/online",),
    "echo state network": ("concepts/echo-state",),
    "edge": ("guides/export",),
    "export": ("guides/export",),
    "FedAvg": ("concepts/analytic-federated-learning",),
    "federated ridge regression": ("concepts/statistics",),
    "Flower": ("guides/flower", "notebooks/private-federation-on-flower"),
    "forecast": ("guides/forecasting", "notebooks/forecasting"),
    "GPU": ("guides/gpu",),
    "human activity recognition": ("notebooks/har-on-unseen-people",),
    "hyperparameter search": ("guides/search",),
    "install": ("guides/install",),
    "intrinsic plasticity": ("guides/plasticity",),
    "leave-one-subject-out": ("guides/cross-validation",),
    "machine unlearning": ("guides/unlearning",),
    "memory capacity": ("guides/playground",),
    "microcontroller": ("guides/edge",),
    "MiniRocket": ("guides/random-convolutions",),
    "missing values": ("guides/preprocessing",),
    "next-generation reservoir computing": ("guides/feature-maps",),
    "one-shot federated learning": ("concepts/analytic-federated-learning",),
    "online learning": ("guides/online",),
    "ONNX": ("guides/export", "guides/feature-maps"),
    "personalization": ("guides/personal",),
    "playground": ("guides/playground",),
    "prediction intervals": ("guides/forecasting", "notebooks/forecasting"),
    "pseudo-labels": ("guides/adapt",),
    "resampling": ("guides/preprocessing",),
    "reservoir computing": ("concepts/echo-state",),
    "ROCKET": ("guides/random-convolutions",),
    "scikit-learn": ("guides/scikit-learn",),
    "secure aggregation": ("guides/secure-aggregation",),
    "self-training": ("guides/adapt",),
    "simulation": ("guides/scale",),
    "sliding windows": ("guides/preprocessing",),
    "unlearning": ("guides/unlearning",),
}
LONGEST = 300


def keywords(page: str) -> list[str]:
    """Return the words that lead to a page."""
    return [word for word, pages in WORDS.items() if page in pages]


def described(document: nodes.document) -> str:
    """Return the first paragraph of a page, as one line that a search engine would show."""
    for paragraph in document.findall(nodes.paragraph):
        text = re.sub(r"\s+", " ", paragraph.astext()).strip()
        if text:
            return text if len(text) <= LONGEST else f"{text[:LONGEST].rsplit(' ', 1)[0]} ..."
    return ""


def describe(app: Sphinx, document: nodes.document) -> None:
    """Put the description and the keywords into the page, unless it has its own."""
    page = app.env.current_document.docname
    told = {node.get("name") for node in document.findall(nodes.meta)}
    for name, content in (
        ("description", described(document)),
        ("keywords", ", ".join(keywords(page))),
    ):
        if content and name not in told:
            document.insert(0, nodes.meta(name=name, content=content))


def setup(app: Sphinx) -> dict[str, bool]:
    """Describe every page once it has been read."""
    app.connect("doctree-read", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
