"""Stock servers under a whole sidecar: their keys are looked at, and plans go by that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.base.metrics import Metrics
from sidecar.daemon import Sidecar
from sidecar.look import idle_time_sampler, look_samplers, server_questions
from sidecar.look.followed_keys import FollowedKeys
from sidecar.look.idle_time_sampler import IdleTimeSampler
from sidecar.look.key_scan import MOST_CALLS, KeyScan
from sidecar.look.look_samplers import LookSamplers
from sidecar.look.question_cost import MOST_PAUSE_SECONDS, pause_seconds
from sidecar.look.server_questions import CannotBeLookedAtError, Told
from sidecar.samples.wire_format import DEFAULT_MODULUS
from sidecar.servers.connection.own_questions import OwnQuestions
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.sampling_method import sampled_by, sampler_of, why_not_sampled
from sidecar.servers.connection.server_connection import MOST_REPLY_BYTES
from sidecar.servers.connection.server_reading import ServerReading
from tests.sidecar.daemon.test_closed_loop import Load, wait_for
from tests.sidecar.fixtures import LoadNode, StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import BUILD, LocalServer

STOCK = BUILD / "bin" / "redis-server-stock"
MODULE = BUILD / "lib" / "spreds.so"
MORE = """
[cycle]
samples = 1000000000
maximum_age = "2s"
[planning]
minimum_gain_ratio = 0.0
forecast = "last"
[controller]
kind = "embedded"
"""
MB = 1 << 20


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try soon again who cannot be looked at."""
    monkeypatch.setattr(look_samplers, "AGAIN_SECONDS", 0.2)
    monkeypatch.setattr(look_samplers, "LATEST_AGAIN_SECONDS", 0.2)


def told(sidecar: Sidecar, place: int = 0) -> dict[str, object]:
    found: dict[str, object] = sidecar.status()["servers"][place]
    return found


def problems(sidecar: Sidecar) -> str:
    return " ".join(sidecar.status()["problems"])


def test_plans_are_made_and_carried_out_with_nothing_in_the_servers(
    start_server: StartServer, write_node: WriteNode
) -> None:
    """One server's keys fit into little, and the other's into nothing that there is."""
    servers = [start_server("16mb", STOCK) for _ in range(2)]
    urls = {f"s{place}": server.url for place, server in enumerate(servers)}
    path = write_node(urls, "32mb", memory='rss_wait = "0s"', more=MORE)
    with Load(servers), sidecar_in_thread(path) as sidecar:
        wait_for(lambda: sidecar.metrics.value("plans", decision="apply", reason="gain"), sidecar)
        wait_for(lambda: told(sidecar)["maxmemory_bytes"] != 16 * MB, sidecar)
        for place in range(2):
            assert told(sidecar, place)["sampler"] == "look"
            assert told(sidecar, place)["backend_latency_source"] == "configured"
            assert 0 < float(str(told(sidecar, place)["look_cost_ratio"])) < 1
        sizes = [int(server.client.config_get("maxmemory")["maxmemory"]) for server in servers]
        assert sum(sizes) <= 32 * MB


def test_our_questions_are_not_reads_of_the_server(
    start_server: StartServer, write_node: WriteNode
) -> None:
    server = start_server("16mb", STOCK)
    for place in range(500):
        server.client.set(f"key{place}", "x" * 100)
    path = write_node({"s0": server.url}, "16mb", more=MORE)
    with sidecar_in_thread(path) as sidecar:
        wait_for(lambda: asked(server) >= 2_000, sidecar)
        for place in range(300):
            server.client.get(f"key{place % 250}")
        for place in range(40):
            server.client.get(f"none{place}")
        # What is read is asked for again until a reading has come after the last read.
        reads = server.client.info("stats")
        at_least = reads["keyspace_hits"] + reads["keyspace_misses"]

        def after_all() -> bool:
            reading = sidecar._actuator.readings["s0"]
            return asked(server) >= at_least + 2_000 and reading.keyspace_misses >= 40

        wait_for(after_all, sidecar)
        reading = sidecar._actuator.readings["s0"]
        assert (reading.keyspace_hits, reading.keyspace_misses) == (300, 40)


