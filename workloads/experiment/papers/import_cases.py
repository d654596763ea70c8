"""Functions that import more or less, each in a process of its own."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from workloads.experiment.study import StudyError
from workloads.processes import finished

HANDLER = "import solver_lambda.function.handler"
NUMPY = ("numpy",)
BOTOCORE = ("botocore", "jmespath", "python-dateutil", "six", "urllib3")
BOTO3 = ("boto3", "s3transfer", *BOTOCORE)
# In no bundle: infra/stacks/function_bundle.py leaves them out as well.
NOT_BUNDLED = (".pyc", ".pyi", ".a")
# What a fresh process is asked; what it prints is taken before the questions cost anything.
CODE = """
import sys, time
{before}
begin = time.process_time()
{statement}
seconds, modules = time.process_time() - {origin}, len(sys.modules)
peak = [line for line in open('/proc/self/status') if line.startswith('VmHWM')][0].split()[1]
print('[%r, %d, %s]' % (seconds, modules, peak))
"""
# Beside the standard library.
PACKAGES = {"numpy", "solver_lambda"}
# Each costs a good part of what the function's own code costs; TLS comes with the first request.
TOO_DEAR = {"ssl", "http.client", "asyncio", "logging", "unittest", "multiprocessing", "pathlib"}
# Beyond what numpy brings, and without the function's own.
MOST_MODULES = 60


@dataclass(frozen=True)
class Case:
    """A function that imports something.

    Attributes:
        title: of the row.
        statement: what it imports.
        packages: distributions that it has to hold.
        held: an interpreter that has imported this already is taken, and counts nothing for it.
        is_compiled: whether bytecode is there, from a run before.
    """

    title: str
    statement: str
    packages: tuple[str, ...] = NUMPY
    held: str | None = None
    is_compiled: bool = True


CASES = {
    "bare": Case("Python alone", "pass", ()),
    "numpy": Case("numpy alone", "import numpy"),
    "handler": Case("the handler as it is", HANDLER),
    "uncompiled": Case("... nothing compiled beforehand", HANDLER, is_compiled=False),
    "held": Case("... where numpy is held already", HANDLER, held="import numpy"),
    "botocore": Case(
        "+ botocore's signature", f"{HANDLER}; import botocore.auth", NUMPY + BOTOCORE
    ),
    "client": Case(
        "+ boto3 and a client of S3",
        f"{HANDLER}; import boto3; boto3.client('s3', region_name='us-east-2')",
        NUMPY + BOTO3,
    ),
    "scipy": Case("+ scipy.stats", f"{HANDLER}; import scipy.stats", (*NUMPY, "scipy")),
}


def fresh_process(case: Case, empty_folder: str) -> tuple[float, int, int]:
    """Processor seconds, modules in memory and peak memory in bytes.

    Raises:
        StudyError: the process failed.
    """
    code = CODE.format(
        before=case.held or "pass", statement=case.statement, origin="begin" if case.held else "0"
    )
    options = [] if case.is_compiled else ["-B", "-X", f"pycache_prefix={empty_folder}"]
    done = finished([sys.executable, *options, "-c", code])
    if done.returncode:
        error = done.stderr.strip().splitlines()[-1:] or ["it ended without a word"]
        raise StudyError(f"{case.title}: {error[0]} (pip install '.[workloads]')")
    seconds, modules, kibibytes = json.loads(done.stdout)
    return float(seconds), int(modules), int(kibibytes) * 1024


def size_bytes(packages: tuple[str, ...]) -> int:
    """Return the bytes of the files that a bundle would hold."""
    total = 0
    for name in packages:
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError as error:
            raise StudyError(f"the package {name!r} is missing (pip install {name})") from error
        for file in files:
            path = Path(str(file.locate()))
            if file.suffix not in NOT_BUNDLED and "tests" not in file.parts:
                total += path.stat().st_size if path.is_file() else 0
    return total


def modules_of(statement: str) -> set[str]:
    """Return what a fresh interpreter has in memory after the statement and had not before.

    Raises:
        RuntimeError: the statement failed.
    """
    code = f"import sys; before = set(sys.modules); {statement}; "
    code += "print('\\n'.join(set(sys.modules) - before))"
    done = finished([sys.executable, "-c", code])
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
