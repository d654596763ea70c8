"""Finds how much memory there is: of the machine, or of the cgroup that holds the process.

Read anew each time: a container can be given another limit while it runs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, NamedTuple

from sidecar.base.regular_file import open_regular

_MEMINFO = Path("/proc/meminfo")
# cgroup v2's name of the limit, and v1's.
LIMIT_FILES = ("memory.max", "memory.limit_in_bytes")
_UNLIMITED, _MOST_LIMIT = "max", 64
_OWN = Path("/proc/self")


class MemoryLimit(NamedTuple):
    """Tells a limit. ``source``: a cgroup allows less than the machine has, or none does."""

    bytes: int
    source: Literal["machine", "cgroup"]


def memory_limit(cgroup: Path | None = None) -> MemoryLimit:
    """Return the limit of ``cgroup`` and all around it, by default those of this process; at most
    the machine's.

    Raises:
        OSError: ``cgroup`` has no limit's file (any more), or one cannot be read.
        ValueError: a file says something else than a size.
    """
    machine_bytes = machine_memory_bytes()
    found = _own_limits() if cgroup is None else cgroup_limits_bytes(cgroup)
    if cgroup is not None and not has_limit_file(cgroup):
        raise FileNotFoundError(2, f"neither {' nor '.join(LIMIT_FILES)} is there", str(cgroup))
    least_bytes = min(found, default=machine_bytes)
    # v1 has a huge number where there is no limit.
    if least_bytes >= machine_bytes:
        return MemoryLimit(machine_bytes, "machine")
    return MemoryLimit(least_bytes, "cgroup")


def machine_memory_bytes(meminfo: Path = _MEMINFO) -> int:
    """Raises OSError, and ValueError where ``MemTotal`` is missing."""
    for line in meminfo.read_text("ascii").splitlines():
        words = line.split()
        if words[0] == "MemTotal:":
            return int(words[1]) << 10
    raise ValueError(f"{meminfo} has no MemTotal")


def has_limit_file(cgroup: Path) -> bool:
    """Whether the folder is a cgroup whose memory can be limited."""
    return any((cgroup / name).exists() for name in LIMIT_FILES)


def cgroup_limits_bytes(cgroup: Path) -> list[int]:
    """Return the limits that are set on a cgroup and those around it; a root has none.

    Raises:
        OSError: a limit cannot be read.
        ValueError: one is neither a number above 0 nor ``max``.
    """
    return [limit for folder in (cgroup, *cgroup.parents) for limit in folder_limits_bytes(folder)]


def folder_limits_bytes(folder: Path) -> list[int]:
    """Return the limits that are set on this very cgroup. Raises as ``cgroup_limits_bytes``."""
    limits = []
    for name in LIMIT_FILES:
        try:
            with open_regular(folder / name, more_flags=os.O_NOFOLLOW) as file:
                text = file.read(_MOST_LIMIT).decode("ascii").strip()
        except (FileNotFoundError, NotADirectoryError):
            continue
        if text != _UNLIMITED:
            limits.append(_whole(text, folder / name))
    return limits


def own_cgroups() -> list[Path]:
    """Return folders of the cgroups that limit this process' memory; none where cgroups are not
    mounted. Raises OSError."""
    # A container sees its own cgroup as the root of the mount, or does not see the path at all.
    return [folder if folder.is_dir() else mount for mount, folder in _cgroups(_OWN)]


def cgroups_of(process: Path) -> list[Path]:
    """Do as ``own_cgroups`` does, for the process with this folder below ``/proc``, as far as this
    process sees its cgroups. Raises OSError."""
    return [folder for _, folder in _cgroups(process) if ".." not in folder.parts]


def _cgroups(process: Path) -> list[tuple[Path, Path]]:
    """Return where cgroups are mounted, and the process' folders there. What another process has
    mounted, in a namespace of its own, may be anything: only where we see cgroups they are some."""
    paths: dict[str, str] = {}
    for line in _lines(process / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            paths["cgroup2"] = path
        elif "memory" in controllers.split(","):
            paths["cgroup"] = path
    found = []
    for line in _lines(_OWN / "mountinfo"):
        before, _, after = line.partition(" - ")
        root, mounted_at = before.split(" ")[3:5]
        kind, _, options = after.split(" ", 2)
        if kind not in paths or (kind == "cgroup" and "memory" not in options.split(",")):
            continue
        path = paths[kind]
        inside = path.removeprefix(root) if root != "/" and path.startswith(root) else path
        found.append((Path(mounted_at), Path(mounted_at, inside.lstrip("/"))))
    return found


def _lines(path: Path) -> list[str]:
    """Split a file at newlines only. A mount's path may have any other byte, also such as
    ``str.splitlines`` takes for the end of a line."""
    return os.fsdecode(path.read_bytes()).removesuffix("\n").split("\n")


def _own_limits() -> list[int]:
    return [limit for folder in own_cgroups() for limit in cgroup_limits_bytes(folder)]


def _whole(text: str, path: Path) -> int:
    # A limit may be zero for a moment, or by mistake; nothing lives within it.
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(f"{path} is {text!r}, not a number of bytes above 0")
    return int(text)
