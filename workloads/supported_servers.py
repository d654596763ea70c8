"""The servers that SPREDS supports, as ``redis_patch/servers.txt`` lists them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_LIST = Path(__file__).resolve().parent.parent / "redis_patch" / "servers.txt"


class SupportedServer(NamedTuple):
    """One line of the list."""

    name: str
    package: str
    version: str
    release: str
    ways: tuple[str, ...]

    @property
    def title(self) -> str:
        """For people, for example ``Redis 7.0``."""
        return f"{self.package.capitalize()} {'.'.join(self.version.split('.')[:2])}"

    @property
    def stock_binary(self) -> str:
        """Its file below ``build/``, as the project has it."""
        return f"bin/{self.name}-server-stock"

    @property
    def patched_binary(self) -> str | None:
        """With the patch, where there is one."""
        return f"bin/{self.name}-server" if "patch" in self.ways else None


def supported_servers() -> dict[str, SupportedServer]:
    """By name, in the list's order."""
    lines = (line.split("#")[0].split() for line in _LIST.read_text().splitlines())
    return {
        name: SupportedServer(name, package, version, release, tuple(ways.split(",")))
        for name, package, version, release, ways in filter(None, lines)
    }
