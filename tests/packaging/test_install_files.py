"""docs/operate/install, as far as it can be checked without a machine to install it on."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.config.node import load_config

INSTALL = Path(__file__).parents[2] / "docs" / "operate" / "install"
UNIT = INSTALL / "spreds.service"
# systemd's scale is 0 (shut off) to 10; below 2 it calls a service "OK".
MOST_EXPOSURE = 2.0
with_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze")
with_groups = pytest.mark.usefixtures("_group_redis")


@pytest.fixture
def _group_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the group of Redis exist, as on a machine with Redis."""
    import grp

    found = grp.getgrgid(0)
    monkeypatch.setattr(grp, "getgrnam", lambda _name: found)


@with_systemd
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """With a program in the place of ours, which is not installed here."""
    text = UNIT.read_text().replace("/opt/spreds/bin/spreds", "/bin/true")
    unit = tmp_path / "spreds.service"
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@with_systemd
def test_the_service_may_do_little() -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", UNIT],
        check=True,
        capture_output=True,
        text=True,
    )
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert exposure is not None
    assert float(exposure[1]) <= MOST_EXPOSURE


def test_the_script_is_sound() -> None:
    for path in INSTALL.glob("*.sh"):
        subprocess.run(["sh", "-n", path], check=True)
        assert path.stat().st_mode & 0o100


def test_no_script_takes_a_module_from_where_its_caller_stands() -> None:
    """``python -m`` looks in the current folder first, which may be /tmp."""
    scripts = [*INSTALL.glob("*.sh"), *(INSTALL.parents[2] / "redis_patch").glob("*.sh")]
    lines = [line for path in scripts for line in path.read_text().splitlines()]
    calls = [line for line in lines if re.search(r"python\S* (-\w+ )*-m ", line)]
    assert calls
    assert [line for line in calls if " -I -m " not in line] == []


@with_groups
def test_the_first_file_is_one_that_only_recommends() -> None:
    config = load_config(INSTALL / "node.toml")
    assert config.mode == "recommend"
    assert config.memory.budget_share == 0.75
    assert config.sampling.group is not None


def _documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((INSTALL / "kubernetes.yaml").read_text()))


def test_the_pod_is_one_that_keeps_to_itself(tmp_path: Path) -> None:
    config, workload = _documents()
    assert [config["kind"], workload["kind"]] == ["ConfigMap", "StatefulSet"]
    assert workload["spec"]["selector"]["matchLabels"] == {"app": "caches"}
    pod = workload["spec"]["template"]["spec"]
    volumes = {one["name"] for one in pod["volumes"]}
    volumes |= {one["metadata"]["name"] for one in workload["spec"]["volumeClaimTemplates"]}
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*pod["initContainers"], *pod["containers"]):
        assert re.fullmatch(r"\S+@sha256:[0-9a-f]{64}", container["image"])
        security = container["securityContext"]
        assert security["runAsNonRoot"]
        assert security["runAsUser"] > 0
        assert security["readOnlyRootFilesystem"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    *caches, sidecar = pod["containers"]
    for container in (*caches, sidecar):
        (samples,) = [one for one in container["volumeMounts"] if one["name"] == "samples"]
        assert (samples["mountPath"], samples["subPath"]) == ("/run/spreds", "samples")
        # A cache connects to the socket, and can put nothing in its place.
        assert samples.get("readOnly", False) == (container is not sidecar)
        assert container is sidecar or len(container["volumeMounts"]) == 1
    for cache in caches:
        # It has no folder to save to. After a save that failed Redis takes no writes.
        assert cache["args"][cache["args"].index("--save") + 1] == ""
    (makes_folder,) = pod["initContainers"]
    assert makes_folder["securityContext"] == sidecar["securityContext"]
    probes = [sidecar[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]
    assert [probe["path"] for probe in probes] == ["/livez", "/readyz"]
    node = tmp_path / "node.toml"
    node.write_text(config["data"]["node.toml"])
    loaded = load_config(node)
    assert loaded.mode == "recommend"
    ports = {int(server.url.rpartition(":")[2]) for server in loaded.servers}
    given = {
        int(container["args"][container["args"].index("--port") + 1])
        for container in pod["containers"][:-1]
    }
    assert ports == given
    fs_group = pod["securityContext"]["fsGroup"]
    assert loaded.sampling.group == sidecar["securityContext"]["runAsGroup"] == fs_group


def test_packages_and_images_are_named_by_their_hashes() -> None:
    """As the gate has them: ``make requirements`` writes the list anew."""
    import tomllib

    root = INSTALL.parents[2]
    listed = (INSTALL / "requirements.txt").read_text()
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", listed, re.MULTILINE))
    for entry in re.split(r"\n(?=\S)", listed.strip()):
        assert "--hash=sha256:" in entry, entry
    tested = dict(
        line.split("==")
        for line in (root / ".ci/constraints.txt").read_text().split()
        if "==" in line
    )
    needed = tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[<>=]", one)[0] for one in needed} | {"setuptools"}
    assert names <= pinned.keys()
    assert {name: pinned[name] for name in names} == {name: tested[name] for name in names}
    for source in re.findall(r"^FROM (\S+)", (INSTALL / "Containerfile").read_text(), re.MULTILINE):
        assert source == "${BASE}", "an image by a tag, which moves"
    for file in ("Containerfile", "install.sh"):
        for line in re.findall(
            r"pip\S* install(?:[^\n]*\\\n)*[^\n]*", (INSTALL / file).read_text()
        ):
            assert "--require-hashes" in line or "--no-deps" in line, line


def test_the_image_is_not_roots() -> None:
    text = (INSTALL / "Containerfile").read_text()
    user = re.search(r"^USER (\d+):(\d+)$", text, re.MULTILINE)
    assert user is not None
    assert int(user[1]) > 0
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for name in source.split():
            assert (INSTALL.parents[2] / name).exists()


def _calls(group: str) -> set[str]:
    """The system calls of one of systemd's groups."""
    done = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager", group],
        check=True,
        capture_output=True,
        text=True,
    )
    words = [line.strip() for line in done.stdout.splitlines()[1:]]
    names = [word for word in words if word and not word.startswith("#")]
    return {name for word in names for name in (_calls(word) if word.startswith("@") else {word})}


@with_systemd
def test_the_service_may_call_what_its_libraries_call() -> None:
    """A limit is asked for by prlimit64, which may also set it; the samples' socket is
    given to a group."""
    allowed = _calls("@default")
    for text in re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.MULTILINE):
        for group in text.removeprefix("~").split():
            allowed = allowed - _calls(group) if text.startswith("~") else allowed | _calls(group)
    assert {"prlimit64", "chown", "fchmodat", "flock", "sendto", "bind"} <= allowed
    assert not {"mount", "reboot", "ptrace"} & allowed


def test_teams_pass_through_the_services_folder_and_cannot_list_it() -> None:
    """systemd sets the mode anew at each start, so the page for teams must live with it."""
    mode = re.search(r"^StateDirectoryMode=(\d+)$", UNIT.read_text(), re.MULTILINE)
    assert mode is not None
    assert int(mode[1], 8) & 0o007 == 0o001
    recipe = (INSTALL.parent / "teams.md").read_text()
    assert f"install -d -m {mode[1]} -o spreds -g spreds /var/lib/spreds " in recipe
