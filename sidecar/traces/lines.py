"""Reads the requests of traces of lines, and refuses a line that is none."""

from __future__ import annotations

from ctypes import byref, c_double, c_uint32, c_uint64

from sidecar.kernel.library import library
from sidecar.traces.columns import parse_line, shown
from sidecar.traces.file import TraceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sidecar.traces.columns import Columns, Row
    from sidecar.traces.file import TracePath
    from sidecar.traces.read_options import ReadOptions

    Parse = Callable[[bytes], Iterable[Row]]

MAX_LINE_BYTES = 1 << 20
_ZEROS = b"\0" * 64
_ROOM = 1 << 14  # requests parsed at a time
_FIRST_LINES = 512  # that tell what the columns are
_LINES_FOR_PYTHON = 32  # at a time, from one on that the compiled reader cannot read


def identity(text: bytes) -> int:
    """Return the u64 that stands for a key: a decimal number is its own, another text has the
    samples' hash, with salt 0."""
    if text.isdigit() and len(text) <= 20 and (text[0] != 48 or len(text) == 1):
        number = int(text)
        if number < 1 << 64:
            return number
    from sidecar.samples.wire_format import key_hash

    return key_hash(text, 0)


class WholeLines:
    """Holds the lines of a file, each with its end, some of them at a time; none is empty.

    Attributes:
        path: of the file.
        number: of the next line, from 1. Whoever takes lines counts on: to count them here as well
            would take a tenth of the time.
    """

    def __init__(self, path: TracePath, blocks: Iterator[bytes]) -> None:
        self.path, self.number = path, 1
        self._pieces = self._read(blocks)
        self._first = next(self._pieces, b"")

    def header(self) -> bytes:
        """Return the first line, without its end; it may be taken away by ``skip_header``."""
        return self._first.partition(b"\n")[0]

    def first_lines(self) -> list[bytes]:
        """Return some lines, without their ends."""
        return self._first[: 1 << 16].split(b"\n")[:-1][:_FIRST_LINES]

    def skip_header(self) -> None:
        """The first line holds no request."""
        self._first = self._first.partition(b"\n")[2]
        self.number = 2

    def __iter__(self) -> Iterator[bytes]:
        """Raises TraceError if a line is too long to be one."""
        if self._first:
            yield self._first
        yield from self._pieces

    def _read(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        rest = b""
        for block in blocks:
            if _ZEROS in block:
                raise TraceError(
                    f"{self.path}: has zeros among its lines, as a download that broke off does: "
                    "cut them away"
                )
            end = block.rfind(b"\n") + 1
            if end:
                yield rest + block[:end]
                rest = block[end:]
            else:
                rest += block
            if len(rest) > MAX_LINE_BYTES:
                raise TraceError(
                    f"{self.path}: line {self.number}: longer than {MAX_LINE_BYTES} bytes"
                )
        if rest:
            yield rest + b"\n"

    def rows(self, text: bytes, parse: Parse) -> Iterator[Row]:
        """Yield what is in the next lines, counted on. Raises TraceError for one that does not
        parse."""
        for line in text.split(b"\n")[:-1]:
            if line.strip():
                try:
                    yield from parse(line)
                except ValueError as error:
                    raise TraceError(
                        f"{self.path}: line {self.number}: {shown(line)} is not a request: {error}"
                    ) from error
            self.number += 1


class ParsedRequests:
    """Holds requests, in buffers that are used again for the next ones.

    Attributes:
        requests: how many of the elements are some.
        more: how many times the last of them came again at once, where that is not spelt out.
        times, keys, sizes_bytes: the keys are identities, the times in the trace's unit.
        texts: of the keys, if they were asked for.
    """

    def __init__(self) -> None:
        self.requests = self.more = 0
        self.times = (c_double * _ROOM)()
        self.keys = (c_uint64 * _ROOM)()
        self.sizes_bytes = (c_uint32 * _ROOM)()
        self.texts: list[bytes] = []

    def fill(self, rows: Iterable[Row], *, spelt_out: bool) -> Iterator[ParsedRequests]:
        """Fill the buffers with the rows, again and again. ``spelt_out``: a request stands there as
        often as it came; otherwise ``more`` has the rest of many."""
        self.requests, self.texts = 0, []
        for time, key, size, repeats in rows:
            number = identity(key)
            self.more = 0 if spelt_out else max(repeats - 1, 0)
            left = repeats - self.more
            while left:
                some = min(left, _ROOM - self.requests)
                place = slice(self.requests, self.requests + some)
                self.times[place] = [time] * some
                self.keys[place] = [number] * some
                self.sizes_bytes[place] = [size] * some
                self.texts += [key] * some
                self.requests += some
                left -= some
                if self.requests == _ROOM or self.more:
                    yield self
                    self.requests, self.texts = 0, []
        self.more = 0
        if self.requests:
            yield self


def read_rows(
    lines: WholeLines, parse: Callable[[bytes], Iterable[Row]], options: ReadOptions
) -> Iterator[ParsedRequests]:
    """Yield the requests of lines, each of which Python parses. Raises TraceError."""
    rows = (row for text in lines for row in lines.rows(text, parse))
    yield from ParsedRequests().fill(rows, spelt_out=options.spelt_out)


def read_columns(
    lines: WholeLines, columns: Columns, options: ReadOptions
) -> Iterator[ParsedRequests]:
    """Yield the requests of lines of columns, by the compiled library unless somebody asks for the
    keys' texts. Raises TraceError."""
    columns.any_size = "size" in options.may_lack
    columns.ticks_per_second = options.ticks_per_second

    def parse(line: bytes) -> Iterable[Row]:
        return (parse_line(line, columns, options.operations),)

    if options.texts:
        return read_rows(lines, parse, options)
    return _read_compiled(lines, columns, parse, options)


def _read_compiled(
    lines: WholeLines, columns: Columns, parse: Parse, options: ReadOptions
) -> Iterator[ParsedRequests]:
    """Python looks at the odd lines only, and at some that follow: those may be odd too."""
    compiled = library()
    places, parsed = columns.for_c(), ParsedRequests()
    buffers = (parsed.times, parsed.keys, parsed.sizes_bytes)
    used, count = c_uint64(), c_uint64()
    for piece in lines:
        offset = 0
        while offset < len(piece):
            parsed.requests = compiled.spreds_lines_parse(
                *(piece, offset, len(piece), places, *buffers, _ROOM),
                *(byref(used), byref(count), options.operations.table),
            )
            if parsed.requests:
                yield parsed
            offset += used.value
            lines.number += count.value
            if used.value:
                continue
            end = offset
            for _ in range(_LINES_FOR_PYTHON):
                end = piece.find(b"\n", end) + 1 or len(piece)
            yield from parsed.fill(
                lines.rows(piece[offset:end], parse), spelt_out=options.spelt_out
            )
            offset = end
