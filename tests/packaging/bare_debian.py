"""A bare Debian in a folder: made by debootstrap, entered by chroot, or booted; its packages."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workloads.local_node import wait_until
from workloads.local_server import BUILD

MIRROR = "http://deb.debian.org/debian"
_BUILD_DEB = Path(__file__).resolve().parents[2] / "docs/operate/install/build_deb.sh"
_BASES = BUILD / "bare"
# As a user of the machine would install from it.
_CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"


def why_not(*programs: str) -> str | None:
    """Return what is missing to make one here, or None."""
    if os.geteuid() != 0:
        return "only root can make one"
    missing = [name for name in ("debootstrap", "unshare", *programs) if not shutil.which(name)]
    return f"{missing[0]} is not installed" if missing else None


def build_packages(arch: str, cpu: str) -> list[Path]:
    """Debian package and wheel for a processor, which Debian calls ``arch``, and wheels ``cpu``."""
    done = subprocess.run(
        [_BUILD_DEB],
        env={**os.environ, "ARCH": arch},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    package = Path(done.stdout.strip())
    return [package, *package.parent.glob(f"*_{cpu}.whl")]


class BareDebian:
    """A folder with the packages of a suite, and no compiler among them."""

    def __init__(self, suite: str, packages: str, folder: Path, arch: str = "amd64") -> None:
        """A copy of the base, which is made once. Raises CalledProcessError."""
        base = _BASES / f"{suite}-{arch}"
        if not base.exists():
            _BASES.mkdir(parents=True, exist_ok=True)
            making = _BASES / f".{base.name}"
            shutil.rmtree(making, ignore_errors=True)
            command = ["debootstrap", f"--arch={arch}", "--variant=minbase"]
            command += [f"--include={packages}", suite, str(making), MIRROR]
            subprocess.run(command, check=True, capture_output=True)
            making.rename(base)
        self.root = folder / suite
        subprocess.run(["cp", "-a", base, self.root], check=True)
        shutil.copy(f"/{_CERTIFICATES}", self.root / _CERTIFICATES)

    def run(self, script: str) -> str:
        """Return what a shell prints there, as root, in processes of its own that end with it."""
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        done = subprocess.run(
            [*command, f"--root={self.root}", "sh", "-euc", script],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    @contextmanager
    def booted(self) -> Iterator[Booted]:
        """Boot with systemd as the first process, and a network of its own."""
        command = ["systemd-nspawn", "--quiet", f"--directory={self.root}", "--boot"]
        log = self.root.with_suffix(".log")
        with log.open("w") as written:
            outer = subprocess.Popen(
                [*command, "--register=no", "--keep-unit", "--private-network", "--console=pipe"],
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
            )
        try:
            booted = Booted(outer.pid, log)
            wait_until(booted.is_up, log.read_text)
            yield booted
        finally:
            outer.send_signal(signal.SIGTERM)  # it powers the machine off
            outer.wait()


class Booted:
    """Runs commands in a machine that is up."""

    def __init__(self, outer: int, log: Path) -> None:
        self._outer, self._log = outer, log

    def is_up(self) -> bool:
        """Whether all services were started, or have failed."""
        answer = self._enter("systemctl is-system-running")
        return bool(answer and answer.stdout.strip() in ("running", "degraded"))

    def run(self, script: str) -> str:
        """Return what a shell prints there, as root."""
        done = self._enter(script)
        assert done is not None, self._log.read_text()
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def _enter(self, script: str) -> subprocess.CompletedProcess[str] | None:
        children = Path(f"/proc/{self._outer}/task/{self._outer}/children").read_text().split()
        if not children:
            return None
        command = ["nsenter", "-t", children[0], "-m", "-u", "-i", "-n", "-p", "-C"]
        return subprocess.run(
            [*command, "sh", "-euc", script], capture_output=True, text=True, check=False
        )
