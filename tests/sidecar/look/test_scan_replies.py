"""Answers to ``SCAN``: of real servers with endless names, and of those that mean no good."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.node import ServerConfig
from sidecar.look.followed_keys import FollowedKeys
from sidecar.look.look_samplers import LookSampler
from sidecar.look.question_encoding import number_in
from sidecar.look.scan_reply import MOST_NAME_BYTES, read_scan
from sidecar.look.server_questions import LookedServer
from sidecar.samples.wire_format import DEFAULT_MODULUS
from sidecar.servers.connection.own_questions import OwnQuestions
from tests.sidecar.fixtures import StartServer


def in_parts(reply: bytes, size: int = 1 << 20) -> Callable[[int], bytes]:
    """Return what receives the reply in parts."""
    parts = [reply[start : start + size] for start in range(0, len(reply), size)]
    return lambda _: parts.pop(0) if parts else b""


def reply_of(cursor: int, names: list[bytes]) -> bytes:
    text = b"%d" % cursor
    listed = b"".join(b"$%d\r\n%b\r\n" % (len(name), name) for name in names)
    return b"*2\r\n$%d\r\n%b\r\n*%d\r\n%b" % (len(text), text, len(names), listed)


@given(
    st.integers(0, 2**64 - 1),
    st.lists(st.one_of(st.binary(max_size=40), st.binary(min_size=500, max_size=700))),
    st.integers(1, 700),
)
def test_it_is_read_in_any_parts_and_long_names_are_passed_over(
    cursor: int, names: list[bytes], size: int
) -> None:
    found = read_scan(in_parts(reply_of(cursor, names), size))
    assert found == (cursor, [name for name in names if len(name) <= MOST_NAME_BYTES])


@pytest.mark.parametrize(
    "reply",
    [
        reply_of(2**64, []),
        reply_of(-1, []),
        b"*3\r\n$1\r\n0\r\n*0\r\n",
        b"*2\r\n$1\r\n0\r\n$1\r\nx\r\n",
        b"*2\r\n$1\r\n0\r\n*1\r\n*130000\r\n:1\r\n",
        b"*2\r\n$1\r\n0\r\n*99999999\r\n",
        b"*2\r\n$1\r\n0\r\n*1\r\n$-1\r\n",
        b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\nxy\r\n",
        b"+" + 1000 * b"x",
    ],
)
def test_what_is_no_answer_is_refused(reply: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it "):
        read_scan(in_parts(reply))


def test_an_error_is_an_answer_and_half_of_one_is_none() -> None:
    assert str(read_scan(in_parts(b"-NOPERM no\r\n"))) == "NOPERM no"
    with pytest.raises(redis.ConnectionError):
        read_scan(in_parts(reply_of(7, [b"key"])[:-3]))


def test_a_key_with_a_name_of_megabytes_hides_no_other(start_server: StartServer) -> None:
    """One ``SET`` ended the look at a cache for good."""
    real = start_server("64mb")
    real.client.set(b"n" * (5 << 20), "value")
    names = {b"key%d" % place for place in range(300)}
    real.client.mset(dict.fromkeys(names, "value"))
    asked = LookedServer(ServerConfig("s", real.url))
    cursor, found = asked.scan(0, 200)
    while cursor:
        cursor, more = asked.scan(cursor, 200)
        found += more
    assert set(found) == names
    asked.close()


@pytest.mark.parametrize("line", [b":" + 4300 * b"9", b":", b":1e3", b"+1", b": 1"])
def test_a_number_has_the_digits_of_64_bits(line: bytes) -> None:
    with pytest.raises(ValueError, match="no number"):
        number_in(line)
    assert number_in(b":-2") == -2
    assert number_in(b":%d" % 2**62) == 2**62


@pytest.mark.parametrize("share", [1.0, 1e30])
def test_no_more_than_all_keys_are_followed(share: float) -> None:
    keys = FollowedKeys(b"salt")
    keys.settle(share)
    assert keys.threshold == DEFAULT_MODULUS


def test_who_makes_us_work_is_asked_later_whatever_becomes_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A twentieth of a core at most, also where it hangs up each time."""
    waits: list[float] = []
    look = LookSampler.__new__(LookSampler)
    monkeypatch.setattr(look, "_wait", waits.append, raising=False)
    look._own = OwnQuestions()
    look._own_since_seconds = time.thread_time() - 30.0
    look._rest(10.0)
    look._rest(10.0)
    assert waits[0] >= 600.0
    assert waits[1] == 10.0
