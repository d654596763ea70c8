"""What comes from Redis servers: batches of samples, and replies to INFO and CONFIG GET."""

from __future__ import annotations

import random
import traceback
from typing import Any, cast

import numpy as np
import redis

from sidecar.config.node import ServerConfig
from sidecar.samples.batch import SampleError, decode_batch
from sidecar.samples.wire_format import DEFAULT_MODULUS as MODULUS
from sidecar.samples.wire_format import HEADER, RECORD_BYTES
from sidecar.servers.redis_server import RedisServer
from sidecar.servers.server_errors import ServerDownError, ServerRefusedError
from workloads.experiment.fuzz.fuzzing import Parser
from workloads.experiment.fuzz.mutators import changed_bytes
from workloads.experiment.fuzz.seeds import CONFIG, INFO, ODD_NUMBERS
from workloads.sample_batches import SampledServer, number_hashes

_HEADER_BYTES = (0, 1, 2, 7, 8, 9, 15, 16, 17, 119, 120, 121, 255)
_LIMITS = (0, 1, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


def server_parsers() -> list[Parser]:
    batches = _batches()
    reader = _ReplyReader()
    return [
        Parser(
            "batch", batches, lambda draw: _changed_batch(batches, draw), _batch, (SampleError,), 2
        ),
        Parser(
            "replies",
            [_replies(INFO, CONFIG)],
            _changed_replies,
            reader.read,
            (ServerDownError, ServerRefusedError),
            0.5,
        ),
    ]


# batches


def _batches() -> list[bytes]:
    messages: list[bytes] = []
    for count, threshold in ((0, MODULUS), (1, MODULUS), (5, MODULUS), (400, MODULUS // 64)):
        server = SampledServer(instance=count + 1, threshold=threshold, salt=count)
        operations = np.arange(count) % 6 + 1
        hashes = number_hashes(np.arange(count), count)
        messages += server.batches(hashes, operations, 100, ttl=True, times_us=np.arange(count))
    return messages


def _changed_batch(batches: list[bytes], draw: random.Random) -> bytes:
    message = bytearray(draw.choice(batches))
    for _ in range(draw.choice((1, 1, 2, 3))):
        kind = draw.randrange(3)
        if kind == 0:
            message = bytearray(changed_bytes(bytes(message), draw))
        elif kind == 1 and message:
            message[draw.randrange(min(len(message), 16))] = draw.choice(_HEADER_BYTES)
        elif len(message) >= HEADER.size:
            field = 16 + 8 * draw.randrange(13)
            message[field : field + 8] = draw.choice(_LIMITS).to_bytes(8, "little")
    return bytes(message)


def _batch(data: bytes) -> None:
    batch = decode_batch(data)
    operations = batch.records["operation"]
    assert len(data) >= HEADER.size + RECORD_BYTES * len(batch.records)
    assert 0 <= batch.threshold <= batch.modulus <= 1 << 32
    assert batch.first_time_us <= batch.last_time_us
    assert np.all((operations >= 1) & (operations <= 8))


# replies


def _replies(info: list[bytes], config: list[bytes]) -> bytes:
    """What a server says to INFO and CONFIG GET."""
    text = b"\r\n".join(info) + b"\r\n"
    pairs = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in config)
    return b"$%d\r\n%s\r\n" % (len(text), text) + b"*%d\r\n" % len(config) + pairs


def _changed_replies(draw: random.Random) -> bytes:
    info, config = list(INFO), list(CONFIG)
    if draw.random() < 0.3:
        return changed_bytes(_replies(info, config), draw)
    for _ in range(draw.choice((1, 1, 2, 3))):
        place = draw.randrange(len(info))
        kind = draw.randrange(8)
        if kind < 3:
            name = info[place].partition(b":")[0]
            info[place] = name + b":" + draw.choice(ODD_NUMBERS)
        elif kind == 3:
            words = info[place].replace(b"=", b":").replace(b",", b":").split(b":")
            info[place] = info[place].replace(draw.choice(words), draw.choice(ODD_NUMBERS), 1)
        elif kind == 4:
            del info[place : place + draw.choice((1, 1, 5))]
            info = info or [b""]
        elif kind == 5:
            info[place] = changed_bytes(info[place], draw, info)
        else:
            config[draw.randrange(len(config))] = draw.choice((*ODD_NUMBERS, *CONFIG))
    return _replies(info, config)


class _Played:
    """A socket that has received something, and nothing comes after it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._read = 0

    def recv(self, size: int, *_: object) -> bytes:
        part = self._data[self._read : self._read + size]
        self._read += len(part)
        return part

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class _PlayedConnection(redis.Connection):
    """Is connected to such a socket."""

    data = b""

    def _connect(self) -> Any:
        return _Played(self.data)


def _place_of(error: Exception) -> str:
    return traceback.extract_tb(error.__traceback__)[-1].filename


class _ReplyReader:
    """Reads them by all that lies between a server's socket and its reading."""

    def __init__(self) -> None:
        self._server = RedisServer(ServerConfig("pages", "redis://127.0.0.1:6379"))
        pool = self._server._client.connection_pool
        pool.connection_class = _PlayedConnection
        self._connection = cast(Any, pool.make_connection())
        self._connection.driver_info = None
        self._server._connection = self._connection

    def read(self, data: bytes) -> None:
        self._connection.data = data
        try:
            reading = self._server.read()
        finally:
            self._server.close()
        assert reading.unevictable_bytes >= reading.baseline_bytes >= 0
        assert reading.keep_reason() is None or reading.keep_reason()
        assert reading.average_ttl_seconds == reading.average_ttl_seconds  # a number
