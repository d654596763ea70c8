"""``spreds check --connect``: what keeps SPREDS from working, and the fewest rights it needs."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.base.descriptors import make_room_for_descriptors
from sidecar.cli import main
from sidecar.commands.running import status_of
from sidecar.config.node import load_config
from sidecar.preflight.endpoint import (
    ServerProcess,
    check_endpoint,
    check_way_for,
    server_process,
)
from sidecar.preflight.listeners import Listener, check_listen, tcp_listener
from sidecar.preflight.machine import check_machine
from sidecar.preflight.preflight import _check_group
from sidecar.preflight.rights import HARMLESS_KNOB, NEEDED, WANTED, acl_line
from sidecar.state.node_lock import is_locked, node_lock
from tests.secret_file import write_secret
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.monitored_load import STATS
from tests.sidecar.servers.sizes.test_promotions import follow
from tests.sidecar.sidecar_process import sidecar_process
from workloads.experiment.attacks.stage.hostile_server import HostileServer, bulk
from workloads.local_node import wait_until
from workloads.local_server import BUILD, LocalServer, free_port

MIB = 1 << 20
Check = Callable[..., list[dict[str, str]]]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    """The findings about servers and the configuration, which are not all well."""

    def run(path: Path, code: int) -> list[dict[str, str]]:
        assert main(["check", str(path), "--connect", "--json"]) == code
        findings: list[dict[str, str]] = json.loads(capsys.readouterr().out)
        return [f for f in findings if f["level"] != "ok" and f["where"] != "machine"]

    return run


def test_a_good_node_has_no_problem_and_nothing_changes(
    write_node: WriteNode,
    start_server: StartServer,
    check: Check,
    capsys: pytest.CaptureFixture[str],
) -> None:
    servers = {"a": start_server("12mb"), "b": start_server("12mb")}
    path = write_node(servers, budget="24mb")
    before = [server.client.config_get("*") for server in servers.values()]
    assert check(path, 0) == []
    assert [server.client.config_get("*") for server in servers.values()] == before
    assert sorted(path.parent.iterdir()) == [path]
    assert main(["check", str(path), "--connect"]) == 0
    printed = capsys.readouterr().out
    assert "ok      a: answers: maxmemory 12 MiB, allkeys-lru, sampler patch" in printed
    assert "the sizes sum to 24 MiB of 24 MiB" in printed


def test_what_the_sidecar_that_runs_has_seen_is_told(
    write_node: WriteNode,
    start_server: StartServer,
    check: Check,
    capsys: pytest.CaptureFixture[str],
) -> None:
    servers = {"a": start_server("12mb"), "b": start_server("12mb")}
    path = write_node(servers, budget="24mb")
    with sidecar_process(path):
        wait_until(lambda: main(["pause", str(path)]) == 0, lambda: "it takes no order")
        capsys.readouterr()
        assert [f for f in check(path, 0) if f["where"] == "running sidecar"] == []
        servers["a"].client.config_set("maxmemory", 20 * MIB)
        wait_until(lambda: status_of(load_config(path))["problems"], lambda: "no problem is told")
        _one(check(path, 1), "running sidecar", "more than the budget")


def _one(findings: list[dict[str, str]], where: str, words: str) -> dict[str, str]:
    (found,) = [f for f in findings if f["where"] == where and words in f["what"]]
    assert found["remedy"]
    return found


def test_each_problem_has_its_remedy(
    write_node: WriteNode, start_server: StartServer, check: Check
) -> None:
    good = start_server("12mb")
    fixed = start_server("40mb", **{"maxmemory-policy": "noeviction"})
    lfu = {"maxmemory-policy": "allkeys-lfu"}
    stock = start_server("12mb", binary=BUILD / "bin" / "redis-server-stock", **lfu)
    stock.client.set("key", "value")
    boundless = start_server(0, **{"maxmemory-policy": "noeviction"})
    replica = start_server("1mb")
    replica.client.replicaof("127.0.0.1", 1)
    follows = start_server("1mb")
    follow(follows, good)
    wait_until(
        lambda: "slave0" in good.client.info("replication"),
        lambda: follows.client.info("replication"),
    )
    urls = {
        "good": good.url,
        "again": f"{good.url}?db=1",
        "fixed": fixed.url,
        "stock": stock.url,
        "boundless": boundless.url,
        "replica": replica.url,
        "down": "redis://127.0.0.1:1",
    }
    path = write_node(urls, budget="30mb")
    path.write_text(path.read_text().replace("?db=1", "").replace(good.url, f"{good.url}//", 0))
    path.write_text(path.read_text().replace(f'name = "again"\nurl = "{good.url}"', _again(good)))
    found = check(path, 1)
    assert _one(found, "again", "is the same server as good")["level"] == "problem"
    assert _one(found, "fixed", "does not evict (noeviction)")["level"] == "advice"
    remedy = _one(found, "replica", "does not evict (a replica)")["remedy"]
    assert remedy == "nothing, if it is to be one: it takes part once it is a master"
    follower = f"127.0.0.1:{follows.client.config_get('port')['port']} follows this server"
    assert _one(found, "good", follower)["level"] == "advice"
    assert "spreds.so" in _one(found, "stock", "is not sampled, so its curve will not")["remedy"]
    assert _one(found, "boundless", "has no maxmemory and does not evict")["level"] == "problem"
    assert _one(found, "down", "Connection refused")["level"] == "problem"
    assert _one(found, "memory.budget", "have 41 MiB, more than the budget")["level"] == "problem"


def test_a_server_that_says_nonsense_is_a_finding_in_one_sentence(
    write_node: WriteNode, start_server: StartServer, check: Check, tmp_path: Path
) -> None:
    real = start_server("12mb").client

    def answer(words: list[str]) -> list[bytes] | None:
        if words[:2] != ["CONFIG", "GET"]:
            return None
        said = {**real.config_get(*words[2:]), "tcp-backlog": "abc"}
        pairs = [bulk(key.encode()) + bulk(value.encode()) for key, value in said.items()]
        return [b"*%d\r\n" % (2 * len(said)), *pairs]

    with HostileServer(tmp_path / "hostile", real, answer) as hostile:
        found = check(write_node({"a": hostile.url, "b": start_server("12mb").url}), 1)
    words = "its answer makes no sense: invalid literal for int() with base 10: 'abc'"
    assert _one(found, "a", words)["level"] == "problem"
    assert not [one for one in found if one["where"] == "b"]


def test_what_is_known_of_the_budget_is_told_and_no_more(
    write_node: WriteNode,
    start_server: StartServer,
    check: Check,
    capsys: pytest.CaptureFixture[str],
) -> None:
    small, feed = start_server("12mb"), start_server(0)
    urls = {"small": small.url, "feed": feed.url, "down": "redis://127.0.0.1:1"}
    path = write_node(urls, budget="24mb")
    found = check(path, 1)
    words = "has no maxmemory: SPREDS gives it a limit when it sets sizes"
    assert _one(found, "feed", words)["level"] == "advice"
    sums = _one(found, "memory.budget", "the sizes sum to 12 MiB of 24 MiB, without feed: no")
    assert sums["what"].endswith(", without down: could not be read")
    text = path.read_text().replace('budget = "24mb"', 'budget = "24mb"\nrss_budget = "1mb"')
    path.write_text(text)
    assert "of 1 MiB: too much already" in _one(check(path, 1), "memory.rss_budget", "")["what"]
    path = write_node({"down": "redis://127.0.0.1:1"}, budget="24mb")
    assert main(["check", str(path), "--connect"]) == 1
    assert "the sizes sum" not in capsys.readouterr().out


def test_a_server_without_a_latency_is_told(
    write_node: WriteNode, start_server: StartServer, check: Check
) -> None:
    path = write_node({"a": start_server("12mb").url}, server_keys="")
    assert _one(check(path, 0), "a", "has no backend_latency")["level"] == "advice"


def test_a_port_in_use_and_a_server_of_another_sidecar_are_told(
    write_node: WriteNode, start_server: StartServer, check: Check
) -> None:
    from sidecar.servers.connection.server_lock import ServerLock

    server = start_server("12mb")
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        more = f'[operators]\nlisten = "127.0.0.1:{port}"\n'
        path = write_node({"a": server.url}, budget="24mb", more=more)
        assert f":{port}" in _one(check(path, 1), "operators.listen", "in use")["remedy"]
    assert check(path, 0) == []
    lock = ServerLock(server.client.info("server")["run_id"])
    try:
        words = f"is controlled by another sidecar, the process {os.getpid()}"
        assert _one(check(path, 1), "a", words)["level"] == "problem"
    finally:
        lock.close()
    assert check(path, 0) == []


def _again(server: LocalServer) -> str:
    """Another path to the same socket."""
    link = server.folder / "link.sock"
    os.link(server.socket, link)
    return f'name = "again"\nurl = "unix://{link}"'


@pytest.mark.parametrize("command", ["INFO", "CONFIG"])
def test_a_server_whose_commands_have_other_names_is_not_called_absent(
    command: str, write_node: WriteNode, start_server: StartServer, check: Check
) -> None:
    server = start_server("12mb", **{"rename-command": f"{command} hidden"})
    path = write_node({"a": server.url}, budget="24mb")
    assert "rename-command" in _one(check(path, 1), "a", f"{command}")["remedy"]
    with sidecar_process(path) as process:
        process.read_until("server a answers, but cannot be read, the others go on: ", command)
        assert process.end() == 0


@pytest.mark.parametrize("right", [*NEEDED, *WANTED])
def test_a_missing_right_is_named(
    right: str,
    write_node: WriteNode,
    start_server: StartServer,
    check: Check,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = start_server("12mb")
    rights = [other for other in (*NEEDED, *WANTED) if other != right]
    server.client.execute_command("ACL", "SETUSER", "u", "on", "nopass", "-@all", *rights)
    path = write_node({"a": server.url}, server_keys='username = "u"', budget="24mb")
    (found,) = [f for f in check(path, int(right in NEEDED)) if right.split("|")[0] in f["remedy"]]
    assert found["where"] == "a"
    assert found["level"] == ("problem" if right in NEEDED else "advice")
    # To read a server takes INFO and CONFIG GET.
    wanted = right if right not in NEEDED[:2] else acl_line("u")
    assert wanted in found["remedy"]
    assert main(["status", str(path)]) == 1
    assert ("missing right" in capsys.readouterr().out) == (right in NEEDED[:2])


def test_a_wrong_password_names_file_and_key(
    write_node: WriteNode,
    start_server: StartServer,
    check: Check,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    server = start_server("12mb")
    server.client.config_set("requirepass", "right")
    write_secret(tmp_path / "a.secret", "wrong\n")
    path = write_node({"a": server.url}, server_keys='password_file = "a.secret"', budget="24mb")
    (found,) = check(path, 1)
    sentence = f"{path}: server[a].password_file 'a.secret' is not the password of the default user"
    assert sentence in found["what"]
    assert main(["status", str(path)]) == 1
    printed = capsys.readouterr().out
    assert "wrong password" in printed
    assert "down" not in printed
    path.write_text(path.read_text().replace('password_file = "a.secret"', ""))
    (found,) = check(path, 1)
    assert "has neither password_file nor password_env" in found["what"]
    # To make ``default`` anew would lock all applications out.
    assert "ACL SETUSER spreds " in found["remedy"]
    assert "SETUSER default" not in found["remedy"]


@pytest.mark.parametrize(
    ("binary", "module"),
    [
        ("redis-server", False),
        ("redis-server-stock", True),
        ("valkey-server-stock", True),
        ("valkey-server", False),
        ("redis8-server-stock", True),
    ],
)
def test_the_printed_user_is_enough_for_a_whole_run_and_nothing_is_refused(
    binary: str,
    module: bool,
    write_node: WriteNode,
    start_server: StartServer,
    check: Check,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    if not (BUILD / "bin" / binary).exists():
        pytest.skip(f"{binary} is not built")
    more = {"loadmodule": BUILD / "lib" / "spreds.so"} if module else {}
    server = start_server("12mb", binary=BUILD / "bin" / binary, **more)
    write_secret(tmp_path / "secret", "hunter2")
    keys = 'username = "spreds"\npassword_file = "secret"\nbackend_latency = "50ms"'
    more_text = (
        '[cycle]\nmaximum_age = "500ms"\n[controller]\nkind = "embedded"\n'
        "[planning]\nminimum_gain_ratio = 0.0\n"
    )
    path = write_node({"a": server.url}, server_keys=keys, budget="24mb", more=more_text)
    assert main(["check", str(path), "--acl"]) == 0
    comment, for_shell, line = capsys.readouterr().out.splitlines()
    assert comment.startswith("# a: ")
    assert "a shell's arguments are read by every local user" in for_shell
    server.client.execute_command(*line.replace(">PASSWORD", ">hunter2").split())
    assert check(path, 0) == []
    with sidecar_process(path) as process:
        process.read_until("plan: cycle")
        assert main(["check", str(path), "--connect", "--verbose"]) == 0
        assert "is bound by the running sidecar" in " ".join(capsys.readouterr().out.split())
        assert process.end() == 0
    assert not [text for text in process.lines if "WARNING" in text and "state" not in text]
    assert [entry["object"] for entry in server.client.acl_log()] == []


def test_the_line_takes_everything_else_away(start_server: StartServer) -> None:
    server = start_server("12mb")
    server.client.execute_command("ACL", "SETUSER", "spreds", "on", "+@all", "~*")
    server.client.execute_command(*acl_line().split())
    allowed = server.client.acl_getuser("spreds")
    assert allowed["keys"] == []
    assert "+@all" not in allowed["commands"]


def test_the_harmless_knob_is_none_that_the_sidecar_sets() -> None:
    from sidecar.servers.shrink_mode import SHRINK_MODE

    assert HARMLESS_KNOB not in (*SHRINK_MODE, "maxmemory")


def test_the_endpoint_is_tried_without_leaving_anything(tmp_path: Path) -> None:
    def look(endpoint: str, process: int | None = None) -> Any:
        *others, found = check_endpoint(endpoint, process)
        told = [one.what for one in others]
        assert len(told) == (not endpoint.startswith("ipc:///"))
        assert all("only the servers' secrets keep forged samples out" in what for what in told)
        assert all(("encrypted" in what) == ("192.0" in endpoint) for what in told)
        return found

    assert look(f"ipc://{tmp_path}/new/samples").level == "ok"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    assert "is not a socket" in look(f"ipc://{tmp_path}/file").what
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"{tmp_path}/sock")
        other.listen()
        assert "another program listens" in look(f"ipc://{tmp_path}/sock").what
        assert look(f"ipc://{tmp_path}/sock", os.getpid()).level == "ok"
        assert look(f"ipc://{tmp_path}/sock", os.getppid()).level == "problem"
        assert look(f"ipc://{tmp_path}/sock", 0).level == "advice"
    assert look(f"ipc://{tmp_path}/sock").level == "ok"  # left behind
    assert look("ipc://@name").level == "ok"
    assert "cannot be bound" in look("tcp://192.0.2.1:5555").what
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert "cannot be bound" in look(f"tcp://127.0.0.1:{port}").what
    assert look(f"tcp://127.0.0.1:{port}").level == "ok"


def test_whoever_sets_wishes_on_the_disk_of_the_state_is_named(
    write_node: WriteNode, start_server: StartServer, check: Check
) -> None:
    """Who fills it has orders forgotten, as of a pause."""
    embedded = '[controller]\nkind = "embedded"\nfolder = "documents"\n'
    path = write_node({"a": start_server("12mb")}, budget="24mb", more=embedded)
    settings = path.parent / "documents" / "settings" / load_config(path).node
    settings.mkdir(parents=True)
    assert not check(path, 0)
    settings.chmod(0o777)
    (found,) = check(path, 0)
    assert (found["level"], found["where"]) == ("advice", "state_file")
    assert f"everybody may write to {settings}" in found["what"]
    assert "forgotten by a restart" in found["what"]


def test_a_server_of_another_user_must_be_able_to_reach_the_endpoint(folder_of_all: Path) -> None:
    folder = folder_of_all / "run"
    folder.mkdir(mode=0o700)
    endpoint, own_group = f"ipc://{folder}/samples", folder.stat().st_gid
    other = ServerProcess("a", os.geteuid() + 4321, frozenset({54321}))

    def words(server: ServerProcess, group: int | None = None, at: str = endpoint) -> str:
        found = check_way_for(server, at, group)
        return "" if found is None else f"{found.level}: {found.what}"

    assert f"problem: its process (uid {other.user}) may not look into {folder}" in words(other)
    # The sidecar will give folder and socket to the group.
    assert words(other, 54321) == ""
    folder.chmod(0o755)
    assert "advice" in words(other)
    assert "is not you" in words(other)
    assert "is not in the group 77" in words(other, 77)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"{folder}/samples")
        os.chmod(f"{folder}/samples", 0o755)
        assert "problem" in words(other)
        assert "may not write to the samples' socket" in words(other)
        os.chmod(f"{folder}/samples", 0o770)
        assert words(ServerProcess("a", other.user, frozenset({own_group}))) == ""
    assert words(ServerProcess("a", 0, frozenset())) == ""
    assert words(other, at="tcp://127.0.0.1:5555") == ""


def test_a_servers_user_is_known_and_nobody_elses(start_server: StartServer) -> None:
    server = start_server("12mb")
    found = server_process("a", server.process.pid)
    assert found is not None
    assert found.user == os.geteuid()
    assert server_process("a", os.getpid()) is None
    assert server_process("a", 1 << 22) is None


def test_a_process_may_have_any_bytes_for_its_name() -> None:
    """In another namespace the server's number may be anybody's here."""
    named = (
        "import ctypes, sys; ctypes.CDLL(None).prctl(15, b'\\xff\\xfe'); print(); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", named], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert server_process("a", process.pid) is None
        process.communicate()


def _machine(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_who_is_no_member_of_a_group_is_told_how_to_become_one() -> None:
    nobody = pwd.getpwnam("nobody")
    assert nobody.pw_gid != 0
    (finding,) = _check_group("sampling.group", 0, nobody.pw_uid)
    assert (finding.level, finding.where) == ("problem", "sampling.group")
    assert finding.remedy == "usermod -aG root nobody, and start the sidecar anew"
    assert list(_check_group("sampling.group", nobody.pw_gid, nobody.pw_uid)) == []


def test_what_the_kernel_does_to_servers_is_told(tmp_path: Path) -> None:
    _machine(
        tmp_path,
        proc__meminfo="MemTotal:        1048576 kB\nSwapTotal:       2048 kB\nHugePages_Total: 0\n",
        proc__sys__vm__overcommit_memory="0\n",
        proc__sys__vm__swappiness="60\n",
        proc__sys__net__core__somaxconn="128\n",
        sys__kernel__mm__transparent_hugepage__enabled="[always] madvise never\n",
    )
    bad = list(check_machine(900 * MIB, 511, tmp_path))
    assert [finding.level for finding in bad] == ["advice"] * 5
    words = " ".join(f"{finding.what} {finding.remedy}" for finding in bad)
    for word in ("overcommit_memory=1", "madvise", "vm.swappiness is 60", "somaxconn=511", "80%"):
        assert word in words
    _machine(
        tmp_path,
        proc__sys__vm__overcommit_memory="1\n",
        proc__sys__vm__swappiness="1\n",
        sys__kernel__mm__transparent_hugepage__enabled="always [madvise] never\n",
    )
    assert {finding.level for finding in check_machine(100 * MIB, None, tmp_path)} == {"ok"}
    assert [finding.level for finding in check_machine(1 << 40, None, tmp_path)] == ["problem"]
    assert list(check_machine(1, None, tmp_path / "nowhere")) == []


def test_a_budget_that_includes_memory_of_others_is_told_with_what_is_left(tmp_path: Path) -> None:
    _machine(tmp_path, proc__meminfo="MemTotal:        1048576 kB\nMemAvailable:    524288 kB\n")
    server = replace(STATS, counted_bytes=100 * MIB, rss_bytes=112 * MIB, not_counted_bytes=2 * MIB)
    (found,) = check_machine(768 * MIB, None, tmp_path, share="75%", servers=[server])
    assert found.level == "advice"
    assert found.what == (
        "memory.budget 75% is 768 MiB of the machine's 1 GiB, where other programs use 400 MiB, "
        "and the servers 12 MiB beside what maxmemory counts: that includes memory of others"
    )
    assert found.remedy == "at most 612 MiB"
    (found,) = check_machine(612 * MIB, None, tmp_path, servers=[server])
    assert found.level == "ok"


@given(st.integers(0, 1 << 45))
def test_a_budget_beyond_the_machine_is_always_a_problem(budget: int) -> None:
    levels = {f.level for f in check_machine(budget) if f.where == "memory.budget"}
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert ("problem" in levels) == (budget >= total)


def test_a_lock_is_seen_without_being_taken(write_node: WriteNode) -> None:
    config = load_config(write_node({"a": "redis://127.0.0.1:1"}))
    assert not is_locked(config)
    with node_lock(config):
        assert is_locked(config)
    assert not is_locked(config)


def test_locks_of_strangers_change_nothing(write_node: WriteNode, tmp_path: Path) -> None:
    """The kernel's list of all locks grows by theirs, and is read in pieces; so it is not asked."""
    config = load_config(write_node({"a": "redis://127.0.0.1:1"}))
    with node_lock(config), (tmp_path / "other").open("w") as other:
        for place in range(0, 2000, 2):
            fcntl.lockf(other, fcntl.LOCK_EX, 1, place)
        assert is_locked(config)
        fcntl.flock(other, fcntl.LOCK_EX)
        assert is_locked(config)
    assert not is_locked(config)


