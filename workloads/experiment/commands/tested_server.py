"""What is played: a server whose memory is watched by sanitizers, and what surrounds it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from workloads.local_server import BUILD, LocalServer, SupportedServer

# What a sanitizer ends a process with.
_EXIT_CODE = 86
_END_SECONDS = 60.0
_REPORT = "sanitizer.report"
# Not their option log_path: UBSan leaves it alone.
_WITH_REPORT = f'ASAN_OPTIONS=$0 UBSAN_OPTIONS=$0 exec "$@" 2>>{_REPORT}'
_SHOWN_CHARACTERS = 6000
# UBSan's reports, each with a stack.
_UNDEFINED = re.compile(r"^(?=\S+:\d+:\d+: runtime error: )", re.MULTILINE)
# Of the servers' own code, on each of which stock servers depend, too.
_KNOWN = re.compile(
    r"sha1\.c:\d+:\d+: runtime error: null pointer passed as argument 2"  # of no bytes
    # Lua's hash of a text, as Valkey has it: x86 reads it there.
    r"|lstring\.c:\d+:\d+: runtime error: load of misaligned address"
)
_AOF = {"appendonly": "yes", "appendfsync": "no", "auto-aof-rewrite-min-size": "1mb"}
_EVICTION = {"maxmemory": "5mb", "maxmemory-policy": "allkeys-lru", "maxmemory-clients": "60%"}
_DEFRAGMENTATION = {
    "activedefrag": "yes",
    "active-defrag-ignore-bytes": "1",
    "active-defrag-threshold-lower": "0",
    "active-defrag-cycle-min": "50",
    "active-defrag-cycle-max": "75",
    "active-defrag-max-scan-fields": "10",
}


class FoundError(Exception):
    """Something is wrong with the server; the message tells all."""


class Make(NamedTuple):
    """A server that is sampled in one way, ``patch`` or ``module``."""

    server: SupportedServer
    way: str
    is_sanitized: bool = True

    @property
    def binary(self) -> Path:
        name = self.server.stock_binary if self.way == "module" else self.server.patched_binary
        return BUILD / f"{name}{self._suffix}"

    @property
    def module(self) -> Path:
        return BUILD / f"lib/spreds{self._suffix}.so"

    @property
    def stock(self) -> Path:
        """Return the path of the twin's binary."""
        return BUILD / self.server.stock_binary

    @property
    def prefix(self) -> str:
        """Return the prefix of the sampler's settings."""
        return "spreds." if self.way == "module" else "spreds-"

    @property
    def settings(self) -> dict[str, object]:
        return {"loadmodule": self.module} if self.way == "module" else {}

    @property
    def why_not(self) -> str | None:
        """Return what is missing to run it, or None."""
        if self.way not in self.server.ways:
            return f"{self.server.title} can only be sampled by {', '.join(self.server.ways)}"
        needed = {
            self.binary: self.server.name + "-stock" * (self.way == "module"),
            self.stock: f"{self.server.name}-stock",
        }
        if self.way == "module":
            needed[self.module] = "module"
        for path, target in needed.items():
            if not path.exists():
                suffix = self._suffix if path != self.stock else ""
                built = f"redis_patch/build.sh {target}{suffix}"
                return f"{path.relative_to(BUILD.parent)} is not built: run '{built}'"
        return None

    @property
    def _suffix(self) -> str:
        return "-sanitized" if self.is_sanitized else ""


class TestedServer(LocalServer):
    """Such a server; raises ``FoundError`` for what is found."""

    __test__ = False  # it is no test

    def __init__(self, make: Make, settings: Mapping[str, object]) -> None:
        options = f"exitcode={_EXIT_CODE}:print_stacktrace=1:quarantine_size_mb=64"
        try:
            super().__init__(
                {"crash-log-enabled": "no", **make.settings, **settings},
                make.binary,
                wrapper=("sh", "-c", _WITH_REPORT, options),
            )
        except RuntimeError as error:
            raise FoundError(str(error)) from error

    def check(self) -> None:
        """Raises FoundError: it is gone, or one of its forks was reported."""
        if self.process.poll() is not None:
            raise FoundError(f"the server ended with {self.process.returncode}\n{self._words()}")
        if self._report():
            raise FoundError(f"a sanitizer reports\n{self._words()}")

    def finish(self) -> None:
        """End it, as an operator does. Raises FoundError: not cleanly, or memory leaked."""
        self.check()
        self.process.terminate()
        try:
            code = self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise FoundError(f"the server does not end\n{self._words()}") from error
        if code or self._report():
            raise FoundError(f"the server ended with {code}\n{self._words()}")

    def _report(self) -> str:
        text = (self.folder / _REPORT).read_text(errors="replace")
        places = _UNDEFINED.split(text)
        # What stands before the first place is of another sanitizer, or of the server.
        wrong = [part for part in places if part.strip() and not _KNOWN.match(part)]
        return "".join(wrong)[:_SHOWN_CHARACTERS]

    def _words(self) -> str:
        return f"{self._report()}\nend of its log:\n{self.log.read_text(errors='replace')[-1500:]}"


@dataclass(frozen=True)
class Phase:
    """A part of the experiment.

    Attributes:
        settings: of the tested server.
        has_twin: replies and digests are compared. Without a twin commands are drawn, too, whose
            outcome depends on time, chance or memory.
        has_replica: whose digest is compared with its master's.
        restarts: at the end it comes back from its append-only file with the same data.
        is_sanitized: false where the sanitizers' allocator is in the way.
    """

    name: str
    settings: Mapping[str, object] = field(default_factory=dict)
    has_twin: bool = True
    has_replica: bool = False
    restarts: bool = False
    is_sanitized: bool = True


PHASES = {
    phase.name: phase
    for phase in (
        Phase("alone"),
        Phase("replica", has_replica=True),
        Phase("append-only", _AOF, restarts=True),
        Phase("io-threads", {"io-threads": 4, "io-threads-do-reads": "yes"}),
        Phase("eviction", {**_EVICTION, **_AOF}, has_twin=False),
        Phase("eviction-replica", _EVICTION, has_twin=False, has_replica=True),
        # Only the servers' own jemalloc says what is fragmented.
        Phase("defragmentation", _DEFRAGMENTATION, is_sanitized=False),
    )
}
