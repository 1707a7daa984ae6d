"""N7: a refusal tells a server that data do not fit its plan, in the same words whatever is wrong.

"files do not fit the plan" came exactly where a value of the column to sort by occurs twice: one
bit per column and question. The words are the same for every reason now, and the questions few.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from catchment.errors import BudgetError, DeviceError, IntegrityError, RuleError, TooFewClientsError
from catchment.federation import TRAINING, Request, RoundContext, refusal
from catchment.plans import read_plan
from catchment.privacy import Policy
from catchment.wire import Message
from catchment_fleet.apps import guard
from catchment_fleet.apps.agreement import agreement
from tests.security.nodes import PLAN, SECURE, Nodes, rows

# Of three features, for which 60 rows may leave in the clear.
CLEAR = PLAN.replace("delays = 1", "delays = 1\norder = 1")
SAID = "this node's data do not fit the plan; the log of the node says why"
WRONG: dict[str, Callable[[str], str]] = {
    "a value twice": lambda line: line.replace(line.split(",")[0], "7", 1),
    "another label": lambda line: line.replace(",a,", ",q,"),
    "text in a column": lambda line: line.replace(line.split(",")[1], "secret", 1),
    "no number": lambda line: ",".join(["", *line.split(",")[1:]]),
}


def answered(nodes: Nodes, text: str) -> Message:
    """Return what a node says when it is asked for its upload in the clear."""
    (nodes.folder / "plan.toml").write_text(text)
    agreed = agreement(read_plan(nodes.folder / "plan.toml"), allow_plain_statistics=True)
    known = agreed.workflow.start()
    plan = agreed.allowed(TRAINING, agreed.workflow.plan(TRAINING, known))
    context = RoundContext(0, ())
    payload = plan.algorithm.broadcast(plan.algorithm.start(), context)
    request = Request(plan.fingerprint(), context, "update", payload, known.parts()).to_bytes()
    try:
        node = nodes.node("c00").client(TRAINING, request, nodes.memories["c00"])
        return Message.from_bytes(node.answer(request))
    except ValueError as error:
        return Message.from_bytes(refusal(error))


@pytest.mark.filterwarnings("ignore:statistics are not anonymous")
@pytest.mark.parametrize("wrong", WRONG)
def test_every_misfit_is_told_in_the_same_words(wrong: str, tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 1, policy="clear = true\n")
    assert answered(nodes, CLEAR).kind == "ridge-statistics"
    nodes = Nodes(tmp_path, 1, policy="clear = true\nchanged_data = true\n")
    nodes.write("c00", [*rows(0)[:30], *map(WRONG[wrong], rows(0)[30:])])
    said = answered(nodes, CLEAR)
    assert (said.kind, said.facts) == ("refusal", {"code": "refused", "reason": SAID})


@pytest.mark.filterwarnings("ignore:statistics are not anonymous")
def test_a_server_has_few_such_questions(tmp_path: Path) -> None:
    """A plan for every column, of which none has all values once."""
    nodes = Nodes(tmp_path, 1, policy="clear = true\nmisfits = 2\n")
    nodes.write("c00", [f"1,1,1,1,a,{line.split(',')[-1]}" for line in rows(0)])
    for column in "txy":
        assert answered(nodes, CLEAR.replace('time = "t"', f'time = "{column}"')).kind == "refusal"
    # The third was not read any more: a plan that would fit is refused in the same words.
    fits = CLEAR.replace('time = "t"\n', "")
    assert answered(nodes, fits).facts["reason"] == SAID
    (tmp_path / "policy.toml").write_text("clear = true\nmisfits = 3\n")
    assert answered(nodes, fits).kind == "ridge-statistics"


def test_what_is_told_in_full_is_about_rules_and_letters() -> None:
    memory: dict[str, bytes] = {}
    telling = guard.Misfits(Policy(), memory, "p")
    errors = [RuleError("a", "b"), DeviceError("a", "b"), BudgetError("b"), IntegrityError("b")]
    assert {type(error) for error in errors} == set(guard.TOLD)
    for error in errors:
        assert telling(error) is error
    assert memory == {}
    assert str(telling(ArithmeticError("the value 17.3"))) == SAID
    assert memory != {}


def test_the_rule_on_rows_does_not_count_them(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    nodes.write("c00", rows(0)[:1])
    with pytest.raises(TooFewClientsError, match="c00: too few rows for 6 features") as refused:
        nodes.summed(PLAN + SECURE.replace("2.0", "900.0"))
    assert "60" not in str(refused.value)
    assert nodes.entries("c00") == []  # nothing left
