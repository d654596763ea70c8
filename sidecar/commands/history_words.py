"""The history in short: the sizes of a plan once, an order before what it causes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

_KNOWN = re.compile(r"; how far curves are known: (.*)", re.DOTALL)
_LITTLE_KNOWN = re.compile(r"([\w.-]+) (?:not at all|hardly \()|, and (\d+ more) hardly")
_CARRYING_OUT = re.compile(r"carrying out plan (\d+): [^;]*(?:; how far curves are known[^;]*)?")
_SIZE = r"[\d.]+ [KMGT]?i?B"
_SIZES = re.compile(rf"[\w.-]+ {_SIZE}(?: -> {_SIZE})?(?:, [\w.-]+ {_SIZE}(?: -> {_SIZE})?)+")


def in_short(entries: Sequence[dict[str, Any]], server: str | None) -> list[dict[str, Any]]:
    """The entries as they are told, of one ``server`` or all: their words say nothing twice, and
    those whose sizes stand elsewhere have none. Nor has a plan that another one replaced before
    anybody carried it out."""
    found: list[dict[str, Any]] = []
    moved = {entry["cycle"] for entry in entries if _is_moving(entry)}
    shown_only = [one["cycle"] for one in entries if _would_move(one) and one["cycle"] not in moved]
    replaced = set(shown_only[:-1])
    told: set[int] = set()
    for entry in entries:
        shown = {**entry, "words": _of_one(str(entry["words"]), server)}
        if entry["kind"] == "plan":
            shown = _plan(shown, moved, told)
            if shown.get("cycle") in replaced:
                shown.pop("sizes_bytes", None)
        elif entry["kind"] == "budget":
            shown.pop("sizes_bytes", None)  # its words have them
        elif (order := _CARRYING_OUT.search(shown["words"])) and int(order[1]) in moved:
            shown["words"] = _CARRYING_OUT.sub(r"carrying out plan \1", shown["words"])
            found.insert(_place(found, int(order[1])), shown)
            continue
        found.append(shown)
    return found


def _is_moving(entry: dict[str, Any]) -> bool:
    return bool(entry["kind"] == "plan" and entry.get("carried_out"))


def _would_move(entry: dict[str, Any]) -> bool:
    return bool(entry["kind"] == "plan" and entry.get("decision") == "apply")


def _plan(entry: dict[str, Any], moved: set[int], told: set[int]) -> dict[str, Any]:
    """``moved``: plans that were carried out; ``told``: of which the reason was told."""
    cycle = entry.get("cycle")
    words = _KNOWN.sub(_hardly_known if _would_move(entry) else "", entry["words"])
    if _is_moving(entry) and cycle in told:
        words = words.partition(": ")[0]
    elif cycle in moved and not _is_moving(entry):
        entry.pop("sizes_bytes", None)
        told.add(int(entry["cycle"]))
    return {**entry, "words": words}


def _hardly_known(known: re.Match[str]) -> str:
    names = [one or more for one, more in _LITTLE_KNOWN.findall(known[1])]
    return f"; hardly known: {', '.join(names)}" if names else ""


def _place(found: Sequence[dict[str, Any]], cycle: int) -> int:
    """Before the plan that the order has carried out."""
    for place in reversed(range(len(found))):
        if _is_moving(found[place]) and found[place]["cycle"] == cycle:
            return place
    return len(found)


def _of_one(words: str, server: str | None) -> str:
    """Without the sizes of other servers."""
    if server is None:
        return words

    def own(sizes: re.Match[str]) -> str:
        mine = [one for one in sizes[0].split(", ") if one.startswith(f"{server} ")]
        return ", ".join(mine) or sizes[0]

    return _SIZES.sub(own, words)


def concerning(entries: Sequence[dict[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    """What changed a server, or was said of it or of the whole node."""
    changing = {entry["cycle"]: _changes(entry, name) for entry in entries if _is_moving(entry)}
    for entry in entries:
        if _concerns(entry, name, changing):
            yield entry


def _changes(entry: dict[str, Any], name: str) -> bool:
    before, after = entry.get("sizes_before_bytes") or {}, entry.get("sizes_bytes") or {}
    return bool(before.get(name) != after.get(name))


def _concerns(entry: dict[str, Any], name: str, changing: dict[int, bool]) -> bool:
    kind = entry["kind"]
    if entry.get("sizes_bytes"):
        return _changes(entry, name)
    if kind == "plan":
        return False
    if kind in ("start", "stop", "reload", "yardstick", "gap"):
        return bool(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", str(entry["words"])))
    if kind == "check" and not changing.get(entry.get("cycle", -1), True):
        return False
    ordered = entry.get("order")
    of = ordered.get("server") if isinstance(ordered, dict) else entry.get("server")
    return (of or entry.get("at_fault")) in (None, name)
