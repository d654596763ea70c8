"""``spreds plan FILE`` prints the last recommended plan, and whether it was carried out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sidecar.base.time_of_day import time_of_day
from sidecar.commands.arguments import add_command
from sidecar.commands.curve_words import apart_words, hit_ratio_at
from sidecar.commands.plan.plan_details import print_details
from sidecar.commands.plan.plan_words import (
    became_words,
    decision_words,
    gain_words,
    guess_words,
    guessed,
    is_in_force,
    is_learnt,
    is_recommended,
    on_their_way,
    plan_in_short,
)
from sidecar.commands.policy_words import better_words
from sidecar.commands.printing import print_table, print_wrapped, ratio_or, size_or, time_or
from sidecar.commands.running import status_despite
from solver_lambda.documents.plan import MAX_PLAN_BYTES, AdaptationPlan
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import reason_words

# A plan for people, as a table: short, or with all that is known of it.
_COLUMNS = (
    "server",
    "counts from",
    "has now",
    "planned",
    "change",
    "hits by the curve",
    "access time",
    "one more MiB",
)
# A measured time differs from what the curves say if it is off by so much.
_FAR_APART = 0.05
# A hit ratio that may be off by more has its error beside it.
_WORTH_TELLING = 0.1
# Seconds of the mean.
_HARDLY_ANY = 1e-6
_Told = Mapping[str, Any]


def print_plan(
    plan: dict[str, Any], told: dict[str, Any] | None = None, *, is_verbose: bool = False
) -> None:
    """Print a plan's document, or a status document's ``last_plan`` together with that document."""
    by_name = {server["name"]: server for server in told["servers"]} if told else {}
    print(f"node {plan['node']}, plan {plan['cycle']}, made {time_of_day(plan['made_at_seconds'])}")
    print_wrapped(_headline(plan, told, by_name), indent="  ")
    print()
    _print_servers(plan, by_name, with_before=is_verbose or told is None)
    print_wrapped("; ".join(_totals(plan, by_name, is_verbose=is_verbose)), indent="  ")
    if words := _counts_from(plan, by_name):
        print_wrapped(words, indent="  ")
    for words in _left_out(plan, by_name):
        print_wrapped(words, indent="  ")
    if (memory := plan.get("memory_words")) and not (told and guessed(told)):
        print("other budgets, as its planner says by the curves:")
        for words in memory.split("; "):
            print_wrapped(f"  {words}", indent="    ")
    for one in by_name.values():
        if better := better_words(one):
            print_wrapped(f"{better} (spreds explain FILE {one['name']})", indent="  ")
    if is_verbose:
        print_details(plan, told)
    elif names := [one["name"] for one in by_name.values() if apart_words(one)]:
        print_wrapped(
            f"hits measured in the last window are farther from the curve than its error: "
            f"{', '.join(names)}",
            indent="  ",
        )


def _headline(plan: dict[str, Any], told: dict[str, Any] | None, by_name: Mapping[str, Any]) -> str:
    became = became_words(told) if told else decision_words(plan)
    reason, gain = reason_words(plan["reason"]), gain_words(plan)
    names = guessed(told) if told else []
    if names and plan["decision"] == "keep":
        gain = "mean access time not known yet"
    text = f"{became}: {reason}; by the curves, {gain}"
    if reason.startswith("mean access time "):
        text = f"{became}: by the curves, {reason}"
    if names and plan["decision"] == "apply":
        text += f"; {guess_words(names)}"
    return text + (_measured(plan, told, by_name, is_guess=bool(names)) if told else "")


def _measured(plan: _Told, told: dict[str, Any], by_name: _Told, *, is_guess: bool) -> str:
    """Say what reads take now, and why that is not what the curves say."""
    measured = told.get("measured_access_time_seconds")
    before = plan["mean_access_time_before_seconds"]
    if measured is None:
        return ""
    others = ", ".join(told.get("unmeasured") or ())
    text = f"; measured now {time_or(measured)}{f', without {others}' if others else ''}"
    is_done = is_in_force(dict(plan)) and not on_their_way(told)
    by_curves = plan["mean_access_time_seconds"] if is_done else before
    if others or is_guess or by_curves is None:
        return text
    if not is_done and any(_has_other(one, by_name) for one in plan["servers"]):
        return f"{text}, with other sizes than the plan counts from"
    if measured < by_curves * (1 - _FAR_APART):
        still = "still " if plan["known_words"] else ""
        return f"{text}: the curves {still}say too few hits"
    if measured > by_curves * (1 + _FAR_APART):
        return f"{text}: more than the curves say"
    return text


def _has_other(planned: _Told, by_name: _Told) -> bool:
    """Whether a server has another size than the plan counts from."""
    has = by_name.get(planned["name"], {}).get("maxmemory_bytes")
    return has not in (None, planned["maxmemory_before_bytes"])


def _print_servers(plan: _Told, by_name: _Told, *, with_before: bool) -> None:
    with_before = with_before and (
        not by_name or any(_has_other(one, by_name) for one in plan["servers"])
    )
    is_over = bool(plan.get("overtaken_by"))
    rows = [_row(one, by_name.get(one["name"], {}), is_over=is_over) for one in plan["servers"]]
    if not with_before:
        rows = [(name, "", *rest) for name, _, *rest in rows]
    has_marginal = any(row[-1] not in ("-", "hardly any") for row in rows)
    columns: tuple[str, ...] = _COLUMNS if has_marginal else _COLUMNS[:-1]
    if plan["decision"] == "apply" and not plan.get("carried_out", True):
        columns = tuple("recommended" if one == "planned" else one for one in columns)
    print_table([columns, *(row[: len(columns)] for row in rows)], wraps=True)
    if has_marginal:
        print("one more MiB: by what it shortens the mean of all servers, beyond what is planned")


def _row(planned: _Told, now: _Told, *, is_over: bool) -> tuple[str, ...]:
    """Return a server's row. ``is_over``: an order has set other sizes, and nothing of the plan is
    still to come."""
    before, after = planned["maxmemory_before_bytes"], planned["maxmemory_bytes"]
    has = now.get("maxmemory_bytes")
    # A size set by hand stays, whatever is planned.
    is_held = bool(now.get("held"))
    wanted = now.get("target_bytes", after) if is_over else after
    change = 0 if is_held or is_over else after - (before if has is None else has)
    sign = "" if not change else "+" if change > 0 else "-"
    return (
        planned["name"],
        size_or(before or None, "unlimited"),
        size_or(has or None, "unlimited" if has == 0 else "not known") if now else "",
        "set by hand" if is_held else size_or(wanted or None, "unlimited"),
        f"{sign}{format_size(abs(change))}" if change else "-",
        *(("-", "-", "-") if is_held or is_over else _by_the_curve(planned, now)),
    )


def _by_the_curve(planned: _Told, now: _Told) -> tuple[str, ...]:
    if now and now["curve"] is None:
        return ("guess" if is_learnt(dict(now)) else "not known", "-", "-")
    (hits, seconds), more = _now(planned, now), planned["marginal_gain_seconds_per_mebibyte"]
    # What the figures do not tell by their digits.
    error = now.get("curve_error_ratio") or 0.0
    apart = f" ± {100 * error:.0f}" if error >= _WORTH_TELLING else ""
    return (
        _from_to(ratio_or(hits, "-"), ratio_or(planned["hit_ratio"], "-"), " %") + apart,
        _from_to(time_or(seconds, "-"), time_or(planned["eat_seconds"], "-"), " ms"),
        "-"
        if not more or more < 0
        else f"-{time_or(more)}"
        if more > _HARDLY_ANY
        else "hardly any",
    )


def _now(planned: _Told, now: _Told) -> tuple[float | None, float | None]:
    """Return hit ratio and access time by the curve with what a server has: a plan perhaps counts
    from another size."""
    before = planned["hit_ratio_before"], planned["eat_before_seconds"]
    has, miss_seconds = now.get("maxmemory_bytes"), now.get("backend_latency_seconds")
    hits, seconds = planned["hit_ratio"], planned["eat_seconds"]
    if has in (None, 0, planned["maxmemory_before_bytes"]) or not (hits and seconds):
        return before
    if has == planned["maxmemory_bytes"]:
        return hits, seconds
    ratio = hit_ratio_at(now["curve"], has)
    if miss_seconds is None:
        return ratio, None
    hit_seconds = (seconds - (1 - hits) * miss_seconds) / hits
    return ratio, ratio * hit_seconds + (1 - ratio) * miss_seconds


def _from_to(first: str, then: str, unit: str) -> str:
    if first == then:
        return then
    return f"{first.removesuffix(unit) if then.endswith(unit) else first} -> {then}"


def _totals(plan: _Told, by_name: _Told, *, is_verbose: bool) -> Iterator[str]:
    """Yield the sum, and who misses more and who less."""
    planned = sum(server["maxmemory_bytes"] for server in plan["servers"])
    yield f"total {format_size(planned)} of {format_size(plan['budget_bytes'])}"
    now, then, changes, missing = 0.0, 0.0, [], []
    for server in plan["servers"]:
        told = by_name.get(server["name"], {})
        reads, ratio = told.get("reads_per_second"), server["hit_ratio"]
        hits = None if not reads or told["curve"] is None else _now(server, told)[0]
        if hits is None or ratio is None:
            missing += [server["name"]] * (reads != 0)
            continue
        before, after = (1 - hits) * reads, (1 - ratio) * reads
        now, then = now + before, then + after
        if f"{before:,.0f}" != f"{after:,.0f}":
            changes.append(f"{server['name']} {before:,.0f} -> {after:,.0f}")
    if changes and (is_verbose or not missing) and not plan.get("overtaken_by"):
        without = f", without {', '.join(missing)}" if missing else ""
        each = f" ({', '.join(changes)})" if is_verbose else ""
        yield (
            f"misses a second, by the curves and the reads of the last window{without}: {now:,.0f} "
            f"now, {then:,.0f} then{each}"
        )


def _counts_from(plan: _Told, by_name: _Told) -> str:
    """Return the sizes of its first line, where the table has others: those that are on their
    way."""
    others = [
        f"{one['name']} {size_or(one['maxmemory_before_bytes'] or None, 'unlimited')}"
        for one in plan["servers"]
        if _has_other(one, by_name)
    ]
    if not others:
        return ""
    return (
        f"the first line counts from the sizes that were planned before: {', '.join(others)}; the "
        "table from those that servers have now"
    )


def _left_out(plan: _Told, by_name: _Told) -> Iterator[str]:
    """Say which servers are in no mean of the plan."""
    planned = {server["name"] for server in plan["servers"]}
    if missing := [name for name in by_name if name not in planned]:
        yield f"without {', '.join(missing)}, which did not answer then"


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    parser = add_command(
        commands,
        "plan",
        "print the last recommended plan as a table, and whether it was carried out",
        file=False,
    )
    parser.add_argument("config", metavar="FILE", nargs="?", help="the node's TOML file")
    parser.add_argument(
        "--document",
        metavar="FILE.json",
        type=Path,
        help="print the plan in this file instead; no sidecar is asked",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="print reasons, other budgets and more beside it"
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print it; 1 if there is none yet. Raises DocumentError, SidecarSilentError."""
    if (options.config is None) == (options.document is None):
        raise DocumentError("plan: give either the node's FILE or --document FILE.json")
    told: dict[str, Any] | None = None
    if options.document:
        plan = _from_file(options.document)
    else:
        told = status_despite(options.config)
        plan = told["last_plan"]
        if plan is None:
            print("null" if options.json else f"last plan: {plan_in_short(told)}")
            return 1
    if options.json:
        print(json.dumps(plan, indent=1))
        return 0
    print_plan(plan, told, is_verbose=options.verbose)
    if told and is_recommended(plan):
        guess = ", though what it gains is a guess" if guessed(told) else ""
        print(f"\nto carry it out{guess}: spreds apply {options.config} {plan['cycle']}")
    if not options.verbose:
        print("--verbose has reasons, backends, other budgets, and how sure that is")
    return 0


def _from_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_PLAN_BYTES + 1)
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror}") from error
    return AdaptationPlan.loads(text, str(path)).to_json()
