"""Where and of what something was measured."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from workloads.running_program import ROOT

PACKAGES = ("numpy", "redis", "pyzmq", "scipy", "matplotlib")


def provenance() -> dict[str, str]:
    """Machine, versions and commit, each in words."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{memory_bytes / (1 << 30):.0f} GiB",
        "system": f"{_distribution()}, Linux {platform.release()}",
        "Python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "commit": _commit(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "an unknown distribution")
    except OSError:
        return "an unknown distribution"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.strip()

    try:
        changed = " with changes" if git("status", "--porcelain", "-uno") else ""
        return git("rev-parse", "--short=12", "HEAD") + changed
    except (OSError, subprocess.CalledProcessError):
        return "unknown (no git repository)"
