"""Whether the cgroups in which the servers run have what they may be given: the sidecar's own tells
nothing of theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sidecar.base.machine_memory import (
    cgroups_of,
    folder_limits_bytes,
    machine_memory_bytes,
    memory_limit,
)
from sidecar.config.memory import MemoryConfig
from sidecar.config.node import ServerConfig
from sidecar.preflight.finding import Finding
from solver_lambda.documents.units import format_size

_MOST_DEPTH = 64


def check_cgroups(
    memory: MemoryConfig, servers: Sequence[ServerConfig], processes: Mapping[str, Path]
) -> Iterator[Finding]:
    """Check the limits of cgroups. ``processes``: folders below ``/proc`` of the servers that run
    on this machine, by name. What cannot be read is not judged."""
    machine_bytes = machine_memory_bytes()
    within: dict[Path, tuple[int, list[ServerConfig]]] = {}
    for server in servers:
        found = _limit(processes[server.name]) if server.name in processes else None
        if found is not None and found[0] < machine_bytes:
            within.setdefault(found[1], (found[0], []))[1].append(server)
    for cgroup, (limit_bytes, inside) in within.items():
        if len(inside) == len(servers):
            yield from _check_budget(memory, cgroup, limit_bytes)
            return
        most = [server.maximum_bytes or memory.budget_bytes for server in inside]
        names = ", ".join(server.name for server in inside)
        words = f"run in the cgroup {cgroup}, which has {format_size(limit_bytes)}"
        if min(sum(most), memory.budget_bytes) >= limit_bytes:
            yield Finding(
                "problem",
                names,
                f"{words}, and may be given more: then the kernel ends them",
                "a maximum for each, so that they sum to less than that",
            )


def _check_budget(memory: MemoryConfig, cgroup: Path, limit_bytes: int) -> Iterator[Finding]:
    size = format_size(memory.budget_bytes)
    words = f"all servers run in the cgroup {cgroup}, which has {format_size(limit_bytes)}"
    if memory.budget_bytes >= limit_bytes:
        yield Finding(
            "problem",
            "memory.budget",
            f"{words}, and the budget is {size}: the kernel would end them",
            f'budget = "75%" with cgroup = "{cgroup}", or a smaller size',
        )
    elif memory.budget_share and not memory.cgroup and memory_limit().bytes != limit_bytes:
        yield Finding(
            "advice",
            "memory.budget",
            f"{words}, and {memory.budget} is of what the sidecar's own has ({size})",
            f'name it: cgroup = "{cgroup}"',
        )


def _limit(process: Path) -> tuple[int, Path] | None:
    """Return the least limit that holds a process, and whose it is; ``None`` if it has none, or is
    deeper than anybody's is who does not mean to keep us busy."""
    try:
        found = [
            (min(limits), len(folder.parts), folder)
            for own in cgroups_of(process)
            if len(own.parts) <= _MOST_DEPTH
            for folder in (own, *own.parents)
            if (limits := folder_limits_bytes(folder))
        ]
    except (OSError, ValueError):
        return None
    # Of equal limits the outermost cgroup's counts: it holds those below it, too.
    limit_bytes, _, cgroup = min(found, default=(0, 0, None))
    return (limit_bytes, cgroup) if cgroup is not None else None
