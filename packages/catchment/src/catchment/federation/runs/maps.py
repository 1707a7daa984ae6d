"""What a run says of its feature maps: which was chosen, and what each of them scored."""

from __future__ import annotations

import json
from collections.abc import Mapping

from catchment.federation.algorithm import Kept


def map_facts(kept: Kept, note: str = "") -> dict[str, str]:
    """Return the facts of a run that tell of a choice among maps; none if there was none.

    Parameters
    ----------
    note
        Why the choice was not made, though it was asked for.

    >>> sorted(map_facts(Kept(maps={"small": 0.5, "large": 0.25}, chosen="large")))
    ['map_chosen', 'map_scores']
    """
    facts = {"map_note": note} if note else {}
    if len(kept.maps) > 1:
        facts |= {"map_chosen": kept.chosen, "map_scores": json.dumps(dict(kept.maps))}
    return facts


def map_scores(facts: Mapping[str, str]) -> dict[str, float]:
    """Return what each map scored on clients left out, the best first; nothing if one was given."""
    scores: dict[str, float] = json.loads(facts.get("map_scores", "{}"))
    return dict(sorted(scores.items(), key=lambda one: one[1]))


def map_sentence(facts: Mapping[str, str]) -> str:
    """Return which map was chosen and how the others did; nothing if there was no choice.

    >>> facts = map_facts(Kept(maps={"small": 0.5, "large": 0.25}, chosen="large"))
    >>> print(map_sentence(facts))
    map chosen: large, NRMSE 0.25 on clients left out (small: 0.5); clients sent the statistics of
    all 2
    """
    if facts.get("map_note"):
        return f"map: {facts['map_note']}"
    scores, chosen = map_scores(facts), facts.get("map_chosen", "")
    if chosen not in scores:
        return ""
    others = "; ".join(f"{name}: {said(score)}" for name, score in scores.items() if name != chosen)
    return (
        f"map chosen: {chosen}, NRMSE {said(scores[chosen])} on clients left out ({others}); "
        f"clients sent the statistics of all {len(scores)}"
    )


def said(score: float) -> str:
    """Return a score in three digits.

    >>> said(0.12345)
    '0.123'
    """
    return f"{score:.3g}"
