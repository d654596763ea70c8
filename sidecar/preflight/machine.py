"""Settings of the kernel that hurt servers whose sizes change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sidecar.preflight.finding import Finding
from sidecar.servers.resident_budget import headroom_of
from sidecar.servers.server_reading import ServerReading
from solver_lambda.documents.units import format_size

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
    """Bytes by the names of ``/proc/meminfo``."""
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
