"""What held in every attack so far, and must still hold."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial

from workloads.experiment.attacks.stage.attack import Attack, CannotPlayError, must
from workloads.experiment.attacks.stage.hostile_server import HostileServer
from workloads.experiment.attacks.stage.target import ROOT, Target

MOST_EXPOSURE = 1.8
# A page that ran it would have this title.
SCRIPT = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def _page_in_a_browser() -> None:
    browser = shutil.which("chromium")
    if browser is None:
        raise CannotPlayError("chromium is not installed")
    with Target() as target:
        target.end()
        server = target.servers["pages"]

        def answer(words: list[str]) -> list[bytes] | None:
            if words[0].upper() != "CONFIG":
                return None
            return [f"-ERR {SCRIPT}\r\n".encode()]

        with HostileServer(target.folder / "hostile.sock", server.client, answer) as hostile:
            target.file.write_text(target.file.read_text().replace(server.url, hostile.url))
            target.start()
            order = json.dumps({"what": "pause", "why": SCRIPT, "by": SCRIPT})
            target.order(body=order, Authorization=f"Bearer {target.token}")
            words = target.command("pause", str(target.file), "--why", SCRIPT)
            must(words.returncode == 0, f"pause: {words.stderr}")
            told = subprocess.run(
                [
                    *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
                    *("--no-first-run", "--disable-background-networking", "--disable-sync"),
                    *("--disable-component-update", f"--user-data-dir={target.folder}/browser"),
                    *("--virtual-time-budget=4000", "--dump-dom"),
                    f"http://127.0.0.1:{target.port}/",
                ],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            must("attacked" in told.stdout, f"the page shows nothing: {told.stderr[-300:]}")
            must("onerror" in told.stdout, "the page does not show the order's reason")
            title = re.search(r"<title>(.*?)</title>", told.stdout)
            must(title and "owned" not in title[1], f"the page ran a script: {title}")


def _sanitizers() -> None:
    for way in ("patch", "module"):
        _passes([sys.executable, "-m", "workloads", "experiment", "commands", "--way", way])


def _unit() -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        raise CannotPlayError("systemd-analyze is not installed")
    told = subprocess.run(
        [
            *(program, "security", "--offline=true", "--no-pager"),
            str(ROOT / "docs" / "operate" / "install" / "spreds.service"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", told.stdout)
    must(found and float(found[1]) <= MOST_EXPOSURE, f"the unit's exposure: {told.stdout[-200:]}")


def _passes(command: list[str]) -> None:
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    must(told.returncode == 0, f"{told.stdout[-500:]} {told.stderr[-500:]}")


def _tests(*names: str) -> Callable[[], None]:
    """Tests that the gate runs by themselves, and whose attack needs no sidecar."""
    files = [f"tests/{name}" for name in names]
    return partial(_passes, [sys.executable, "-m", "pytest", "-q", *files])


ROWS = [
    Attack(
        "held: scripts in the page",
        "a server's error, an order's reason and its giver are markup: a real Chromium shows them "
        "as text",
        _page_in_a_browser,
        held=True,
    ),
    Attack(
        "held: the unit's exposure",
        "systemd-analyze judges the unit: 1.7 of 10",
        _unit,
        held=True,
    ),
    Attack(
        "held: rights in the cloud",
        "all templates keep to least privilege and encryption, and a node's role to its node",
        _tests(
            "infra/test_stack_passes_review.py",
            "infra/test_template_rules.py",
            "infra/test_who_may_send_to_whom.py",
            "infra/test_roles_command.py",
        ),
        held=True,
        quick=False,
    ),
    Attack(
        "held: forged plans and documents",
        "plans of other nodes, cycles, budgets and sizes, and documents that are none",
        _tests(
            "sidecar/test_plan_check.py",
            "sidecar/test_plans_refused.py",
            "solver_lambda/test_documents_have_bounds.py",
            "sidecar/test_notifications_refused.py",
        ),
        held=True,
        quick=False,
    ),
    Attack(
        "held: random commands under sanitizers",
        "ten minutes each of random commands to servers with patch and module under ASan and UBSan",
        _sanitizers,
        held=True,
        quick=False,
    ),
]
