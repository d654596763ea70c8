"""A share of a processor for one process and its threads, by a control group of Linux."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
# Short, so that a run of some milliseconds gets its share and not all or nothing.
PERIOD_MICROSECONDS = 20_000


def _own_group(controller: str) -> str:
    """Of this process, for version 1 of control groups by its controller, else of version 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    return "/"


def _parent() -> tuple[Path, bool]:
    """Where a group can be made, and whether that is version 2."""
    if (ROOT / "cgroup.controllers").exists():
        return ROOT / _own_group("").lstrip("/"), True
    return ROOT / "cpu" / _own_group("cpu").lstrip("/"), False


@contextmanager
def processor_share(share: float) -> Iterator[Path | None]:
    """A file: a process that writes its number into it has ``share`` of a processor from then on.

    ``None`` where no group can be made: without the right to, or in a container without them.
    """
    folder: Path | None = None
    try:
        parent, is_second = _parent()
        folder = parent / f"spreds-share-{os.getpid()}"
        folder.mkdir()
        quota = max(1000, round(share * PERIOD_MICROSECONDS))
        if is_second:
            (folder / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
        else:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
        door: Path | None = folder / "cgroup.procs"
    except OSError:
        door = None
    try:
        yield door
    finally:
        if folder is not None and folder.exists():
            folder.rmdir()


def has_control_groups() -> bool:
    """Whether a share can be given here."""
    with processor_share(0.5) as door:
        return door is not None
