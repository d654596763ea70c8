"""The image, and the pod of the example, built and run by podman: ``make containers``."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.bare_debian import BareDebian, why_not
from workloads.local_node import wait_until

ROOT = Path(__file__).resolve().parents[2]
INSTALL = ROOT / "docs/operate/install"
_MISSING = why_not("podman", "runc")
pytestmark = [
    pytest.mark.experiment,
    pytest.mark.skipif(_MISSING is not None, reason=str(_MISSING)),
]
_BASE = "localhost/debian-python:12"
_CACHE = f"""FROM {_BASE}
RUN apt-get update && apt-get install -y --no-install-recommends redis-server libzmq5 \\
    && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY spreds.so /usr/lib/spreds/spreds.so
"""
# The pages are more than their share, and the sessions are few. What is missing is filled.
_LOAD = """
import random, redis
servers = {redis.Redis(port=6379): 500, redis.Redis(port=6380): 70000}
while True:
    for server, keys in servers.items():
        names = [f"key{random.randrange(keys)}" for _ in range(500)]
        missing = [name for name, value in zip(names, server.mget(names)) if value is None]
        if missing:
            server.mset({name: "x" * 10_000 for name in missing})
"""
# Else the first plan comes after minutes.
_AT_ONCE = """
[cycle]
samples = 4000
maximum_age = "6s"
[planning]
minimum_gain_ratio = 0.0
forecast = "last"
"""
_FILE = "/etc/spreds/node.toml"
_POD, _CACHES = "caches-0", ("sessions", "pages")
_LIMIT = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>&1 || true"
_PROBE = """
from urllib.request import urlopen
try:
    print(urlopen("http://127.0.0.1:9736{path}").status, end="")
except OSError as error:
    print(error, end="")
