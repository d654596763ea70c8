"""Plans for people: in a line, and as a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sidecar.base.time_of_day import time_of_day
from sidecar.commands.printing import (
    age_words,
    print_table,
    print_wrapped,
    ratio_or,
    size_or,
    time_or,
)
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import reason_words

_COLUMNS = (
    "server",
    "size before",
    "planned",
    "change",
    "by the curve: hits now",
    "then",
    "access time now",
    "then",
)


def plan_in_short(told: dict[str, Any]) -> str:
    """The last plan of a status document: how old, what, and why."""
    plan = told["last_plan"]
    if plan is None:
        due = next_observation_time(told)
        return f"none since the sidecar started; the next observation is due by {due}"
    age = age_words(told["now_seconds"] - plan["taken_at_seconds"])
    whose = f" (planned here, as {plan['in_place_of']} is silent)" if plan["in_place_of"] else ""
    what = decision_words(plan)
    under_way = ", ".join(on_their_way(told))
    goes_on = under_way and told["sets_sizes"] and not told["pause"]
    if plan["decision"] == "keep" and goes_on and not plan["overtaken_by"]:
        what = f"keeps what is planned ({under_way} on the way to it)"
    elif is_in_force(plan) and under_way:
        what = f"being carried out ({under_way} on the way)"
        if told["pause"]:
            what = f"carried out in part ({under_way} on the way when the pause began)"
    what += f": {reason_words(plan['reason'])}"
    if plan["decision"] == "apply" and (names := guessed(told)):
        what += f"; that is a guess, as too little is known of {', '.join(names)} so far"
    if plan["known_words"] and plan["decision"] == "apply":
        what += f"; {plan['known_words']}"
    observed = told.get("last_observation") or {}
    is_early = observed.get("was_early") and observed["cycle"] == plan["cycle"]
    early = ", before the cycle's end, as the load had changed" if is_early else ""
    return f"{age}, plan {plan['cycle']}{whose}{early}, {what}"


def on_their_way(told: dict[str, Any]) -> list[str]:
    """Servers whose memory is still being handed over."""
    return [
        server["name"]
        for server in told["servers"]
        if server["up"]
        and not server["held"]
        and server["target_bytes"] not in (None, server["maxmemory_bytes"])
    ]


def next_observation_time(told: dict[str, Any]) -> str:
    """When it comes at the latest."""
    at = told["next_observation_at_seconds"]
    return "an unknown time" if at is None else time_of_day(at)


def is_in_force(plan: dict[str, Any]) -> bool:
    """Whether the sizes that are wanted are this plan's, of a status document."""
    return bool(plan["carried_out"] and not plan["overtaken_by"])


def is_recommended(plan: dict[str, Any]) -> bool:
    """Whether a status document's plan moves memory and was only noted; never of a plan's own
    document, which does not say what became of it."""
    was_noted = plan.get("carried_out") is False and not plan["overtaken_by"]
    return was_noted and plan["decision"] == "apply"


def decision_words(plan: dict[str, Any]) -> str:
    """What became of it; a plan from a file only says what it would do."""
    if "carried_out" not in plan:
        return "keeps all sizes" if plan["decision"] == "keep" else "changes sizes"
    what = "carried out"
    if plan["decision"] == "keep":
        what = "keeps all sizes"
    elif not plan["carried_out"]:
        what = f"not carried out ({plan['not_carried_out_because'] or 'nobody says why'})"
    since = plan["overtaken_by"]
    return f"{what}, and sizes are others since ({since})" if since else what


# What rounds to nothing in per cent.
_NO_GAP = 5e-5
# Of all reads, by weight: fewer change no gain.
_LEAST_SHARE = 0.02
# Codes of servers that have no curve and will have none.
_NEVER = ("no_sampler", "no_model", "no_eviction")


def guessed(told: dict[str, Any]) -> list[str]:
    """The servers of a status document of which too little is known yet, and that are read enough
    to count: what plans say of gains is a guess until then."""
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


def gain_words(plan: dict[str, Any], guessed: Collection[str] = ()) -> str:
    """What it promises, if of no server too little is known for that."""
    if guessed and plan["decision"] == "keep":
        return "it moves nothing"
    if guessed:
        return f"what it gains is a guess: too little is known of {', '.join(guessed)} so far"
    before, after = plan["mean_access_time_before_seconds"], plan["mean_access_time_seconds"]
    if before is None or after is None:
        return "its planner predicts no access times"
    if plan["decision"] == "keep":
        return f"mean access time {time_or(before)}, as nothing moves"
    # A document does not tell what moving costs.
    without = f"mean access time from {time_or(before)} to {time_or(after)}"
    return str(plan.get("gain_words") or f"{without}, without the cost of moving")


