"""Functions that import more or less, each in a process of its own."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from workloads.experiment.papers.import_budget import HANDLER
from workloads.experiment.study.study import StudyError
from workloads.running_program import ROOT

NUMPY = ("numpy",)
BOTOCORE = ("botocore", "jmespath", "python-dateutil", "six", "urllib3")
BOTO3 = ("boto3", "s3transfer", *BOTOCORE)
# In no bundle: infra/function_bundle.py leaves them out as well.
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
        before=case.held or "pass",
        statement=case.statement,
        origin="begin" if case.held else "0",
    )
    options = [] if case.is_compiled else ["-B", "-X", f"pycache_prefix={empty_folder}"]
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        error = done.stderr.strip().splitlines()[-1:] or ["it ended without a word"]
        raise StudyError(f"{case.title}: {error[0]} (pip install '.[workloads]')")
    seconds, modules, kibibytes = json.loads(done.stdout)
    return float(seconds), int(modules), int(kibibytes) * 1024


def size_bytes(packages: tuple[str, ...]) -> int:
    """Of the files that a bundle would hold."""
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