def test_a_sidecar_with_another_state_file_is_not_this_one(
    write_node: WriteNode, tmp_path: Path
) -> None:
    """Though it has this one's endpoint: who starts this one beside it is refused."""
    config = load_config(write_node({"a": "redis://127.0.0.1:1"}))
    with node_lock(replace(config, state_file=tmp_path / "other.json")):
        assert not is_locked(config)
    with node_lock(
        replace(config, sampling=replace(config.sampling, endpoint=f"ipc://{tmp_path}/none"))
    ):
        assert is_locked(config)


def test_a_running_sidecar_that_listens_elsewhere_is_told() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        listen = busy.getsockname()
        (served,) = check_listen(listen, os.getpid())
        # Whoever took the port first does not vouch for himself.
        (taken,) = check_listen(listen, os.getppid())
        (unknown,) = check_listen(listen, 0)
    assert taken.level == "problem"
    assert "another process listens" in taken.what
    assert (unknown.level, "you may not see" in unknown.what) == ("advice", True)
    assert (served.level, "is served by the running sidecar" in served.what) == ("ok", True)
    elsewhere, _can_be_bound = check_listen(listen, os.getpid())
    assert elsewhere.level == "advice"
    assert "nothing listens at 127.0.0.1:" in elsewhere.what


def test_localhost_is_free_where_both_its_families_are() -> None:
    port = free_port()
    with socket.create_server(("::1", port), family=socket.AF_INET6):
        (found,) = check_listen(("localhost", port), None)
    assert (found.level, f"[::1]:{port} cannot be bound" in found.what) == ("problem", True)
    (found,) = check_listen(("localhost", port), None)
    assert (found.level, found.what) == ("ok", f"localhost:{port} can be bound")


