"""An operator's week with real servers and a real ``spreds run``, by commands alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli import main
from tests.sidecar.control.test_modes import can_be_applied
from tests.sidecar.daemon.test_closed_loop import Load
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.sidecar_process import sidecar_process
from workloads.local_node import wait_until
from workloads.local_server import settled_sizes

MB = 1 << 20
MORE = """
[cycle]
samples = 4000
maximum_age = "6s"
[planning]
minimum_gain_ratio = 0.0
forecast = "last"
[controller]
kind = "embedded"
"""


class Operator:
    """Types commands as somebody at a terminal."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self._capsys = capsys

    def types(self, command: str, *words: str, code: int | None = 0) -> str:
        """Return what is printed, its lines unwrapped; ``code``: ``None`` for any."""
        got = main([command, str(self.path), *words])
        printed = self._capsys.readouterr()
        assert code is None or got == code, printed
        return " ".join((printed.out + printed.err).split())

    def told(self) -> dict[str, Any]:
        """Return what ``spreds status --json`` tells."""
        main(["status", str(self.path), "--json"])
        status: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return status

    def sidecar(self) -> dict[str, Any]:
        return self.told()["sidecar"] or {}

    def sees(self, condition: Callable[[dict[str, Any]], object]) -> None:
        """Waits until what the sidecar says is so."""
        wait_until(lambda: (now := self.sidecar()) and condition(now), lambda: self.told())


def test_installed_on_monday_trusted_by_friday(
    write_node: WriteNode, start_server: StartServer, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = {name: start_server("12mb") for name in ("modest", "hungry")}
    path = write_node(servers, budget="24mb", memory='rss_wait = "0s"', more=MORE)
    # Nobody says anything of a mode.
    path.write_text(path.read_text().replace('mode = "apply"\n', ""))
    operator = Operator(path, capsys)
    found = settled_sizes(servers)

    assert "the sidecar is not running" in operator.types("status", code=1)
    assert "PROBLEM" not in operator.types("check", "--connect")
    with Load(list(servers.values())), sidecar_process(path):
        # Monday: it watches, and says what it would do.
        operator.sees(can_be_applied)
        assert "mode recommend: no plans are carried out" in operator.types("status")
        assert "not carried out (the mode is recommend" in operator.types("plan")
        assert settled_sizes(servers) == found
        assert "hungry has 12 MiB (maxmemory)" in operator.types("explain", "hungry")

        # Tuesday: one plan, by hand. The last one may just have been too little to carry out.
        wait_until(
            lambda: "carrying out plan" in operator.types("apply", "--why", "Tuesday", code=None),
            lambda: operator.told(),
        )
        is_there = "when it went from 12 MiB to"
        wait_until(
            lambda: is_there in operator.types("explain", "hungry", "--verbose"),
            lambda: operator.told(),
        )
        # Whose memory the first plan takes is chance: it is made of little.
        change = "shrank" if settled_sizes(servers)["hungry"] > 12 * MB else "grew"
        assert f"In that plan modest {change} by" in operator.types(
            "explain", "hungry", "--verbose"
        )

        # Wednesday: all plans.
        operator.types("apply", "--from-now-on", "--why", "it was right")
        operator.sees(lambda now: now["mode"] == "apply")
        text = operator.types("status", code=None)
        assert f"(uid {os.geteuid()}) at" in text
        assert "it was right" in text

        # Thursday: hands off, while somebody works on the machine.
        operator.types("pause", "--for", "2h", "--why", "maintenance")
        text = operator.types("status", code=None)
        assert "paused until" in text
        assert "maintenance" in text
        operator.types("resume")
        assert "paused until" not in operator.types("status", code=None)

        # Friday: back to what was there before, and then only looking.
        operator.types("rollback", "--to-installation", "--why", "to see whether one can")
        wait_until(lambda: settled_sizes(servers) == found, lambda: operator.told())
        assert main(["resume", str(path), "nobody"]) == 2

    # Also when it has ended, all that is known.
    text = operator.types("history")
    for words in ("Tuesday", "it was right", "maintenance", "to see whether one can", "modest 12"):
        assert words in text
    assert "the sidecar is not running" in operator.types("apply", code=1)