"""


class Podman:
    """Runs podman with images and containers of its own, below a folder."""

    def __init__(self, folder: Path) -> None:
        storage, containers = folder / "storage.conf", folder / "containers.conf"
        storage.write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/images"\n'
            f'runroot = "{folder}/run"\n'
        )
        # Its own limits are more than those that a sandbox may raise. Locks and events are not
        # those of another podman on the machine.
        containers.write_text(
            '[containers]\ndefault_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]\n'
            f'[engine]\nruntime = "runc"\nlock_type = "file"\ntmp_dir = "{folder}/libpod"\n'
            f'[network]\nnetwork_config_dir = "{folder}/networks"\n'
        )
        self._environment = {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(storage),
            "CONTAINERS_CONF": str(containers),
        }

    def __call__(self, *arguments: object) -> str:
        """Run podman and return what it prints. Raises AssertionError."""
        return self._done(*arguments).stdout

    def logs(self) -> str:
        """Return what all its containers have printed."""
        names = self("ps", "--all", "--noheading", "--format={{.Names}}").split()
        done = {name: self._done("logs", name) for name in names}
        return "\n".join(f"{name}\n{one.stdout}{one.stderr}" for name, one in done.items())

    def _done(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["podman", *map(str, arguments)],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done

    def build(self, folder: Path, tag: str, *arguments: object) -> None:
        self("build", "--network=host", "--isolation=chroot", "-t", tag, *arguments, folder)


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """Yield podman with both images, on a Debian that is made here."""
    folder = tmp_path_factory.mktemp("podman")
    podman = Podman(folder)
    debian = BareDebian("bookworm", "ca-certificates", folder)
    install = "apt-get install -y --no-install-recommends python3-venv python-is-python3"
    debian.run(f"apt-get update && {install} && apt-get clean && rm -rf /var/lib/apt/lists/*")
    archive, cache = folder / "base.tar", folder / "cache"
    subprocess.run(["tar", "-C", debian.root, "-cf", archive, "."], check=True)
    podman("import", archive, _BASE)
    podman.build(ROOT, "spreds", "-f", INSTALL / "Containerfile", f"--build-arg=BASE={_BASE}")
    cache.mkdir()
    shutil.copy(ROOT / "build/lib/spreds.so", cache)
    (cache / "Containerfile").write_text(_CACHE)
    podman.build(cache, "redis-with-spreds")
    yield podman
    podman("system", "reset", "--force")
    subprocess.run(["rm", "-rf", "--one-file-system", folder], check=False)


def test_the_image_is_read_only_and_not_root(podman: Podman) -> None:
    run = ("run", "--rm", "--network=none", "--read-only")
    assert podman(*run, "spreds", "--version").startswith("spreds ")
    script = (
        "import os; print(os.getuid()); open('/run/spreds/x', 'w'); open('/var/lib/spreds/x', 'w')"
    )
    assert podman(*run, "--entrypoint=python3", "spreds", "-c", script) == "10001\n"


def as_pods(documents: list[dict[str, Any]], folder: Path) -> list[list[dict[str, Any]]]:
    """The example without what this podman does not have: sets of pods, sub-paths, fsGroup, probes
    by HTTP. Volumes are folders, with the owner and the mode that fsGroup gives them.

    It wants all folders before it plays a pod, so what makes one is a pod of its own, to be played
    first.
    """
    config, pods = documents
    config["data"]["node.toml"] = (
        config["data"]["node.toml"].replace("[[server]]", '[[server]]\nbackend_latency = "10ms"')
        + _AT_ONCE
    )
    spec = pods["spec"]["template"]["spec"]
    group = spec.pop("securityContext")["fsGroup"]
    modes = {claim["metadata"]["name"]: 0o2775 for claim in pods["spec"]["volumeClaimTemplates"]}
    modes |= {volume["name"]: 0o2777 for volume in spec["volumes"] if "emptyDir" in volume}
    places = {name: folder / name for name in modes}
    for name, mode in modes.items():
        places[name].mkdir()
        os.chown(places[name], 0, group)
        places[name].chmod(mode)
    for container in (*spec["initContainers"], *spec["containers"]):
        name = container["image"].rpartition("/")[2].partition("@")[0]
        container.update(image=f"localhost/{name}", imagePullPolicy="Never")
        container["securityContext"]["runAsGroup"] = group
        for absent in ("livenessProbe", "readinessProbe", "ports"):
            container.pop(absent, None)
        for mount in container["volumeMounts"]:
            if below := mount.pop("subPath", None):
                path = places[mount["name"]] / below
                mount["name"] += f"-{below}"
                places[mount["name"]] = path
    spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] not in modes]
    spec["volumes"] += [
        {"name": name, "hostPath": {"path": str(path)}} for name, path in places.items()
    ]
    first = {"containers": spec.pop("initContainers"), "restartPolicy": "Never"}
    first["volumes"] = [one for one in spec["volumes"] if one["name"] in modes]
    return [_documents(f"{_POD}-first", first), [config, *_documents(_POD, spec)]]


def _documents(name: str, spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}]


class RunningPod:
    """The pod of the example, while it runs."""

    def __init__(self, podman: Podman) -> None:
        self._podman = podman

    def run(self, container: str, *command: str) -> str:
        """Return what a command in a container prints."""
        return self._podman("exec", f"{_POD}-{container}", *command)

    def python(self, script: str) -> str:
        """Return what it prints beside the sidecar."""
        return self.run("spreds", "/opt/spreds/bin/python", "-c", script)

    def spreds(self, command: str, *options: str) -> str:
        """Return what one of its commands prints."""
        return self.run("spreds", "/opt/spreds/bin/spreds", command, _FILE, *options)

    def probes(self) -> list[str]:
        """The status of an answer to each of a cluster's probes, or why there is none."""
        paths = ("/livez", "/readyz")
        return [self.python(_PROBE.format(path=path)) for path in paths]

    def status(self) -> dict[str, Any]:
        """Return what the sidecar tells."""
        told: dict[str, Any] = json.loads(self.spreds("status", "--json"))
        return told

    def servers(self, key: str) -> dict[str, Any]:
        """Return what it tells of each server."""
        return {one["name"]: one[key] for one in self.status()["servers"]}

    def planned_bytes(self) -> int:
        """Return the planned size of the pages, whose load wants more than they began with."""
        servers = {one["name"]: one for one in self.status()["sidecar"]["servers"]}
        return int(servers["pages"]["target_bytes"])

    def size_in_force(self) -> int | None:
        """Return the size of the pages, as Redis has it; ``None``: it does not answer yet."""
        asked = "redis-cli -p 6380 CONFIG GET maxmemory || true"
        told = self.run("pages", "sh", "-c", asked).split()
        return int(told[1]) if told else None

    def inspected(self, container: str, what: str) -> str:
        """Return what podman knows of a container."""
        form = f"--format={{{{.{what}}}}}"
        return self._podman("container", "inspect", form, f"{_POD}-{container}").strip()


