"""What a process takes of its machine, from /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """``processor_seconds``: since it began, of all its threads."""

    processor_seconds: float
    rss_bytes: int
    threads: int
    descriptors: int


def open_files(pid: int) -> list[str]:
    """What each of its descriptors is of."""
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it has just been closed
            found.append(str(descriptor.readlink()).partition("[")[0])
    return sorted(found)


def usage(pid: int) -> Usage:
    """Of a process that runs. Raises OSError if it does not."""
    folder = Path(f"/proc/{pid}")
    # After the program's name, which may have spaces: state is field 3, utime 14, stime 15.
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    status = dict(
        line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line
    )
    return Usage(
        (int(fields[11]) + int(fields[12])) * _TICK_SECONDS,
        int(status["VmRSS"].split()[0]) << 10,
        int(status["Threads"]),
        len(os.listdir(folder / "fd")),
    )
