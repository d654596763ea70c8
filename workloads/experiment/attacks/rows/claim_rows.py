"""What one server says of itself, or its clients make of it, and what the others lose by that.

Figures that make no sense, of a hostile server or of its clients, cost no other.
"""

from __future__ import annotations

import re
import secrets
import socket
import threading
from contextlib import ExitStack, suppress

import redis

from workloads.background_work import in_background
from workloads.experiment.attacks.stage.attack import Rows, must
from workloads.experiment.attacks.stage.hostile_server import ask_real, bulk, hostile_in_place_of
from workloads.experiment.attacks.stage.target import MIB, SERVER_BYTES, Target

ROWS = Rows()

NAMES = ("pages", "sessions", "timeline")
HUGE = 10**12
# Unread replies of so much each.
REPLY_BYTES = 4 * MIB


def _least(target: Target, names: tuple[str, ...]) -> int:
    sizes = target.sizes()
    return min(sizes[name] for name in names)


def _watch_others(target: Target, evil: str, least_bytes: int, cycles: int = 8) -> None:
    """Check for some cycles that no other server has less, at any look."""
    others = tuple(name for name in NAMES if name != evil)
    made = target.cycle()
    while target.cycle() < made + cycles:
        found = _least(target, others)
        must(
            found >= least_bytes,
            f"another server has {found / MIB:.1f} MiB, less than {least_bytes / MIB:.1f}",
        )


