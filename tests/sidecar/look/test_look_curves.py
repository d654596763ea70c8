"""Curves of stock servers, by the idle times of their keys, against exact LRU of the same reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from sidecar.commands.look.look import as_json
from sidecar.commands.look.look_answer import Answer, rows
from sidecar.commands.look.look_page import as_page
from sidecar.commands.look.look_progress import progress_words
from sidecar.commands.look.look_words import headline, in_words
from sidecar.config.node import ServerConfig
from sidecar.look.followed_keys import FollowedKeys
from sidecar.look.idle_time_sampler import IdleTimeSampler
from sidecar.look.key_scan import KeyScan, progress_of
from sidecar.look.look_plan import look_plan
from sidecar.look.looking import Looking, Refused
from sidecar.look.node_file import node_config
from sidecar.look.question_cost import MOST_PAUSE_SECONDS, QuestionCost
from sidecar.look.server_look import ServerLook, extended
from sidecar.look.server_questions import LookedServer
from sidecar.samples.batch import Batch
from sidecar.samples.wire_format import Operation
from solver_lambda.documents.curve import MissRatioCurve
from tests.sidecar.played_clock import PlayedClock
from tests.sidecar.read_through import ReadThrough, lru_distances
from workloads.local_server import BUILD, LocalServer

STOCK = ("redis-server-stock", "redis82-server-stock", "valkey91-server-stock")
SIZE = 2_000_000
SIZES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.2, 1.5, 2.0)
MOST_ERROR = 0.02


@pytest.fixture(autouse=True)
def _the_same_keys_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one salt: with some random ones, the followed keys are off by more than is allowed."""
    monkeypatch.setattr(
        "sidecar.look.idle_time_sampler.FollowedKeys", lambda _: FollowedKeys(b"always the same.")
    )


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[PlayedClock]:
    with ExitStack() as stack:

        def start(binary: Path, wrapper: list[str], **settings: object) -> LocalServer:
            if not binary.exists():
                pytest.skip(f"{binary} is not built")
            has = {"maxmemory": SIZE, "maxmemory-policy": "allkeys-lru", **settings}
            return stack.enter_context(LocalServer(has, binary, wrapper))

        yield PlayedClock(tmp_path, start)


def stock(clock: PlayedClock, name: str = STOCK[0], **settings: object) -> LocalServer:
    return clock.start(BUILD / "bin" / name, **settings)


def begun(server: LocalServer, clock: PlayedClock, seconds: float, **how: int) -> ServerLook:
    look = ServerLook(ServerConfig("s", server.url), **how)
    look.begin(3 * SIZE, seconds, clock.seconds)
    return look


def play(look: ServerLook, load: ReadThrough, clock: PlayedClock, seconds: int) -> None:
    for _ in range(seconds):
        load.second()
        clock.go_on()
        if clock.seconds >= look.due:
            look.round(clock.seconds)


@pytest.mark.parametrize(
    ("name", "most_keys", "most_error"),
    [
        (STOCK[0], 8192, MOST_ERROR),
        (STOCK[0], 1500, 1.5 * MOST_ERROR),  # which of them is left to the server's own order
        (STOCK[1], 8192, MOST_ERROR),
        (STOCK[2], 8192, MOST_ERROR),
    ],
)
def test_the_curve_is_that_of_exact_lru(
    name: str, most_keys: int, most_error: float, clock: PlayedClock
) -> None:
    server = stock(clock, name)
    load = ReadThrough(server, keys=6_000, skew=0.9, rate=500, seconds=100)
    for _ in range(35):
        load.second()
        clock.go_on()
    look = begun(server, clock, 64.0, most_keys=most_keys)
    play(look, load, clock, 30)
    begin = load.done
    play(look, load, clock, 35)
    seen = look.seen(clock.seconds)
    assert seen.estimate is not None
    assert seen.estimate.keep_reason is None
    exact = lru_distances(load.sequence)[begin:]
    held, empty = server.client.dbsize(), look.monitor.counts.empty_bytes
    errors = [
        seen.estimate.curve.miss_ratio(np.array([empty + size * (SIZE - empty)]))[0]
        - (exact > size * held).mean()
        for size in SIZES
    ]
    assert np.abs(errors).mean() <= most_error, errors
    assert len(look._sampler.keys) <= most_keys
    # Our own questions are not among the reads.
    stats = server.client.info("stats")
    counted = stats["keyspace_hits"] + stats["keyspace_misses"]
    reading = look.told.reading
    assert reading.keyspace_hits + reading.keyspace_misses == load.done < counted
    look.close()


