"""Lists the formats of traces, and finds which of them a file has.

A format is a module of ``formats``. It has

* ``detect(beginning)``: ``YES``, ``MAYBE``, ``UNNAMED`` or ``NO``;
* ``read(path, blocks, options)``: its requests, as ``lines.ParsedRequests``; or, where the compiled
  library takes its records as they are, ``RECORD_BYTES``, ``TAKEN_BY`` and ``columns(records)``;
* ``LACKS``, if its requests do not say a ``time`` or a ``size``;
* ``UNIT_IS_KNOWN``, if all such traces have the same unit of time.

A new one is such a file, and a line here.
"""

from __future__ import annotations

from sidecar.traces.beginning import MAYBE, YES, Beginning
from sidecar.traces.file import COMPRESSED, STDIN, TraceError, trace_blocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from sidecar.traces.file import TracePath
    from sidecar.traces.read_options import ReadOptions

# In the order in which they are asked; the binary ones with what their files are called, for bytes
# alone never tell that it is not another record of the same length.
_NAMED: dict[str, Sequence[str]] = {
    "csv": (),
    "cachelib": (),
    "twitter": (),
    "redis-monitor": (),
    "lrb": (),
    "ibm-cos": (),
    "keys": (),
    "msr": (),
    "spc": (),
    "alibaba": (),
    "tencent": (),
    "arc": (),
    "cache2k": ("trace",),
    "oracle-general": ("bin", "oraclegeneral"),
    "vscsi": ("vscsi",),
}
FORMATS = tuple(_NAMED)
_PACKETS = "it has packets of a network: write their requests as CSV"
_PICTURE = "it is a picture"
# By what a file begins with, and how it becomes one that is read.
_NOT_READ = {
    **{
        magic: f"it is compressed: call it {suffix}, or unpack it"
        for magic, suffix in COMPRESSED.items()
    },
    b"\x04\x22\x4d\x18": "it is compressed (lz4): unpack it",
    b"7z\xbc\xaf\x27\x1c": "it is a 7z archive: unpack it",
    b"Rar!": "it is an archive: unpack it",
    b"\x1f\x9d": "it is compressed (.Z): unpack it",
    b"\x7fELF": "it is a program",
    b"\xff\xfe\0\0": "it is UTF-32: iconv -f UTF-32 -t UTF-8 converts it",
    b"PK\x03\x04": "it is a zip archive, or a workbook, which is one: unpack it, or save it as CSV",
    b"\xff\xfe": "it is UTF-16: iconv -f UTF-16 -t UTF-8 converts it",
    b"\xfe\xff": "it is UTF-16: iconv -f UTF-16 -t UTF-8 converts it",
    b"PAR1": "it is Parquet: write it as CSV",
    b"SQLite format 3": "it is a database: write the table as CSV",
    b"\xd4\xc3\xb2\xa1": _PACKETS,
    b"\xa1\xb2\xc3\xd4": _PACKETS,
    b"\x0a\x0d\x0d\x0a": _PACKETS,
    b"\x4d\x3c\xb2\xa1": _PACKETS,
    b"\x93NUMPY": "it is an array of numpy: write it as CSV",
    b"\x89HDF": "it is HDF5: write the table as CSV",
    b"ARROW1": "it is Arrow: write it as CSV",
    b"Obj\x01": "it is Avro: write it as CSV",
    b"ORC": "it is ORC: write it as CSV",
    b"%PDF": "it is a PDF",
    b"REDIS0": "it is a dump of Redis: its requests are what redis-cli monitor prints",
    b"\xff\x06\0\0sNaPpY": "it is compressed (snappy): unpack it",
    b"\x89LZO": "it is compressed (lzo): unpack it",
    b"\0asm": "it is a program",
    b"PERFILE2": "it is a profile of perf",
    b"\xc1\x1f\xfc\xc1": "it is a trace of LTTng: write its requests as CSV",
    b"II*\0": _PICTURE,
    b"\xac\xed\0\x05": "it has objects of Java: write the requests as CSV",
    b"\x89PNG": _PICTURE,
    b"\xff\xd8\xff": _PICTURE,
    b"GIF8": _PICTURE,
    b"RIFF": "it is sound or a picture",
    b"OggS": "it is sound or a picture",
    b"\xca\xfe\xba\xbe": "it is a program",
}
_LEAST_ZEROS = 64
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some programs write it first into a file of text
_LACKS = {
    "size": "have no sizes, so nothing can be counted in bytes",
    "time": "have no times, so nothing can expire",
}


