"""The list of servers, the patches beside it and what the scripts make of both."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from workloads.local_server import BUILD, LocalServer, supported_servers

FOLDER = Path(__file__).parents[2] / "redis_patch"


def test_each_patched_server_has_its_patch_and_no_patch_is_left_over() -> None:
    patched = [server for server in supported_servers().values() if server.patched_binary]
    named = {f"{server.package}-{server.version}.patch" for server in patched}
    assert named == {path.name for path in (FOLDER / "patch").glob("*.patch")}


def test_the_scripts_read_the_list_as_python_does() -> None:
    for server in supported_servers().values():
        script = """here=$1; . "$1/servers.sh"
            for field in name package version release ways; do server_field "$2" $field; done"""
        run = ["sh", "-euc", script, "sh", str(FOLDER), server.name]
        said = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
        assert said == [*server[:4], ",".join(server.ways)]


def test_scripts_and_python_agree_on_the_releases_that_move() -> None:
    moving = {server.name for server in supported_servers().values() if server.is_moving}
    script = """here=$1; . "$1/servers.sh"
        for name in $(server_names); do ! is_moving "$name" || echo "$name"; done"""
    run = ["sh", "-euc", script, "sh", str(FOLDER)]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    assert set(said) == moving
    # The gate builds what stays, and asks of these only that they can be left out.
    assert moving < set(supported_servers())


def test_a_server_that_is_not_in_the_list_is_named() -> None:
    for command in (["build.sh", "redis9-stock"], ["fetch_source.sh", "redis9"]):
        run = subprocess.run(
            [FOLDER / command[0], *command[1:]], capture_output=True, text=True, check=False
        )
        assert run.returncode == 1
        assert "redis9" in run.stderr


def test_each_earlier_source_is_of_a_supported_server_and_has_a_checksum() -> None:
    lines = (FOLDER / "earlier_sources.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    versions = {(server.package, server.version) for server in supported_servers().values()}
    assert rows
    for package, version, folder, checksum in rows:
        assert any(
            package == p and re.match(rf"{re.escape(v)}[.+~-]", version) for p, v in versions
        ), version
        assert folder.startswith("pool/main/"), folder
        assert re.fullmatch("[0-9a-f]{64}", checksum), checksum


def test_a_server_built_by_cmake_samples() -> None:
    binary = BUILD / "bin" / "valkey-server-cmake"
    if not binary.exists():
        pytest.skip("build/bin/valkey-server-cmake is not built: make portable")
    settings: dict[str, object] = {
        "spreds-endpoint": "tcp://127.0.0.1:1",
        "spreds-threshold": 1 << 24,
    }
    with LocalServer(settings, binary) as server:
        server.client.set("k", "v")
        server.client.get("k")
        info = server.client.info("spreds")
        assert (info["spreds_on"], info["spreds_sampled"]) == (1, 2)
