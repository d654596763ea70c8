"""Knobs that change while the consumer is stalled: the very next access goes by the new ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.redis_patch.consumer_process import consumer_of
from tests.redis_patch.sampled_server import MODULUS, SALT, SampledServer, ServerKind
from tests.redis_patch.test_consumers_that_fail import KEYS, answer, drop_some
from tests.redis_patch.wire_twin import Batch, key_hash, salt_id
from workloads.local_node import wait_until

OTHER_SALT = 0xBADCAFE
CHANGES: list[dict[str, int]] = [
    {"threshold": MODULUS // 2},
    {"threshold": 3, "modulus": 8},
    {"salt": OTHER_SALT},
    {"threshold": 1 << 19, "modulus": 1 << 20, "salt": SALT},
    {"threshold": 0},
    {"threshold": 1 << 20},
]


def taken(knobs: dict[str, int]) -> int:
    """Return how many of the keys are sampled."""
    hashes = (key_hash(key.encode(), knobs["salt"]) for key in KEYS)
    return sum(value % knobs["modulus"] < knobs["threshold"] for value in hashes)


def header_fits(batch: Batch, knobs: dict[str, int]) -> bool:
    header = batch.header
    return (header["threshold"], header["modulus"], header["salt_id"]) == (
        knobs["threshold"],
        knobs["modulus"],
        salt_id(knobs["salt"]),
    )


def test_rate_and_salt(server: SampledServer) -> None:
    in_force = {"threshold": MODULUS, "modulus": MODULUS, "salt": SALT}
    with consumer_of(server) as consumer:
        consumer.stall()
        drop_some(server)
        for change in CHANGES:
            in_force |= change
            before = server.counters()["sampled"]
            server.set(**change)
            answer(server)
            assert server.counters()["sampled"] - before == taken(in_force)
        consumer.go_on()
        wait_until(lambda: header_fits(consumer.batches()[-1], in_force), server.counters)
        server.set(threshold=MODULUS // 32)  # of the last modulus
        in_force["threshold"] = MODULUS // 32
        before = server.counters()["sampled"]
        answer(server)
        sampled = server.counters()["sampled"]
        assert sampled - before == taken(in_force)
        wait_until(lambda: consumer.batches()[-1].header["sampled"] == sampled, server.counters)
        assert header_fits(consumer.batches()[-1], in_force)


def listen_elsewhere(server: SampledServer) -> None:
    server.stop_listening()
    server.batches.clear()
    server.endpoint += "-elsewhere"
    server.listen()


def received(server: SampledServer) -> int:
    server.receive()
    return sum(len(batch.records) for batch in server.batches)


def test_endpoint(server: SampledServer) -> None:
    """The new consumer gets what happens from now on, the stalled one nothing more."""
    with consumer_of(server) as consumer:
        consumer.stall()
        drop_some(server)
        listen_elsewhere(server)
        server.start()
        first = server.batches[0].header["sequence"]
        answer(server, 3)
        wait_until(lambda: received(server) == 3 * len(KEYS), server.counters)
        consumer.go_on()
        assert all(batch.header["sequence"] < first for batch in consumer.batches())  # type: ignore[operator]
        sampled = server.counters()["sampled"]
        server.set(endpoint="")
        answer(server)
        assert (server.counters()["on"], server.counters()["sampled"]) == (0, sampled)


def open_files(server: SampledServer) -> int:
    return len(os.listdir(f"/proc/{server.server.process.pid}/fd"))


def threads(server: SampledServer) -> list[str]:
    names = Path(f"/proc/{server.server.process.pid}/task").glob("*/comm")
    return [name for name in (path.read_text() for path in names) if "ZMQ" in name]


def test_many_changes_of_the_endpoint_leave_nothing_behind(server: SampledServer) -> None:
    with consumer_of(server) as consumer:
        consumer.stall()
        drop_some(server)
        files = open_files(server)
        for number in range(300):
            server.set(endpoint=f"{server.endpoint}-{number % 3}")
            if number % 50 == 0:
                answer(server, 20)
        server.set(endpoint=server.endpoint)
        wait_until(lambda: open_files(server) <= files + 1, lambda: open_files(server))
        assert len(threads(server)) == 2


def test_a_module_can_be_unloaded(kind: ServerKind) -> None:
    if not kind.is_module:
        pytest.skip("the patch stays")
    settings: dict[str, object] = {"enable-module-command": "yes"}
    with SampledServer(kind, settings) as server, consumer_of(server) as consumer:
        consumer.stall()
        drop_some(server)
        server.client.module_unload("spreds")
        assert not threads(server)
        answer(server)
        server.client.bgsave()
        wait_until(
            lambda: server.client.info("persistence")["rdb_bgsave_in_progress"] == 0,
            server.client.info,
        )
        assert server.client.info("persistence")["rdb_last_bgsave_status"] == "ok"
        sequences: list[int] = []
        for _ in range(2):
            server.client.module_load(str(kind.needs[1]))
            listen_elsewhere(server)
            server.start()
            answer(server)
            wait_until(lambda: received(server) == len(KEYS), server.counters)
            sequences += [int(batch.header["sequence"]) for batch in server.batches]
            server.client.module_unload("spreds")
        assert sequences == sorted(set(sequences))
