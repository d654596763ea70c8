"""A server whose cgroup has less than the budget is given what fits into that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.node import ServerConfig
from sidecar.servers.sizes import own_limits
from sidecar.servers.sizes.own_limits import MARGIN_RATIO, OwnLimits
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.monitored_load import STATS
from workloads.local_node import sidecar_in_thread, wait_until

MIB = 1 << 20
A, B = (ServerConfig(name, "unix:///s", minimum_bytes=MIB) for name in "ab")
NOWHERE = Path("/nowhere")
LIMIT_BYTES = 48 * MIB


@given(
    used=st.integers(0, 80),
    resident=st.integers(8, 100),
    size=st.integers(1, 90),
    copied=st.integers(0, 20),
    limit=st.integers(16, 120),
)
def test_what_fits_leaves_room_for_pages_forks_and_a_margin(
    used: int, resident: int, size: int, copied: int, limit: int
) -> None:
    resident = max(used, resident)
    reading = replace(
        STATS,
        counted_bytes=used * MIB,
        rss_bytes=resident * MIB,
        maxmemory_bytes=size * MIB,
        copied_bytes=copied * MIB,
    )
    (a, b) = OwnLimits(lambda _: (limit * MIB, NOWHERE)).within([A, B], {"a": reading})
    assert b == B
    assert a.maximum_bytes is not None
    if used >= 0.95 * size and resident + min(copied, resident) <= limit:
        assert a.maximum_bytes >= size * MIB  # it is that large, and goes on
    elif a.maximum_bytes > MIB:
        full = used >= max(6, 0.8 * size)
        ratio = max(1.0, (resident - 6) / used) if full else 1.1
        pages = ratio * a.maximum_bytes + (6 + min(copied, resident)) * MIB
        assert pages <= (1 - MARGIN_RATIO) * limit * MIB + ratio
        # And hardly less than that.
        assert pages >= (1 - MARGIN_RATIO) * limit * MIB - 2 * ratio


def test_a_maximum_or_minimum_of_the_operator_counts() -> None:
    limits = OwnLimits(lambda _: (100 * MIB, NOWHERE))
    low, needy = replace(A, maximum_bytes=10 * MIB), replace(A, minimum_bytes=99 * MIB)
    assert limits.within([low, needy], {"a": STATS}) == [
        low,
        replace(needy, maximum_bytes=99 * MIB),
    ]


def test_a_cgroup_of_several_servers_is_no_matter_of_one() -> None:
    """Nor is one of a process that another server says it is: it would take from that."""
    limits = OwnLimits(lambda _: (100 * MIB, NOWHERE))
    assert limits.within([A, B], {"a": STATS, "b": STATS}) == [A, B]


def test_a_limit_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may get another one; who says to be another process each second makes us no
    work; who does not answer keeps the last one."""
    found, now = {"limit": 100 * MIB, "times": 0}, {"seconds": 0.0}

    def find(_: object) -> own_limits.Limit:
        found["times"] += 1
        return found["limit"], NOWHERE

    monkeypatch.setattr(own_limits.time, "monotonic", lambda: now["seconds"])
    limits = OwnLimits(find)

    def most(process_id: int = 1, *, answers: bool = True) -> int:
        reading = {"a": replace(STATS, process_id=process_id)} if answers else {}
        (a,) = limits.within([A], reading)
        return a.maximum_bytes or 0

    first = most()
    found["limit"] = 50 * MIB
    assert most() == first
    now["seconds"] += own_limits.LOOK_SECONDS
    assert 0 < most() < first / 2 + MIB
    times = found["times"]
    for process_id in range(2, 100):
        now["seconds"] += 0.05
        most(process_id)
    assert found["times"] - times <= 5
    second = most(99)
    now["seconds"] += own_limits.LOOK_SECONDS
    assert most(answers=False) == second


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A cgroup with a limit of its own."""
    for root, name in (
        (Path("/sys/fs/cgroup/memory"), "limit_in_bytes"),
        (Path("/sys/fs/cgroup"), "max"),
    ):
        made = root / f"spreds-test-{os.getpid()}"
        with suppress(OSError):
            made.mkdir()
            try:
                (made / f"memory.{name}").write_text(f"{LIMIT_BYTES}")
                yield made
            finally:
                for process in (made / "cgroup.procs").read_text().split():
                    (root / "cgroup.procs").write_text(process)
                made.rmdir()
            return
    pytest.skip("no cgroup with a limit can be made here")


def test_a_server_in_a_container_is_not_ended_by_the_kernel(
    start_server: StartServer, write_node: WriteNode, cgroup: Path
) -> None:
    """The budget's equal share is more than its cgroup has."""
    inside, other = start_server(0), start_server(0)
    (cgroup / "cgroup.procs").write_text(f"{inside.process.pid}")
    node = write_node({"a": inside.url, "b": other.url}, budget="256MiB")
    with sidecar_in_thread(node) as sidecar:
        sizes = lambda: [one.client.info("memory")["maxmemory"] for one in (inside, other)]  # noqa: E731
        wait_until(lambda: all(sizes()), sidecar.status)
        assert 24 * MIB < sizes()[0] < LIMIT_BYTES
        assert sizes()[1] == 128 * MIB
        for batch in range(80):  # of 1 MB: more than it has
            inside.client.mset({f"key:{batch}:{number}": bytes(1000) for number in range(1000)})
        assert inside.process.poll() is None
        assert inside.client.info("stats")["evicted_keys"] > 0
        assert not any("kernel ends" in problem for problem in sidecar.status()["problems"])
