"""What ``spreds explain`` says of a running node, and of one of its servers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from sidecar.base.time_of_day import time_of_day
from sidecar.commands.change_words import in_the_last_day, last_change
from sidecar.commands.plan_words import gain_words, guessed, plan_in_short
from sidecar.commands.printing import ratio_or, size_or, time_or
from sidecar.commands.state_words import state_words
from sidecar.commands.status_facts import is_on_its_way, is_to_change, with_the_plan
from sidecar.config.node import ServerConfig
from sidecar.control.size_reason import of_which_change
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import BACKEND_NOTE, reason_words, without_backend

# How much less and more a server might have, to see what its size is worth.
_OTHER_SIZES = {
    "half as much": 0.5,
    "a quarter less": 0.75,
    "a quarter more": 1.25,
    "twice as much": 2.0,
}
# Below it a cache is not full.
_FILLED_RATIO = 0.9
_DEFAULTS = {one.name: one.default for one in fields(ServerConfig)}
_SOURCES = {"team": "as its team says", "configured": "as the operator says"}


def last_plan_sentences(told: Mapping[str, Any]) -> list[str]:
    """Of the node: what is done with plans now, and what the last one was."""
    now = dict(told)
    first, *more = state_words(now)
    found = [f"Now: {first}.", *(f"{words[0].upper()}{words[1:]}." for words in more)]
    found.append(f"The last plan: {plan_in_short(now)}.")
    plan = told["last_plan"]
    if plan is not None:
        if (gain := gain_words(plan, guessed(now))) not in reason_words(plan["reason"]):
            found.append(f"It predicts: {gain}.")
        found += [
            f"{server['name']}: {reason_words(server['reason'])}."
            for server in plan["servers"]
            if server["reason"] != plan["reason"]
        ]
    if told["last_check"]:
        found.append(f"The last outcome: {told['last_check']['words']}.")
    return found


def server_sentences(
    config: ServerConfig, told: Mapping[str, Any], history: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Why this server has its size, and what another one would bring."""
    server = next((item for item in told["servers"] if item["name"] == config.name), None)
    if server is None:
        return [
            f"The sidecar that runs does not know {config.name}: it was started before the file "
            "had it. Restart the sidecar."
        ]
    plan = told["last_plan"]
    planned = {item["name"]: item for item in plan["servers"]} if plan else {}
    by_plan = _is_by_last_plan(server, plan)
    why = _why(planned.get(config.name), plan, dict(told), server, by_plan=by_plan)
    change = last_change(server, told, history)
    return [
        *_size_now(server, told),
        # What made the size that it has comes first.
        *([*why, *change] if by_plan else [*change, *why]),
        *_worth(server, planned.get(config.name)),
        *_hits(server, plan, told),
        *([apart] if (apart := apart_words(server)) else []),
        *_replicas(server),
        *_limits(config, server),
        *_backend(config, server, planned.get(config.name)),
        *in_the_last_day(config.name, history, told["now_seconds"]),
    ]


def _size_now(server: dict[str, Any], told: Mapping[str, Any]) -> list[str]:
    if not server["up"]:
        return [f"{server['name']} does not answer: {server['error'].rstrip('.')}."]
    size, target = server["maxmemory_bytes"], server["target_bytes"]
    text = f"{server['name']} has {format_size(size) if size else 'no limit'} (maxmemory)"
    if is_on_its_way(server, dict(told)):
        text += f", and is on the way to {format_size(target)}"
    elif target not in (None, size) and not server["held"]:
        why = "nothing is set while SPREDS " + ("pauses" if told["pause"] else "only watches")
        text += f"; {format_size(target)} is planned, and {why}"
    recommended = server["recommended_bytes"]
    if recommended not in (None, size, target):
        text += f"; {format_size(recommended)} is recommended"
    found = [f"{text}."]
    if server["keep_reason"] and not server["held"]:
        why = reason_words(server["keep_reason"])
        found.append(f"It cannot be given another size now, because {why}.")
    if server["held"]:
        found.append(
            f"Somebody gave it {format_size(server['held']['bytes'])} by hand at "
            f"{time_of_day(server['held']['at_seconds'])}, and SPREDS leaves it at that until "
            f"`spreds resume FILE {server['name']}`."
        )
    return found


