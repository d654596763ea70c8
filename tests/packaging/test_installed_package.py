"""The source distribution, the wheel built from it, and what `spreds` is in a fresh environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
UV = [sys.executable, "-m", "uv"]


LOUD_BUILD = [*UV, "build", "--no-build-isolation", "--python", sys.executable]
BUILD = [*LOUD_BUILD, "--quiet"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked files: setuptools puts a folder beside pyproject.toml."""
    source = tmp_path_factory.mktemp("source")
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in tracked.split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    return source


@pytest.fixture(scope="module")
def built(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel that was made from nothing else."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([*BUILD, "--out-dir", str(folder), str(source)], check=True)
    return folder


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_compiler_there_is_no_wheel_and_a_line_says_why(
    source: Path, tmp_path: Path, compiler: str
) -> None:
    done = subprocess.run(
        [*LOUD_BUILD, "--wheel", "--out-dir", str(tmp_path), str(source)],
        env={**os.environ, "CC": compiler},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert not list(tmp_path.glob("*.whl"))
    assert "error: spreds needs a C compiler to be installed: install one" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("needs_it", [["run", "node.toml"], ["mrc", "keys.csv"]])
def test_what_needs_the_compiled_part_says_so_where_it_is_missing(
    source: Path, tmp_path: Path, needs_it: list[str]
) -> None:
    (tmp_path / "keys.csv").write_text("1,k,3\n")
    (tmp_path / "node.toml").write_bytes((source / "sidecar" / "example.toml").read_bytes())
    assert not list((source / "sidecar" / "kernel").glob("_kernel.*"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sidecar.cli", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    done = run(*needs_it)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "spreds: the compiled library is not installed: install a C compiler (gcc or clang), and "
        "then this package again; in a clone, run 'make setup'\n"
    )
    assert "[memory]" in run("check", "node.toml").stdout


def test_the_source_distribution_has_all_that_is_compiled(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    kernel = {f"sidecar/kernel/{path.name}" for path in (ROOT / "sidecar/kernel").glob("*.[ch]")}
    assert {"sidecar/kernel/hash.h", "sidecar/kernel/shards.c"} <= kernel
    assert kernel <= names


def test_the_wheel_holds_what_a_node_needs_and_no_more(built: Path) -> None:
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"sidecar", "solver_lambda"}
    assert "sidecar/example.toml" in names
    assert [name for name in names if name.startswith("sidecar/kernel/_kernel.")]


def test_a_fresh_environment_runs_the_command_with_its_compiled_part(
    built: Path, tmp_path: Path
) -> None:
    (wheel,) = built.glob("*.whl")
    environment = tmp_path / "venv"
    subprocess.run([*UV, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    python = environment / "bin" / "python"
    constraints = ROOT / ".ci" / "constraints.txt"
    subprocess.run(
        [*UV, "pip", "install", "--quiet", "--python", python, "-c", constraints, wheel], check=True
    )

    def run(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    example = run(
        python,
        "-c",
        "import sidecar; from pathlib import Path;"
        "print(Path(sidecar.__file__).with_name('example.toml').read_text())",
    )
    (tmp_path / "node.toml").write_text(example)
    assert "[memory]" in run(environment / "bin" / "spreds", "check", "node.toml")
    compiled = "from sidecar.kernel.library import library; library(); import sidecar.daemon"
    run(python, "-c", compiled)
    installed = run(*UV, "pip", "list", "--python", str(python), "--format", "freeze")
    heavy = ("aws-cdk-lib", "matplotlib", "scipy", "moto", "pytest")
    assert not [line for line in installed.splitlines() if line.partition("==")[0] in heavy]
