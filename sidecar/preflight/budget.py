"""Whether what the servers have is within what they may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sidecar.base.machine_memory import memory_limit
from sidecar.config.node import SidecarConfig
from sidecar.preflight.finding import Finding
from sidecar.servers.server_reading import ServerReading
from solver_lambda.documents.units import format_size


def check_sums(config: SidecarConfig, readings: Mapping[str, ServerReading]) -> Iterator[Finding]:
    """Of ``maxmemory`` and of resident memory; nothing is said where no server was read."""
    if readings:
        yield _check_maxmemory(config, readings)
        yield from _check_resident(config, readings)


def _check_maxmemory(config: SidecarConfig, readings: Mapping[str, ServerReading]) -> Finding:
    fixed = sum(r.maxmemory_bytes for r in readings.values() if not r.evicts)
    total = sum(reading.maxmemory_bytes for reading in readings.values())
    budget = config.memory.budget_bytes
    unread = [server.name for server in config.servers if server.name not in readings]
    unlimited = [name for name, reading in readings.items() if not reading.maxmemory_bytes]
    words = f"the sizes sum to {format_size(total)} of {format_size(budget)}"
    if unlimited:
        words += f", without {', '.join(unlimited)}: no maxmemory is set"
    if unread:
        words += f", without {', '.join(unread)}: could not be read"
    if fixed > budget:
        return Finding(
            "problem",
            "memory.budget",
            f"servers that keep their size have {format_size(fixed)}, more than the budget, "
            f"{format_size(budget)}",
            "raise memory.budget, or lower their maxmemory",
        )
    if total > budget:
        return Finding(
            "advice",
            "memory.budget",
            f"{words}; as soon as SPREDS sets sizes it brings them below that",
            "raise memory.budget if that is not meant",
        )
    if unread:
        return Finding("advice", "memory.budget", words, "look again when all servers can be read")
    return Finding("ok", "memory.budget", words)


def _check_resident(
    config: SidecarConfig, readings: Mapping[str, ServerReading]
) -> Iterator[Finding]:
    amount = config.memory.rss_budget
    if amount is None:
        return
    most = amount.bytes
    if most is None:
        try:
            most = amount.of(memory_limit(config.memory.cgroup).bytes)
        except (OSError, ValueError) as error:
            what = f"the limit that it is a share of cannot be read: {error}"
            yield Finding("problem", "memory.rss_budget", what, "give it as a size")
            return
    resident = sum(reading.rss_bytes for reading in readings.values())
    words = f"resident memory of the servers is {format_size(resident)} of {format_size(most)}"
    if resident > most:
        yield Finding(
            "advice",
            "memory.rss_budget",
            f"{words}: too much already, and maxmemory falls as soon as SPREDS sets sizes",
            "raise memory.rss_budget if that is not meant",
        )
    else:
        yield Finding("ok", "memory.rss_budget", words)