def _is_by_last_plan(server: Mapping[str, Any], plan: Mapping[str, Any] | None) -> bool:
    """Whether the last plan made the size in force, or the one that is recommended in its place."""
    change = server["last_change"]
    if plan is None or server["held"]:
        return False
    return is_to_change(server) or change is None or change["cycle"] == plan["cycle"]


def _why(
    planned: Mapping[str, Any] | None,
    plan: Mapping[str, Any] | None,
    told: dict[str, Any],
    server: Mapping[str, Any],
    *,
    by_plan: bool,
) -> list[str]:
    if plan is None or planned is None:
        return [f"No plan says yet which size is best: {plan_in_short(told)}."]
    whole = f"The plan as a whole: {plan_in_short(told)}."
    why = without_backend(reason_words(planned["reason"]))
    if why in (reason_words(plan["reason"]), reason_words(server["keep_reason"] or "")):
        return [whole]
    # A plan counts from the one before it, which perhaps was never reached.
    has, wanted = server["maxmemory_bytes"], planned["maxmemory_bytes"]
    if has not in (None, planned["maxmemory_before_bytes"]):
        why = without_backend(reason_words(of_which_change(planned["reason"], has, wanted)))
    return [f"{'Why' if by_plan else 'The last plan says of it'}: {why}.", whole]


def _worth(server: Mapping[str, Any], planned: Mapping[str, Any] | None) -> list[str]:
    found = []
    curve, size = server["curve"], server["maxmemory_bytes"]
    if not curve:
        # What does not answer tells nothing of its sampler.
        unsampled = server["up"] and not server["sampler"]
        why = ", for neither the patch nor the module is in it" if unsampled else ""
        found = [f"Its curve is not known{why}: nor is what more or less memory would do for it."]
        if why or not server["up"] or server["keep_reason"]:
            return found
        return [
            *found,
            "Until it is, a plan takes nothing from it, and what it says of more memory for it is "
            "a guess from its first reads.",
        ]
    gain = server["marginal_gain_seconds_per_mebibyte"]
    if gain is None and planned is not None:
        gain = planned["marginal_gain_seconds_per_mebibyte"]
    if gain is not None:
        beyond = size_or(planned["maxmemory_bytes"] if planned else None, "its planned size")
        found.append(
            f"One more MiB for it, beyond the plan's {beyond}, would shorten the mean access time "
            f"over all servers by {_gain_words(gain)}."
        )
    if size:
        at = [
            f"{words} ({format_size(size * ratio)}): {hit_ratio_at(curve, size * ratio):.1%}"
            for words, ratio in _OTHER_SIZES.items()
        ]
        found.append(
            f"By its curve its hit ratio would be, now: {hit_ratio_at(curve, size):.1%}; with "
            f"{'; with '.join(at)}. Each may be off by "
            f"{100 * server['curve_error_ratio']:.1f} points."
        )
    return found


def _gain_words(seconds: float) -> str:
    microseconds = seconds * 1e6
    return "hardly anything" if microseconds < 0.001 else f"{microseconds:.3g} microseconds"


def hit_ratio_at(curve: Mapping[str, Sequence[float]], size_bytes: float) -> float:
    """Between the points of a curve on the straight line; beyond them as at the nearest."""
    sizes, misses = curve["sizes_bytes"], curve["miss_ratios"]
    place = bisect_right(sizes, size_bytes)
    if place == 0 or place == len(sizes):
        return 1.0 - misses[min(place, len(misses) - 1)]
    left, right = sizes[place - 1], sizes[place]
    share = (size_bytes - left) / (right - left)
    return 1.0 - (misses[place - 1] + share * (misses[place] - misses[place - 1]))