@ROWS.add(
    "claims: buffers of one client",
    "an ordinary client of one server asks for much and reads nothing: the others keep half of "
    "what was planned for them",
    quick=False,
)
def _buffers_of_one_client() -> None:
    with Target(NAMES) as target, ExitStack() as held:
        for name in NAMES:
            target.fill(name, 6_000)
        script = f"return string.rep('x', {REPLY_BYTES})"
        evil = held.enter_context(socket.socket(socket.AF_UNIX))
        evil.connect(str(target.servers["pages"].socket))
        words = [b"EVAL", script.encode(), b"0"]
        evil.sendall(12 * (b"*%d\r\n%b" % (len(words), b"".join(map(bulk, words)))))
        _watch_others(target, "pages", SERVER_BYTES // 2)


LIES = {
    "buffers": {"mem_clients_normal": 40 * MIB, "used_memory": 41 * MIB},
    "functions": {"used_memory_functions": HUGE, "used_memory": HUGE},
    "resident memory": {"used_memory_rss": HUGE},
    "copies of forks": {"rdb_last_cow_size": HUGE},
}


def _lies(lie: dict[str, int]) -> None:
    rss = f'budget = "{3 * SERVER_BYTES}"\nrss_budget = "400MiB"\n'
    with Target(NAMES, {"memory": rss}) as target:
        client = target.servers["pages"].client

        def answer(words: list[str]) -> list[bytes] | None:
            if words[0].upper() != "INFO":
                return None
            text = ask_real(client, words).decode()
            for field, number in lie.items():
                text = re.sub(rf"\r\n{field}:\d+", f"\r\n{field}:{number}", text)
            return [bulk(text.partition("\r\n")[2].removesuffix("\r\n").encode())]

        with hostile_in_place_of(target, "pages", answer):
            _watch_others(target, "pages", 7 * MIB)


@ROWS.add(
    "claims: lies about memory",
    "a server says that its clients, functions, resident memory or forks take very much: the "
    "others lose half at most",
    quick=False,
)
def _all_lies() -> None:
    for lie in LIES.values():
        _lies(lie)


@ROWS.add(
    "claims: the size of a server that evicts nothing",
    "who may run CONFIG SET on one server takes all of the budget with noeviction: the others "
    "keep their minima, plans go on, also after a restart, and status names the server",
)
def _size_of_one_that_evicts_nothing() -> None:
    for size, maximum in ((48 * MIB - 100_000, ""), (49 * MIB, 'maximum = "20MiB"\n')):
        least = dict.fromkeys(NAMES[1:], 'minimum = "8MiB"\n')
        with Target(NAMES, server_lines={**least, "pages": maximum}) as target:
            target.servers["pages"].client.config_set("maxmemory-policy", "noeviction")
            target.servers["pages"].client.config_set("maxmemory", size)
            _watch_others(target, "pages", 8 * MIB, cycles=3)
            target.until(lambda: target.status()["last_plan"], "no plan comes")
            status = target.status()
            told = " ".join(one for one in status["problems"] if "budget" in one)
            must("pages has 4" in told, f"status does not say who takes it: {status['problems']}")
            must("raise memory.budget" not in told, f"a wrong remedy: {told}")
            reason = status["last_plan"]["reason"]
            must(not reason.startswith("infeasible"), f"no plans any more: {reason}")
            target.end()
            target.start()
            must(target.status()["sets_sizes"], "after a restart no sizes are kept")


@ROWS.add(
    "claims: writes without the right to them",
    "whoever may not write writes all the time to a full server, which counts each refusal: it is "
    "not told that this server has no memory for writes, and no plan is taken back for it",
)
def _writes_without_the_right_to_them() -> None:
    with Target(NAMES) as target:
        owner = target.servers["pages"].client
        pipe = owner.pipeline(transaction=False)
        for number in range(20_000):
            pipe.set(f"key:{number}", b"x" * 1000)
        pipe.execute()
        owner.acl_setuser("guest", enabled=True, nopass=True, commands=["+ping"])
        must(target.evicted() > 0, "the server is not full")

        def write(stop: threading.Event) -> None:
            guest = target.client("pages", username="guest", password=secrets.token_hex())
            owners = target.client("pages")
            while not stop.wait(0.005):
                owners.set(f"key:{secrets.randbelow(40_000)}", b"x" * 1000)
                with suppress(redis.exceptions.NoPermissionError):
                    guest.set("key", "text")

        def is_refused_often() -> bool:
            problems = " ".join(target.status()["problems"])
            must("refused" not in problems, f"status says {problems!r}")
            refused = owner.info("commandstats")["cmdstat_set"]["rejected_calls"]
            return target.cycle() >= made + 4 and refused > 100

        with in_background(write):
            made = target.cycle()
            target.until(is_refused_often, "no four cycles with a hundred refusals")
        must("refuses writes" not in target.log_text(), "a plan was taken back for that")


# Of INFO and of CONFIG GET.
FIGURES = {
    "maxmemory_policy": "volatile-lru",
    "mem_clients_normal": "9" * 400,
    "keyspace_hits": str(2**64 - 1),
    "rdb_last_cow_size": "-1",
    "mem_not_counted_for_evict": str(2**53),
}
DATABASE = "db0:keys=1,expires=2,avg_ttl=-123372036854775872"
SETTINGS = {
    "maxmemory-eviction-tenacity": "abc",
    "maxmemory-samples": "0",
    "lfu-decay-time": "9" * 19,
    "hz": "10\x01",
}
PUSHES = 200 * b">4\r\n$6\r\nMOVING\r\n:1\r\n:86400\r\n$11\r\n127.0.0.1:1\r\n"
LEAST_LOOKS = 20


@ROWS.add(
    "nonsense: figures of a server",
    "a server says counters beyond 64 bits, more keys with a TTL than keys, no samples of an "
    "eviction: the others are looked after, also after a restart",
)
def _figures() -> None:
    for mode, size in (("apply", None), ("recommend", "0")):
        _figures_in(mode, size)


def _figures_in(mode: str, maxmemory: str | None) -> None:
    with Target(sections={"": f'mode = "{mode}"\n'}) as target:
        client = target.servers["pages"].client

        def answer(words: list[str]) -> list[bytes] | None:
            if words[0].upper() == "INFO":
                text = ask_real(client, words).decode().partition("\r\n")[2].removesuffix("\r\n")
                limit = {} if maxmemory is None else {"maxmemory": maxmemory}
                for field, said in {**FIGURES, **limit}.items():
                    text = re.sub(rf"\r\n{field}:[^\r]*", f"\r\n{field}:{said}", text)
                return [bulk(f"{text}\r\n# Keyspace\r\n{DATABASE}\r\n".encode())]
            if words[:2] == ["CONFIG", "GET"] or words[0] == "CONFIG GET":
                found = [*client.config_get("*").items(), *SETTINGS.items()]
                told = [str(part).encode() for pair in found for part in pair]
                return [b"*%d\r\n" % len(told), *map(bulk, told)]
            return None

        with hostile_in_place_of(target, "pages", answer, at_a_port=True):
            begun = target.cycle()
            target.until(lambda: target.cycle() >= begun + 2, "nothing is observed any more")
            is_up = target.server("pages")["up"]
            must(is_up, "a server is not read for a figure that makes no sense")
            if mode == "apply":
                target.servers["sessions"].client.config_set("maxmemory", 900 * MIB)
                target.until(
                    lambda: target.sizes()["sessions"] <= 2 * SERVER_BYTES,
                    "the other server is not looked after",
                )
            target.end()
            target.start()
            must(target.status()["pause"] is None, "the state file is not read any more")
            must("Traceback" not in target.log_text(), "a traceback in the log")


@ROWS.add(
    "nonsense: pushes",
    "a server pushes RESP3's MOVING, of which redis-py starts a thread each: none is started",
    quick=False,
)
def _pushes() -> None:
    looks = 0
    with Target() as target:
        client = target.servers["pages"].client

        def answer(words: list[str]) -> list[bytes] | None:
            nonlocal looks
            if words[0].upper() != "INFO":
                return None
            looks += 1
            return [PUSHES, ask_real(client, words)]

        with hostile_in_place_of(target, "pages", answer, at_a_port=True):
            before = target.usage().threads
            target.until(lambda: looks >= LEAST_LOOKS, "a server that pushes is not asked again")
            now = target.usage().threads
            must(now <= before + 4, f"{now - before} threads more")
            must(target.end() == 0, "it does not end")
