"""What left the clients of a run, what came to them, what never left, and what was run."""

from __future__ import annotations

from html import escape

from catchment.federation.runs.explain import Explanation, Sent, explain
from catchment.federation.runs.read import Run
from catchment.federation.runs.write import PLAN
from catchment.report.page import listed

_FACTS = {
    "map": "feature map",
    "map_label": "what it is",
    "units": "reservoir units",
    "n_features": "features",
    "features_fingerprint": "features' fingerprint",
    "plan_fingerprint": "plan's fingerprint",
    "model_sha256": "model file, SHA-256",
    "scaling": "scaling of inputs",
    "started": "started",
    "finished": "finished",
}


def left(run: Run) -> str:
    """Return what left the clients, what it tells, and what never left."""
    explained = explain(run)
    cards = "".join(map(_sent, explained.up))
    return (
        f"<h3>What left the clients</h3>{cards or '<p>Nothing yet.</p>'}"
        '<p class="note"><b>Statistics are not anonymous.</b> Only differential privacy gives a '
        "bound on what can be learned about a client or a recording.</p>"
        f"<h3>What is bounded by differential privacy</h3>{listed(explained.bounded)}"
        f"<h3>What never left</h3>{_never(explained)}{_kept(explained)}"
        f"<h3>What came to the clients</h3>{listed(explained.down) or '<p>Nothing yet.</p>'}"
    )


def what_was_run(run: Run) -> str:
    """Return the settings and fingerprints of a run, and its plan."""
    shown = {label: run.facts[name] for name, label in _FACTS.items() if run.facts.get(name)}
    items = "".join(
        f"<dt>{escape(label)}</dt><dd><code>{escape(text)}</code></dd>"
        for label, text in shown.items()
    )
    plan = run.folder / PLAN
    text = plan.read_text(encoding="utf-8") if plan.is_file() else ""
    inside = f"<summary>The plan, to run this again</summary><pre>{escape(text)}</pre>"
    again = f"<details>{inside}</details>" if text else ""
    known = f"<dl>{items}</dl>" if items else "<p>Nothing is written down yet.</p>"
    return f"<h3>What was run</h3>{known}{again}"


def _sent(one: Sent) -> str:
    if one.kind is None:
        told = "<p>What is in it is not described here: assume that all of it can be read.</p>"
    else:
        told = f"<p>It holds {escape(one.kind.holds)}. Whoever reads it learns:</p>"
        told += listed(one.kind.tells)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in one.notes)
    heading = f"<h4>{escape(one.stage)}: {escape(one.purpose)}</h4>"
    return f'<div class="sent">{heading}<p>{escape(one.sentence())}</p>{told}{notes}</div>'


def _never(explained: Explanation) -> str:
    texts = list(explained.never)
    if explained.unknown:
        texts.append(f"not known: there are messages of kind {', '.join(explained.unknown)}")
    return listed(texts)


def _kept(explained: Explanation) -> str:
    if not explained.kept:
        return ""
    heading = "<h3>What the run's folder has of clients, beside their messages</h3>"
    return heading + listed(explained.kept)
