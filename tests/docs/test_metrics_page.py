"""``docs/operate/metrics.md``, alert rules and dashboard are about metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.base.metrics import PREFIX, Metrics
from sidecar.web.exposition import exposition
from tests.sidecar.example_sidecar import ExampleSidecar

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/operate/metrics.md"
RULES, RULES_TEST = (
    ROOT / "docs/operate/alert-rules.yml",
    ROOT / "docs/operate/alert-rules-test.yml",
)
DASHBOARD = json.loads((ROOT / "docs/operate/grafana-dashboard.json").read_text())
ROW = re.compile(r"^\| `(spreds_\w+)` \| ([^|]*) \| (.+) \|$", re.MULTILINE)
NAME = re.compile(r"\bspreds_\w+")
HAS_PROMTOOL = ROOT / "build/prometheus/promtool"
PROMTOOL = str(HAS_PROMTOOL) if HAS_PROMTOOL.exists() else shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not there: `.ci/setup tests` brings it"
)


def scrape() -> str:
    """Scrape a sidecar on which everything has happened."""
    sidecar = ExampleSidecar()
    for name, declared in vars(Metrics).items():
        labels = getattr(declared, "labels", ())
        if labels:
            sidecar.metrics.counter(name).labels(*["x"] * len(labels)).inc()
    return exposition(sidecar.status(), sidecar.metrics).decode()


def metrics_of(text: str) -> dict[str, tuple[set[str], str]]:
    """Labels and meaning of each metric of a scrape, by name."""
    meanings = dict(re.findall(r"^# HELP (\w+) (.*)$", text, re.MULTILINE))
    labels: dict[str, set[str]] = {name: set() for name in meanings}
    for name, found in re.findall(r"^(\w+)\{(.*)\} ", text, re.MULTILINE):
        labels[name] |= set(re.findall(r'(\w+)="', found))
    return {name: (labels[name], meanings[name]) for name in meanings}


def promtool(*arguments: str, text: str | None = None) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def expressions(node: str = "n", instance: str = "i") -> list[str]:
    """Return the dashboard's expressions, with its variables filled in."""
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [text.replace("$node", node).replace("$instance", instance) for text in found]


def test_the_page_has_a_row_for_each_metric_as_it_is_scraped() -> None:
    rows = {
        name: (set(re.findall(r"`(\w+)`", labels)) | {"node"}, meaning)
        for name, labels, meaning in ROW.findall(PAGE.read_text())
    }
    assert rows == metrics_of(scrape())
    assert all(name.startswith(PREFIX) for name in rows)


@needs_promtool
def test_promtool_finds_no_fault_with_a_scrape() -> None:
    promtool("check", "metrics", text=scrape())


@needs_promtool
def test_promtool_finds_no_fault_with_the_rules() -> None:
    promtool("check", "rules", str(RULES))


@needs_promtool
def test_each_rule_fires_when_it_should() -> None:
    """Among them, that a sidecar killed with ``kill -9`` is noticed."""
    promtool("test", "rules", str(RULES_TEST))
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    fired = {
        test["alertname"]
        for case in yaml.safe_load(RULES_TEST.read_text())["tests"]
        for test in case["alert_rule_test"]
        if test.get("exp_alerts")
    }
    assert fired == {rule["alert"] for rule in group["rules"]}


@needs_promtool
def test_prometheus_can_read_each_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"r:{at}", "expr": expr} for at, expr in enumerate(expressions())]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]}))
    promtool("check", "rules", str(path))


def test_rules_and_dashboard_name_metrics_and_labels_that_there_are() -> None:
    metrics = metrics_of(scrape())
    queries = [item["query"]["query"] for item in DASHBOARD["templating"]["list"][1:]]
    texts = [*expressions(), *queries, RULES.read_text(), RULES_TEST.read_text()]
    for text in texts:
        for name in NAME.findall(text):
            assert name in metrics, text
        for name, labels in re.findall(r"\b(spreds_\w+)\{([^}]*)\}", text):
            assert set(re.findall(r"(\w+)=", labels)) <= metrics[name][0], text


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    panels: list[dict[str, Any]] = DASHBOARD["panels"]
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (place["x"] + across, place["y"] + down)
            for across in range(place["w"])
            for down in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)