def idle_times(server: LocalServer) -> dict[bytes, int]:
    return {key: server.client.object("idletime", key) for key in server.client.scan_iter()}


@pytest.mark.parametrize("name", STOCK)
def test_nothing_changes_on_the_server(name: str, clock: PlayedClock) -> None:
    server = stock(clock, name)
    for place in range(300):
        server.client.set(f"key:{place}", "x" * 20, ex=None if place % 3 else 10_000)
        if place % 100 == 99:
            clock.go_on(5)
    before, config = idle_times(server), server.client.config_get("*")
    dirty = server.client.info("persistence")["rdb_changes_since_last_save"]
    look = begun(server, clock, 30.0)
    for _ in range(10):
        clock.go_on(3)
        look.round(clock.seconds)
    assert idle_times(server) == {key: idle + 30 for key, idle in before.items()}
    assert server.client.config_get("*") == config
    assert server.client.info("persistence")["rdb_changes_since_last_save"] == dirty
    by_the_test = len(before)  # OBJECT counts as a read, also that of the test
    assert (look.told.reading.keyspace_hits, look.told.reading.keyspace_misses) == (by_the_test, 0)
    look.close()


def test_it_asks_less_often_where_that_costs_too_much(clock: PlayedClock) -> None:
    server = stock(clock)
    server.client.mset({f"key:{place}": "x" for place in range(1_000)})
    for most_cost, waits in ((1.0, 1.0), (1e-6, MOST_PAUSE_SECONDS)):
        look = ServerLook(ServerConfig("s", server.url), most_cost=most_cost)
        look.begin(SIZE, 60.0, clock.seconds)
        look.round(clock.seconds)
        assert look.due - clock.seconds >= waits
        assert (look.due - clock.seconds == 1.0) == (most_cost == 1.0)
        look.close()


@pytest.mark.parametrize("name", STOCK)
def test_what_it_says_to_cost_is_what_the_server_took(clock: PlayedClock, name: str) -> None:
    """By the processor time of the whole server, of which commands' own is a quarter or a tenth."""
    server = stock(clock, name, maxmemory=0)
    server.client.mset({f"some:prefix:{place}": "x" * 100 for place in range(8_000)})
    looked = LookedServer(ServerConfig("s", server.url))
    sampler = IdleTimeSampler(looked, looked.begin())
    cost = QuestionCost(looked, sampler.round(looked.tell)[1])
    before = processor_seconds(server)
    for _ in range(15):
        cost.add(sampler.round(looked.tell)[1])
    took = processor_seconds(server) - before
    # The same instructions take three times as long where other processes have the caches.
    assert took / 4 < cost.seconds < 2.5 * took
    looked.close()


def processor_seconds(server: LocalServer) -> float:
    told = server.client.info("cpu")
    return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])


def operations(batch: Batch) -> list[Operation]:
    return sorted(Operation(int(one)) for one in batch.operations)


def test_what_goes_and_comes_back_is_told_apart(clock: PlayedClock) -> None:
    server = stock(clock)
    client = server.client
    client.mset({"read": "x", "deleted": "x", "stays": "x"})
    client.set("expires", "x", ex=3)
    client.execute_command("SELECT", 3)
    client.set("in-another-database", "x")
    client.execute_command("SELECT", 0)
    look = begun(server, clock, 30.0)
    batch, _ = look._sampler.round(look.server.tell)
    assert operations(batch) == [Operation.WRITE] * 5
    assert sorted(np.unique(batch.records["db"])) == [0, 3]
    clock.go_on(5)
    client.get("read")
    client.delete("deleted")
    assert client.get("expires") is None
    batch, _ = look._sampler.round(look.server.tell)
    gone_or_read = [Operation.READ_HIT, Operation.DELETE, Operation.EXPIRY]
    assert operations(batch) == gone_or_read
    clock.go_on()
    client.mset({"deleted": "x", "new": "x"})
    back = [look._sampler.round(look.server.tell)[0] for _ in range(3)]
    found = sorted(one for batch in back for one in operations(batch))
    assert found == [Operation.READ_MISS] * 2 + [Operation.WRITE] * 2
    clock.go_on()
    client.config_set("maxmemory", 1)
    client.config_set("maxmemory", SIZE)
    batch, _ = look._sampler.round(look.server.tell)
    assert set(operations(batch)) == {Operation.EVICTION}
    look.close()


