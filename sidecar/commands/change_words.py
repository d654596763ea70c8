"""Says what ``spreds explain`` tells of the last change of a server's size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sidecar.base.time_of_day import time_of_day
from sidecar.commands.curve_words import hit_ratio_at
from sidecar.commands.printing import age_words, size_or
from sidecar.commands.size_predicates import is_on_its_way
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import reason_words, without_backend

_DAY_SECONDS, _MOST_OF_A_DAY, _FEW_OF_A_DAY = 86_400.0, 6, 3
# Reasons for changes of sizes beside plans: the sidecar's words, and plain ones.
_PLAINLY = (
    ("room that was made is given back", "as others need the room no longer"),
    ("less room beside ", "as less room is needed beside "),
    ("room beside ", "as this is left beside "),
    ("room for what ", "to make room for what "),
    ("what replicas do not use", "as replicas do not use it"),
)


def _plainly(words: str) -> str:
    """Say why a size was changed, for who never heard of room."""
    for start, plain in _PLAINLY:
        if words.startswith(start):
            return plain + words.removeprefix(start)
    return words


def last_change(
    server: dict[str, Any],
    told: Mapping[str, Any],
    history: Iterable[Mapping[str, Any]],
    *,
    told_already: str = "",
) -> list[str]:
    """Say what made the size that a server has, and what else moved then."""
    change = server["last_change"]
    if change is None:
        return ["SPREDS has not changed its size so far."]
    at = time_of_day(change["at_seconds"])
    words = _plainly(without_backend(reason_words(change["words"])))
    way = f"from {size_or(change['from_bytes'], '?')} to {size_or(change['to_bytes'], '?')}"
    has = size_or(server["maxmemory_bytes"], "an unknown size")
    text = f"SPREDS gave it another size at {at}, {way}, and it has {has} now"
    if server["maxmemory_bytes"] == change["to_bytes"]:
        text = f"It was given this size at {at}, when it went {way}"
    elif is_on_its_way(server, dict(told)) and server["target_bytes"] == change["to_bytes"]:
        text = f"It is being brought {way} since {at}, and has {has} now"
    found = [f"{text}." if words in told_already else f"{text}: {words}."]
    history = list(history)
    for when, counts in _what_counted_anew(history, change["at_seconds"]):
        found.append(f"Before that, at {time_of_day(when)}, what counts was changed: {counts}.")
    moved = [entry for entry in history if entry.get("cycle") == change["cycle"]]
    # Whether it was carried out at once or by an order later, it was.
    moved = [entry for entry in moved if entry["kind"] == "plan" and "sizes_bytes" in entry]
    for entry in moved[-1:]:
        others = _others(entry, server["name"], dict(told))
        found.append(f"In that plan {others}." if others else "No other server changed then.")
    return found


def since_installation(server: Mapping[str, Any], told: Mapping[str, Any]) -> list[str]:
    """Say what it has more or less than SPREDS found it with, what that is worth by its curve, and
    who has the difference. This answers why a cache was cut, whatever steps led there."""
    found, has, used = (server[key] for key in ("installed_bytes", "maxmemory_bytes", "used_bytes"))
    uses = f", and uses {format_size(used)}" if used is not None else ""
    if not found or not has or found == has:
        return [f"It uses {format_size(used)} of that."] if used is not None else []
    change = has - found
    text = (
        f"SPREDS found it with {format_size(found)}: it has {format_size(abs(change))} "
        f"{'more' if change > 0 else 'less'} now{uses}"
    )
    if server["curve"]:
        then, now = (f"{hit_ratio_at(server['curve'], size):.1%}" for size in (found, has))
        same = f"it hits {now} with either" if then == now else f"it hits {now} instead of {then}"
        text += f"; by its curve, {same}"
    others = {
        one["name"]: one["maxmemory_bytes"] - one["installed_bytes"]
        for one in told["servers"]
        if one["maxmemory_bytes"] and one["installed_bytes"]
    }
    opposite = [
        f"{name} {format_size(abs(more))}"
        for name, more in sorted(others.items(), key=lambda item: -abs(item[1]))
        if more * change < 0
    ]
    which = "Who has more than then" if change < 0 else "Who has less than then"
    return [f"{text}.", *([f"{which}: {', '.join(opposite)}."] if opposite else [])]


def _what_counted_anew(
    history: Iterable[Mapping[str, Any]], at_seconds: float
) -> list[tuple[float, str]]:
    """Say when weights or latencies changed in the day before, the last few times, and which: a
    change is often come to in several steps."""
    return [
        (entry["at_seconds"], str(entry.get("words", "")).rstrip(".") + _signed(entry))
        for entry in history
        if entry["kind"] == "yardstick" and 0 < at_seconds - entry["at_seconds"] < _DAY_SECONDS
    ][-_FEW_OF_A_DAY:]


def _signed(entry: Mapping[str, Any]) -> str:
    """Say who had signed the settings of the servers that it names."""
    by = [f"{name}'s team, signed {who}" for name, who in entry.get("signed", {}).items()]
    return f" ({'; '.join(by)})" if by else ""


def _others(entry: Mapping[str, Any], name: str, told: dict[str, Any]) -> str:
    """Say what a plan moves elsewhere, from what was planned before, also of who is on the way."""
    moving = {one["name"] for one in told["servers"] if is_on_its_way(one, told)}
    before, after = entry["sizes_before_bytes"], entry["sizes_bytes"]
    found = []
    for other, size in after.items():
        change = size - before.get(other, size)
        if other == name or not change:
            continue
        verb = (("grew", "shrank"), ("is to grow", "is to shrink"))[other in moving][change < 0]
        found.append(f"{other} {verb} by {format_size(abs(change))}")
    return ", ".join(found)


def _is_apply(entry: Mapping[str, Any]) -> bool:
    ordered = entry.get("order")
    return isinstance(ordered, dict) and str(ordered.get("what")).startswith("apply")


def in_the_last_day(
    name: str, history: Iterable[Mapping[str, Any]], now_seconds: float, *, is_short: bool = False
) -> list[str]:
    """Say what happened to a server and its size, the latest last; nothing if that is one
    change."""
    most = _FEW_OF_A_DAY if is_short else _MOST_OF_A_DAY
    found = []
    for entry in history:
        if entry["at_seconds"] < now_seconds - _DAY_SECONDS or not entry.get("carried_out", True):
            continue
        before = (entry.get("sizes_before_bytes") or {}).get(name)
        after = (entry.get("sizes_bytes") or {}).get(name)
        at = time_of_day(entry["at_seconds"])
        if is_short:
            at = age_words(now_seconds - entry["at_seconds"])
        if entry["kind"] in ("server", "hand") and entry.get("server") == name:
            found.append(f"{at}: {entry['words']}")
        elif entry["kind"] == "rollback" and "cycle" in entry:
            if entry.get("at_fault") in (None, name):
                found.append(f"{at}: plan {entry['cycle']} was taken back")
        elif _is_apply(entry):
            continue  # the plan stands by itself
        elif before is not None and after is not None and before != after:
            why = _why_words(entry, name)
            found += [f"{at}: {format_size(before)} -> {format_size(after)}, {why}"] * bool(why)
    more = [f"{len(found) - most} more before that"] * (len(found) > most)
    told = "; ".join([*more, *found[-most:]])
    return [f"In the last day: {told}."] if len(found) > 1 else []


def _why_words(entry: Mapping[str, Any], name: str) -> str:
    """Say what changed a server's size; empty where an entry of its own tells that."""
    if entry["kind"] == "plan":
        return f"by plan {entry['cycle']}"
    words = str(entry["words"]).partition(":")[0]
    if words == f"room beside {name}":
        return ""  # somebody set it by hand
    plain = _plainly(words)
    return plain if plain != words else f"by {words}"