@pytest.fixture
def pod(podman: Podman, tmp_path: Path) -> Iterator[RunningPod]:
    example = list(yaml.safe_load_all((INSTALL / "kubernetes.yaml").read_text()))
    first, later = as_pods(example, tmp_path)
    for name, documents in (("first", first), ("later", later)):
        (tmp_path / name).write_text(yaml.safe_dump_all(documents))
    try:
        # A port of the machine may be another program's.
        podman("kube", "play", "--network=none", tmp_path / "first")
        assert podman("wait", f"{_POD}-first-samples-folder") == "0\n"
        podman("kube", "play", "--network=none", tmp_path / "later")
        yield RunningPod(podman)
    finally:
        print(podman.logs())
        podman("pod", "rm", "--force", "--time=1", "--all")


def test_caches_and_sidecar_in_one_pod(podman: Podman, pod: RunningPod, tmp_path: Path) -> None:
    wait_until(lambda: pod.probes() == ["200", "200"], pod.probes)
    wait_until(lambda: pod.servers("sampler") == dict.fromkeys(_CACHES, "module"), pod.status)
    assert pod.servers("maxmemory_bytes") == dict.fromkeys(_CACHES, 450 << 20)
    for container, limit in (*((cache, 1 << 30) for cache in _CACHES), ("spreds", 512 << 20)):
        assert str(limit) in pod.run(container, "sh", "-c", _LIMIT).split()
    # The caches connect to the samples' socket, and can put nothing in its place.
    assert "Read-only" in pod.run("pages", "sh", "-c", "touch /run/spreds/x 2>&1 || true")
    assert "PROBLEM" not in pod.spreds("check", "--connect")

    pod.spreds("apply", "--from-now-on")
    load = ("nice", "-n19", "/opt/spreds/bin/python", "-c", _LOAD)  # the others have their turn
    podman("exec", "--detach", f"{_POD}-spreds", *load)
    wait_until(lambda: pod.planned_bytes() > 450 << 20, pod.status)
    assert pod.status()["sidecar"]["samples"]["received"] > 0
    wait_until(lambda: pod.size_in_force() == pod.planned_bytes(), pod.status)

    pod.spreds("recommend")  # so that the size stays as it is now
    planned = pod.planned_bytes()
    process = pod.inspected("pages", "State.Pid")
    os.kill(int(process), signal.SIGKILL)
    wait_until(lambda: pod.inspected("pages", "State.Pid") not in ("0", process), pod.status)
    wait_until(lambda: pod.size_in_force() == planned, pod.status)
    assert pod.inspected("spreds", "RestartCount") == "0"

    podman("pod", "stop", "--time=30", _POD)
    for container in (*_CACHES, "spreds"):
        assert pod.inspected(container, "State.ExitCode") == "0", container
    # The sidecar takes its socket away.
    assert [path.name for path in (tmp_path / "samples/samples").iterdir()] == ["samples.lock"]