def format_named(name: str) -> Any:
    """Return the module of a format."""
    path = f"sidecar.traces.formats.{name.replace('-', '_')}"
    return __import__(path, fromlist=["detect"])


def trace_format(path: TracePath, format: str | None, first: bytes) -> str:  # noqa: A002
    """Return one of ``FORMATS``: the one given, or what the name and the first bytes tell.

    Raises:
        TraceError: it is not one of them, or cannot be told.
    """
    if format and format not in FORMATS:
        raise TraceError(f"{path}: format {format!r} is not one of {', '.join(FORMATS)}")
    if why := _not_read(first):
        raise TraceError(f"{path}: {why}")
    if format:
        return format
    beginning = Beginning(path, first)
    maybe, misnamed = {}, []
    for name in FORMATS:
        how = format_named(name).detect(beginning)
        if how and not _fits(name, beginning):
            misnamed += [name] * (how == YES)
        elif how == YES:
            return name
        elif how:
            maybe[name] = how
    if len(maybe) == 1 and MAYBE in maybe.values():
        return next(iter(maybe))
    raise _unknown(path, [*maybe] or misnamed, beginning)


def _not_read(first: bytes) -> str:
    """Say why what begins so is no trace, and how it becomes one; empty: it may be one."""
    for mark in sorted(_NOT_READ, key=len, reverse=True):
        # Two bytes may well be a number's.
        if first.startswith(mark) and (len(mark) > 2 or not first[:64].isascii()):
            return _NOT_READ[mark]
    count, _, rest = first[:64].partition(b"\r\n$")
    if count[:1] == b"*" and count[1:].isdigit() and rest[:1].isdigit():
        return "it has Redis' protocol, as an append-only file: redis-cli monitor prints requests"
    if len(first) >= _LEAST_ZEROS and not any(first):
        return "it has nothing but zeros"
    if first[257:262] == b"ustar":
        return "it is a tar archive: unpack it"
    text = first[: 1 << 10]
    if len(text) >= 8 and (_is_wide(text[::2], text[1::2]) or _is_wide(text[1::2], text[::2])):
        return "it is UTF-16: iconv -f UTF-16LE -t UTF-8, or UTF-16BE, converts it"
    return ""


def _is_wide(letters: bytes, zeros: bytes) -> bool:
    """Whether each letter of a text has a zero beside it."""
    return not any(zeros) and all(32 <= one < 127 or one in b"\t\r\n" for one in letters)


def _fits(name: str, beginning: Beginning) -> bool:
    """Whether the name agrees: records have the name of their format, text has that of none."""
    if _NAMED[name]:
        return beginning.is_named(*_NAMED[name])
    return not any(beginning.is_named(*names) for names in _NAMED.values())


def _unknown(path: TracePath, formats: Sequence[str], beginning: Beginning) -> TraceError:
    holds = "text" if beginning.lines else "no text"
    if formats:
        holds += f" that could be {' or '.join(formats)}"
    return TraceError(
        f"{path}: name and contents together do not tell the format (it holds {holds}): give "
        f"--format, one of {', '.join(FORMATS)}, or write it as CSV with the header "
        "time,key,size,op"
    )


def open_trace(
    path: TracePath,
    format: str | None,  # noqa: A002
    options: ReadOptions,
) -> tuple[str, Iterator[bytes]]:
    """Return the format, one of ``FORMATS``, and the contents as of ``file.trace_blocks``; a file
    that is empty has the format ``""``.

    Raises:
        TraceError: as of ``trace_format``, or it lacks what is wanted.
    """
    if path == STDIN and not format:
        known = ", ".join(FORMATS)
        raise TraceError(f"{path}: standard input needs a --format, one of {known}")
    blocks = trace_blocks(path, options.progress)
    first = next(blocks, b"")
    if not first:
        return "", blocks
    text = first.removeprefix(_BYTE_ORDER_MARK)
    kind = trace_format(path, format, text)
    module = format_named(kind)
    if getattr(module, "UNIT_IS_KNOWN", False):
        if options.unit_is_given:
            raise TraceError(
                f"{path}: of {kind} traces it is known in what unit times are: leave --time-unit "
                "out"
            )
        options.unit_is_given = True
    for column, needed in (("size", options.in_bytes), ("time", options.timed)):
        if needed and column in getattr(module, "LACKS", ()):
            raise TraceError(f"{path}: {kind} traces {_LACKS[column]}")
    return kind, _and_then(first if _NAMED[kind] else text, blocks)


def _and_then(first: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from blocks