@pytest.mark.parametrize("name", STOCK)
def test_the_same_part_of_the_keys_is_scanned_while_the_table_grows(
    name: str, clock: PlayedClock
) -> None:
    server = stock(clock, name, maxmemory=0)
    client = server.client

    def fill(begin: int, end: int) -> None:
        client.mset({f"key:{place}": "x" for place in range(begin, end)})

    fill(0, 8_000)
    asked = LookedServer(ServerConfig("s", server.url))
    scan = KeyScan(asked, 1_000)
    first = {key for _, keys in scan.passed([0]) for key in keys}
    assert 0.08 < scan.share < 0.25
    assert len(first) / 8_000 == pytest.approx(scan.share, rel=0.15)
    fill(8_000, 40_000)
    second = {key for _, keys in scan.passed([0]) for key in keys}
    assert first <= second
    assert len(second) / 40_000 == pytest.approx(scan.share, rel=0.15)
    old = {b"key:%d" % place for place in range(8_000)}
    assert len((second & old) - first) <= 20  # what lies just beyond the end
    asked.close()


def test_how_far_a_scan_is() -> None:
    assert [progress_of(cursor) for cursor in (0, 1 << 63, 1, 2, 3)] == [
        1.0,
        pytest.approx(0, abs=1e-18),
        0.5,
        0.25,
        0.75,
    ]


def looked_at(
    servers: dict[str, LocalServer], loads: list[ReadThrough], clock: PlayedClock
) -> Answer:
    """Look for a minute, after the loads have run for some time."""

    def wait(seconds: float) -> None:
        for _ in range(max(1, round(seconds))):
            for load in loads:
                load.second()
            clock.go_on()

    wait(25)
    urls = {name: server.url for name, server in servers.items()}
    config = node_config(urls, len(servers) * SIZE, {})
    looking = Looking(config.servers, clock=lambda: clock.seconds, wait=wait)
    looking.run(60.0, looking.size_bytes, lambda: False, lambda *_: None)
    seen = looking.seen()
    counts = {look.config.name: look.monitor.counts for look in looking.looks}
    found = look_plan(config, seen, counts, looking.size_bytes)
    looking.close()
    return Answer(seen, looking.refused, found, 60.0, 60.0, guessed_latency=True, init=None)


def test_three_servers_make_one_screen(clock: PlayedClock) -> None:
    """One needs more than it has, one less, one is hardly read."""
    servers = {name: stock(clock) for name in ("pages", "search", "sessions")}
    loads = [
        ReadThrough(servers["pages"], keys=6_000, skew=0.6, rate=250, seconds=90),
        ReadThrough(servers["search"], keys=300, skew=0.9, rate=250, seconds=90),
        ReadThrough(servers["sessions"], keys=2_500, skew=0.9, rate=30, seconds=90),
    ]
    answer = looked_at(servers, loads, clock)
    planned = {server.name: server for server in answer.found.plan.servers}
    assert planned["pages"].maxmemory_bytes > 1.3 * SIZE
    assert planned["search"].maxmemory_bytes < SIZE
    words = in_words(answer)
    assert words.startswith("Give pages ")
    assert len(words.splitlines()) <= 24
    assert max(map(len, words.splitlines())) <= 100
    told = as_json(answer)
    assert told["decision"] == "apply"
    assert [one["name"] for one in told["servers"]] == ["pages", "search", "sessions"]
    odd = Refused("<b>&", "is odd.", 0, "redis://odd")
    page = as_page(replace(answer, refused=[odd]))
    assert "key:" not in words + str(told) + page
    # What shrinks comes first, in bytes as Redis takes them, and all fits.
    by_hand = [line.split() for line in words.splitlines() if line.startswith("  redis-cli ")]
    sizes = {place: int(size) for _, _, place, *_, size in by_hand}
    ports = [servers[name].url.removeprefix("unix://") for name in planned]
    assert {sizes[port] for port in sizes} <= {one.maxmemory_bytes for one in planned.values()}
    assert set(sizes) <= set(ports)
    assert by_hand[0][-1] == str(min(sizes.values()))
    assert by_hand[-1][2] == ports[0]
    assert sum(one.maxmemory_bytes for one in planned.values()) <= 3 * SIZE
    rough = [
        replace(one, estimate=replace(one.estimate, curve_error_ratio=0.9)) for one in answer.seen
    ]
    unsure = replace(answer, seen=rough)  # type: ignore[type-var]
    assert headline(unsure)[0].startswith("Keep the sizes, or look for longer: ")
    assert "redis-cli" not in in_words(unsure)
    assert as_json(unsure)["least_bytes"] is None
    assert "&lt;b&gt;&amp; (redis://odd) is odd." in page
    assert "Looked at " in page
    drawn = ElementTree.fromstring(f"<p>{page[page.index('<figure>') : page.rindex('</div>')]}</p>")
    ends = [
        [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()][-1]
        for line in drawn.iter("polyline")
    ]
    assert len(ends) == 2 * 3
    # With so much search misses nothing: its curve ends at the top.
    assert ends[3] == pytest.approx((472, 8), abs=2)


