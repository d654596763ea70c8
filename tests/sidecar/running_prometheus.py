"""A real Prometheus that scrapes a sidecar each second, with the rules and the page's own lines."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_metrics_page import PAGE, ROOT, RULES
from workloads.local_node import wait_until
from workloads.local_server import free_port

_BUILT = ROOT / "build/prometheus/prometheus"
PROGRAM = str(_BUILT) if _BUILT.exists() else shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(
    PROGRAM is None, reason="prometheus is not there: `.ci/setup tests` brings it"
)
_SCRAPES = re.compile(r"^```\n(scrape_configs:.*?)^```$", re.MULTILINE | re.DOTALL)


class RunningPrometheus:
    """Asks a running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def _ask(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(f"{self._url}{path}?{urllib.parse.urlencode(query)}") as answer:
            return json.load(answer)["data"]

    @property
    def is_ready(self) -> bool:
        try:
            return bool(urllib.request.urlopen(f"{self._url}/-/ready").status == 200)
        except OSError:
            return False

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        alerts = self._ask("/api/v1/alerts")["alerts"]
        return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}

    def values(self, expression: str) -> list[dict[str, Any]]:
        """Return the values of now, by labels."""
        found: list[dict[str, Any]] = self._ask("/api/v1/query", query=expression)["result"]
        return found


@contextmanager
def running_prometheus(sidecar_port: int, folder: Path) -> Iterator[RunningPrometheus]:
    """The rules are those of the docs, but that they wait a second and not minutes."""
    assert PROGRAM is not None
    rules = folder / "rules.yml"
    rules.write_text(re.sub(r"\bfor: \w+", "for: 1s", RULES.read_text()))
    scrapes = _SCRAPES.search(PAGE.read_text())
    assert scrapes is not None
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{rules}]\n" + scrapes[1].replace("9736", str(sidecar_port))
    )
    port, log = free_port(), folder / "prometheus.log"
    command = [
        PROGRAM,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with log.open("wb") as output, subprocess.Popen(command, stderr=output) as process:
        try:
            prometheus = RunningPrometheus(port)
            wait_until(lambda: prometheus.is_ready, log.read_text)
            yield prometheus
        finally:
            process.kill()
