"""Finds a server's process on this machine, by the number that the server tells."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ServerProcess:
    """Says whom a server runs as; ``groups`` has the number of each."""

    name: str
    user: int
    groups: frozenset[int]


def server_process(name: str, process_id: int) -> ServerProcess | None:
    """Return the server that this process is; ``None`` if it is no server of this machine."""
    folder = Path("/proc") / str(process_id)
    try:
        # Any byte may stand in a process' name.
        if not any(word in (folder / "comm").read_bytes() for word in (b"redis", b"valkey")):
            return None
        lines = (folder / "status").read_text(errors="replace").splitlines()
    except OSError:
        return None
    fields = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    groups = frozenset(int(number) for number in [fields["Gid"][1], *fields["Groups"]])
    return ServerProcess(name, int(fields["Uid"][1]), groups)