def print_plan(
    plan: dict[str, Any],
    unknown: Collection[str] = (),
    guessed: Collection[str] = (),
    under_way: Collection[str] = (),
    reads_per_second: Mapping[str, float | None] | None = None,
) -> None:
    """As its document has it, or a status document's ``last_plan``. ``unknown``: servers of which
    no curve is known; ``guessed``: for now; ``under_way``: that do not have their sizes yet;
    ``reads_per_second``: of each, if that is known."""
    print(f"node {plan['node']}, plan {plan['cycle']}, made {time_of_day(plan['made_at_seconds'])}")
    done = decision_words(plan)
    if under_way and plan["decision"] == "apply" and is_in_force(plan):
        done = f"being carried out ({', '.join(under_way)} on the way)"
    print_wrapped(f"{done}: {reason_words(plan['reason'])}", indent="  ")
    if (gain := gain_words(plan, guessed)) not in reason_words(plan["reason"]):
        print_wrapped(gain)
    known = plan.get("known_words")
    print_wrapped(_gap_words(plan["optimality_gap"], bool(known)), indent="  ")
    if known:
        print_wrapped(known)
    print()
    print_table([_COLUMNS, *(_row(server, unknown) for server in plan["servers"])])
    planned = sum(server["maxmemory_bytes"] for server in plan["servers"])
    print(f"total {format_size(planned)} of {format_size(plan['budget_bytes'])}")
    if words := _misses_words(plan, unknown, reads_per_second or {}):
        print_wrapped(words, indent="  ")
    print()
    for server in plan["servers"]:
        if server["reason"] != plan["reason"]:  # which stands above
            print_wrapped(f"{server['name']}: {reason_words(server['reason'])}", indent="  ")
    if plan["what_if"] and not guessed:
        print()
        _print_what_if(plan["what_if"])


def _misses_words(
    plan: dict[str, Any], unknown: Collection[str], reads_per_second: Mapping[str, float | None]
) -> str | None:
    """Who misses more, and who less."""
    now, then, changes, missing = 0.0, 0.0, [], []
    for server in plan["servers"]:
        reads = reads_per_second.get(server["name"])
        ratios = server["hit_ratio_before"], server["hit_ratio"]
        if not reads or None in ratios or server["name"] in unknown:
            missing += [server["name"]] * (reads != 0)
            continue
        before, after = ((1 - ratio) * reads for ratio in ratios)
        now, then = now + before, then + after
        if f"{before:,.0f}" != f"{after:,.0f}":
            changes.append(f"{server['name']} {before:,.0f} -> {after:,.0f}")
    if not changes:
        return None
    without = f", without {', '.join(missing)}" if missing else ""
    return (
        f"misses a second, by the curves{without}: {now:,.0f} now, {then:,.0f} then "
        f"({', '.join(changes)})"
    )


def _print_what_if(what_if: Sequence[dict[str, Any]]) -> None:
    """By rising budgets; of those that bring the same only the first."""
    before = None
    for more in sorted(what_if, key=lambda one: int(one["budget_bytes"])):
        seconds = time_or(more["mean_access_time_seconds"])
        if seconds == before:
            print("with more it would be the same, by what is known")
            return
        before = seconds
        print(
            f"with {format_size(more['budget_bytes'])} for all of them the mean access time would "
            f"be {seconds}, without the cost of moving"
        )


def _gap_words(gap: float, knows_little: bool) -> str:
    if gap >= 1:
        return "how far it is from the best sizes is not proven"
    by_more = "" if gap < _NO_GAP else f" by more than {gap:.2%}"
    best = f"no other division that its rules allow is better{by_more}"
    return f"{'by what is known so far' if knows_little else 'proven'}: {best}"


def _row(server: dict[str, Any], unknown: Collection[str]) -> tuple[str, ...]:
    before, after = server["maxmemory_before_bytes"], server["maxmemory_bytes"]
    change = after - before
    sign = "" if not change else "+" if change > 0 else "-"
    return (
        server["name"],
        size_or(before or None, "unlimited"),
        size_or(after or None, "unlimited"),
        f"{sign}{format_size(abs(change))}" if change else "-",
        *(["not known", "-", "-", "-"] if server["name"] in unknown else _by_the_curve(server)),
    )


def _by_the_curve(server: dict[str, Any]) -> tuple[str, ...]:
    return (
        ratio_or(server["hit_ratio_before"], "-"),
        ratio_or(server["hit_ratio"], "-"),
        time_or(server["eat_before_seconds"], "-"),
        time_or(server["eat_seconds"], "-"),
    )