def _hits(
    server: dict[str, Any], plan: dict[str, Any] | None, told: Mapping[str, Any]
) -> list[str]:
    if server["hit_ratio"] is None:
        return []
    text = f"In the last window its hit ratio was measured as {ratio_or(server['hit_ratio'])}"
    if server["predicted_hit_ratio"] is not None and server["curve"]:
        expected = ratio_or(server["predicted_hit_ratio"])
        size, wanted = server["maxmemory_bytes"], server["target_bytes"]
        if is_on_its_way(server, dict(told)):
            # The figures are of two sizes.
            text += f"; it has {format_size(size)} now, and {expected} are expected with "
            text += format_size(wanted)
        else:
            text += f", expected were {expected}"
    recommended = with_the_plan(server, plan, "hit_ratio")
    if recommended is not None:
        text += f", and {ratio_or(recommended)} with the plan"
    if server["lifetime_hit_ratio"] is not None:
        text += f"; since its start it is {ratio_or(server['lifetime_hit_ratio'])}"
    if server["access_time_seconds"] is not None:
        text += f". Its mean access time was measured as {time_or(server['access_time_seconds'])}"
        recommended = with_the_plan(server, plan, "access_time_seconds")
        if recommended is not None:
            text += f"; by its curve the plan makes it {time_or(recommended)}"
    return [f"{text}."]


def apart_words(server: Mapping[str, Any]) -> str | None:
    """Where the curve and what the server measured are farther apart than the curve's error."""
    curve, size, measured = server["curve"], server["maxmemory_bytes"], server["hit_ratio"]
    if not curve or not size or measured is None:
        return None
    by_curve, error = hit_ratio_at(curve, size), server["curve_error_ratio"]
    if abs(by_curve - measured) <= error:
        return None
    why = "why is not known; the load may be another one since, or the window too short to tell"
    used = server["used_bytes"]
    if measured > by_curve:
        why = (
            "a curve takes the first read of a key that it sees for a miss, so at first, and after "
            "a change of the load, it says too little"
        )
    if measured < by_curve and used is not None and used < _FILLED_RATIO * size:
        why = f"it has filled only {format_size(used)} of {format_size(size)} so far"
    return (
        f"By its curve {server['name']} would hit {by_curve:.1%} with what it has, and "
        f"{measured:.1%} was measured in the last window, farther apart than the curve's error of "
        f"{100 * error:.1f} points: {why}."
    )


def _replicas(server: Mapping[str, Any]) -> list[str]:
    who = ", ".join(server["replicas"] or ())
    return [f"{who} follows it and grows with it: is there memory for that?"] if who else []


def _limits(config: ServerConfig, server: Mapping[str, Any]) -> list[str]:
    low = server["minimum_bytes"] or config.minimum_bytes
    high = server["maximum_bytes"]
    team = server["settings_by"]
    whose = _whose(config, "minimum_bytes")
    if low != config.minimum_bytes:
        whose = f"its team's, signed {team}" if team else "what it needs to work at all"
    most = "as much as there is" if high is None else f"{format_size(high)} (the operator's)"
    found = [f"It may have from {format_size(low)} ({whose}) to {most}."]
    if server.get("settings_refused"):
        found.append(
            f"What its team set is not in force: {server['settings_refused'].rstrip('.')}."
        )
    if server["weight"] is not None:
        is_teams = team and server["weight"] != config.weight
        by = f"its team's, signed {team}" if is_teams else _whose(config, "weight")
        found.append(f"A read of it counts with weight {server['weight']:g} ({by}).")
    return found


def _whose(config: ServerConfig, key: str) -> str:
    return "the default" if getattr(config, key) == _DEFAULTS[key] else "the operator's"


def _backend(
    config: ServerConfig, server: Mapping[str, Any], planned: Mapping[str, Any] | None
) -> list[str]:
    if planned is not None and (said := planned["reason"].partition(BACKEND_NOTE)[2]):
        return [f"Its backend takes {said}."]
    seconds = server["backend_latency_seconds"]
    if seconds is None and config.backend_latency_seconds is not None:
        seconds = config.backend_latency_seconds
        return [
            f"Its backend latency is {time_or(seconds)} in the node's file; nothing was observed "
            "yet."
        ]
    if seconds is None:
        return ["Its backend latency is not known yet."]
    source = _SOURCES.get(server["backend_latency_source"], "as measured")
    return [f"Its backend latency is {time_or(seconds)}, {source}."]
