"""What the function may import: its cold start is hardly anything else."""

from __future__ import annotations

import subprocess
import sys

from workloads.running_program import ROOT

HANDLER = "import solver_lambda.function.handler"
# Beside the standard library.
PACKAGES = {"numpy", "solver_lambda"}
# Each costs a good part of what the function's own code costs; TLS comes with the first request.
TOO_DEAR = {"ssl", "http.client", "asyncio", "logging", "unittest", "multiprocessing", "pathlib"}
# Beyond what numpy brings, and without the function's own.
MOST_MODULES = 60


def modules_of(statement: str) -> set[str]:
    """What a fresh interpreter has in memory after the statement and had not before.

    Raises:
        RuntimeError: the statement failed.
    """
    code = f"import sys; before = set(sys.modules); {statement}; "
    code += "print('\\n'.join(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{statement}: {done.stderr.strip()}")
    return set(done.stdout.split())


def beyond_budget(statement: str = HANDLER) -> list[str]:
    """A sentence on each rule that the imports break; none where the budget is kept."""
    found = modules_of(statement) - modules_of("import numpy")
    packages = {name.partition(".")[0] for name in found}
    outside = {name for name in found if not name.startswith("solver_lambda")}
    broken = []
    if strange := packages - PACKAGES - set(sys.stdlib_module_names):
        broken.append(f"The function imports {', '.join(sorted(strange))} beside numpy.")
    if dear := found & TOO_DEAR:
        broken.append(f"The function imports {', '.join(sorted(dear))}, which cost too much.")
    if len(outside) >= MOST_MODULES:
        broken.append(
            f"The function imports {len(outside)} modules beyond numpy's and its own; fewer than "
            f"{MOST_MODULES} are allowed."
        )
    return broken
