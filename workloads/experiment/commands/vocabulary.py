"""The commands that are spoken, as templates: one a line, with how their replies are compared.

A line begins with one sign: ``=`` replies are equal; ``*`` equal in any order; ``t`` times that
may differ by a minute; ``~`` not compared (times, memory, chance, what each process has of its
own); ``!`` chance or time decides what is in the database then, so it is only spoken where no twin
listens. ``SORT ... ALPHA`` stops at a zero byte, and leaves what is the same until there as it
was. Ranges by name are asked of sets with one score: else they hang on a server's random numbers.

Words in braces are drawn anew each time: see ``Speaker``. ``{n*word}`` draws one to six of them.

The sampler while commands run: its settings, right and wrong ones, and who takes its samples.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any, Self

import redis
import zmq

from sidecar.samples.batch import SampleError, decode_batch
from workloads.experiment.commands.key_commands import (
    HASHES,
    KEYS,
    LISTS,
    SETS,
    SORTED_SETS,
    STREAMS,
    STRINGS,
)
from workloads.experiment.commands.tested_server import Make

SCRIPTS = (
    "return redis.call('GET', KEYS[2])",
    "return redis.pcall('TYPE', KEYS[1])",
    "return redis.call('SET', KEYS[2], ARGV[1])",
    "redis.call('SELECT', 1); return redis.call('GET', KEYS[2])",
    "for i = 1, 300 do redis.call('SET', KEYS[2], i); redis.call('GET', KEYS[2]) end return 1",
    "for i = 1, 30 do redis.call('RPUSH', KEYS[3], i) end return redis.call('LLEN', KEYS[3])",
    "return {redis.pcall('LPOP', KEYS[3]), redis.pcall('HGET', KEYS[1], ARGV[2])}",
    "redis.call('DEL', KEYS[1]); return redis.error_reply('wanted')",
    "return redis.call('EXPIRE', KEYS[2], 100000)",
    "redis.pcall('INCRBY', KEYS[2], ARGV[1]); return redis.sha1hex(ARGV[1])",
    "return cjson.encode({KEYS, ARGV})",
    "return cmsgpack.unpack(cmsgpack.pack(ARGV[1]))",
    "return redis.call('NOSUCH')",
    "return not a script",
    "error('wanted')",
)

LIBRARY = """#!lua name=library
redis.register_function{function_name='reads', flags={'no-writes'}, callback=function(keys, args)
  return {redis.pcall('GET', keys[2]), redis.pcall('TYPE', keys[1])} end}