@pytest.mark.parametrize(
    ("at", "asked", "who"),
    [
        ("127.0.0.1", ("127.0.0.1", "::1"), Listener.SIDECAR),
        ("::1", ("127.0.0.1", "::1"), Listener.SIDECAR),
        ("0.0.0.0", ("127.0.0.1",), Listener.SIDECAR),
        ("127.0.0.1", ("127.0.0.2",), Listener.NOBODY),
    ],
)
def test_the_kernel_says_who_listens(at: str, asked: tuple[str, ...], who: Listener) -> None:
    family = socket.AF_INET6 if ":" in at else socket.AF_INET
    with socket.create_server((at, 0), family=family) as listening:
        port = listening.getsockname()[1]
        assert tcp_listener(asked, port, os.getpid()) == who
        other = Listener.OTHER if who == Listener.SIDECAR else who
        assert tcp_listener(asked, port, os.getppid()) == other
    assert tcp_listener(asked, port, os.getpid()) == Listener.NOBODY


@pytest.mark.parametrize(
    ("limits", "raised_to", "has_room"),
    [
        ((1024, 4096), None, True),
        ((256, 4096), 784, True),
        ((256, 500), 500, False),
        ((256, resource.RLIM_INFINITY), 784, True),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None, True),
    ],
)
def test_room_for_open_files_is_made_or_told_to_be_missing(
    limits: tuple[int, int],
    raised_to: int | None,
    has_room: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    raised: list[int] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: raised.append(new[0]))
    assert make_room_for_descriptors(servers=18, connections=384) is has_room
    assert raised == ([] if raised_to is None else [raised_to])
    assert ("up to 784 may be needed" in caplog.text) is not has_room


