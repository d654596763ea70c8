"""Says what plans bring, by the curves and as measured, for ``spreds status``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sidecar.base.time_of_day import time_of_day
from sidecar.commands.plan.plan_words import guessed, on_their_way
from sidecar.commands.printing import about, ratio_or
from sidecar.commands.size_predicates import is_to_change
from solver_lambda.documents.words import time_words

# Curve and measurement are never quite the same.
_SAME_RATIO = 0.05
# What rounds to nothing in per cent.
_NOTHING_RATIO = 5e-5
_SAME = "the same"
_VERDICTS = {
    "kept": "better",
    "too_early": "too early to tell",
    "worse": "less than predicted",
    "failed": "it did harm",
}


def gains(told: dict[str, Any], *, is_verbose: bool) -> Iterator[str]:
    """Say what came of plans, and what would come of those that are only recommended."""
    if words := _access_time(told):
        yield f"mean access time: {words}"
    if check := told["last_check"]:
        yield f"last outcome: {check['words'] if is_verbose else _outcome(check)}"
    gain = told.get("installed_gain")
    if gain and gain["ratio"] is not None:
        without = ": what moves, restarts and refused writes cost is not in it"
        stated = ", ".join(
            server["name"]
            for server in told["servers"]
            if server["backend_latency_source"] == "team"
        )
        as_stated = f" (of {stated} as its team states it)" if stated else ""
        than = "as" if (words := _shorter(gain["ratio"])) == _SAME else "than"
        yield (
            f"since {time_of_day(gain['since_seconds'])}, by the curves of full caches, the mean "
            f"access time is {words} {than} with the sizes that SPREDS found, for the same reads, "
            f"at today's latencies{as_stated} and weights"
            f"{without if is_verbose else ''}"
        )
    if is_verbose:
        yield from _would_have_been(told)


def is_told_beside(told: dict[str, Any]) -> bool:
    """Whether the figures of the last plan stand beside the measured one."""
    return len(_by_the_curves(told)) > 1


def _access_time(told: dict[str, Any]) -> str:
    """Return the plan's figures and the measured one, side by side."""
    plan = told["last_plan"]
    curves = _by_the_curves(told)
    parts = [f"by the curves {' -> '.join(map(time_words, curves))}"] if curves else []
    if measured := told.get("measured_access_time_seconds"):
        words = f"measured now {time_words(measured)}"
        if others := ", ".join(told.get("unmeasured") or ()):
            words += f", without {others} (not read in it, or the latency is not known)"
        elif curves and told["sets_sizes"] and on_their_way(told):
            words += ", with sizes on the way"
        elif curves and measured < (1 - _SAME_RATIO) * min(curves):
            words += f" (less than the curves {'still ' * bool(plan['known_words'])}say)"
        elif curves and measured > (1 + _SAME_RATIO) * max(curves):
            words += " (more than the curves say)"
        parts.append(words)
        gain = told.get("installed_gain") or {}
        if before := gain.get("measured_before_seconds"):
            words = (
                f"before SPREDS set sizes it was {time_words(before)}, with the load at that time"
            )
            if before < measured and (gain["ratio"] or 0.0) > 0:
                words += ": the load is another one now, or the curves are wrong"
            parts.append(words)
    return "; ".join(parts)


def _by_the_curves(told: dict[str, Any]) -> list[float]:
    """Say before and after the last plan; one figure if it moves nothing, none if it is a guess."""
    plan = told["last_plan"]
    if plan is None or plan["overtaken_by"] or guessed(told):
        return []
    both = plan["mean_access_time_before_seconds"], plan["mean_access_time_with_moving_seconds"]
    return [time for time in both[: 1 if plan["decision"] == "keep" else 2] if time is not None]


def _outcome(check: dict[str, Any]) -> str:
    verdict = _VERDICTS.get(check["verdict"])
    if verdict is None or check["observed_seconds"] is None or check["without_seconds"] is None:
        return str(check["words"])
    if check["verdict"] == "too_early":  # figures that may be chance say harm where there is none
        return f"plan {check['cycle']}, {verdict}"
    return (
        f"plan {check['cycle']}, {verdict}: {time_words(check['observed_seconds'])} since, "
        f"{time_words(check['without_seconds'])} with the sizes before"
    )


def _would_have_been(told: dict[str, Any]) -> Iterator[str]:
    would, plan = told["recommended_gain"], told["last_plan"]
    # Once sizes are set, plans count from those that are wanted, and this would not.
    may_say = any(map(is_to_change, told["servers"])) and not told["sets_sizes"]
    if not may_say or not plan or not would or would["ratio"] is None:
        return
    is_of_this_plan = would["since_seconds"] >= plan["taken_at_seconds"] - 1
    words = _shorter(would["ratio"])
    which = "the recommended sizes" if is_of_this_plan else "the sizes of each plan since its time"
    yield (
        f"had {which} been in force for the last "
        f"{about(told['now_seconds'] - would['since_seconds'])}, the mean access time would have "
        f"been {words}, against those in force and without moving"
    )


def _shorter(ratio: float) -> str:
    """Say by what share of itself a time is shorter or longer."""
    if abs(ratio) < _NOTHING_RATIO:
        return _SAME
    return f"{ratio_or(abs(ratio))} {'shorter' if ratio > 0 else 'longer'}"
