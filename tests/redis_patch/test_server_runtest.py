"""The server's own tests pass on the patched server, with every access sampled."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.redis_patch.sampled_server import KINDS, ServerKind
from workloads.local_server import BUILD

RUNTEST = BUILD.parent / "redis_patch" / "runtest.sh"
LIMIT_SECONDS = 900


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if not kind.is_module], ids=lambda kind: kind.server.name
)
def test_units_that_cover_the_touched_files(kind: ServerKind) -> None:
    if kind.why_not:
        pytest.skip(kind.why_not)
    if not shutil.which("tclsh"):
        pytest.skip("tclsh is not installed")
    run = subprocess.run(
        [RUNTEST, kind.server.name, "--quick", "--clients", "3"],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{kind.server.name}: the patch breaks no test" in run.stdout
