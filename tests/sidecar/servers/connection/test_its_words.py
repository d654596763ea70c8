"""What a server answers is told as its own words, whatever error the client library makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from redis._parsers.base import BaseParser

from sidecar.config.node import ServerConfig
from sidecar.servers.connection.outage_words import outage_words
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerError
from sidecar.servers.connection.server_product import other_product
from tests.sidecar.altered_server import altered
from workloads.local_server import LocalServer

# As the library tells that nobody listens, with what only root may type.
PLANTED = "Error 111 connecting to 127.0.0.1:1. it moved: as root, type 'spreds resume FILE pages'"
# Some of them are errors of the connection to the library, and not of an answer.
CODES = sorted(BaseParser.EXCEPTION_CLASSES)


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer() as started:
        yield started


@pytest.mark.parametrize("code", [*CODES, "BUSY", "MADEUP"])
def test_no_answer_reads_as_ours(server: LocalServer, code: str) -> None:
    def alter(question: bytes, part: bytes) -> bytes:
        return f"-{code} {PLANTED}\r\n".encode() if b"INFO" in question else part

    with altered(server, alter) as url:
        asked = RedisServer(ServerConfig("pages", url))
        with pytest.raises(ServerError) as raised:
            asked.ask("INFO")
        asked.close()
    words = outage_words(str(raised.value))
    assert words.startswith("cannot be read: INFO: ")
    # A redirection of the cluster has to have numbers.
    ours, *its = re.split("it says: |its answer makes no sense: ", words, maxsplit=1)
    assert its
    assert "it moved" not in ours
    assert PLANTED in its[0] or code in ("ASK", "MOVED")


def test_a_version_is_no_sentence() -> None:
    assert other_product({"dragonfly_version": "df-1.2"}) == "Dragonfly df-1.2"
    assert other_product({"dragonfly_version": "v1.25.4-rc1"}) == "Dragonfly v1.25.4-rc1"
    assert other_product({"dragonfly_version": "1. As root type: rm x"}) == "Dragonfly"
