"""The source distribution, the wheel built from it, and what `spreds` is in a fresh environment."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
UV = [sys.executable, "-m", "uv"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel that was made from nothing else."""
    folder = tmp_path_factory.mktemp("dist")
    # setuptools puts a folder beside pyproject.toml: a copy of the tracked files keeps ours clean.
    source = tmp_path_factory.mktemp("source")
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in tracked.split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [*UV, "build", "--quiet", "--no-build-isolation", "--python", sys.executable]
    subprocess.run([*command, "--out-dir", str(folder), str(source)], check=True)
    return folder


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
    assert "memory.budget_bytes" in run(environment / "bin" / "spreds", "check", "node.toml")
    compiled = "from sidecar.kernel.library import library; assert library(); import sidecar.daemon"
    run(python, "-c", compiled)
    installed = run(*UV, "pip", "list", "--python", str(python), "--format", "freeze")
    heavy = ("aws-cdk-lib", "matplotlib", "scipy", "moto", "pytest")
    assert not [line for line in installed.splitlines() if line.partition("==")[0] in heavy]
