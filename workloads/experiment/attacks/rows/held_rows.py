"""What held in every attack so far, and must still hold."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

from workloads.experiment.attacks.stage.attack import CannotPlayError, Rows, must
from workloads.experiment.attacks.stage.hostile_server import HostileServer
from workloads.experiment.attacks.stage.target import ROOT, Target
from workloads.processes import finished

ROWS = Rows()

MOST_EXPOSURE = 1.8
# A page that ran it would have this title.
SCRIPT = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


@ROWS.add(
    "held: scripts in the page",
    "a server's error, an order's reason and its giver are markup: a real Chromium shows them "
    "as text",
    held=True,
)
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
            told = finished(
                [
                    *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
                    *("--no-first-run", "--disable-background-networking", "--disable-sync"),
                    *("--disable-component-update", f"--user-data-dir={target.folder}/browser"),
                    *("--virtual-time-budget=4000", "--dump-dom"),
                    f"http://127.0.0.1:{target.port}/",
                ],
                timeout=60,
            )
            must("attacked" in told.stdout, f"the page shows nothing: {told.stderr[-300:]}")
            must("onerror" in told.stdout, "the page does not show the order's reason")
            title = re.search(r"<title>(.*?)</title>", told.stdout)
            must(title and "owned" not in title[1], f"the page ran a script: {title}")


@ROWS.add(
    "held: random commands under sanitizers",
    "ten minutes each of random commands to servers with patch and module under ASan and UBSan",
    held=True,
    quick=False,
)
def _sanitizers() -> None:
    for way in ("patch", "module"):
        _passes([sys.executable, "-m", "workloads", "experiment", "commands", "--way", way])


@ROWS.add("held: the unit's exposure", "systemd-analyze judges the unit: 1.7 of 10", held=True)
def _unit() -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        raise CannotPlayError("systemd-analyze is not installed")
    told = finished(
        [
            *(program, "security", "--offline=true", "--no-pager"),
            str(ROOT / "docs" / "operate" / "install" / "spreds.service"),
        ]
    )
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", told.stdout)
    must(found and float(found[1]) <= MOST_EXPOSURE, f"the unit's exposure: {told.stdout[-200:]}")


def _passes(command: list[str]) -> None:
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    must(told.returncode == 0, f"{told.stdout[-500:]} {told.stderr[-500:]}")


@ROWS.add(
    "held: forged plans and documents",
    "plans of other nodes, cycles, budgets and sizes, and documents that are none",
    "sidecar/test_plan_check.py",
    "sidecar/test_plans_refused.py",
    "solver_lambda/test_documents_have_bounds.py",
    "sidecar/test_notifications_refused.py",
    held=True,
    quick=False,
)
@ROWS.add(
    "held: rights in the cloud",
    "all templates keep to least privilege and encryption, and a node's role to its node",
    "infra/test_stack_passes_review.py",
    "infra/test_template_rules.py",
    "infra/test_who_may_send_to_whom.py",
    "infra/test_roles_command.py",
    held=True,
    quick=False,
)
def _tests(*names: str) -> None:
    """Tests that the gate runs by themselves, and whose attack needs no sidecar."""
    _passes([sys.executable, "-m", "pytest", "-q", *(f"tests/{name}" for name in names)])
