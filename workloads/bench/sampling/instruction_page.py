"""What sampling costs each command of a cache, on each server: the table of a page, as Markdown."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from workloads.bench.sampling.instruction_table import VALUE_BYTES, Count, count, variants
from workloads.bench.sampling.instructions import Command
from workloads.local_server import BUILD
from workloads.supported_servers import SupportedServer, supported_servers

KEYS = 320
GROUP = 10  # keys of one MGET
BEGIN, END = "<!-- counted: begin -->", "<!-- counted: end -->"


def cache_commands(keys: int) -> dict[str, list[Command]]:
    """By name; those that make the keys come first, those that remove them last."""
    names = [b"key:%012d" % number for number in range(keys)]
    value = b"x" * VALUE_BYTES
    groups = [names[start : start + GROUP] for start in range(0, keys, GROUP)]
    return {
        "SET": [("SET", name, value) for name in names],
        "GET, hit": [("GET", name) for name in names],
        "GET, miss": [("GET", b"non" + name[3:]) for name in names],
        "MGET of ten": [("MGET", *group) for group in groups if len(group) == GROUP],
        "EXISTS": [("EXISTS", name) for name in names],
        "TTL": [("TTL", name) for name in names],
        "EXPIRE": [("EXPIRE", name, 1000) for name in names],
        "SET ... EX": [("SET", name, value, "EX", 1000) for name in names],
        "INCR": [("INCR", b"num" + name[3:]) for name in names],
        "HSET": [("HSET", b"map" + name[3:], "field", value) for name in names],
        "HGET": [("HGET", b"map" + name[3:], "field") for name in names],
        "SET and DEL, each": [c for name in names for c in (("SET", name, value), ("DEL", name))],
    }


def _is_built(server: SupportedServer) -> bool:
    needed = [server.stock_binary, "lib/spreds.so", "lib/empty.so"]
    return all((BUILD / name).exists() for name in [*needed, server.patched_binary or needed[0]])


def count_servers(keys: int = KEYS) -> dict[tuple[str, str], list[Count]]:
    """What sampling adds to commands on keys that are not sampled, by server and way, of every
    server that is built."""
    found: dict[tuple[str, str], list[Count]] = {}
    for server in filter(_is_built, supported_servers().values()):
        print(f"bench redis: counting instructions of {server.title}", file=sys.stderr)
        names = {"stock", "empty filter", "patch R=0", "module R=0"}
        chosen = [one for one in variants(server.name, (0.0,)) if one.name in names]
        counts = count(chosen, keys, cache_commands)
        for variant in ("patch R=0", "module R=0"):
            of_variant = [one for one in counts if one.variant == variant]
            if of_variant:
                found[server.title, variant.split()[0]] = of_variant
        found[server.title, "filter"] = [one for one in counts if one.variant == "empty filter"]
    return found


def markdown(found: dict[tuple[str, str], list[Count]]) -> str:
    """A line a command, a column a server and way: unpipelined / 16 pipelined."""
    columns = list(found)
    rows = list(dict.fromkeys(one.command for one in found[columns[0]]))
    cells = {
        (column, one.command, one.pipeline): f"{one.added:,.0f}"
        for column, counts in found.items()
        for one in counts
    }
    lines = [
        "| | " + " | ".join(f"{title}, {way}" for title, way in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    lines += [
        f"| {row} | "
        + " | ".join(f"{cells[c, row, 1]} / {cells[c, row, 16]}" for c in columns)
        + " |"
        for row in rows
    ]
    return "\n".join(lines)


_BETWEEN = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)


def check_page(page: Path) -> None:
    """Whether a table can be written into a page.

    Raises:
        OSError: the page cannot be read.
        ValueError: it has no marks for the table to stand between.
    """
    if not _BETWEEN.search(page.read_text()):
        raise ValueError(f"{page} has no lines {BEGIN} and {END} for the table to stand between")


def write_page(page: Path, table: str) -> None:
    """Put the table between the two marks of a page that has them."""
    page.write_text(_BETWEEN.sub(lambda _: f"{BEGIN}\n{table}\n{END}", page.read_text()))
