"""Tells what a status document says of a server's size, asked for in several commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_on_its_way(server: dict[str, Any], told: dict[str, Any]) -> bool:
    """Whether a server of the status document ``told`` is being given its planned size."""
    target, size = server["target_bytes"], server["maxmemory_bytes"]
    may = told["sets_sizes"] and not told["pause"] and not server["held"]
    return bool(may and size is not None and target not in (None, size))


def is_to_change(server: Mapping[str, Any]) -> bool:
    """Whether another size is recommended for it than it has."""
    return server["recommended_bytes"] not in (None, server["maxmemory_bytes"])


def with_the_plan(server: dict[str, Any], plan: dict[str, Any] | None, key: str) -> float | None:
    """Return a figure with the recommended size. ``None``: that is not only recommended, or nothing
    is known."""
    if plan is None or plan["carried_out"] or not server.get("curve"):
        return None
    return server.get(f"recommended_{key}") if is_to_change(server) else None


def planned_bytes(server: dict[str, Any], told: dict[str, Any]) -> int | None:
    """Return the size that is wanted of a server, if it has another one and nobody holds it at
    that."""
    planned = told.get("target_bytes", server.get("planned_bytes"))
    return None if told.get("held") or planned == server.get("maxmemory_bytes") else planned
