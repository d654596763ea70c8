"""Tells people of a plan, in history and log."""

from __future__ import annotations

import logging
from typing import Any

from sidecar.base.log_setup import ROUTINE
from sidecar.plans.plan_gain import PlanGain
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import reason_words

log = logging.getLogger(__name__)

_MOST_REASON = 500


def entry_details(plan: AdaptationPlan, carried_out: bool, gain: PlanGain) -> dict[str, Any]:
    """Return what the history keeps of a plan beside its words."""
    return {
        "cycle": plan.cycle,
        "decision": plan.decision,
        "carried_out": carried_out,
        "reason": _short(plan.reason),
        "predicted_gain_ratio": gain.ratio,
        "mean_access_time_before_seconds": plan.mean_access_time_before_seconds,
        "mean_access_time_seconds": plan.mean_access_time_seconds,
        "sizes_before_bytes": {s.name: s.maxmemory_before_bytes for s in plan.servers},
        "sizes_bytes": {s.name: s.maxmemory_bytes for s in plan.servers},
        # Servers that stay have the plan's own reason.
        "reasons": {
            s.name: _short(s.reason)
            for s in plan.servers
            if s.maxmemory_bytes != s.maxmemory_before_bytes
        },
    }


def _short(reason: str) -> str:
    """Return a reason of no more than our own planner's: a planner elsewhere could push all other
    plans out of the history by long ones."""
    return reason if len(reason) <= _MOST_REASON else f"{reason[:_MOST_REASON]}..."


def decision_words(plan: AdaptationPlan, objection: str | None, gain: PlanGain) -> str:
    """Say what a plan does and why; ``objection``: why it is not carried out."""
    if plan.decision == "keep":
        return f"plan {plan.cycle} keeps all sizes: {_why(plan, gain)}"
    verb = "moves memory" if objection is None else f"would move memory ({objection})"
    return f"plan {plan.cycle} {verb}: {_why(plan, gain)}"


def _why(plan: AdaptationPlan, gain: PlanGain) -> str:
    """Return the reason, what it gains if that does not stand in it, and how little is known. A
    plan to go back is made because promises were not kept, and not every planner predicts."""
    words = [reason_words(_short(plan.reason))]
    moves = plan.decision == "apply" and not plan.reason.startswith("back:")
    if moves and gain.words is not None and gain.words not in words[0]:
        words.append(gain.words)
    return "; ".join([*words, gain.known] if gain.known else words)


def sizes_words(plan: AdaptationPlan) -> str:
    """Return the sizes that it changes."""
    return ", ".join(
        f"{server.name} {format_size(server.maxmemory_before_bytes)} -> "
        f"{format_size(server.maxmemory_bytes)}"
        for server in plan.servers
        if server.maxmemory_bytes != server.maxmemory_before_bytes
    )


def log_decision(plan: AdaptationPlan, objection: str | None, gain: PlanGain, source: str) -> None:
    """Log a plan in short: each server's reason is in the history, and in the plan's document.
    ``source``: that document, and who made it."""
    if plan.decision == "keep":
        known = f"; {gain.known}" if gain.known else ""
        words = "plan: cycle %d, keep, %s, %s%s"
        log.info(words, plan.cycle, source, plan.reason, known, extra=ROUTINE)
        return
    log.info(
        "plan: cycle %d, %s, by %s with a gap of %.2f %%, %s, %s: %s: %s",
        plan.cycle,
        plan.decision if objection is None else f"recommended only, as {objection}",
        plan.method,
        100 * plan.optimality_gap,
        source,
        plan.reason.partition(":")[0],
        _why(plan, gain),
        sizes_words(plan),
        extra=None if objection is None else ROUTINE,
    )
