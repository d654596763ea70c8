"""What ``spreds explain`` says of a running node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sidecar.commands.plan_details import reasons_once
from sidecar.commands.plan_words import gain_words, no_plan_words, plan_in_short
from sidecar.commands.state_words import state_words
from solver_lambda.documents.words import reason_words


def last_plan_sentences(told: Mapping[str, Any], *, is_verbose: bool = True) -> list[str]:
    """Of the node: what is done with plans now, and what the last one was."""
    now = dict(told)
    first, *more = state_words(now)
    found = [f"Now: {first}.", *(f"{words[0].upper()}{words[1:]}." for words in more)]
    plan = told["last_plan"]
    found.append(f"The last plan: {plan_in_short(now)}." if plan else no_plan_words(now))
    outcome = told["last_check"]["words"] if told["last_check"] else ""
    if plan is not None and is_verbose:
        gain = gain_words(plan)
        if gain.startswith("mean") and gain not in reason_words(plan["reason"]):
            figures = gain.removeprefix("mean access time ")
            verb = "goes" if figures.startswith("from") else "is"
            found.append(f"By the curves, the mean access time {verb} {figures}.")
        found += [f"{words}." for words in reasons_once(plan, now)]
    if outcome:
        found.append(f"The last outcome: {outcome if is_verbose else outcome.partition(';')[0]}.")
    return found