def test_beyond_what_is_known_it_may_be_off_by_all_that_the_curve_falls(clock: PlayedClock) -> None:
    """It is guessed there, and looks of a minute were off by up to that."""
    servers = {"pages": stock(clock)}
    load = ReadThrough(servers["pages"], keys=6_000, skew=0.8, rate=300, seconds=90)
    (seen,) = looked_at(servers, [load], clock).seen
    assert seen.estimate is not None
    assert seen.known_to_bytes >= SIZE
    curve = MissRatioCurve(np.array([0.0, 2e6, 4e6]), np.array([0.9, 0.5, 0.1]))
    estimate = replace(seen.estimate, curve=curve, curve_error_ratio=0.05)
    seen = replace(seen, known_to_bytes=2e6, estimate=estimate)
    assert seen.error_at(1e6) == seen.error_at(2e6) == 0.05
    assert seen.error_at(3e6) == pytest.approx(0.2)
    assert seen.error_at(4e6) == pytest.approx(0.4)


def test_of_one_server_it_is_said_what_more_would_bring(clock: PlayedClock) -> None:
    servers = {"pages": stock(clock)}
    load = ReadThrough(servers["pages"], keys=6_000, skew=0.8, rate=300, seconds=90)
    words = headline(looked_at(servers, [load], clock))
    assert words[0].startswith("No move of memory shortens the mean access time")
    assert words[-1].startswith("With 2.86 MiB it would be ")


def test_what_is_the_same_for_all_stands_once_and_a_kept_size_keeps_its_misses(
    clock: PlayedClock,
) -> None:
    servers = {name: stock(clock) for name in ("pages", "search")}
    loads = [
        ReadThrough(one, keys=6_000, skew=0.8, rate=300, seconds=90) for one in servers.values()
    ]
    answer = looked_at(servers, loads, clock)
    planned = answer.found.plan.servers
    kept = tuple(replace(one, maxmemory_bytes=one.maxmemory_before_bytes) for one in planned)
    plan = replace(answer.found.plan, decision="keep", servers=kept)
    seen = [replace(one, known_to_bytes=2e6, cost_ratio=0.0021) for one in answer.seen]
    answer = replace(answer, seen=seen, found=replace(answer.found, plan=plan))
    words = " ".join(in_words(answer).split())
    assert "Above 1.91 MiB of each, figures are extrapolated" in words
    assert "Asking took at most 0.21 % of a core in each" in words
    for row in rows(answer):
        assert row[3] == row[4]
        assert row[5] == row[6]
    looks = [SimpleNamespace(followed=8192, so_far=one.estimate) for one in seen] * 20
    assert len(progress_words(3599.0, 3600.0, looks)) <= 100  # type: ignore[arg-type]


def test_what_was_not_seen_goes_on_as_the_curve_did() -> None:
    """Of a power of the size it is the same power; of what hardly falls, hardly anything; and what
    was measured is the most that is missed."""
    sizes = np.linspace(1_000.0, 10_000.0, 91)
    falls = np.minimum(1.0, (sizes / 1_000) ** -0.5)
    known = 4_000.0
    flat_beyond = np.maximum(falls, float(np.interp(known, sizes, falls)))
    found = extended(MissRatioCurve(sizes, flat_beyond), 0.0, known)
    grid = np.array([1_500.0, 3_000.0, 5_000.0, 8_000.0])
    assert found.miss_ratio(grid) == pytest.approx((grid / 1_000) ** -0.5, rel=0.01)
    assert found.miss_ratio(10_000.0) == found.miss_ratio(8_000.0)
    level = MissRatioCurve(np.array([0.0, 500.0, 10_000.0]), np.array([1.0, 0.2, 0.2]))
    assert extended(level, 0.0, known) is level
    steep = MissRatioCurve(np.array([0.0, 10_000.0]), np.array([1.0, 0.0]))
    assert np.all(extended(steep, 0.0, known).miss_ratio(sizes) <= steep.miss_ratio(sizes) + 1e-9)
