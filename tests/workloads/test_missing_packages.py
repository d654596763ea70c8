"""A verb whose packages are not installed says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_NUMPY = """
import runpy, sys
sys.modules["numpy"] = None
runpy.run_module("workloads", run_name="__main__")
"""


def test_the_package_and_the_remedy_are_named() -> None:
    words = [sys.executable, "-c", WITHOUT_NUMPY, "experiment", "gain", "--help"]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "the Python package 'numpy' is missing: run 'make setup'" in ended.stderr
    assert "Traceback" not in ended.stderr
