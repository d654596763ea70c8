"""Says what another eviction policy would bring a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sidecar.commands.curve_words import hit_ratio_at
from solver_lambda.documents.units import format_size

# Of the reads: for less nobody tries another policy.
_WORTH_TRYING = 0.01
_Server = Mapping[str, Any]


def policy_sentences(server: _Server, *, is_verbose: bool) -> list[str]:
    """Say which other policies would bring clearly more, and what to type; if ``is_verbose`` also
    what the others would."""
    better = better_policies(server)
    found = [_sentence(server, one) for one in better]
    others = [one for one in _others(server) if one not in better]
    if is_verbose and others:
        told = ", ".join(
            f"{one['hit_ratio']:.1%} {_under(one)} (± {100 * one['error_ratio']:.1f} points)"
            for one in others
        )
        found.append(
            f"Beside the {_hits_now(server):.1%} of now, by its curve, it would hit {told}."
        )
    return found


def better_words(server: _Server) -> str | None:
    """Say in a few words what the best other policy would bring, if that is clearly more."""
    best = max(better_policies(server), key=lambda one: float(one["hit_ratio"]), default=None)
    if best is None:
        return None
    return (
        f"{server['name']} would hit {best['hit_ratio']:.1%} and not {_hits_now(server):.1%} "
        f"{_under(best)}, with what it has"
    )


def better_policies(server: _Server) -> list[_Server]:
    """Return those that would bring more than they may be off by."""
    others = _others(server)
    now = _hits_now(server) if others else 0.0
    return [
        one
        for one in others
        if one["hit_ratio"] - now > max(_WORTH_TRYING, float(one["error_ratio"]))
    ]


def _others(server: _Server) -> list[_Server]:
    if not server["curve"] or not server["maxmemory_bytes"]:
        return []
    return [one for one in server["other_policies"] if one["hit_ratio"] is not None]


def _hits_now(server: _Server) -> float:
    return hit_ratio_at(server["curve"], server["maxmemory_bytes"])


def _under(other: _Server) -> str:
    value = other["value"]
    return f"with maxmemory-samples {value}" if value.isdigit() else f"under {value}"


def _sentence(server: _Server, other: _Server) -> str:
    text = (
        f"{_under(other)} it would hit {other['hit_ratio']:.1%} with the "
        f"{format_size(server['maxmemory_bytes'])} that it has, and not {_hits_now(server):.1%} as "
        f"by its curve now (the difference ± {100 * other['error_ratio']:.1f} points)"
    )
    recommended, wanted = other["recommended_hit_ratio"], server["recommended_bytes"]
    if recommended is not None and wanted not in (None, server["maxmemory_bytes"]):
        text += f", and {recommended:.1%} with the recommended {format_size(wanted)}"
    command = f"CONFIG SET {other['setting']} {other['value']}"
    return f"{text[0].upper()}{text[1:]}. To try it: `{command}`; its curve begins anew then."