Looked = Callable[..., AbstractContextManager[tuple[LocalServer, Sidecar]]]


@pytest.fixture
def looked(start_server: StartServer, write_node: WriteNode) -> Looked:
    """A server with one key and these settings, and a sidecar; ``prepare`` comes before that."""

    @contextmanager
    def begin(
        size: str = "16mb",
        prepare: Callable[[LocalServer], object] = lambda _: None,
        **settings: object,
    ) -> Iterator[tuple[LocalServer, Sidecar]]:
        server = start_server(size, STOCK, **settings)
        server.client.set("key", "value")
        prepare(server)
        with sidecar_in_thread(write_node({"s0": server.url}, size, more=MORE)) as sidecar:
            yield server, sidecar

    return begin


def asked(server: LocalServer) -> int:
    stats = server.client.info("commandstats").get("cmdstat_object|idletime", {"calls": 0})
    return int(stats["calls"])


def test_a_policy_without_idle_times_is_told_until_it_is_another(looked: Looked) -> None:
    with looked(**{"maxmemory-policy": "allkeys-lfu"}) as (server, sidecar):
        why = "s0 is not sampled, for it evicts by allkeys-lfu, under which no key has an idle time"
        wait_for(lambda: why in problems(sidecar), sidecar)
        assert told(sidecar)["sampler"] is None
        server.client.config_set("maxmemory-policy", "allkeys-lru")
        wait_for(lambda: told(sidecar)["sampler"] == "look", sidecar)
        assert "is not sampled" not in problems(sidecar)


def test_one_that_does_not_evict_is_not_looked_at_and_that_is_no_problem(looked: Looked) -> None:
    with looked(**{"maxmemory-policy": "noeviction"}) as (server, sidecar):
        wait_for(lambda: sidecar.cycles >= 4, sidecar)
        assert str(told(sidecar)["keep_reason"]).startswith("no_eviction:")
        assert "sampled" not in problems(sidecar)
        assert "no samples" not in problems(sidecar)
        assert not asked(server)
        server.client.config_set("maxmemory-policy", "allkeys-lru")
        wait_for(lambda: asked(server), sidecar)


def test_who_may_not_see_all_keys_is_told_which_right_lacks(looked: Looked) -> None:
    rights = "+info +config|get +config|set +scan +object|idletime +memory|usage +pttl"
    user = ("ACL", "SETUSER", "default", "resetkeys", "-@all", *rights.split())
    with looked(prepare=lambda one: one.client.execute_command(*user)) as (_, sidecar):
        why = "does not let this user ask OBJECT IDLETIME of all keys: +object|idletime ~*"
        wait_for(lambda: why in problems(sidecar), sidecar)
        wait_for(lambda: sidecar.cycles >= 1, sidecar)
        assert str(told(sidecar)["keep_reason"]).startswith("no_sampler: it does not let")


def test_it_goes_on_with_another_process_of_the_server(looked: Looked) -> None:
    with looked() as (server, sidecar):
        wait_for(lambda: asked(server), sidecar)
        server.restart()
        server.client.set("key", "value")
        wait_for(lambda: asked(server) >= 3, sidecar)
        assert told(sidecar)["sampler"] == "look"


@pytest.mark.skipif(not MODULE.exists(), reason="build/lib/spreds.so is not built")
def test_a_module_that_is_loaded_takes_the_place_of_the_look_and_gives_it_back(
    looked: Looked,
) -> None:
    with looked(**{"enable-module-command": "local"}) as (server, sidecar):
        wait_for(lambda: asked(server), sidecar)
        server.client.execute_command("MODULE", "LOAD", str(MODULE))
        wait_for(lambda: told(sidecar)["sampler"] == "module", sidecar)
        wait_for(lambda: server.client.config_get("spreds.endpoint")["spreds.endpoint"], sidecar)
        server.client.config_resetstat()
        server.client.execute_command("MODULE", "UNLOAD", "spreds")
        wait_for(lambda: told(sidecar)["sampler"] == "look" and asked(server), sidecar)


