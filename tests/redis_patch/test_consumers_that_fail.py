"""A consumer that is absent, stalled or killed: the server answers, drops and counts."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import redis

from tests.redis_patch.consumer_process import Consumer, consumer_of, wait_for_batches
from tests.redis_patch.sampled_server import MODULUS, SALT, SampledServer
from tests.redis_patch.wire_twin import batch_number
from workloads.local_node import wait_until

KEYS = [f"key:{number}" for number in range(1000)]
MISSES = 1000  # of one answer() below: about a batch of records
QUEUE_BATCHES = 32  # TRANSPORT_QUEUE_BATCHES
# The query and reply buffers of the test's own client, which the server resizes as it likes; one
# queue more than there should be would be 32 batches of 16 KiB.
CLIENT_BUFFERS_BYTES = 64 << 10
MAY_WAIT_BATCHES = QUEUE_BATCHES + 20  # and in the kernel's buffer of the socket


def answer(server: SampledServer, times: int = 1) -> None:
    """``times`` commands of a thousand reads each, and each is answered."""
    for _ in range(times):
        assert server.client.touch(*KEYS) == 0


def drop_some(server: SampledServer) -> None:
    """Read until records are dropped: the queue is full, or nobody is there."""
    before = server.counters()["dropped"]

    def dropping() -> bool:
        answer(server)
        return bool(server.counters()["dropped"] > before)

    wait_until(dropping, server.counters, pause_seconds=0)


def is_taken_up(server: SampledServer, consumer: Consumer) -> bool:
    """Whether all that was made has come, and what is made now comes without a loss."""
    dropped = server.counters()["dropped"]
    answer(server)
    wait_until(
        lambda: consumer.batches()[-1].header["sampled"] == server.counters()["sampled"],
        server.counters,
    )
    return server.counters()["dropped"] == dropped


def anonymous_bytes(server: SampledServer) -> int:
    """Resident memory that no file holds, whatever allocated it."""
    rollup = Path(f"/proc/{server.server.process.pid}/smaps_rollup").read_text()
    fields = [line.split() for line in rollup.splitlines()[1:]]
    return 1024 * sum(int(field[1]) for field in fields if field[0] == "Anonymous:")


def used_memory(server: SampledServer) -> int:
    return int(server.client.info("memory")["used_memory"])


def gaps(consumer: Consumer) -> int:
    """Batches that are missing between the first and the last; none may come twice."""
    sequences = [int(batch.header["sequence"]) for batch in consumer.batches()]
    assert all(earlier < later for earlier, later in itertools.pairwise(sequences))
    return sequences[-1] - sequences[0] + 1 - len(sequences)


def assert_all_accounted_for(server: SampledServer, consumer: Consumer) -> None:
    """Each record made has arrived or is counted as dropped, and each gap is a dropped batch."""

    def counted() -> bool:
        counters = server.counters()
        return bool(consumer.records() + counters["dropped"] == counters["sampled"])

    wait_until(counted, lambda: (consumer.records(), server.counters()))
    # The last ones may have been dropped: what comes after them shows the gap.
    answer(server)
    wait_until(counted, lambda: (consumer.records(), server.counters()))
    # Before its first one batches were dropped, or lost with the listener that was there before.
    assert gaps(consumer) == server.counters()["batches_dropped"] - consumer.dropped_before


def test_a_stalled_consumer_costs_its_queue_and_no_more(server: SampledServer) -> None:
    with consumer_of(server) as consumer:
        answer(server, 100)
        memory_connected, used_connected = anonymous_bytes(server), used_memory(server)
        consumer.stall()
        drop_some(server)
        memory_full, used_full, before = (
            anonymous_bytes(server),
            used_memory(server),
            server.counters(),
        )

        answer(server, 10 * QUEUE_BATCHES)

        after = server.counters()
        reads = 10 * QUEUE_BATCHES * MISSES
        assert after["seen"] - before["seen"] == reads == after["sampled"] - before["sampled"]
        assert reads - after["dropped"] + before["dropped"] < MAY_WAIT_BATCHES * 1024
        assert anonymous_bytes(server) - memory_full <= 256 << 10
        assert anonymous_bytes(server) - memory_connected <= 1 << 20
        assert used_memory(server) - used_full <= CLIENT_BUFFERS_BYTES
        assert used_memory(server) - used_connected <= CLIENT_BUFFERS_BYTES

        consumer.go_on()
        assert_all_accounted_for(server, consumer)
        assert consumer.batches()[-1].header["dropped"] == server.counters()["dropped"] > 0


def test_what_is_not_sampled_is_counted_all_the_same(server: SampledServer) -> None:
    """With half of the keys: seen = sampled + not, and sampled = received + dropped."""
    with consumer_of(server) as consumer:
        server.set(threshold=MODULUS // 2)
        consumer.stall()
        answer(server)
        half = server.counters()["sampled"]
        assert 400 < half < 600
        drop_some(server)
        consumer.go_on()
        assert_all_accounted_for(server, consumer)
        counters = server.counters()
        assert counters["seen"] == counters["seen_reads"]
        assert counters["seen"] * half == counters["sampled"] * MISSES


def test_a_killed_consumer_is_taken_up_again(server: SampledServer) -> None:
    """The stream goes on in one sequence; only what the dead one held is lost without a count."""
    with consumer_of(server) as consumer:
        answer(server, 10)
        consumer.kill()
        answer(server, 100)
        assert server.counters()["dropped"] > 0
        answers_of_the_dead = len(consumer.batches())
        with Consumer(server.endpoint, consumer.path) as heir:
            wait_for_batches(server, heir)
            # What waits for it, and what comes now, would be more than the queue takes; and what
            # was on its way to the dead one may still be refused.
            wait_until(lambda: is_taken_up(server, heir), server.counters)
            before = server.counters()
            for _ in range(10):  # few enough for the queue, however slow it is to take them
                answer(server, 2)
                wait_until(
                    lambda: heir.batches()[-1].header["sampled"] == server.counters()["sampled"],
                    server.counters,
                )
            after, batches = server.counters(), heir.batches()[answers_of_the_dead:]
            assert after["seen"] - before["seen"] == 20 * MISSES
            assert after["dropped"] == before["dropped"]
            new = [b for b in batches if batch_number(b) >= before["batches"]]
            assert sum(len(batch.records) for batch in new) >= 20 * MISSES
            lost = gaps(heir) + batch_number(heir.batches()[0])
            kept_for_the_dead = lost - after["batches_dropped"]
            assert 0 <= kept_for_the_dead <= MAY_WAIT_BATCHES


def test_killed_while_it_was_stalled(server: SampledServer) -> None:
    with consumer_of(server) as consumer:
        consumer.stall()
        drop_some(server)
        consumer.kill()
        answer(server, 10)
        with Consumer(server.endpoint, consumer.path) as heir:
            wait_for_batches(server, heir)
            answer(server, 10)
            sampled = server.counters()["sampled"]
            wait_until(lambda: heir.batches()[-1].header["sampled"] >= sampled, server.counters)
            assert gaps(heir) > 0


def test_a_server_ends_while_its_consumer_is_stalled(server: SampledServer) -> None:
    """What is queued is lost; nothing waits for it to be sent."""
    with consumer_of(server) as consumer:
        consumer.stall()
        drop_some(server)
        with suppress(redis.ConnectionError):
            server.client.shutdown(nosave=True)
        assert server.server.process.wait(20) == 0


def absent_folder(folder: Path) -> str:
    return f"ipc://{folder}/none/samples"


def forbidden_folder(folder: Path) -> str:
    (folder / "forbidden").mkdir(mode=0o000)
    return f"ipc://{folder}/forbidden/samples"


def regular_file(folder: Path) -> str:
    (folder / "file").write_text("not a socket")
    return f"ipc://{folder}/file"


def file_as_a_folder(folder: Path) -> str:
    return f"{regular_file(folder)}/samples"


def full_device(folder: Path) -> str:
    return "ipc:///dev/full"


def closed_port(folder: Path) -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    return f"tcp://127.0.0.1:{port}"


PLACES: list[Callable[[Path], str]] = [
    absent_folder,
    forbidden_folder,
    regular_file,
    file_as_a_folder,
    full_device,
    closed_port,
]


def test_where_nobody_listens_all_is_dropped(server: SampledServer) -> None:
    memory = 0
    for place in PLACES:
        server.set(threshold=MODULUS, modulus=MODULUS, salt=SALT, endpoint=place(server.folder))
        answer(server, 2 * QUEUE_BATCHES)
        memory = memory or anonymous_bytes(server)
    assert anonymous_bytes(server) - memory <= 256 << 10
    assert server.counters()["seen"] == len(PLACES) * 2 * QUEUE_BATCHES * MISSES
    wait_until(
        lambda: server.counters()["sampled"] == server.counters()["dropped"], server.counters
    )
    assert server.counters()["batches"] == server.counters()["batches_dropped"]


def test_a_consumer_that_comes_late_is_found(server: SampledServer) -> None:
    """Its folder does not exist at first: the file system was not mounted yet."""
    folder = server.folder / "late"
    server.set(threshold=MODULUS, modulus=MODULUS, salt=SALT, endpoint=f"ipc://{folder}/samples")
    answer(server, 10)
    folder.mkdir()
    with Consumer(f"ipc://{folder}/samples", folder / "received") as consumer:
        wait_for_batches(server, consumer)
        answer(server)
        assert_all_accounted_for(server, consumer)
        assert consumer.batches()[0].header["dropped"] == 10 * MISSES


GREETINGS = [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 4096]


def test_a_stranger_at_the_endpoint_is_in_nobodys_way(server: SampledServer) -> None:
    """What listens does not speak ZeroMQ: it costs no more than a stalled consumer."""
    for number, greeting in enumerate(GREETINGS):
        path = server.folder / f"stranger{number}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            listener.settimeout(20)
            server.set(threshold=MODULUS, modulus=MODULUS, salt=SALT, endpoint=f"ipc://{path}")
            connection, _ = listener.accept()
            with connection:
                connection.sendall(greeting)
                drop_some(server)
                memory = anonymous_bytes(server)
                answer(server, 2 * QUEUE_BATCHES)
                assert anonymous_bytes(server) - memory <= 1 << 20
    server.start()  # and to the right one at once
    sampled = server.counters()["sampled"]
    answer(server)

    def arrived() -> bool:
        server.receive()
        return bool(server.batches[-1].header["sampled"] == sampled + MISSES)

    wait_until(arrived, server.counters)
