"""The image, and the pod of the example, built and run by podman: ``make containers``."""

from __future__ import annotations

import json
import os
import shutil
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
RUN apt-get update && apt-get install -y --no-install-recommends redis-server libzmq5
COPY spreds.so /usr/lib/spreds/spreds.so
"""
_LOAD = """
import redis
for port in (6379, 6380):
    pipeline = redis.Redis(port=port).pipeline(transaction=False)
    for key in range(20000):
        pipeline.set(f"key{key}", "x" * 100)
        pipeline.get(f"key{key * 7 % 20000}")
    pipeline.execute()
"""


class Podman:
    """With images and containers of its own, below a folder."""

    def __init__(self, folder: Path) -> None:
        storage, containers = folder / "storage.conf", folder / "containers.conf"
        storage.write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/images"\n'
            f'runroot = "{folder}/run"\n'
        )
        # Its own limits are more than those that a sandbox may raise.
        containers.write_text(
            '[containers]\ndefault_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]\n'
            '[engine]\nruntime = "runc"\n'
        )
        self._environment = {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(storage),
            "CONTAINERS_CONF": str(containers),
        }

    def __call__(self, *arguments: object) -> str:
        """What it prints, and its containers with it. Raises AssertionError."""
        done = subprocess.run(
            ["podman", *map(str, arguments)],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def build(self, folder: Path, tag: str, *arguments: object) -> None:
        self("build", "--network=host", "--isolation=chroot", "-t", tag, *arguments, folder)


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """With both images, on a Debian that is made here."""
    folder = tmp_path_factory.mktemp("podman")
    podman = Podman(folder)
    debian = BareDebian("bookworm", "ca-certificates", folder)
    packages = "python3-venv python-is-python3"
    debian.run(f"apt-get update && apt-get install -y --no-install-recommends {packages}")
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


def as_pod(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The example without what this podman does not have: sets of pods, sub-paths, fsGroup, probes
    by HTTP."""
    config, pods = documents
    spec = pods["spec"]["template"]["spec"]
    del spec["initContainers"]
    group = spec.pop("securityContext")["fsGroup"]
    for container in spec["containers"]:
        name = container["image"].rpartition("/")[2].partition("@")[0]
        container.update(image=f"localhost/{name}", imagePullPolicy="Never")
        container["securityContext"]["runAsGroup"] = group
        for probe in ("livenessProbe", "readinessProbe"):
            container.pop(probe, None)
        for mount in container["volumeMounts"]:
            mount.pop("subPath", None)
    (claim,) = pods["spec"]["volumeClaimTemplates"]
    name = claim["metadata"]["name"]
    spec["volumes"].append({"name": name, "persistentVolumeClaim": {"claimName": name}})
    claim.update(apiVersion="v1", kind="PersistentVolumeClaim")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "caches-0"}, "spec": spec}
    return [config, claim, pod]


def test_caches_and_sidecar_in_one_pod(podman: Podman, tmp_path: Path) -> None:
    example = list(yaml.safe_load_all((INSTALL / "kubernetes.yaml").read_text()))
    path = tmp_path / "pod.yaml"
    path.write_text(yaml.safe_dump_all(as_pod(example)))
    podman("kube", "play", path)
    sidecar = ("exec", "caches-0-spreds", "/opt/spreds/bin/python", "-c")

    def status() -> dict[str, Any]:
        asked = "exec", "caches-0-spreds", "sh", "-c"
        text = podman(*asked, "/opt/spreds/bin/spreds status /etc/spreds/node.toml --json || true")
        told: dict[str, Any] = json.loads(text or "{}")
        return told

    def samplers() -> list[str]:
        return [one.get("sampler") for one in status().get("servers", [])]

    try:
        wait_until(lambda: samplers() == ["module", "module"], status)
        podman(*sidecar, _LOAD)
        wait_until(lambda: status()["samples"]["received"] > 0, status)
    finally:
        print(podman("logs", "caches-0-spreds"))
        podman("pod", "rm", "--force", "caches-0")