def test_a_key_that_no_look_gets_past_is_told_of(
    looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SCAN answers with a name of more than a reply may have."""
    monkeypatch.setattr(server_questions, "SCAN_BYTES", MOST_REPLY_BYTES)
    name = "x" * (MOST_REPLY_BYTES + 1)
    with looked("64mb", lambda one: one.client.set(name, "value")) as (server, sidecar):
        why = (
            "s0 is not sampled, for it cannot be asked: scan: its answer makes no sense: its reply"
        )
        wait_for(lambda: why in problems(sidecar), sidecar)
        server.client.flushall()
        server.client.set("key", "value")
        wait_for(lambda: asked(server), sidecar)
        wait_for(lambda: "is not sampled" not in problems(sidecar), sidecar)


NAME = "looked-at-once"  # other tests' looks may be about to end


def test_of_one_server_there_is_one_look_at_most(
    start_server: StartServer, load_node: LoadNode
) -> None:
    """A server that had a module now and none a moment later made one more each time."""
    server = start_server("16mb", STOCK)
    server.client.mset({f"key{place}": "value" for place in range(100)})
    config, stop = load_node({NAME: server.url}), threading.Event()
    looks = LookSamplers([RedisServer(config.servers[0])], config, stop, Metrics())
    reading = RedisServer(config.servers[0]).read()
    try:
        for place in range(40):
            looks.follow({NAME: replace(reading, is_looked_at=place % 2 == 0)})
            names = [one.name for one in threading.enumerate()]
            assert names.count(f"looks at {NAME}") <= 1
        wait_until(
            lambda: f"looks at {NAME}" not in [t.name for t in threading.enumerate()], lambda: ""
        )
        looks.follow({NAME: replace(reading, is_looked_at=True)})
        wait_until(lambda: list(looks.batches()), lambda: "no batch")
    finally:
        stop.set()


class EndlessServer:
    """Has cursors without an end, and holds nothing."""

    def __init__(self) -> None:
        self.calls = 0

    def select(self, database: int) -> None:
        """Take any database."""

    def scan(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        self.calls += 1
        return 1 << 63, []


def test_cursors_without_an_end_are_left_alone() -> None:
    server = EndlessServer()
    scan = KeyScan(server, 100, whole=True)  # type: ignore[arg-type]
    with pytest.raises(CannotBeLookedAtError, match="cursors of SCAN without an end"):
        list(scan.passed(list(range(4))))
    assert server.calls <= MOST_CALLS


class CrowdedServer:
    """Has many databases that hold as many keys of long names as a client likes."""

    def __init__(self, databases: int, names: int) -> None:
        self.databases, self._names = dict.fromkeys(range(databases), names), names
        self.own, self.calls, self._here = OwnQuestions(), 0, 0

    def select(self, database: int) -> None:
        self._here = database

    def lru_clock(self) -> int:
        return 1000

    def scan(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """One table of as many places; the cursor is a place, with its bits reversed."""
        self.calls += 1
        start = int(f"{cursor:064b}"[::-1], 2) * self._names >> 64
        end = min(self._names, start + count)
        names = [b"%d-%s-%d" % (self._here, b"x" * 400, place) for place in range(start, end)]
        if end >= self._names:
            return 0, names
        return int(f"{(end << 64) // self._names:064b}"[::-1], 2), names

    def ask_after_keys(self, commands: list[bytes], name: str, missing: object) -> list[int]:
        return [1] * len(commands)

    def ask_numbers(self, commands: list[bytes], name: str) -> list[int]:
        return [100] * len(commands)


def crowded_round(server: CrowdedServer, most_keys: int) -> IdleTimeSampler:
    reading = replace(READING, run_id="a", config={}, maxmemory_bytes=1 << 30, at_seconds=1000.0)
    told = Told(reading, 0, 0, {}, {}, server.databases, is_cluster=False)
    sampler = IdleTimeSampler(server, told, most_keys=most_keys)  # type: ignore[arg-type]
    sampler.round(lambda: told)
    return sampler


@pytest.mark.parametrize("databases", [1, 3, 20])
def test_names_in_many_databases_are_bounded_and_a_part_of_all_is_followed(databases: int) -> None:
    """The first database tells the share of its keys; the others may hold many times as many."""
    server = CrowdedServer(databases, 2_000)
    sampler = crowded_round(server, 256)
    count = len(sampler.keys)
    assert 100 <= count <= 4 * 256
    # T over P is the share of all keys that are followed.
    assert sampler.keys.threshold / DEFAULT_MODULUS == pytest.approx(
        count / (2_000 * databases), rel=0.25
    )


def test_who_has_keys_in_very_many_databases_is_not_looked_at() -> None:
    with pytest.raises(CannotBeLookedAtError, match="more than 64 databases"):
        crowded_round(CrowdedServer(65, 1), 256)


def test_a_round_that_takes_too_long_of_our_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_time_sampler, "_MOST_ROUND_SECONDS", 0.0)
    with pytest.raises(CannotBeLookedAtError, match="takes us too long"):
        crowded_round(CrowdedServer(2, 2_000), 256)


def test_a_round_that_is_over_asks_no_more() -> None:
    server = CrowdedServer(1, 4_000)
    sampler = crowded_round(server, 8_192)
    asked: list[int] = []

    def ask(commands: list[bytes], name: str, missing: object) -> list[int]:
        asked.append(len(commands))
        return [1] * len(commands)

    server.ask_after_keys = ask  # type: ignore[method-assign]
    told = Told(
        replace(READING, run_id="a", config={}, at_seconds=1001.0),
        0,
        0,
        {},
        {},
        {},
        is_cluster=False,
    )
    _, seen = sampler.round(lambda: told, lambda: len(asked) >= 2)
    assert (len(asked), seen.reading.at_seconds) == (2, 1001.0)
    assert len(sampler.keys) == 4_000


def test_who_tells_a_look_another_policy_is_not_looked_at(
    start_server: StartServer, load_node: LoadNode
) -> None:
    """Its samples would be played through many small caches, all at once."""
    server = start_server("16mb", STOCK)
    server.client.set("key", "value")
    config, stop = load_node({"liar": server.url}), threading.Event()
    asking = RedisServer(config.servers[0])
    looks = LookSamplers([asking], config, stop, Metrics())
    lfu = replace(asking.read(), is_looked_at=True, maxmemory_policy="allkeys-lfu")
    looks.follow({"liar": lfu})
    assert "looks at liar" not in [one.name for one in threading.enumerate()]
    assert asking.own.refused.startswith("evicts by allkeys-lfu")
    asking.close()


def test_a_password_that_was_changed_is_read_again(
    start_server: StartServer, write_node: WriteNode, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text("first-password")
    server = start_server("16mb", STOCK)
    server.client.set("key", "value")
    server.client.config_set("requirepass", "first-password")
    keys = f'password_file = "{secret}"'
    path = write_node({"s0": server.url}, "16mb", server_keys=keys, more=MORE)
    with sidecar_in_thread(path) as sidecar:
        wait_for(lambda: told(sidecar)["sampler"] == "look" and asked(server), sidecar)
        secret.write_text("second-password")
        server.client.config_set("requirepass", "second-password")
        server.client.client_kill_filter(_type="normal", skipme=True)
        before = asked(server)
        wait_for(lambda: asked(server) > before, sidecar)
        wait_for(lambda: "is not sampled" not in problems(sidecar), sidecar)


@pytest.mark.parametrize("spent", [0.0, 1.0, 1e9, float("inf")])
def test_no_round_is_later_than_a_minute(spent: float) -> None:
    assert 1.0 <= pause_seconds(1e9, spent, 0.01) <= MOST_PAUSE_SECONDS


READING = ServerReading(
    **dict.fromkeys(
        (
            *("instance", "maxmemory_bytes", "maxmemory_samples", "lfu_log_factor"),
            *("lfu_decay_time_minutes", "counted_bytes", "baseline_bytes", "unevictable_bytes"),
            *("rss_bytes", "keyspace_hits", "keyspace_misses", "keys", "keys_with_ttl"),
        ),
        0,
    ),
    average_ttl_seconds=0.0,
    at_seconds=0.0,
    run_id="a",
    role="master",
    maxmemory_policy="allkeys-lru",
)
BOTH = {
    f"{prefix}{knob}": "" for prefix in ("spreds-", "spreds.") for knob in ("endpoint", "secret")
}


@pytest.mark.parametrize(
    ("chosen", "config", "sampler"),
    [
        ("auto", {}, "look"),
        ("auto", BOTH, "patch"),
        ("module", BOTH, "module"),
        ("patch", BOTH, "patch"),
        ("look", BOTH, "look"),
        ("module", {}, None),
        ("patch", {"spreds.endpoint": "", "spreds.secret": ""}, None),
        ("auto", {"spreds.endpoint": ""}, "look"),
        ("module", {"spreds.endpoint": ""}, None),
    ],
)
def test_what_a_server_is_sampled_by(
    chosen: str, config: dict[str, str], sampler: str | None
) -> None:
    found = sampled_by(replace(READING, config=config), chosen)
    assert sampler_of(found) == sampler
    assert (why_not_sampled(found) is None) == (sampler is not None)


def test_counters_that_begin_anew_have_none_of_our_questions() -> None:
    own = OwnQuestions()
    own.count(5, 3)
    seen = own.left_out(replace(READING, keyspace_hits=25, keyspace_misses=4))
    assert (seen.keyspace_hits, seen.keyspace_misses) == (20, 1)
    own.count(10, 0)
    reset = own.left_out(replace(READING, keyspace_hits=7, keyspace_misses=1))
    assert (reset.keyspace_hits, reset.keyspace_misses) == (7, 1)
    own.count(2, 0)
    restarted = own.left_out(replace(READING, run_id="b", keyspace_hits=90, keyspace_misses=1))
    assert (restarted.keyspace_hits, restarted.keyspace_misses) == (90, 1)


def test_keys_that_are_gone_are_forgotten_and_those_that_are_there_stay() -> None:
    keys = FollowedKeys(b"salt")
    keys.settle(1.0)
    found = [keys.add(0, b"key%d" % place) for place in range(3)]
    assert all(found)
    followed = list(keys)
    followed[0].is_present = True
    keys.forget([key.identity for key in followed[:2]])
    assert list(keys) == [followed[0], followed[2]]


def test_what_a_look_has_taken_of_us_the_next_one_rests_for(
    start_server: StartServer, load_node: LoadNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may end a look whenever it likes, by another policy or role."""
    server = start_server("16mb", STOCK)
    server.client.set("key", "x")
    config = load_node({"s0": server.url})
    asked_of = RedisServer(config.servers[0])
    stop = threading.Event()
    looks = LookSamplers([asked_of], config, stop, Metrics())
    reading = asked_of.read()
    monkeypatch.setattr(look_samplers, "_MOST_OWN_COST", 1e-6)  # a rest of days for a moment
    looks.follow({"s0": reading})
    first = looks._looks["s0"]
    wait_until(lambda: asked(server) > 0, lambda: asked_of.own)
    looks.follow({"s0": replace(reading, maxmemory_policy="allkeys-lfu")})
    wait_until(lambda: first.has_ended, lambda: asked_of.own)
    before = asked(server)
    looks.follow({"s0": reading})
    second = looks._looks["s0"]
    assert second is not first
    wait_until(lambda: second._pause_seconds > 60, lambda: second._pause_seconds)
    assert asked(server) == before
    assert second.silent_seconds == 0  # as long as it rests
    stop.set()
    wait_until(lambda: second.has_ended, lambda: asked_of.own)
    assert asked(server) == before
    asked_of.close()


def test_after_a_flood_of_keys_that_are_gone_others_are_followed_again(
    start_server: StartServer, load_node: LoadNode
) -> None:
    server = start_server("64mb", STOCK)

    def fill(prefix: str, keys: int) -> None:
        server.client.mset({f"{prefix}{place}": "x" for place in range(keys)})

    fill("many", 60_000)
    looked_at = server_questions.LookedServer(load_node({"s0": server.url}).servers[0])
    sampler = IdleTimeSampler(looked_at, looked_at.begin(), most_keys=300)
    _, now = sampler.round(looked_at.tell)
    assert not sampler.is_too_thin(now)
    for keys, is_too_thin in ((100, True), (60_000, False)):
        server.client.flushall()
        fill("few", keys)
        assert sampler.is_too_thin(looked_at.tell()) is is_too_thin
    looked_at.close()
