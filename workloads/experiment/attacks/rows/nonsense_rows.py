"""Figures that make no sense, of a hostile server or of its clients, cost no other."""

from __future__ import annotations

import re

from workloads.experiment.attacks.stage.attack import Rows, must
from workloads.experiment.attacks.stage.hostile_server import ask_real, bulk, hostile_in_place_of
from workloads.experiment.attacks.stage.target import MIB, SERVER_BYTES, Target

ROWS = Rows()

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
