"""What befalls the words between sidecar and server."""

from __future__ import annotations

from collections.abc import Callable

from workloads.experiment.faults.rows.row import RowFailedError, Rows
from workloads.experiment.faults.rows.sidecar_rows import swap, swap_and_wait
from workloads.experiment.faults.stage.stage import FaultStage

ROWS = Rows()

# CONFIG SETs of a swap on the server that shrinks: into shrink mode, the size, out of it.
MOST_SETS = 4
FLOOD_BYTES = 32 << 20


def _at_each_set(stage: FaultStage, fault: str, most: int = MOST_SETS) -> str:
    """Make each CONFIG SET to the two servers that move meet ``fault``, in a swap each."""
    befell = 0
    for number in range(1, most + 1):
        for server in stage.servers[:2]:
            assert server.proxy is not None
            server.proxy.at_set = {number: fault}
        swap_and_wait(stage)
        for place, server in enumerate(stage.servers[:2]):
            assert server.proxy is not None
            befell += len(server.proxy.done)
            server.proxy.done.clear()
            stage.pass_replies(place)
    if not befell:
        raise RowFailedError("it did not befall any CONFIG SET")
    return f"befell {befell} of them"


@ROWS.add(
    "CONFIG SET: never answered",
    "of the server that shrinks, each is carried out and none answered, for 4 s",
    "hangs",
    says=("out of reach",),
)
def _always(stage: FaultStage, fault: str) -> None:
    first = stage.servers[0]
    assert first.proxy is not None
    swap_and_wait(stage)
    first.proxy.at_set = {0: fault}
    swap(stage)
    stage.wait(4.0)


@ROWS.add(
    "CONFIG SET: no right",
    "the sidecar's user loses it on the server that shrinks, for 3 s",
    says=("keeps its size",),
    quick=True,
)
def _without_right(stage: FaultStage) -> None:
    swap_and_wait(stage)
    stage.refuse(0)
    swap(stage)
    stage.wait(3.0)


@ROWS.add(
    "CONFIG SET: said and not done",
    "of the server that shrinks, each new maxmemory is answered with OK and ignored, for 4 s",
    says=("says OK to CONFIG SET maxmemory",),
    quick=True,
)
def _ignored(stage: FaultStage) -> None:
    first = stage.servers[0]
    assert first.proxy is not None
    swap_and_wait(stage)
    first.proxy.lie = lambda command: (
        b"+OK\r\n" if b"SET\r\n$9\r\nmaxmemory\r\n" in command else None
    )
    swap(stage)
    stage.wait(4.0)


@ROWS.add(
    "network: 1.5 s late", "the same, more than the sidecar waits", 1.5, says=("out of reach",)
)
@ROWS.add("network: 0.3 s late", "each reply of one server, for 4 s", 0.3)
def _late(stage: FaultStage, seconds: float) -> None:
    stage.delay(0, seconds)
    swap(stage)
    stage.wait(4.0)


@ROWS.add("network: stays 0.3 s late", "the same, later than the sidecar waits for", 0.3)
@ROWS.add(
    "network: stays 0.15 s late",
    "each reply of one server, from then on; it shrinks and grows all the same",
    0.15,
    quick=True,
)
def _stays_late(stage: FaultStage, seconds: float) -> str:
    stage.delay(0, seconds)
    for _ in range(2):
        swap_and_wait(stage)
    return "resized while it was late"


@ROWS.add("network: mute", "no reply of one server arrives, for 3 s", says=("out of reach",))
def _mute(stage: FaultStage) -> None:
    swap(stage)
    stage.wait(0.7)
    stage.drop_replies(0)
    stage.wait(3.0)


def _lies(stage: FaultStage, lie: Callable[[bytes], bytes | None]) -> None:
    first = stage.servers[0]
    assert first.proxy is not None
    stage.gaps.trouble(f"{first.name}'s replies are late or lost")
    swap(stage)
    stage.wait(0.5)
    first.proxy.lie = lie
    stage.wait(4.0)


@ROWS.add("wrong replies: a flood", "one server answers with 32 MiB, for 4 s of a swap")
def _flood(stage: FaultStage) -> None:
    text = _bulk(b"x" * FLOOD_BYTES)
    _lies(stage, lambda command: text if b"INFO" in command else None)


def _bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def _huge_info(command: bytes) -> bytes | None:
    if b"INFO" not in command:
        return None
    number = b"9" * 30
    names = (b"used_memory", b"used_memory_rss", b"maxmemory", b"mem_clients_normal", b"process_id")
    return _bulk(b"# all\r\n" + b"".join(b"%b:%b\r\n" % (name, number) for name in names))


LIES: dict[str, tuple[str, Callable[[bytes], bytes | None]]] = {
    "garbage": ("bytes that are no RESP", lambda _: b"\xff\x00garbage\r\n\r\n"),
    "a number": ("a number to each question", lambda _: b":42\r\n"),
    "nothing": ("nil to each question", lambda _: b"$-1\r\n"),
    "a deep list": ("lists in lists, 200 deep", lambda _: b"*1\r\n" * 200 + b":1\r\n"),
    "a long promise": ("a length of a TiB, and nothing after it", lambda _: b"$1099511627776\r\n"),
    "huge numbers": ("an INFO with numbers of 30 digits", _huge_info),
    "an empty INFO": (
        "an INFO that says nothing",
        lambda command: _bulk(b"") if b"INFO" in command else None,
    ),
}

for _fault, _does in {
    "refused": "answered with an error",
    "lost": "does not arrive, and the connection ends",
    "cut": "arrives, and the connection ends before the reply",
    "hangs": "arrives, and no reply comes",
    "late": "the reply is 0.7 s late",
}.items():
    _words = f"{_does}, the first to the fourth of each server that moves"
    _is_quick = _fault in ("hangs", "lost")
    ROWS.add(f"CONFIG SET: {_fault}", _words, _fault, quick=_is_quick)(_at_each_set)
for _name, (_does, _lie) in LIES.items():
    _words = f"one server answers with {_does}, for 4 s of a swap"
    ROWS.add(f"wrong replies: {_name}", _words, _lie, says=("server a",))(_lies)
