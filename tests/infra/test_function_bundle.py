"""The function's package holds what it needs for the platform that runs it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from infra.stacks.function_bundle import (
    LAMBDA_PLATFORM,
    SOURCE,
    bundle,
    digest,
    find_compiler,
    target_platform,
)

ZIPPED_LIMIT_BYTES = 16 << 20


def test_an_endpoint_is_an_emulator_that_runs_functions_on_our_python() -> None:
    assert target_platform({}) == LAMBDA_PLATFORM
    emulator = {"AWS_ENDPOINT_URL": "http://localhost:4566"}
    assert target_platform(emulator) == ("--python", sys.executable)


@pytest.mark.parametrize(
    "path", [str(path.relative_to(SOURCE)) for path in sorted(SOURCE.rglob("*.py"))]
)
def test_a_change_in_any_file_makes_another_package(tmp_path: Path, path: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    before = digest(copy, LAMBDA_PLATFORM, compiled=True)
    assert before == digest(SOURCE, LAMBDA_PLATFORM, compiled=True)
    assert before != digest(SOURCE, LAMBDA_PLATFORM, compiled=False)
    with (copy / path).open("a") as file:
        file.write("# another\n")
    assert digest(copy, LAMBDA_PLATFORM, compiled=True) != before


def test_the_package_for_lambda_is_small_and_for_arm(tmp_path: Path) -> None:
    compiler = find_compiler(LAMBDA_PLATFORM)
    bundle(tmp_path / "package", LAMBDA_PLATFORM, compiler)
    files = sorted(path for path in (tmp_path / "package").rglob("*") if path.is_file())
    names = {str(path.relative_to(tmp_path / "package")) for path in files}
    assert {str(path.relative_to(SOURCE.parent)) for path in SOURCE.glob("**/*.py")} <= names
    assert not [name for name in names if "/tests/" in name]
    bytecode = [name for name in names if "__pycache__" in name]
    assert bool(bytecode) is (compiler is not None)
    assert all(name.endswith(".cpython-314.pyc") for name in bytecode), bytecode
    compiled = [name for name in names if name.endswith(".so") and "cpython" in name]
    assert compiled
    assert all("cpython-314-aarch64" in name for name in compiled), compiled
    with zipfile.ZipFile(tmp_path / "package.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.relative_to(tmp_path))
    assert (tmp_path / "package.zip").stat().st_size <= ZIPPED_LIMIT_BYTES


def test_the_package_for_the_emulator_runs_here_with_nothing_else(tmp_path: Path) -> None:
    platform = target_platform({"AWS_ENDPOINT_URL": "http://localhost:4566"})
    bundle(tmp_path, platform, find_compiler(platform))
    said = subprocess.run(
        # -I: neither this folder nor this environment's packages, only the package's own
        [
            *(sys.executable, "-I", "-S", "-c"),
            f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
            "import solver_lambda.function.handler, numpy; print(numpy.__file__)\n"
            "print(solver_lambda.function.handler.handler({'Event': 's3:TestEvent'}, None))",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert str(tmp_path) in said
    assert "{'plans': []}" in said


def test_the_bytecode_is_taken_whatever_the_files_times_are(tmp_path: Path) -> None:
    """Lambda sets them anew; here even the source is another one than what was compiled."""
    platform = target_platform({"AWS_ENDPOINT_URL": "http://localhost:4566"})
    bundle(tmp_path, platform, find_compiler(platform))
    module = tmp_path / "solver_lambda" / "function" / "handler.py"
    module.write_text("raise RuntimeError('compiled again')")
    words = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import solver_lambda.function.handler"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", words], check=True)


def test_bytecode_is_of_the_functions_version_or_there_is_none() -> None:
    here = ".".join(map(str, sys.version_info[:2]))
    found = find_compiler(("--python-platform", "any", "--python-version", here))
    assert found is not None
    said = subprocess.run([found, "-V"], check=True, capture_output=True, text=True).stdout
    assert said.startswith(f"Python {here}.")
    assert find_compiler(("--python-version", "3.6")) is None
