"""The real Artillery, installed where it is wanted, and its load."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workloads.experiment.papers.slow_backend_front import Phase
from workloads.local_server import BUILD
from workloads.processes import running_command

PACKAGE = Path(__file__).with_name("artillery") / "package.json"
FOLDER = BUILD / "artillery"
PROGRAM = FOLDER / "node_modules" / ".bin" / "artillery"
INSTALL_LIMIT_SECONDS = 240.0
RUN_LIMIT_SECONDS = 120.0


class ArtilleryError(Exception):
    """It cannot be had, or failed; one sentence."""


def version() -> str:
    """Return the pinned version of Artillery."""
    wanted: str = json.loads(PACKAGE.read_text())["dependencies"]["artillery"]
    return wanted


async def install() -> None:
    """Bring it into ``build/artillery/``, unless it is there.

    Raises:
        ArtilleryError: there is no npm, or it failed.
    """
    package = FOLDER / "node_modules" / "artillery" / "package.json"
    if PROGRAM.exists() and json.loads(package.read_text())["version"] == version():
        return
    npm = shutil.which("npm")
    if npm is None:
        raise ArtilleryError("there is no npm, which comes with Node.js")
    FOLDER.mkdir(parents=True, exist_ok=True)
    shutil.copy(PACKAGE, FOLDER)
    # Its packages' own programs are not run.
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
    command = [npm, "install", "--prefix", str(FOLDER), *options]
    await _run(command, FOLDER / "npm.log", INSTALL_LIMIT_SECONDS)


async def play(
    port: int, path: str, keys: int, phases: Sequence[Phase], patience_seconds: float
) -> dict[str, Any]:
    """Play the phases against ``path`` with a random key for each user.

    Returns:
        users, failed, and p50, p95 and p99 in seconds of what was answered.

    Raises:
        ArtilleryError: it did not come to its end.
    """
    script = {
        "config": {
            "target": f"http://127.0.0.1:{port}",
            "http": {"timeout": patience_seconds},
            "phases": [
                {
                    "name": phase.name,
                    "duration": round(phase.seconds),
                    "arrivalRate": phase.first_rate,
                    **({"rampTo": phase.last_rate} if phase.last_rate != phase.first_rate else {}),
                }
                for phase in phases
            ],
        },
        "scenarios": [
            {"flow": [{"get": {"url": f"{path}/{{{{ $randomNumber(0, {keys - 1}) }}}}"}}]}
        ],
    }
    with tempfile.TemporaryDirectory(prefix="spreds-artillery-") as folder:
        written, result = Path(folder) / "load.json", Path(folder) / "result.json"
        written.write_text(json.dumps(script))
        command = [str(PROGRAM), "run", "--quiet", "--output", str(result), str(written)]
        await _run(command, Path(folder) / "log", RUN_LIMIT_SECONDS)
        try:
            aggregate = json.loads(result.read_text())["aggregate"]
        except (OSError, ValueError, KeyError) as error:
            raise ArtilleryError("it left no result that can be read") from error
    counters, times = aggregate["counters"], aggregate["summaries"].get("http.response_time", {})
    return {
        "users": counters["vusers.created"],
        "failed": counters.get("vusers.failed", 0),
        **{name: times[name] / 1000 if name in times else None for name in ("p50", "p95", "p99")},
    }


async def _run(command: list[str], log: Path, limit_seconds: float) -> None:
    """Run a command to its end, which others do not wait for."""
    name = Path(command[0]).name
    # Its many packages get no secret of ours.
    known = [f"{key}={os.environ[key]}" for key in ("PATH", "HOME") if key in os.environ]
    ours = ("ARTILLERY_DISABLE_TELEMETRY=true", "CI=true", "NODE_DISABLE_COMPILE_CACHE=1")
    bare = ["env", "-i", *known, *ours, *command]
    with running_command(bare, log, signal.SIGKILL) as process:
        try:
            async with asyncio.timeout(limit_seconds):
                while process.poll() is None:
                    await asyncio.sleep(0.1)
        except TimeoutError as error:
            raise ArtilleryError(f"{name} took more than {limit_seconds:g} s") from error
    if process.returncode:
        words = log.read_text(errors="replace").strip().splitlines()
        raise ArtilleryError(f"{name} failed: {words[-1] if words else process.returncode}")
