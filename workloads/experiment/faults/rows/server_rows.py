"""What befalls a server's process, and who else has a say there."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from workloads.experiment.faults.rows.row import RowFailedError, Rows
from workloads.experiment.faults.rows.sidecar_rows import swap, swap_and_wait
from workloads.experiment.faults.stage.node import MIB, WAIT_SECONDS
from workloads.experiment.faults.stage.node_servers import USER
from workloads.experiment.faults.stage.sightings import GAP_SECONDS
from workloads.experiment.faults.stage.stage import FaultStage
from workloads.experiment.faults.stage.waiting import wait_for

ROWS = Rows()

STARTS = "starts with its own file's size"


@ROWS.add(
    "server: restarts without a limit",
    "the same with no maxmemory in its file",
    0,
    gap=STARTS,
    bound_seconds=GAP_SECONDS,
    says=("restarted",),
)
@ROWS.add(
    "server: restarts larger",
    "each server is killed and starts with 24 of 48 MiB in its own file",
    24,
    gap=STARTS,
    bound_seconds=GAP_SECONDS,
    says=("restarted",),
)
def _restart(stage: FaultStage, mebibytes: float) -> str:
    for server in range(len(stage.servers)):
        stage.kill_server(server)
        stage.start_server(server, mebibytes)
        stage.recover()
    return f"{len(stage.servers)} times"


@ROWS.add(
    "server: restarts larger, another hangs",
    "one hangs (SIGSTOP), another is killed and starts with 24 of 48 MiB",
    gap=STARTS,
    bound_seconds=GAP_SECONDS,
    says=("out of reach",),
    quick=True,
)
def _restart_while_another_hangs(stage: FaultStage) -> None:
    stage.hang_server(0)
    stage.wait(1.5)
    stage.kill_server(2)
    stage.start_server(2, 24)
    stage.wait(3.0)
    stage.wake_server(0)


@ROWS.add(
    "server: SIGSTOP of each",
    "each hangs for 2.5 s in a swap",
    says=("out of reach", "answers again"),
)
def _hang_each(stage: FaultStage) -> None:
    for server in range(len(stage.servers)):
        swap(stage)
        stage.wait(0.8)
        stage.hang_server(server)
        stage.wait(2.5)
        stage.recover()


@ROWS.add(
    "server: stays down",
    "one is killed and does not come back for 3 s, while memory is to move",
    gap=STARTS,
    bound_seconds=GAP_SECONDS,
    says=("out of reach",),
)
def _stay_down(stage: FaultStage) -> None:
    stage.kill_server(0)
    swap(stage)
    stage.wait(3.0)


@ROWS.add(
    "server: noeviction in between",
    "the policy of the one that is to shrink becomes noeviction, for 3 s",
    quick=True,
)
def _without_eviction(stage: FaultStage) -> None:
    swap_and_wait(stage)
    stage.policy(0, "noeviction")  # it has the most, and is to give it
    swap(stage)
    stage.wait(3.0)


@ROWS.add("server: flapping policy", "its policy changes 30 times in 3 s of a swap")
def _flapping_policy(stage: FaultStage) -> None:
    swap(stage)
    for number in range(30):
        stage.policy(0, "noeviction" if number % 2 == 0 else "allkeys-lru")
        stage.wait(0.1)


@ROWS.add(
    "server: set by hand beyond the budget",
    "somebody sets 96 of 48 MiB: it is put back",
    96,
    gap="was set by hand",
    bound_seconds=GAP_SECONDS,
    says=("put back",),
)
@ROWS.add(
    "server: set by hand",
    "somebody sets 24 MiB: it holds, and the others make room; then resume",
    24,
    gap="was set by hand",
    bound_seconds=GAP_SECONDS,
    says=("by hand",),
)
def _by_hand(stage: FaultStage, mebibytes: float) -> None:
    stage.set_by_hand(0, mebibytes)
    stage.wait(3.0)


@ROWS.add(
    "server: client buffers in a shrink",
    "12 MiB of buffers on a server that is to shrink to 5 MiB, for 6 s",
)
def _buffers(stage: FaultStage) -> None:
    swap_and_wait(stage)
    stage.pin(0, 12)
    swap(stage)
    stage.wait(6.0)


@ROWS.add("server: one value in a shrink", "it has one value of 8 MiB, and is to shrink to 5 MiB")
def _one_value(stage: FaultStage) -> None:
    swap_and_wait(stage)
    first = stage.servers[0]
    first.ask("FLUSHALL")
    first.ask("SET", "large", b"x" * (8 * MIB))
    swap(stage)
    stage.wait(2.0)


@ROWS.add(
    "server: maxclients reached",
    "the sidecar's connection is killed, and others take all that there are, for 3 s",
    says=("out of reach",),
)
def _no_more_clients(stage: FaultStage) -> None:
    first = stage.servers[0]
    first.ask("CONFIG SET", "maxclients", 20)
    with ExitStack() as stack:
        for client in first.ask("CLIENT LIST") or []:
            if client["user"] == USER:
                first.ask("CLIENT KILL", "ID", client["id"])
        for _ in range(40):
            one = stack.enter_context(socket.socket(socket.AF_UNIX))
            one.connect(str(first.path))
        swap(stage)
        stage.wait(3.0)
    first.ask("CONFIG SET", "maxclients", 10000)


@ROWS.add(
    "server: CONFIG renamed",
    "one restarts without CONFIG for 3 s: it is left alone, the others go on",
    gap=STARTS,
    bound_seconds=GAP_SECONDS,
    says=("out of reach",),
)
def _renamed_config(stage: FaultStage) -> None:
    first = stage.servers[0]
    file = first.local.folder / "redis.conf"
    text = file.read_text()
    stage.kill_server(0)
    file.write_text(f'{text}rename-command CONFIG ""\n')
    stage.start_server(0, 16)
    swap(stage)
    stage.wait(3.0)
    stage.kill_server(0)
    file.write_text(text)
    stage.start_server(0, 16)


@ROWS.add(
    "server: CONFIG REWRITE in a shrink",
    "its file gets what a shrink has set; it is killed and starts with that",
    gap=STARTS,
    bound_seconds=GAP_SECONDS,
)
def _config_rewrite_in_a_shrink(stage: FaultStage) -> None:
    swap_and_wait(stage)
    first = stage.servers[0]
    stage.pin(0, 12)
    swap(stage)
    if not wait_for(lambda: (first.shrink_knobs() or {}).get("hz") == "500", WAIT_SECONDS):
        raise RowFailedError("it did not come into a shrink")
    first.ask("CONFIG REWRITE")
    first.kill()
    stage.gaps.offend(f"{first.name} {STARTS}")
    first.local._start()
