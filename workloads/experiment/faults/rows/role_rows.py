"""What a server does beside serving: it follows another, saves, and loads."""

from __future__ import annotations

import socket

from workloads.experiment.faults.rows.row import RowFailedError, Rows
from workloads.experiment.faults.rows.server_rows import STARTS
from workloads.experiment.faults.rows.sidecar_rows import swap, swap_and_wait
from workloads.experiment.faults.stage.node import WAIT_SECONDS
from workloads.experiment.faults.stage.sightings import GAP_SECONDS
from workloads.experiment.faults.stage.stage import FaultStage
from workloads.experiment.faults.stage.waiting import wait_for
from workloads.local_server import LocalServer

ROWS = Rows()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@ROWS.add("server: a replica attached", "a replica follows the server that shrinks and grows")
def _replica_attached(stage: FaultStage) -> None:
    swap_and_wait(stage)
    port = _free_port()
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
    port = _free_port()
    stage.servers[1].ask("CONFIG SET", "port", port)
    stage.servers[0].ask("REPLICAOF", "127.0.0.1", port)
    swap(stage)
    stage.wait(3.0)
    stage.servers[0].ask("REPLICAOF", "NO", "ONE")
    # And the other way round, as after a failover.
    port = _free_port()
    stage.servers[0].ask("CONFIG SET", "port", port)
    stage.servers[1].ask("REPLICAOF", "127.0.0.1", port)
    swap(stage)
    stage.wait(3.0)
    stage.servers[1].ask("REPLICAOF", "NO", "ONE")


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
