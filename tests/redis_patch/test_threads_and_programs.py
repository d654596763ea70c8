"""What sampling adds to the server's process, and to the programs that come with it."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from tests.redis_patch import restricted
from tests.redis_patch.sampled_server import SampledServer, ServerKind
from workloads.local_node import wait_until
from workloads.local_server import BUILD, LocalServer, SupportedServer, supported_servers

PATCHED = [server for server in supported_servers().values() if server.patched_binary]

MODULE = BUILD / "lib" / "spreds.so"
OTHER_MODULE = """
#include "redismodule.h"
#include <zmq.h>
static int go(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    (void)argv, (void)argc;
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_PUSH);
    zmq_close(socket);
    zmq_ctx_term(context);
    return RedisModule_ReplyWithCString(ctx, "alive");
}
int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    (void)argv, (void)argc;
    if (RedisModule_Init(ctx, "other", 1, REDISMODULE_APIVER_1) == REDISMODULE_ERR) return 1;
    return RedisModule_CreateCommand(ctx, "other.go", go, "", 0, 0, 0);
}
"""

CPUS = sorted(os.sched_getaffinity(0))


def cpus_by_thread(process: int) -> dict[str, set[int]]:
    """CPUs on which each thread may run, by its name; the process' own thread is ``main``."""
    found = {}
    for path in Path(f"/proc/{process}/task").iterdir():
        thread = int(path.name)
        name = "main" if thread == process else (path / "comm").read_text().strip()
        found[name] = os.sched_getaffinity(thread)
    return found


@pytest.mark.skipif(len(CPUS) < 2, reason="one CPU has nothing to keep apart")
@pytest.mark.parametrize("background", [None, CPUS[-1]])
def test_zeromq_leaves_the_servers_own_cpus_alone(kind: ServerKind, background: int | None) -> None:
    settings: dict[str, object] = {"server_cpulist": CPUS[0]}
    if background is not None:
        settings["bio_cpulist"] = background
    with SampledServer(kind, settings) as server:
        server.start()
        process = server.server.process.pid
        wanted = {frozenset(CPUS if background is None else [background])}

        def of_zeromq() -> set[frozenset[int]]:
            threads = cpus_by_thread(process)
            return {frozenset(cpus) for name, cpus in threads.items() if name.startswith("ZMQ")}

        # A thread has its name and its CPUs a moment after it began.
        wait_until(lambda: of_zeromq() == wanted, of_zeromq)
        assert cpus_by_thread(process)["main"] == {CPUS[0]}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter has x86-64's numbers")
def test_a_service_that_may_not_ask_for_scheduling_is_sampled_and_lives(kind: ServerKind) -> None:
    """Debian's own unit for Redis ends the server at the first such call, and ZeroMQ makes it."""
    with SampledServer(kind, wrapper=[sys.executable, restricted.__file__]) as server:
        server.start()
        server.client.set("key", "value")
        assert len(server.records()) == 1
        threads = cpus_by_thread(server.server.process.pid)
        assert [name for name in threads if name.startswith("ZMQ")]
        assert server.server.process.poll() is None


@pytest.mark.skipif(len(CPUS) < 2, reason="one CPU has nothing to keep apart")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter has x86-64's numbers")
def test_such_a_service_lives_also_where_somebody_has_pinned_its_main_thread(
    kind: ServerKind,
) -> None:
    """As ``taskset -p`` does, which leaves the other threads alone."""
    with SampledServer(kind, wrapper=[sys.executable, restricted.__file__]) as server:
        os.sched_setaffinity(server.server.process.pid, {CPUS[0]})
        server.start()
        server.client.set("key", "value")
        assert len(server.records()) == 1
        assert server.server.process.poll() is None


@pytest.mark.skipif(not MODULE.exists(), reason="build/lib/spreds.so is not built")
@pytest.mark.parametrize("samples", [False, True])
def test_another_module_may_use_zeromq_after_ours_is_gone(tmp_path: Path, samples: bool) -> None:
    """What is changed in ZeroMQ's library is put back: it was left pointing to what is no more."""
    other = tmp_path / "other.so"
    (tmp_path / "other.c").write_text(OTHER_MODULE)
    interface = BUILD / "tree" / "redis-stock" / "src"
    if not interface.exists():
        pytest.skip("build/tree/redis-stock is not there")
    compiler = ["cc", "-shared", "-fPIC", f"-I{interface}", "-o", other, tmp_path / "other.c"]
    subprocess.run([*compiler, "-lzmq"], check=True)
    settings = {"loadmodule": other, "enable-module-command": "local"}
    with LocalServer(settings, BUILD / "bin" / "redis-server-stock") as server:
        server.client.module_load(str(MODULE))
        if samples:
            server.client.config_set("spreds.endpoint", f"ipc://{tmp_path}/nobody")
            server.client.config_set("spreds.endpoint", "")

        def gone() -> bool:
            with suppress(redis.ResponseError):  # it cannot go while its timer runs
                server.client.module_unload("spreds")
            return len(server.client.module_list()) == 1

        wait_until(gone, server.client.module_list)
        assert server.client.execute_command("other.go") == b"alive"
        assert server.client.ping()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter has x86-64's numbers")
def test_that_service_is_ended_by_such_a_call() -> None:
    """Else the test above would say nothing."""
    command = [sys.executable, restricted.__file__, sys.executable, "-c"]
    call = "import os; os.sched_setaffinity(0, os.sched_getaffinity(0))"
    assert subprocess.run([*command, call], check=False).returncode == -signal.SIGSYS
    assert (
        subprocess.run([*command, "import os; os.sched_getaffinity(0)"], check=False).returncode
        == 0
    )


@pytest.mark.parametrize("server", PATCHED, ids=lambda server: server.name)
def test_only_the_server_is_linked_with_zeromq(server: SupportedServer) -> None:
    source = BUILD / "tree" / server.name / "src"
    package = server.package
    if not source.exists():
        pytest.skip(f"{server.name} is not built")
    for program, is_linked in (("cli", False), ("benchmark", False), ("server", True)):
        name = f"{package}-{program}"
        make = ["make", "-n", "-W", f"{package}-cli.o", "-W", f"{package}-benchmark.o", "-W"]
        plan = subprocess.run(
            [*make, "server.o", "BUILD_TLS=no", "USE_SYSTEMD=no", "MALLOC=jemalloc", name],
            cwd=source,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        (line,) = (line for line in plan.splitlines() if f"-o {name} " in line)
        assert ("-lzmq" in line) == is_linked, line
