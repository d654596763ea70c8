"""Tells plans to people, in a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sidecar.base.time_of_day import time_of_day
from sidecar.commands.printing import age_words, time_or
from solver_lambda.documents.words import reason_words

# A refusal that is older is told with ``--verbose`` alone: messages come late, and are rare.
_REFUSAL_SECONDS = 86_400.0


def refusals_words(told: dict[str, Any], *, is_verbose: bool) -> list[str]:
    """Say how many plans were refused since the start, and the last one; one line or none."""
    refused = told["plans_refused"]
    at_seconds = refused["last_at_seconds"]
    if at_seconds is None:
        return []
    if not is_verbose and told["now_seconds"] - at_seconds > _REFUSAL_SECONDS:
        return []
    when = time_of_day(at_seconds)
    return [f"plans refused: {refused['count']:,}, the last one at {when}: {refused['last_words']}"]


def plan_in_short(told: dict[str, Any]) -> str:
    """Return the last plan of a status document: how old, what, and why."""
    plan = told["last_plan"]
    if plan is None:
        due = next_observation_time(told)
        return f"none since the sidecar started; the next observation is due by {due}"
    age = age_words(told["now_seconds"] - plan["taken_at_seconds"])
    whose = f" (planned here, as {plan['in_place_of']} is silent)" if plan["in_place_of"] else ""
    what = f"{became_words(told)}: {reason_words(plan['reason'])}"
    names = guessed(told)
    if plan["decision"] == "apply" and names:
        what += f"; {guess_words(names)}"
    elif plan["decision"] == "apply" and plan["known_words"]:
        what += f"; {plan['known_words']}"
    observed = told.get("last_observation") or {}
    is_early = observed.get("was_early") and observed["cycle"] == plan["cycle"]
    early = ", before the cycle's end, as much more could be gained" if is_early else ""
    return f"{age}, plan {plan['cycle']}{whose}{early}, {what}"


def became_words(told: dict[str, Any]) -> str:
    """Say what became of the last plan of a status document."""
    plan = told["last_plan"]
    under_way = ", ".join(on_their_way(told))
    goes_on = under_way and told["sets_sizes"] and not told["pause"]
    if plan["decision"] == "keep" and goes_on and not plan["overtaken_by"]:
        return f"keeps what is planned ({under_way} on the way to it)"
    if is_in_force(plan) and under_way:
        if told["pause"]:
            return f"carried out in part ({under_way} on the way when the pause began)"
        return f"being carried out ({under_way} on the way)"
    return decision_words(plan)


def on_their_way(told: dict[str, Any]) -> list[str]:
    """Name the servers whose memory is still being handed over."""
    return [
        server["name"]
        for server in told["servers"]
        if server["up"]
        and not server["held"]
        and server["target_bytes"] not in (None, server["maxmemory_bytes"])
    ]


def next_observation_time(told: dict[str, Any]) -> str:
    """Say when it comes at the latest."""
    at = told["next_observation_at_seconds"]
    return "an unknown time" if at is None else time_of_day(at)


def no_plan_words(told: dict[str, Any]) -> str:
    """Return a sentence on the first plan."""
    return f"There is no plan yet: the next observation is due by {next_observation_time(told)}."


def is_in_force(plan: dict[str, Any]) -> bool:
    """Whether the sizes that are wanted are this plan's, of a status document."""
    return bool(plan["carried_out"] and not plan["overtaken_by"])


def is_recommended(plan: dict[str, Any]) -> bool:
    """Whether a status document's plan moves memory and was only noted; never of a plan's own
    document, which does not say what became of it."""
    was_noted = plan.get("carried_out") is False and not plan["overtaken_by"]
    return was_noted and plan["decision"] == "apply"


def decision_words(plan: dict[str, Any]) -> str:
    """Say what became of it; a plan from a file only says what it would do."""
    if "carried_out" not in plan:
        return "keeps all sizes" if plan["decision"] == "keep" else "changes sizes"
    what = "carried out"
    if plan["decision"] == "keep":
        what = "keeps all sizes"
    elif not plan["carried_out"]:
        what = f"not carried out ({plan['not_carried_out_because'] or 'nobody says why'})"
    since = plan["overtaken_by"]
    return f"{what}, and sizes have changed since ({since})" if since else what


# A smaller part of all reads, by weight, changes no gain.
_LEAST_SHARE = 0.02
# Codes of servers that have no curve and will have none.
_NEVER = ("no_sampler", "no_model", "no_eviction")


def guessed(told: dict[str, Any]) -> list[str]:
    """Return the servers of a status document of which too little is known yet, and that are read
    enough to count. What plans say of gains is a guess until then."""
    reads = {
        server["name"]: (server["reads_per_second"] or 0.0) * (server["weight"] or 0.0)
        for server in told["servers"]
    }
    return [
        server["name"]
        for server in told["servers"]
        if server["curve"] is None
        and not (server["keep_reason"] or "").startswith(_NEVER)
        and reads[server["name"]] >= _LEAST_SHARE * sum(reads.values())
    ]


def guess_words(names: Sequence[str]) -> str:
    """Say what is said beside what a plan gains while too little is known of these servers."""
    return f"that is a guess, as too little is known of {', '.join(names)} so far"


def is_learnt(server: dict[str, Any]) -> bool:
    """Whether a curve of a server of a status document will be known, and is not yet."""
    is_never = not server["sampler"] or (server["keep_reason"] or "").startswith(_NEVER)
    return server["curve"] is None and not is_never


def gain_words(plan: dict[str, Any]) -> str:
    """Say what it promises by the curves."""
    before, after = plan["mean_access_time_before_seconds"], plan["mean_access_time_seconds"]
    if before is None or after is None:
        return "its planner predicts no access times"
    if plan["decision"] == "keep":
        return f"mean access time {time_or(before)}"
    # A document does not tell what moving costs.
    without = f"mean access time from {time_or(before)} to {time_or(after)}"
    return str(plan.get("gain_words") or f"{without}, without the cost of moving")
