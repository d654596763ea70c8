"""The function's cold start is its imports."""

from __future__ import annotations

import subprocess
import sys

ALLOWED = {"numpy", "solver_lambda"} | set(sys.stdlib_module_names)
# Each costs a good part of what the function's own code costs; TLS comes with the first request.
EXPENSIVE = {"ssl", "http.client", "asyncio", "logging", "unittest", "multiprocessing", "pathlib"}


def imported_by(statement: str) -> set[str]:
    code = f"import sys; before = set(sys.modules); {statement}; "
    code += "print('\\n'.join(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_function_imports_numpy_and_nothing_expensive():
    found = imported_by("import solver_lambda.function.handler") - imported_by("import numpy")
    assert {name.split(".")[0] for name in found} <= ALLOWED
    assert not found & EXPENSIVE
    outside = {name for name in found if not name.startswith("solver_lambda")}
    assert len(outside) < 60, sorted(outside)
