"""``docs/start/first-node.md`` as somebody types it: servers, load, file and sidecar."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from sidecar.control.client import SidecarClient, SidecarSilentError
from workloads.local_node import wait_until
from workloads.local_server import free_port

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "start" / "first-node.md").read_text()
TYPED = [block for block in re.findall(r"^```\n(.*?)^```$", TEXT, re.M | re.S) if block[0] != "$"]
PORTS = ("7001", "7002", "7003", "9736")


def _received(folder: Path) -> int:
    try:
        status = SidecarClient(folder / "build" / "first" / "state.json.sock").status()
    except SidecarSilentError:
        return 0
    return int(status["samples"]["received"])


def test_what_the_page_types_brings_samples_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    for name in (".venv", "build/bin", "build/lib"):
        (tmp_path / name).symlink_to(ROOT / name)
    servers, load, file, run, apply, away = TYPED
    assert apply.startswith("spreds apply")
    # Jobs and aliases are as in a shell that somebody types in; it goes on when it is told.
    script = f"set -em; shopt -s expand_aliases\n{servers}{load}{file}{run}read -r\n{away}"
    ports = {port: str(free_port()) for port in PORTS}
    script = re.sub("|".join(PORTS), lambda found: ports[found[0]], script)
    script = script.replace("=.venv/bin/spreds", "='.venv/bin/python -m sidecar.cli'")
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as shell:
        try:
            wait_until(
                lambda: shell.poll() is not None or _received(tmp_path), lambda: "no samples"
            )
        finally:
            told, _ = shell.communicate("\n")
    assert shell.returncode == 0, told
    assert "sampler module" in told
    assert "PROBLEM" not in told
    assert not (tmp_path / "build" / "first").exists()
