"""What a server does beside serving: it follows another, saves, and loads."""

from __future__ import annotations

import signal
from functools import partial
from typing import Any

import redis

from workloads.experiment.faults.rows.row import RowFailedError, Rows
from workloads.experiment.faults.rows.server_rows import STARTS
from workloads.experiment.faults.rows.sidecar_rows import swap, swap_and_wait
from workloads.experiment.faults.stage.node import BUDGET_MIB, WAIT_SECONDS
from workloads.experiment.faults.stage.node_servers import NodeServer
from workloads.experiment.faults.stage.sightings import GAP_SECONDS
from workloads.experiment.faults.stage.stage import FaultStage
from workloads.experiment.faults.stage.waiting import wait_for
from workloads.local_server import LocalServer, built, free_port
from workloads.processes import running_command

ROWS = Rows()


@ROWS.add("server: a replica attached", "a replica follows the server that shrinks and grows")
def _replica_attached(stage: FaultStage) -> None:
    swap_and_wait(stage)
    port = free_port()
    first = stage.servers[0]
    first.ask("CONFIG SET", "port", port)
    with LocalServer({"replicaof": f"127.0.0.1 {port}"}) as replica:
        if not wait_for(
            lambda: replica.client.info("replication")["master_link_status"] == "up", WAIT_SECONDS
        ):
            raise RowFailedError("the replica does not come up")
        swap_and_wait(stage)
        swap_and_wait(stage)


@ROWS.add(
    "server: becomes a replica, and back",
    "one follows another for 3 s while memory is to move; then the other way round",
)
def _becomes_replica(stage: FaultStage) -> None:
    port = free_port()
    stage.servers[1].ask("CONFIG SET", "port", port)
    stage.servers[0].ask("REPLICAOF", "127.0.0.1", port)
    swap(stage)
    stage.wait(3.0)
    stage.servers[0].ask("REPLICAOF", "NO", "ONE")
    # And the other way round, as after a failover.
    port = free_port()
    stage.servers[0].ask("CONFIG SET", "port", port)
    stage.servers[1].ask("REPLICAOF", "127.0.0.1", port)
    swap(stage)
    stage.wait(3.0)
    stage.servers[1].ask("REPLICAOF", "NO", "ONE")


_SENTINEL = """
port {port}
dir {folder}
sentinel monitor pair 127.0.0.1 {first} 1
sentinel down-after-milliseconds pair 500
sentinel failover-timeout pair 3000
"""
_FAILOVERS = 10


@ROWS.add(
    "server: Sentinel fails over",
    "one follows another, whose own file has less than that holds; by command and by kill -9, in "
    "turn: who is promoted keeps nine tenths of its keys at least, whatever plans take",
    gap=STARTS,
    bound_seconds=GAP_SECONDS,
)
def _sentinel_fails_over(stage: FaultStage) -> None:
    # Plans go on, by which a primary keeps nearly all that it has.
    stage.plan(1, 1, 1)
    stage.converge()
    pair, ports = stage.servers[:2], [free_port(), free_port()]
    for server, port in zip(pair, ports, strict=True):
        server.ask("CONFIG SET", "port", port)
        file = server.local.folder / "redis.conf"
        file.write_text(f"{file.read_text()}port {port}\n")
    pair[1].ask("REPLICAOF", "127.0.0.1", ports[0])
    file, sentinel = stage.folder / "sentinel.conf", free_port()
    file.write_text(_SENTINEL.format(port=sentinel, folder=stage.folder, first=ports[0]))
    command = [str(built("bin/redis-server")), str(file), "--sentinel"]
    with running_command(command, stage.folder / "sentinel.log", signal.SIGTERM):
        for turn in range(_FAILOVERS):
            _fail_over(stage, turn, sentinel)
    for server in pair:
        # Sentinel ends the connections of whom it turns: then nothing was done.
        wait_for(partial(server.ask, "REPLICAOF", "NO", "ONE"), WAIT_SECONDS)


def _fail_over(stage: FaultStage, turn: int, sentinel: int) -> None:
    """Fail over from one of the first two servers to the other."""
    old, new = stage.servers[turn % 2], stage.servers[1 - turn % 2]

    def replication(server: NodeServer) -> dict[str, Any]:
        return dict(server.ask("INFO", "replication") or {})

    def follows() -> bool:
        """Whether it is in step, with a size that holds what it has."""
        said = replication(new)
        used = int((new.ask("INFO", "memory") or {}).get("used_memory", 0))
        in_step = said.get("role") == "slave" and said.get("master_link_status") == "up"
        return in_step and used < (new.maxmemory_bytes() or 0)

    if not wait_for(follows, WAIT_SECONDS):
        raise RowFailedError(f"{new.name} does not follow, or has less than it uses")
    keys = int(new.ask("DBSIZE"))
    if turn % 2:
        stage.kill_server(stage.servers.index(old))
    else:
        with redis.Redis(port=sentinel) as client:
            wait_for(lambda: client.execute_command("SENTINEL CKQUORUM pair"), WAIT_SECONDS)
            client.execute_command("SENTINEL FAILOVER pair")
    if not wait_for(lambda: replication(new).get("role") == "master", WAIT_SECONDS):
        raise RowFailedError(f"{new.name} was not promoted")
    stage.wait(1.0)
    wait_for(lambda: new.ask("PING"), WAIT_SECONDS)
    if (left := int(new.ask("DBSIZE"))) < 0.9 * keys:
        raise RowFailedError(f"{new.name} was promoted with {keys} keys, and has {left}")
    if turn % 2:
        stage.start_server(stage.servers.index(old), BUDGET_MIB / len(stage.servers))


@ROWS.add("server: BGSAVE under a shrink", "a slow BGSAVE of the one that shrinks")
def _saving(stage: FaultStage) -> None:
    swap_and_wait(stage)
    first = stage.servers[0]
    first.ask("CONFIG SET", "rdb-key-save-delay", 300)
    first.ask("BGSAVE")
    swap(stage)
    stage.wait(3.0)
    first.ask("CONFIG SET", "rdb-key-save-delay", 0)


@ROWS.add(
    "server: loading",
    "one restarts with 24 of 48 MiB and loads for seconds",
    gap=STARTS,
    bound_seconds=GAP_SECONDS,
)
def _loading(stage: FaultStage) -> None:
    first = stage.servers[0]
    first.ask("SAVE")
    stage.kill_server(0)
    file = first.local.folder / "redis.conf"
    text = file.read_text()
    file.write_text(f"{text}key-load-delay 500\nloading-process-events-interval-bytes 1024\n")
    swap(stage)
    stage.start_server(0, 24)  # returns when it has loaded
    file.write_text(text)
    first.ask("CONFIG SET", "key-load-delay", 0)