def test_the_iam_policy_is_what_the_stack_gives_its_node(
    write_node: WriteNode, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud = (
        '[controller]\nkind = "lambda"\nobservations_bucket = "observations"\n'
        'plans_bucket = "plans"\ntopic_arn = "arn:aws:sns:us-east-1:123456789012:plans"\n'
    )
    queue = 'queue_url = "https://sqs.us-east-1.amazonaws.com/123456789012/spreds_n1"\n'
    path = write_node({"a": "redis://127.0.0.1:1"}, more=cloud + queue)
    assert main(["check", str(path), "--iam"]) == 0
    statements = json.loads(capsys.readouterr().out)["Statement"]
    allowed = {(action, item["Resource"]) for item in statements for action in item["Action"]}
    assert allowed == {
        ("s3:PutObject", "arn:aws:s3:::observations/observations/n1/*"),
        ("s3:PutObject", "arn:aws:s3:::observations/reports/n1/*"),
        ("s3:GetObject", "arn:aws:s3:::observations/settings/n1/*"),
        ("s3:ListBucket", "arn:aws:s3:::observations"),
        ("s3:GetObject", "arn:aws:s3:::plans/plans/n1/*"),
        *(
            (f"sqs:{action}", "arn:aws:sqs:us-east-1:123456789012:spreds_n1")
            for action in ("ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility")
        ),
    }
    delivery = 'delivery = "http"\nlisten = "127.0.0.1:0"\n'
    path = write_node({"a": "redis://127.0.0.1:1"}, more=cloud + delivery)
    assert main(["check", str(path), "--iam"]) == 0
    last = json.loads(capsys.readouterr().out)["Statement"][-1]
    assert last["Action"] == ["sns:ConfirmSubscription"]
    path = write_node({"a": "redis://127.0.0.1:1"})
    assert main(["check", str(path), "--iam"]) == 2
