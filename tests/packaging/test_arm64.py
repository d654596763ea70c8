"""The packages for ARM64 in a bare Debian of that processor, which qemu-user emulates."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

import pytest

from tests.packaging.bare_debian import BareDebian, build_packages, why_not
from tests.redis_patch.sampled_server import KINDS, SampledServer

ROOT = Path(__file__).resolve().parents[2]
VECTOR = json.loads((ROOT / "redis_patch/test_vector.json").read_text())
REQUESTS = 50_000
# Exact, sampled at a rate, sampled to a number of objects, and caches that are simulated.
CURVES = ["--bytes", "--bytes --rate 0.1", "--objects 500", "--bytes --policy allkeys-lfu"]


def why_not_emulated() -> str | None:
    """Return what is missing, or None."""
    if not shutil.which("aarch64-linux-gnu-gcc"):
        return "gcc-aarch64-linux-gnu is not installed"
    if not Path("/proc/sys/fs/binfmt_misc/qemu-aarch64").exists():
        return "the kernel knows no qemu-aarch64: install qemu-user-static and binfmt-support"
    return why_not()


pytestmark = [
    pytest.mark.experiment,
    pytest.mark.skipif(why_not_emulated() is not None, reason=str(why_not_emulated())),
    # The first test waits for packages and, once, for an emulated debootstrap: ten minutes each.
    pytest.mark.timeout(2400),
]


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareDebian]:
    """Yield a Debian with the wheel, and the Debian package in /root."""
    folder = tmp_path_factory.mktemp("arm64")
    packages = build_packages("arm64", "aarch64")
    debian = BareDebian("bookworm", "ca-certificates,python3-venv,redis-server", folder, "arm64")
    for path in packages:
        shutil.copy(path, debian.root / "root")
    debian.run(
        """! command -v cc gcc
        python3 -m venv /opt/spreds
        /opt/spreds/bin/pip install -q /root/spreds-*.whl"""
    )
    yield debian
    subprocess.run(["rm", "-rf", "--one-file-system", folder], check=False)


def test_the_wheel_looks_at_a_server_with_its_module(debian: BareDebian) -> None:
    printed = debian.run(
        """uname -m
        PATH=$PATH:/opt/spreds/bin
        spreds --version
        redis-server --port 7713 --maxmemory 8mb --maxmemory-policy allkeys-lru --daemonize yes \
            --loadmodule "$(spreds module)" >/dev/null
        until redis-cli -p 7713 ping >/dev/null 2>&1; do sleep 0.1; done
        redis-cli -p 7713 module list
        for key in $(seq 2000); do echo "SET key$key value"; echo "GET key$((key % 97))"; done |
            redis-cli -p 7713 --pipe >/dev/null
        spreds look --for 10s redis://127.0.0.1:7713
        """
    )
    assert printed.startswith("aarch64\nspreds ")
    assert "/site-packages/sidecar/kernel/spreds.so" in printed
    assert "redis-7713" in printed
    assert "Nothing was set." in printed


def test_its_module_hashes_keys_as_the_vector_has_them(debian: BareDebian) -> None:
    kind = next(kind for kind in KINDS if kind.is_module and kind.is_redis_70)
    (module,) = debian.root.glob("opt/spreds/lib/python3*/site-packages/sidecar/kernel/spreds.so")
    # In the place of the server of that kind, which is the first argument.
    emulated = f'QEMU_LD_PREFIX={debian.root} exec {debian.root}/usr/bin/redis-server "$2"'
    wrapper = ["sh", "-c", emulated, "sh"]
    with SampledServer(kind, {"loadmodule": module}, wrapper) as server:
        assert server.client.info("server")["os"].endswith(" aarch64")
        server.start()
        expected: list[int] = []
        for salt, cases in itertools.groupby(VECTOR["hashes"], itemgetter("salt")):
            if salt == 0:  # stands for a random one
                continue
            server.set(salt=salt)
            for case in cases:
                server.client.set(bytes.fromhex(case["key_hex"]), "value", px=60_000)
                expected.append(case["hash"])
        records = server.records()
    assert expected
    assert [record.hash for record in records] == expected
    assert {record.ttl_ms for record in records} == {60_000}


@pytest.mark.parametrize("options", CURVES)
def test_its_curves_are_those_of_this_processor(debian: BareDebian, options: str) -> None:
    chosen = random.Random(7)
    with (debian.root / "root/trace.csv").open("w") as trace:
        for at in range(REQUESTS):
            key = int(chosen.paretovariate(0.7)) % REQUESTS
            trace.write(f"{at / 1000},kéy{key},{50 + key * 7919 % 3000}\n")
    here = subprocess.run(
        [sys.executable, "-m", "sidecar.cli", "mrc", "--json", *options.split(), "trace.csv"],
        cwd=debian.root / "root",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f'"requests": {REQUESTS}' in here.stdout
    command = f"cd /root; /opt/spreds/bin/spreds mrc --json {options} trace.csv"
    assert debian.run(command) == here.stdout


def test_the_debian_package_is_installed(debian: BareDebian) -> None:
    printed = debian.run(
        """apt-get update -q >/dev/null
        apt-get install -y -q /root/spreds_*_arm64.deb >/dev/null 2>&1
        /usr/bin/spreds --version
        /usr/bin/spreds module
        runuser -u spreds -- /usr/bin/spreds check /etc/spreds/node.toml | head -1
        """
    )
    version, module, first = printed.splitlines()
    assert version.startswith("spreds ")
    assert module == "/usr/lib/spreds/python/sidecar/kernel/spreds.so"
    assert first == 'node = "node-1"'
