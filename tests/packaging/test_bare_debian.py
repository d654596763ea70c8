"""The packages in bare Debians, with real servers and real systemd: ``make bare-debian``."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.bare_debian import BareDebian, Booted, build_packages, why_not
from workloads.local_node import wait_until

pytestmark = [
    pytest.mark.experiment,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]
with_systemd = pytest.mark.skipif(
    why_not("systemd-nspawn") is not None, reason=str(why_not("systemd-nspawn"))
)
# Writes and reads some keys of the server at its port, as a client would.
LOAD = """python3 -I - <<'END'
import sys
sys.path.insert(0, "/usr/lib/spreds/python")
import redis
for _ in range({rounds}):
    pipeline = redis.Redis("127.0.0.1").pipeline(transaction=False)
    for key in range(5000):
        pipeline.set(f"key{{key}}", "x" * 100)
        pipeline.get(f"key{{key * 7 % 5000}}")
    pipeline.execute()
END"""
STATUS = "spreds status /etc/spreds/node.toml --json || true"


@pytest.fixture(scope="module")
def packages() -> list[Path]:
    return build_packages("amd64", "x86_64")


@pytest.fixture
def make_debian(packages: list[Path], tmp_path: Path) -> Iterator[Callable[..., BareDebian]]:
    """A bare Debian with our packages in /root."""

    def make(suite: str, *more: str) -> BareDebian:
        debian = BareDebian(suite, ",".join(["ca-certificates", *more]), tmp_path)
        for path in packages:
            shutil.copy(path, debian.root / "root")
        return debian

    yield make
    subprocess.run(["rm", "-rf", "--one-file-system", tmp_path], check=False)


def test_the_wheel_on_the_newest_debian(make_debian: Callable[..., BareDebian]) -> None:
    debian = make_debian("trixie", "python3-venv", "redis-server")
    printed = debian.run(
        """! command -v cc gcc
        python3 -m venv /opt/spreds
        /opt/spreds/bin/pip install -q /root/spreds-*.whl
        /opt/spreds/bin/spreds --version
        mknod -m 666 /dev/null c 1 3 2>/dev/null || true
        redis-server --port 7711 --maxmemory 8mb --maxmemory-policy allkeys-lru --daemonize yes \
            --loadmodule "$(/opt/spreds/bin/spreds module)" >/dev/null
        redis-server --port 7712 --maxmemory 8mb --maxmemory-policy allkeys-lru --daemonize yes \
            >/dev/null
        until redis-cli -p 7712 ping >/dev/null 2>&1; do sleep 0.1; done
        redis-cli -p 7711 module list
        for key in $(seq 2000); do echo "SET key$key value"; echo "GET key$((key % 97))"; done |
            redis-cli -p 7712 --pipe >/dev/null
        /opt/spreds/bin/spreds look --for 10s redis://127.0.0.1:7712
        """
    )
    assert printed.startswith("spreds ")
    assert "/site-packages/sidecar/kernel/spreds.so" in printed
    assert "redis-7712" in printed
    assert "Nothing was set." in printed


def test_the_package_is_installed_removed_and_purged(
    make_debian: Callable[..., BareDebian],
) -> None:
    debian = make_debian("bookworm")
    printed = debian.run(
        """apt-get update -q >/dev/null
        apt-get install -y -q /root/spreds_*.deb >/dev/null 2>&1
        ! command -v cc gcc
        spreds --version
        stat -c '%U:%G %a %n' /etc/spreds /etc/spreds/node.toml /var/lib/spreds
        id -nG spreds
        runuser -u spreds -- spreds check /etc/spreds/node.toml | head -1
        echo '# ours' >> /etc/spreds/node.toml
        dpkg -i /root/spreds_*.deb >/dev/null 2>&1
        tail -1 /etc/spreds/node.toml
        apt-get remove -y -q spreds >/dev/null 2>&1
        ls /etc/spreds; ls -d /usr/lib/spreds /usr/bin/spreds 2>&1 | grep -c 'No such'
        apt-get purge -y -q spreds >/dev/null 2>&1
        ls -d /etc/spreds /var/lib/spreds 2>&1 | grep -c 'No such'
        getent passwd spreds || getent group redis || echo 'nobody is left'
        """
    )
    lines = printed.splitlines()
    assert lines[0].startswith("spreds ")
    assert lines[1:] == [
        "root:spreds 750 /etc/spreds",
        "root:spreds 640 /etc/spreds/node.toml",
        "spreds:spreds 751 /var/lib/spreds",
        "spreds redis",
        'node = "node-1"',
        "# ours",
        "node.toml",
        "2",
        "2",
        "nobody is left",
    ]
    # What others made stays, and is in nobody's way.
    printed = debian.run(
        """install() { dpkg -i /root/spreds_*.deb >/dev/null 2>&1; }
        purge() { dpkg -P spreds >/dev/null 2>&1; }
        install
        mv /etc/spreds/node.toml /etc/spreds/shop.toml
        install
        useradd -m alice; usermod -aG spreds alice
        purge
        install
        id -nG spreds
        purge
        gpasswd -d alice spreds >/dev/null; groupdel spreds
        useradd -m -s /bin/bash spreds
        install
        purge
        getent passwd spreds | cut -d: -f6,7
        """
    )
    assert printed.splitlines() == ["spreds redis", "/home/spreds:/bin/bash"]


@with_systemd
def test_the_service_beside_debians_redis(make_debian: Callable[..., BareDebian]) -> None:
    """Its unit, and that of Redis, with all that they forbid; a watchdog, a crash, a credential, a
    restart of the machine."""
    debian = make_debian("bookworm")
    debian.run(
        """apt-get update -q >/dev/null
        apt-get install -y -q --no-install-recommends systemd systemd-sysv dbus iproute2 \
            redis-server /root/spreds_*.deb >/dev/null 2>&1
        cat >> /etc/redis/redis.conf <<END
