"""Looks for settings of the kernel that hurt servers whose sizes change.

Whether what the servers have is within what they may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sidecar.base.machine_memory import memory_limit
from sidecar.config.node import SidecarConfig
from sidecar.preflight.finding import Finding
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.resident_budget import headroom_of
from solver_lambda.documents.units import format_size


def check_sums(config: SidecarConfig, readings: Mapping[str, ServerReading]) -> Iterator[Finding]:
    """Check the sums of ``maxmemory`` and of resident memory; nothing is said where no server was
    read."""
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
            f"{words}; when SPREDS sets sizes, it brings them below that",
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
            f"{words}: too much already, and maxmemory falls when SPREDS sets sizes",
            "raise memory.rss_budget if that is not meant",
        )
    else:
        yield Finding("ok", "memory.rss_budget", words)


_WHERE = "machine"
# Beyond it there is no room for forks, fragmentation and everything else on the machine.
MOST_BUDGET_SHARE = 0.8
MOST_SWAPPINESS = 10


def check_machine(
    budget_bytes: int,
    most_backlog: int | None = None,
    root: Path = Path("/"),
    *,
    share: str = "",
    servers: Sequence[ServerReading] = (),
) -> Iterator[Finding]:
    """Look into ``/proc`` and ``/sys`` below ``root``; what is not there is not judged.

    Args:
        most_backlog: the greatest ``tcp-backlog`` of the servers; ``None``: none listens on TCP.
        share: of the machine that the budget is, as the file has it.
        servers: that answer; what else is in use is others'.
    """
    memory = _memory(root)
    if memory:
        yield _check_budget(budget_bytes, memory, share, servers)
    if (found := _read(root, "proc/sys/vm/overcommit_memory")) is not None and found != "1":
        yield Finding(
            "advice",
            _WHERE,
            f"vm.overcommit_memory is {found}: a fork of a large server (saving, a new replica) "
            "may fail for lack of memory that it would never use",
            "sysctl vm.overcommit_memory=1",
        )
    pages = _read(root, "sys/kernel/mm/transparent_hugepage/enabled")
    if pages is not None and "[always]" in pages:
        yield Finding(
            "advice",
            _WHERE,
            "transparent hugepages are always on: memory that a shrink frees goes back to the "
            "machine late or not at all, and forks are slow",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, at each boot",
        )
    yield from _check_swap(root, memory)
    backlog = _read(root, "proc/sys/net/core/somaxconn")
    if most_backlog is not None and backlog is not None and int(backlog) < most_backlog:
        yield Finding(
            "advice",
            _WHERE,
            f"net.core.somaxconn is {backlog}, and a server asks for {most_backlog} (tcp-backlog): "
            "many clients that connect at once, as after a restart, are turned away",
            f"sysctl net.core.somaxconn={most_backlog}",
        )


def _check_budget(
    budget_bytes: int, memory: dict[str, int], share: str, servers: Sequence[ServerReading]
) -> Finding:
    machine_bytes = memory["MemTotal"]
    words = f"memory.budget{share and f' {share}'} is {format_size(budget_bytes)} of the machine's"
    words += f" {format_size(machine_bytes)}"
    if budget_bytes >= machine_bytes:
        return Finding("problem", "memory.budget", words, "give the servers less than there is")
    if budget_bytes > MOST_BUDGET_SHARE * machine_bytes:
        return Finding(
            "advice",
            "memory.budget",
            f"{words}, which leaves little for forks, fragmentation, clients and other programs",
            f"at most {MOST_BUDGET_SHARE:.0%}, less where servers save to disk",
        )
    headroom = headroom_of(servers)
    fixed_bytes = headroom.fragmentation + headroom.clients
    in_use_bytes = machine_bytes - memory.get("MemAvailable", machine_bytes)
    others_bytes = max(0, in_use_bytes - sum(server.rss_bytes for server in servers))
    left_bytes = machine_bytes - others_bytes - fixed_bytes
    if budget_bytes > left_bytes:
        return Finding(
            "advice",
            "memory.budget",
            f"{words}, where other programs use {format_size(others_bytes)}, and the servers "
            f"{format_size(fixed_bytes)} beside what maxmemory counts: that includes memory of "
            "others",
            f"at most {format_size(max(0, left_bytes))}",
        )
    return Finding("ok", "memory.budget", words)


def _check_swap(root: Path, memory: dict[str, int]) -> Iterator[Finding]:
    swappiness = _read(root, "proc/sys/vm/swappiness")
    if not memory.get("SwapTotal") or swappiness is None or int(swappiness) <= MOST_SWAPPINESS:
        return
    yield Finding(
        "advice",
        _WHERE,
        f"there is swap ({format_size(memory['SwapTotal'])}) and vm.swappiness is {swappiness}: "
        "a cache whose keys are swapped out is slower than a miss",
        "sysctl vm.swappiness=1, or swapoff -a",
    )


def _memory(root: Path) -> dict[str, int]:
    """Return bytes by the names of ``/proc/meminfo``."""
    text = _read(root, "proc/meminfo")
    if text is None:
        return {}
    fields = (line.split() for line in text.splitlines())
    return {
        words[0].rstrip(":"): int(words[1]) * 1024
        for words in fields
        if len(words) == 3 and words[2] == "kB"
    }


def _read(root: Path, path: str) -> str | None:
    try:
        return (root / path).read_text().strip()
    except OSError:
        return None
