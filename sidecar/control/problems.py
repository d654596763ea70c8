"""What an operator should look into, by the rest of the status document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.controllers.silence import Silence
from sidecar.state.sidecar_state import SidecarState
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import reason_words


def problems_of(
    servers: Sequence[Mapping[str, Any]],
    budget: Mapping[str, Any],
    state: SidecarState,
    silence: Silence | None,
) -> list[str]:
    """A sentence each, with its remedy where there is one."""
    found = [f"{one['name']} does not answer: {one['error']}" for one in servers if not one["up"]]
    if silence is not None:
        found.append(silence.words())
    unlimited = [one["name"] for one in servers if one["up"] and not one["maxmemory_bytes"]]
    # Nothing is set in a pause, whoever orders it.
    remedy = "spreds resume" if state.control.pause else "spreds apply"
    if unlimited:
        found.append(f"{', '.join(unlimited)} has no maxmemory: '{remedy}' gives it one")
    if budget["maxmemory_bytes"] > budget["bytes"]:
        found.append(
            f"maxmemory of all servers is {format_size(budget['maxmemory_bytes'])}, more than the "
            f"budget of {format_size(budget['bytes'])}: '{remedy}' brings it below, or raise "
            "memory.budget"
        )
    if budget["rss_budget_bytes"] and budget["rss_bytes"] > budget["rss_budget_bytes"]:
        found.append(
            f"resident memory of all servers is {format_size(budget['rss_bytes'])}, more than "
            f"memory.rss_budget, {format_size(budget['rss_budget_bytes'])}"
        )
    found += [
        f"{one['name']} has neither the patch nor the module: plans leave its size alone; it "
        "shrinks only where all must"
        for one in servers
        if one["up"] and one["sampler"] is None
    ]
    found += [
        f"{one['name']}: {reason_words(one['keep_reason'])}, so it keeps its size: does it reach "
        "sampling.endpoint, and is the module still loaded?"
        for one in servers
        if (one["keep_reason"] or "").startswith("silent:")
    ]
    found += [
        f"{name} was given {format_size(hold.bytes)} by hand and keeps it until 'spreds resume'"
        for name, hold in state.control.held.items()
    ]
    return found