maxmemory 32mb
maxmemory-policy allkeys-lru
loadmodule $(spreds module)
END
        mkdir -p /etc/systemd/system/spreds.service.d
        printf '[Service]\\nWatchdogSec=4\\n' > /etc/systemd/system/spreds.service.d/short.conf
        systemctl enable spreds >/dev/null 2>&1
        """
    )
    with debian.booted() as machine:
        machine.run("ip link set lo up; systemctl is-active redis-server spreds")
        _wait_for_server(machine, up=True, sampler="module")
        machine.run(LOAD.format(rounds=3))
        wait_until(
            lambda: _told(machine)["samples"]["received"] > 0,
            lambda: machine.run("journalctl -u spreds -n 20"),
        )
        assert machine.run("systemctl is-active redis-server").strip() == "active"
        for signal in ("KILL", "STOP"):
            pid = _told(machine)["pid"]
            machine.run(f"kill -{signal} {pid}")
            _wait_for_another(machine, pid)
            _wait_for_server(machine, up=True, sampler="module")
        assert "Watchdog timeout" in machine.run("journalctl -u spreds")
        assert "reloaded" in _reloaded(machine)
        machine.run(
            """redis-cli config set requirepass hunter2hunter2 >/dev/null
            install -m 600 /dev/null /etc/spreds/redis.secret
            echo hunter2hunter2 > /etc/spreds/redis.secret
            echo 'requirepass hunter2hunter2' >> /etc/redis/redis.conf
            printf '[Service]\\nLoadCredential=redis:/etc/spreds/redis.secret\\n' \
                > /etc/systemd/system/spreds.service.d/secret.conf
            sed -i '/^backend_latency/a password_file = "/run/credentials/spreds.service/redis"' \
                /etc/spreds/node.toml
            systemctl daemon-reload; systemctl restart spreds"""
        )
        _wait_for_server(machine, up=True)
        state = machine.run("sha256sum < /etc/spreds/node.toml")
    with debian.booted() as machine:
        machine.run("ip link set lo up")
        _wait_for_server(machine, up=True)
        assert machine.run("sha256sum < /etc/spreds/node.toml") == state
        assert "process" in machine.run("spreds status /etc/spreds/node.toml --verbose || true")
        machine.run("systemctl stop redis-server; apt-get purge -y -q spreds >/dev/null 2>&1")
        assert machine.run("systemctl is-active spreds || true").strip() == "inactive"


def _told(machine: Booted) -> dict[str, Any]:
    """Return what the sidecar itself tells; nothing while it is not there."""
    told: dict[str, Any] | None = json.loads(machine.run(STATUS))["sidecar"]
    return told or {}


def _wait_for_server(machine: Booted, **wanted: object) -> None:
    def is_so() -> bool:
        return any(wanted.items() <= one.items() for one in _told(machine).get("servers", ()))

    wait_until(is_so, lambda: machine.run("journalctl -u spreds -u redis-server -n 30"))


def _wait_for_another(machine: Booted, pid: int) -> None:
    wait_until(
        lambda: _told(machine).get("pid", pid) != pid,
        lambda: machine.run("journalctl -u spreds -n 20"),
    )


def _reloaded(machine: Booted) -> str:
    machine.run("systemctl reload spreds")
    log = "journalctl -u spreds"
    wait_until(lambda: "reloaded" in machine.run(log), lambda: machine.run(log))
    return machine.run(log)
