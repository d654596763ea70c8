"""Says what ``spreds explain`` tells of a server of a running node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.base.time_of_day import time_of_day
from sidecar.commands.change_words import in_the_last_day, last_change, since_installation
from sidecar.commands.curve_words import apart_words, hit_ratio_at
from sidecar.commands.explain.explain_limits import (
    refused_words,
    replicas_words,
    settings_words,
    teams_bounds_words,
)
from sidecar.commands.plan.plan_words import (
    became_words,
    is_learnt,
    no_plan_words,
    plan_in_short,
)
from sidecar.commands.policy_words import policy_sentences
from sidecar.commands.printing import age_words, ratio_or, time_or
from sidecar.commands.size_predicates import is_on_its_way, is_to_change, with_the_plan
from sidecar.config.node import ServerConfig
from sidecar.control.size_reason import reason_with_planned_change
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import reason_words, without_backend

# How much less and more a server might have, to see what its size is worth.
_OTHER_SIZES = (
    ("half as much", 0.5),
    ("a quarter less", 0.75),
    ("a quarter more", 1.25),
    ("twice as much", 2.0),
)


def server_sentences(
    config: ServerConfig,
    told: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]],
    *,
    is_verbose: bool = True,
) -> list[str]:
    """Say why this server has its size, and what another one would bring."""
    server = next((item for item in told["servers"] if item["name"] == config.name), None)
    if server is None:
        return [
            f"The sidecar that runs does not know {config.name}: it was started before the file "
            "had it. Restart the sidecar."
        ]
    plan = told["last_plan"]
    planned = {item["name"]: item for item in plan["servers"]}.get(config.name) if plan else None
    # A size that somebody set by hand is not a plan's.
    in_force = None if (plan and plan["overtaken_by"]) or server["held"] else planned
    apart = apart_words(server)
    if not is_verbose:
        return [
            *_size_now(server, told),
            *([] if server["held"] else _short_why(server, planned, dict(told), history)),
            *since_installation(server, told),
            *_worth(server, in_force, _OTHER_SIZES[::3]),
            *_measured(server, is_apart=bool(apart)),
            *policy_sentences(server, is_verbose=False),
            *replicas_words(server),
            *refused_words(server),
            *in_the_last_day(config.name, history, told["now_seconds"], is_short=True),
        ]
    by_plan = _is_by_last_plan(server, plan)
    why = _why(planned, dict(told), server, by_plan=by_plan)
    change = last_change(server, told, history, told_already=why[0])
    # The cause of the present size comes first.
    said = [*why, *change] if by_plan else [*change, *why]
    return [
        *_size_now(server, told),
        *said,
        *teams_bounds_words(server, told, said),
        *since_installation(server, told),
        *_worth(server, in_force, _OTHER_SIZES),
        *_hits(server, plan, told),
        *([apart] if apart else []),
        *policy_sentences(server, is_verbose=True),
        *replicas_words(server),
        *settings_words(config, server, planned),
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
        stays = f"SPREDS leaves it at that until `spreds resume FILE {server['name']}`"
        if size and server["held"]["bytes"] != size:
            stays = f"it has another size since: `spreds resume FILE {server['name']}` forgets that"
        found.append(
            f"Somebody gave it {format_size(server['held']['bytes'])} by hand at "
            f"{time_of_day(server['held']['at_seconds'])}, and {stays}."
        )
    return found


def _is_by_last_plan(server: Mapping[str, Any], plan: Mapping[str, Any] | None) -> bool:
    """Whether the last plan made the size in force, or the one that is recommended instead."""
    change = server["last_change"]
    if plan is None or server["held"]:
        return False
    return is_to_change(server) or change is None or change["cycle"] == plan["cycle"]


def _why(
    planned: Mapping[str, Any] | None,
    told: dict[str, Any],
    server: Mapping[str, Any],
    *,
    by_plan: bool,
) -> list[str]:
    plan = told["last_plan"]
    if plan is None:
        return [no_plan_words(told)]
    whole = f"The plan as a whole: {plan_in_short(told)}."
    if planned is None:
        return [f"The last plan is without {server['name']}, which did not answer then.", whole]
    why = _reason(planned, server)
    if why in (reason_words(plan["reason"]), reason_words(server["keep_reason"] or "")):
        return [whole]
    return [f"{'Why' if by_plan else 'The last plan says of it'}: {why}.", whole]


def _reason(planned: Mapping[str, Any], server: Mapping[str, Any]) -> str:
    """A plan counts from the one before it, which perhaps was never reached."""
    reason, has, wanted = planned["reason"], server["maxmemory_bytes"], planned["maxmemory_bytes"]
    if has not in (None, planned["maxmemory_before_bytes"]):
        reason = reason_with_planned_change(reason, has, wanted)
    words = without_backend(reason_words(reason))
    return f"{words}, which is a guess" if is_learnt(dict(server)) and " ms" in words else words


def _short_why(
    server: dict[str, Any],
    planned: Mapping[str, Any] | None,
    told: dict[str, Any],
    history: Sequence[Mapping[str, Any]],
) -> list[str]:
    """Say what made the size that it has or is to have; and the last plan, if that is another
    one."""
    plan = told["last_plan"]
    if plan is None or planned is None:
        return _why(planned, told, server, by_plan=False)[:1]
    age = age_words(told["now_seconds"] - plan["taken_at_seconds"])
    of_plan = f"Plan {plan['cycle']}, {age}"
    became, reason = became_words(told).partition(" (")[0], reason_words(plan["reason"])
    why = _reason(planned, server)
    own = f"{of_plan}: {why}."
    if plan["overtaken_by"]:
        return [*last_change(server, told, history)[:1], f"{of_plan}: {became_words(told)}."]
    if why in (reason, reason_words(server["keep_reason"] or "")):
        own = f"{of_plan}: {became}: {reason}."
    changed = last_change(server, told, history)[:1]
    if plan["decision"] == "keep" or not _is_by_last_plan(server, plan):
        return [*changed, own]
    return [own] if is_to_change(server) or server["last_change"] is None else changed


def _worth(
    server: Mapping[str, Any], planned: Mapping[str, Any] | None, sizes: Sequence[tuple[str, float]]
) -> list[str]:
    found = []
    curve, size = server["curve"], server["maxmemory_bytes"]
    if not curve:
        return [_no_curve(server)]
    gain = server["marginal_gain_seconds_per_mebibyte"]
    if planned is not None and gain is None:
        gain = planned["marginal_gain_seconds_per_mebibyte"]
    if planned is not None and gain is not None:
        found.append(
            f"One more MiB, beyond the planned {format_size(planned['maxmemory_bytes'])}, would "
            f"shorten the mean of all servers by {_gain_words(gain)}."
        )
    if size:
        at = [
            f"{hit_ratio_at(curve, size * ratio):.1%} with {words}"
            + f" ({format_size(size * ratio)})" * (sizes == _OTHER_SIZES)
            for words, ratio in sizes
        ]
        found.append(
            f"By its curve it hits {hit_ratio_at(curve, size):.1%} now, {', '.join(at)}, ± "
            f"{100 * server['curve_error_ratio']:.1f} points."
        )
    return found


def _no_curve(server: Mapping[str, Any]) -> str:
    # A server that does not answer tells nothing of its sampler.
    if server["up"] and not server["sampler"]:
        return "Its curve is not known, for neither the patch nor the module is in it."
    if not server["up"] or not is_learnt(dict(server)):
        return "Its curve is not known: nor is what more or less memory would do for it."
    if server["keep_reason"]:
        return "Its curve is still learnt, so what more or less memory would do is not known."
    return (
        "Its curve is still learnt, so what more memory would do for it is a guess from its first "
        "reads, and a plan takes nothing from it while it is read."
    )


def _gain_words(seconds: float) -> str:
    return "hardly anything" if seconds < 1e-9 else time_or(seconds)


def _measured(server: Mapping[str, Any], *, is_apart: bool) -> list[str]:
    """Say in a line what the last window had."""
    if server["hit_ratio"] is None:
        return []
    text = f"Measured in the last window: hits {ratio_or(server['hit_ratio'])}"
    text += " (far from the curve)" * is_apart
    if server["access_time_seconds"] is not None:
        text += f", mean access time {time_or(server['access_time_seconds'])}"
    return [f"{text}."]


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
    if server["access_time_seconds"] is not None:
        access = time_or(server["access_time_seconds"])
        text += f". By that, and by the latencies that count, its mean access time was {access}"
        recommended = with_the_plan(server, plan, "access_time_seconds")
        if recommended is not None:
            text += f"; by its curve the plan makes it {time_or(recommended)}"
    return [f"{text}."]
