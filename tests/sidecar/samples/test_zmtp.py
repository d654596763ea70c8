"""What strangers send to the samples' endpoint: the protocol, and bounds on connections."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.base.metrics import Metrics
from sidecar.samples import connection as one_connection
from sidecar.samples import connections
from sidecar.samples.endpoint import bind_endpoint
from sidecar.samples.receiver import MOST_STRANGERS, SampleReceiver
from sidecar.samples.wire_format import MAX_BATCH_BYTES
from sidecar.samples.zmtp import GREETING, ZmtpError, ZmtpReader
from tests.examples import examples
from workloads.experiment.attacks.stage.connections import ZmtpPeer, connected
from workloads.local_node import wait_until

Refused = Callable[[str], int]
PUSH = b"\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH\x08Identity\x00\x00\x00\x00"
BEGIN = GREETING + bytes([4, len(PUSH)]) + PUSH


def short(body: bytes, flags: int = 0) -> bytes:
    return bytes([flags, len(body)]) + body


def long(body: bytes, flags: int = 2) -> bytes:
    return bytes([flags]) + len(body).to_bytes(8, "big") + body


def read(parts: Sequence[bytes], most_bytes: int = 100) -> tuple[list[bytes], str | None, bytes]:
    """Messages, the reason of an error, and all that is answered."""
    reader = ZmtpReader(most_bytes)
    found = []
    try:
        for part in parts:
            reader.feed(part)
            while (message := reader.message()) is not None:
                found.append(message)
    except ZmtpError as error:
        return found, error.reason, bytes(reader.to_send)
    return found, None, bytes(reader.to_send)


def test_messages_of_one_frame_and_heartbeats() -> None:
    ping = short(b"\x04PING\x00\x0acontext", 4)
    sent = BEGIN + short(b"one") + ping + long(b"x" * 100) + short(b"")
    found, reason, answered = read([sent])
    assert (found, reason) == ([b"one", b"x" * 100, b""], None)
    assert answered.startswith(GREETING)
    assert answered.endswith(short(b"\x04PONGcontext", 4))


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", "handshake"),
        (GREETING[:10] + b"\x01" + GREETING[11:], "handshake"),
        (GREETING[:12] + b"CURVE".ljust(20, b"\0") + GREETING[32:], "handshake"),
        (GREETING + short(b"early"), "handshake"),
        (GREETING + short(PUSH.replace(b"PUSH", b"PULL"), 4), "handshake"),
        (GREETING + short(b"\x05READY", 4), "handshake"),
        (GREETING + short(PUSH[:-3], 4), "handshake"),
        (GREETING + short(b"\x05READY\xff", 4), "handshake"),
        (GREETING + short(b"", 4), "commands"),
        (BEGIN + short(PUSH, 4), "commands"),
        (BEGIN + short(b"\x09SUBSCRIBE", 4), "commands"),
        (BEGIN + short(b"\x04PING\x00\x0a" + b"x" * 17, 4), "commands"),
        (BEGIN + short(b"\x04PING\x00\x0a", 4) * 17, "commands"),
        (BEGIN + short(b"first", 1), "frames"),
        (BEGIN + long(b"first", 3), "frames"),
        (BEGIN + short(b"x" * 101), "too_long"),
        (BEGIN + b"\x02" + b"\xff" * 8, "too_long"),
        (BEGIN + short(b"", 8), "flags"),
    ],
)
def test_what_no_sampler_sends_is_refused(sent: bytes, reason: str) -> None:
    assert read([sent])[:2] == ([], reason)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=20),
            st.builds(short, st.binary(max_size=40), st.sampled_from([0, 0, 0, 1, 4, 8])),
            st.builds(long, st.binary(max_size=120), st.sampled_from([2, 2, 2, 3, 6])),
        ),
        max_size=8,
    ),
    st.lists(st.integers(1, 60), min_size=1, max_size=60),
)
def test_it_does_not_matter_in_which_parts_it_comes(sent: list[bytes], sizes: list[int]) -> None:
    whole = BEGIN + b"".join(sent)
    parts, at = [], 0
    while at < len(whole):
        size = sizes[len(parts) % len(sizes)]
        parts.append(whole[at : at + size])
        at += size
    assert read(parts) == read([whole])


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/samples"


@pytest.fixture
def receiver(endpoint: str) -> Iterator[SampleReceiver]:
    with bind_endpoint(endpoint, Metrics()) as made:
        yield made


@pytest.fixture
def refused(receiver: SampleReceiver) -> Refused:
    """Return how many connections were ended for a reason, after a look at what has come."""

    def count(reason: str) -> int:
        receiver.receive(0.01)
        return receiver.metrics.value("sample_connections_refused", reason=reason)

    return count


def held(receiver: SampleReceiver) -> int:
    return len(receiver._connections._turn)


def test_strangers_are_few_and_the_oldest_goes_first(
    receiver: SampleReceiver, refused: Refused, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "GRACE_SECONDS", 0.0)
    peers = []
    for _ in range(MOST_STRANGERS + 5):
        peers.append(ZmtpPeer(endpoint))
        receiver.receive(0.01)
    wait_until(lambda: refused("too_many") == 5, receiver.metrics.snapshot)
    assert held(receiver) == MOST_STRANGERS
    assert [peer.is_hung_up() for peer in peers] == [True] * 5 + [False] * MOST_STRANGERS


def test_a_stranger_has_a_moment_before_the_next_one_takes_its_place(
    receiver: SampleReceiver, refused: Refused, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "GRACE_SECONDS", 3600.0)
    peers = [ZmtpPeer(endpoint) for _ in range(MOST_STRANGERS + 1)]
    wait_until(lambda: refused("too_many") == 1, receiver.metrics.snapshot)
    assert [peer.is_hung_up() for peer in peers] == [False] * MOST_STRANGERS + [True]


def test_who_shows_no_secret_for_long_is_hung_up_on(
    receiver: SampleReceiver, refused: Refused, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.1)
    peer, bare = ZmtpPeer(endpoint), connected(endpoint)
    wait_until(lambda: refused("silent") == 2, receiver.metrics.snapshot)
    assert peer.is_hung_up()
    assert held(receiver) == 0
    bare.close()


def test_of_a_stranger_little_is_read(
    receiver: SampleReceiver, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nobody asks for messages; then it goes on."""
    monkeypatch.setattr(one_connection, "STRANGERS_BYTES", MAX_BATCH_BYTES)
    flood = connected(endpoint, 0.2)
    wait_until(lambda: receiver.receive(0.01) or held(receiver), receiver.metrics.snapshot)
    (connection,) = receiver._connections._turn
    sent = 0
    with suppress(TimeoutError):
        while sent < 1 << 20:
            sent += flood.send(b"\xff" * 65536)
    assert connection.room_bytes == 0
    assert sent < 1 << 20
    wait_until(
        lambda: (
            receiver.receive(0.01)
            or receiver.metrics.value("sample_connections_refused", reason="handshake")
        ),
        receiver.metrics.snapshot,
    )
    flood.close()


def test_without_descriptors_the_others_are_heard_and_it_is_tried_again(
    receiver: SampleReceiver, refused: Refused, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "GRACE_SECONDS", 0.3)
    listening = receiver._connections._listening

    class Full:
        """The kernel says so; a limit of the process would hold for the tests' own files."""

        def __getattr__(self, name: str) -> object:
            return getattr(listening, name)

        def accept(self) -> tuple[socket.socket, object]:
            raise OSError(24, "Too many open files")

    receiver._connections._listening = Full()  # type: ignore[assignment]
    peer = ZmtpPeer(endpoint)
    wait_until(lambda: refused("accept") == 1, receiver.metrics.snapshot)
    assert refused("accept") == 1  # not at each turn of the loop
    receiver._connections._listening = listening
    wait_until(lambda: receiver.receive(0.01) or held(receiver) == 1, receiver.metrics.snapshot)
    assert not peer.is_hung_up()
