"""``check --connect`` looks at the cgroups of the servers, whatever the sidecar's own has."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.base import machine_memory
from sidecar.config.memory import MemoryConfig
from sidecar.config.node import ServerConfig
from sidecar.preflight.cgroups import check_cgroups

MIB = 1 << 20
SERVERS = [ServerConfig(name, "unix:///s", minimum_bytes=2 * MIB) for name in "ab"]

Process = Callable[[str, str], Path]


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Process:
    """A folder as below /proc of a process in this cgroup, which has this limit."""
    (root := tmp_path / "cgroups").mkdir()
    (own := tmp_path / "own").mkdir()
    (own / "cgroup").write_text("0::/\n")
    (own / "mountinfo").write_text(f"30 20 0:26 / {root} rw - cgroup2 cgroup2 rw\n")
    monkeypatch.setattr(machine_memory, "_OWN", own)

    def make(cgroup: str, limit: str) -> Path:
        (root / cgroup).mkdir(parents=True, exist_ok=True)
        (root / cgroup / "memory.max").write_text(f"{limit}\n")
        folder = tmp_path / f"process-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / "cgroup").write_text(f"0::/{cgroup}\n")
        return folder

    return make


def said(budget_mib: int, *processes: Path, servers: list[ServerConfig] = SERVERS) -> list[str]:
    memory = MemoryConfig(budget_bytes=budget_mib * MIB)
    named = {server.name: one for server, one in zip(servers, processes, strict=False)}
    return [f"{f.level} {f.where}: {f.what}" for f in check_cgroups(memory, servers, named)]


def test_a_budget_that_their_common_cgroup_does_not_have(process: Process) -> None:
    """The outermost one with the least limit is named: it holds all of them."""
    (first := process("caches", str(200 * MIB))).touch()
    inner = process("caches/a", "max")
    (line,) = said(300, inner, first)
    assert line.startswith("problem memory.budget: all servers run in the cgroup ")
    assert "/cgroups/caches, which has 200 MiB, and the budget is 300 MiB" in line
    assert said(150, inner, first) == []


def test_servers_in_cgroups_of_their_own_want_a_maximum(process: Process) -> None:
    first, second = process("a", str(100 * MIB)), process("b", "max")
    (line,) = said(300, first, second)
    assert line.startswith("problem a: run in the cgroup ")
    bounded = [replace(SERVERS[0], maximum_bytes=80 * MIB), SERVERS[1]]
    assert said(300, first, second, servers=bounded) == []
    assert said(90, first, second) == []


def test_a_share_of_another_cgroup_than_theirs_is_told(process: Process) -> None:
    both = process("caches", str(200 * MIB))
    memory = MemoryConfig(budget_bytes=150 * MIB, budget_share=0.75)
    (found,) = check_cgroups(memory, SERVERS, dict.fromkeys("ab", both))
    assert found.level == "advice"
    assert "75% is of what the sidecar's own has (150 MiB)" in found.what
    assert found.remedy.startswith('name it: cgroup = "')
    named = replace(memory, cgroup=both)
    assert list(check_cgroups(named, SERVERS, dict.fromkeys("ab", both))) == []


def test_what_cannot_be_read_is_not_judged(process: Process, tmp_path: Path) -> None:
    nonsense = process("nonsense", "many")
    assert said(300, tmp_path / "gone", nonsense) == []


def test_what_a_process_has_mounted_for_itself_is_no_cgroup(
    process: Process, tmp_path: Path
) -> None:
    """Any user may mount in a namespace of his own, and a pipe would be waited for, for ever."""
    strange = process("caches", "max")
    (mine := tmp_path / "mine" / "caches").mkdir(parents=True)
    os.mkfifo(mine / "memory.max")
    (strange / "mountinfo").write_text(
        f"30 20 0:26 / {mine.parent} rw - cgroup2 cgroup2 rw\n"
        f"31 20 0:26 / {mine.parent} rw - cgroup cgroup rw,memory\n"
    )
    assert said(300, strange, strange) == []
    (strange / "cgroup").write_text(f"0::/../{mine.parent.name}/caches\n")
    assert said(300, strange, strange) == []


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_says_no_limit(process: Process, make: Callable[[Path], None]) -> None:
    inside = process("caches", "max")
    limit = machine_memory.cgroups_of(inside)[0] / "memory.max"
    limit.unlink()
    make(limit)
    assert said(300, inside, inside) == []