redis.register_function('writes', function(keys, args)
  return redis.call('SET', keys[#keys], args[1] or 'x') end)
"""


_SCRIPTS = """
= EVAL {script} 3 {key} {string} {list} {value} {member}
= EVAL {script} 3 {key} {string} {list} {integer} {member}
= EVAL {script} 0
= EVAL_RO {script} 3 {key} {string} {list} {member}
= EVALSHA ffffffffffffffffffffffffffffffffffffffff 1 {key}
= SCRIPT LOAD {script}
= SCRIPT FLUSH ASYNC
= FUNCTION LOAD REPLACE {library}
= FUNCTION FLUSH
* FUNCTION LIST
= FCALL reads 2 {key} {string} {member}
= FCALL writes 2 {key} {string} {value}
= FCALL_RO reads 2 {key} {string} {member}
= FCALL_RO writes 1 {string}
"""

_TRANSACTIONS = """
= MULTI
= MULTI
= WATCH {6*key}
= UNWATCH
= EXEC
= DISCARD
"""

_CONNECTIONS = """
= SELECT {db}
= SELECT 0
= SELECT 0
= RESET
= PING {value}
= ECHO {value}
= CLIENT SETNAME {member}
= CLIENT GETNAME
= CLIENT NO-EVICT ON
= CLIENT NO-EVICT OFF
= CLIENT NO-TOUCH ON
= CLIENT NO-TOUCH OFF
~ CLIENT LIST
~ CLIENT INFO
! CLIENT PAUSE 1 WRITE
= CLIENT UNBLOCK 1
= CLIENT TRACKINGINFO
= NOSUCHCOMMAND {key}
= GET
= SET {string}
= HSET {hash} {member}
"""

_SERVER = """
~ INFO
~ INFO everything
~ INFO commandstats
~ CONFIG GET *
~ CONFIG RESETSTAT
~ MEMORY STATS
~ MEMORY DOCTOR
~ LATENCY HISTOGRAM
~ SLOWLOG GET 5
~ COMMAND COUNT
~ BGSAVE
~ BGREWRITEAOF
~ LASTSAVE
~ TIME
~ WAIT 0 1
~ ROLE
~ DEBUG OBJECT {key}
~ DEBUG LISTPACK {key}
~ DEBUG HTSTATS-KEY {key}
= DEBUG RELOAD
= DEBUG QUICKLIST-PACKED-THRESHOLD 300b
= DEBUG QUICKLIST-PACKED-THRESHOLD 1gb
= SWAPDB {db} {db}
= FLUSHDB ASYNC
= FLUSHDB
= FLUSHALL ASYNC
= CONFIG SET hash-max-listpack-entries {small}
= CONFIG SET list-max-listpack-size {small}
= CONFIG SET set-max-intset-entries {small}
= CONFIG SET zset-max-listpack-entries {small}
= CONFIG SET notify-keyspace-events {events}
= CONFIG SET lazyfree-lazy-user-del {yes}
= CONFIG SET lazyfree-lazy-expire {yes}
= CONFIG SET lazyfree-lazy-eviction {yes}
= CONFIG SET maxmemory-policy {policy}
! CONFIG SET maxmemory {memory}
! CONFIG SET maxmemory-samples {bit}1
! CONFIG SET maxmemory-eviction-tenacity {small}
! CONFIG SET maxmemory-clients {small}%
"""

SERVER = _SERVER
# How often one of a table is spoken, for each.
TABLES = {
    KEYS: 16,
    STRINGS: 18,
    LISTS: 14,
    SETS: 12,
    HASHES: 12,
    SORTED_SETS: 14,
    STREAMS: 10,
    _SCRIPTS: 5,
    _TRANSACTIONS: 4,
    _CONNECTIONS: 3,
    SERVER: 0.5,
}

POLICIES = (
    "noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random",
    "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
)  # fmt: skip

# Of a key of each kind, which may be a key of another one.
KINDS = ("string", "list", "set", "hash", "zset", "place", "stream", "log")


_MODULUS = 1 << 24
_RATES = (
    (_MODULUS, _MODULUS),
    (_MODULUS, _MODULUS),
    (_MODULUS // 100, _MODULUS),
    (_MODULUS // 100, _MODULUS),
    (1 << 32, 1 << 32),
    (1, 1),
    (0, _MODULUS),
    (_MODULUS + 1, _MODULUS),
    (5, 12),
    (-1, 0),
)
_SALTS = ("0", "1", "18446744073709551615", "18446744073709551616", "abc", "", "7 ")
_SECRETS = ("ab" * 16, "00" * 16, "", "ab" * 15, "AB" * 16, "\x00" * 32, "x" * 4000)
_WRONG_ENDPOINTS = ("nonsense", "tcp://192.0.2.1:9", "tcp://127.0.0.1:x", "ipc://" + "x" * 200)


class Knobs:
    """Turns them, by a connection of its own.

    ``endpoints``: of those who listen; the first one takes what comes.
    """

    def __init__(self, client: Any, make: Make, endpoints: list[str], draw: random.Random) -> None:
        self._client = client
        self._make = make
        self._endpoints = endpoints
        self._draw = draw
        self.turned = 0

    def sample_everything(self) -> None:
        """Sample every key and send the samples to the first endpoint."""
        self._set(threshold=_MODULUS, modulus=_MODULUS, endpoint=self._endpoints[0])

    def turn(self) -> str:
        """Turn a knob, or several at once, or the module; say what was done, for people."""
        self.turned += 1
        if self._make.way == "module" and self._draw.random() < 0.1:
            return self._load_anew()
        knobs: dict[str, object] = {}
        if self._draw.random() < 0.6:
            knobs["threshold"], knobs["modulus"] = self._draw.choice(_RATES)
        if self._draw.random() < 0.5:
            endpoints = [*self._endpoints * 3, "", *_WRONG_ENDPOINTS]
            knobs["endpoint"] = self._draw.choice(endpoints)
        if self._draw.random() < 0.3:
            knobs["salt"] = self._draw.choice(_SALTS)
        if self._draw.random() < 0.3:
            knobs["secret"] = self._draw.choice(_SECRETS)
        return self._set(**knobs) if knobs else ""

    def _set(self, **knobs: object) -> str:
        pairs = [
            word for name, value in knobs.items() for word in (self._make.prefix + name, value)
        ]
        words = f"CONFIG SET {' '.join(map(str, pairs))}"
        try:
            self._client.execute_command("CONFIG SET", *pairs)
        except redis.ResponseError as error:
            return f"{words} (refused: {error})"
        return words

    def _load_anew(self) -> str:
        try:
            self._client.execute_command("MODULE UNLOAD", "spreds")
            self._client.execute_command("MODULE LOAD", str(self._make.module))
        except redis.ResponseError as error:
            return f"MODULE UNLOAD, MODULE LOAD (refused: {error})"
        return "MODULE UNLOAD, MODULE LOAD"


class SampleConsumers:
    """Binds sockets in a folder. A context manager.

    Attributes:
        endpoints: to give to a server, of all three.
        batches: that came and are well-formed.
        faults: what was wrong with others.
    """

    def __init__(self, folder: Path) -> None:
        self.batches = 0
        self.faults: list[str] = []
        self.endpoints = [f"ipc://{folder}/{name}" for name in ("taken", "stalled", "nobody")]
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._taken = self._bind(self.endpoints[0])
        self._stalled = self._bind(self.endpoints[1], queue_messages=1)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._take, name="samples")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self._context.destroy(linger=0)

    def _bind(self, endpoint: str, queue_messages: int = 1000) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.PULL)
        socket.setsockopt(zmq.RCVHWM, queue_messages)
        socket.bind(endpoint)
        return socket

    def _take(self) -> None:
        while not self._ends.is_set():
            if not self._taken.poll(100):
                continue
            try:
                decode_batch(self._taken.recv())
                self.batches += 1
            except SampleError as error:
                self.faults.append(f"{error.reason}: {error}")
