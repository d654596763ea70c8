"""Reads what ``redis-cli monitor`` prints: time, database and client, command and arguments."""

from __future__ import annotations

import re
from codecs import escape_decode
from typing import TYPE_CHECKING

from sidecar.traces.beginning import NO, YES
from sidecar.traces.lines import WholeLines, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidecar.traces.beginning import Beginning
    from sidecar.traces.columns import Row
    from sidecar.traces.file import TracePath
    from sidecar.traces.lines import ParsedRequests
    from sidecar.traces.read_options import ReadOptions

LACKS = ("size",)
UNIT_IS_KNOWN = True
_LINE = re.compile(rb'(\d+\.\d+) \[(\d+) [^"]*\] ((?:"(?:[^"\\]|\\.)*" ?)+)')
_ARGUMENT = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_OF_MANY_KEYS = (b"mget", b"exists", b"touch", b"sinter", b"sunion", b"sdiff", b"pfcount", b"lcs")
# So many keys follow as the argument at this place says.
_COUNTED = {
    **dict.fromkeys((b"zunion", b"zinter", b"zdiff", b"zintercard", b"sintercard"), 0),
    **dict.fromkeys((b"lmpop", b"zmpop"), 0),
    **dict.fromkeys((b"eval", b"eval_ro", b"evalsha", b"evalsha_ro", b"fcall", b"fcall_ro"), 1),
    **dict.fromkeys((b"blmpop", b"bzmpop", b"zunionstore", b"zinterstore", b"zdiffstore"), 1),
}
_OF_PAIRS = (b"mset", b"msetnx")
_AFTER_SUBCOMMAND = (b"memory", b"object", b"xinfo", b"xgroup", b"debug", b"bitop")
_OF_STREAMS = (b"xread", b"xreadgroup")
_READS = frozenset(
    b"getex getrange substr strlen getbit bitcount bitpos "
    b"hget hmget hgetall hexists hkeys hvals hlen hstrlen hscan hrandfield "
    b"lrange lindex llen lpos smembers sismember smismember scard srandmember sscan "
    b"zrange zrangebyscore zrangebylex zrevrange zrevrangebyscore zrevrangebylex zscore zmscore "
    b"zrank zrevrank zcard zcount zlexcount zscan zrandmember "
    b"zunion zinter zdiff zintercard sintercard lcs xread "
    b"xrange xrevrange xlen geopos geodist geohash geosearch json.get".split()
).union(_OF_MANY_KEYS)


def detect(beginning: Beginning) -> int:
    """Detect the format by the first command; an idle server's has but the answer to MONITOR."""
    lines = [line for line in beginning.lines if line != b"OK"]
    if not lines:
        return YES if beginning.lines else NO
    return YES if _LINE.fullmatch(lines[0]) else NO


def read(
    path: TracePath, blocks: Iterator[bytes], options: ReadOptions
) -> Iterator[ParsedRequests]:
    """Yield a request for each key that a command reads. Raises TraceError."""

    def parse(line: bytes) -> Iterator[Row]:
        line = line.strip()
        if line == b"OK":
            return
        found = _LINE.fullmatch(line)
        if not found:
            raise ValueError('it has not the form: time [database client] "command" "key"')
        command, *words = _ARGUMENT.findall(found[3])
        if not options.operations.is_read(command, _READS):
            return
        if _is_uncounted(command.lower(), words):
            # It failed, and so read nothing.
            options.operations.is_read(command + b" (fails)")
            return
        keys = _keys(command.lower(), words)
        if not keys:
            raise ValueError("the command has no key")
        time = float(found[1]) * options.ticks_per_second
        # A key of another database is another key.
        database = b"" if found[2] == b"0" else b"db%s " % found[2]
        for word in keys:
            yield time, database + escape_decode(word)[0], 0, 1

    return read_rows(WholeLines(path, blocks), parse, options)


def _is_uncounted(command: bytes, words: list[bytes]) -> bool:
    """Whether what should say how many keys follow says no number."""
    place = _COUNTED.get(command, -1)
    return 0 <= place < len(words) and not words[place].isdigit()


def _keys(command: bytes, words: list[bytes]) -> list[bytes]:
    """Return which of the arguments are keys. Raises ValueError."""
    if command in _OF_MANY_KEYS:
        # LCS has options behind its two.
        return words[:2] if command == b"lcs" else words
    if command in _COUNTED:
        place = _COUNTED[command]
        count = int(words[place]) if place < len(words) else 0
        return words[place + 1 : place + 1 + count]
    if command in _OF_PAIRS:
        return words[::2]
    if command in _AFTER_SUBCOMMAND:
        return words[1:] if command == b"bitop" else words[1:2]
    if command in _OF_STREAMS:
        names = [word.lower() for word in words]
        behind = words[names.index(b"streams") + 1 :] if b"streams" in names else []
        return behind[: len(behind) // 2]
    return words[:1]
