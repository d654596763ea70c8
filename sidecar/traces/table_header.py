"""Tells what the columns of a table are: by the header that names them, or by its first lines."""

from __future__ import annotations

from itertools import pairwise

from sidecar.traces.columns import DELIMITERS, Columns, moment, shown, split
from sidecar.traces.file import TraceError
from sidecar.traces.operations import READS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sidecar.traces.file import TracePath

# Of a table's header; the first that is there counts: the last ones mean other things, too.
COLUMN_NAMES = {
    "time": ("timestamp", "clock_time", "op_time", "relative_unix", "time"),
    "key": (
        *("key", "cachekey", "obj_id", "object_id", "hashed_path_query", "hashed_host_path_query"),
        *("url", "lbn", "object", "obj", "id"),
    ),
    "size": ("size", "obj_size", "object_size", "objectsize", "response_size", "value_size", "len"),
}
# Each of these may have an object of the same name; they may have a number or a name.
_PLACES = (
    *("bucket", "volume", "vol", "disk", "device", "dev", "lun", "namespace", "tenant", "cache"),
    *("database", "db", "schema", "keyspace", "table", "prefix", "offset", "block", "chunk"),
    *("container", "asu"),
)
_OF_PLACES = ("id", "no", "num", "number", "index", "idx", "name", "uuid", "")
# Likewise, where keys are paths.
_SITES = ("host", "hostname", "domain", "vhost", "site", "server_name", "http_host")
OPERATION, KEY_SIZE, REPEATS = "op", "key_size", "op_count"
OPERATION_NAMES = (
    *(OPERATION, "operation", "command", "cmd", "opcode", "op_type", "optype", "method", "verb"),
    *("op_name", "http_method", "query_type", "event", "event_type", "request_type", "req_type"),
    *("io_type", "iotype", "rw", "action", "type"),
)
_ENOUGH_LINES, _SIZES_A_KEY, _FEW_STEPS = 8, 2, 2
# Or what has one of these in its name.
_OPERATION_WORDS = ("operation", "command", "method", "opcode", "verb")
# Which of them are operations, of another kind.
_FLAGS = ("is_write", "iswrite", "write", "is_read", "isread", "is_set", "is_get")
# Reads that tell their outcome; a column may tell nothing else.
_RESULTS = frozenset(b"hit miss hits misses get_hit get_miss".split())
# These words stand where a key is looked for, if the column is one of operations.
_NO_KEYS = frozenset(
    b"get gets get_lease read r set add replace cas append prepend incr decr delete del put post "
    b"head write w update insert remove hit miss hits misses get_hit get_miss gat touch lookup "
    b"load store fetch getitem putitem getobject putobject".split()
)


def read_header(
    path: TracePath, header: bytes, may_lack: Sequence[str] = ()
) -> tuple[Columns, bool]:
    """Return what the columns are, and whether a header said so: without one there are three.

    Args:
        path: of the file.
        header: its first line.
        may_lack: those of ``COLUMN_NAMES`` that it need not name.

    Raises:
        TraceError: the header is missing or wrong.
    """
    if not may_be_header(header):
        if columns := _without_header(path, header):
            return columns, False
        raise TraceError(
            f"{path}: line 1: {shown(header)} has {header.count(b',') + 1} columns and no header "
            "is above it: without one they are time,key,size; it may name more and in any order, "
            f"and with the column {OPERATION} only reads count; --format tells another format"
        )
    names, delimiter = header_names(header)
    time, key, size = (
        _place(path, header, names, column, column in may_lack) for column in COLUMN_NAMES
    )
    key_size, repeats = (names.index(name) if name in names else -1 for name in (KEY_SIZE, REPEATS))
    found = [name for name in OPERATION_NAMES if name in names]
    found += [name for name in names if any(word in name for word in _OPERATION_WORDS)]
    operation = names.index(found[0]) if found else -1
    if size < 0:
        key_size = -1
    count = len(names)
    places = (time, key, size, key_size, operation, repeats)
    for place in places:
        if place >= 0 and names.count(names[place]) > 1:
            raise TraceError(
                f"{path}: line 1: the header {shown(header)} names two columns {names[place]!r}"
            )
    columns = Columns(count, *places, most=count, delimiter=delimiter)
    columns.has_header = True
    return columns, True


def may_be_header(line: bytes) -> bool:
    """Whether it is no request: these begin with a number."""
    return not line.lstrip(b' "')[:1].isdigit()


def _without_header(path: TracePath, line: bytes) -> Columns | None:
    """Return time, key and size, by the first line; ``None``: it has not three columns. Raises
    TraceError."""
    found = [mark for mark in DELIMITERS if _count(line, mark) == 3]
    if not found:
        split(line, DELIMITERS[0])  # which says what is wrong with its quotes
        return None
    if len(found) > 1:
        marks = " or ".join(map(repr, (mark.decode() for mark in found)))
        raise TraceError(
            f"{path}: line 1: {shown(line)} has three columns whether {marks} parts them: write "
            "numbers with a point, and name the columns in a header (time, key, size)"
        )
    return Columns(3, 0, 1, 2, most=3, delimiter=found[0])


def _count(line: bytes, delimiter: bytes) -> int:
    """Count the fields of the line; 0 where its quotes are not those of CSV."""
    try:
        return len(split(line, delimiter))
    except ValueError:
        return 0


def check_without_header(path: TracePath, lines: Sequence[bytes], columns: Columns) -> None:
    """Raises TraceError where ``time,key,size`` seem to stand in another order, or something else
    among them."""
    try:
        rows = [split(line, columns.delimiter)[:3] for line in lines if line.strip()]
        times, keys, sizes = (
            [text.strip() for text in column] for column in zip(*rows, strict=True)
        )
    except ValueError:
        return  # who reads them says what is wrong
    if what := _not_as_they_should(times, keys, sizes):
        raise TraceError(
            f"{path}: its {what}, and no header is above it: without one the columns are "
            f"time,key,size; write it as CSV with a header that names them (time, key, size, "
            f"{OPERATION})"
        )


def _not_as_they_should(
    times: Sequence[bytes], keys: Sequence[bytes], sizes: Sequence[bytes]
) -> str:
    """Say which column is not what it should be; empty: none seems so."""
    if {key.lower() for key in keys} <= _NO_KEYS:
        return "second column has operations"
    if len(keys) < _ENOUGH_LINES:
        return ""
    if not _in_order(times):
        for column, which in ((keys, "second"), (sizes, "third")):
            if _in_order(column) and len(set(column)) > 1:
                return f"{which} column has times, which only rise"
    elif _in_order(keys) and _are_times(keys, sizes):
        return "second column has times, which only rise"
    # An object has one size, or few in a row.
    if len(keys) >= 2 * _ENOUGH_LINES and len(set(sizes)) > _SIZES_A_KEY * len(set(keys)):
        return "second column has fewer keys than the third has sizes"
    if len(set(sizes)) > len(set(keys)) >= _ENOUGH_LINES and _of_one(sizes, keys):
        return "third column has keys, each of which has one size in the second"
    return ""


def _of_one(texts: Sequence[bytes], others: Sequence[bytes]) -> bool:
    """Whether some come again, and each always with the same other."""
    pairs, alone = set(zip(texts, others, strict=True)), set(texts)
    return len(texts) >= len(alone) + _ENOUGH_LINES and len(pairs) == len(alone)


def _are_times(keys: Sequence[bytes], sizes: Sequence[bytes]) -> bool:
    """Whether numbers in order are times. They rise by this and that, and not by one as names do
    that are given one after the other. Or they come again at once, and with other sizes."""
    sizes_of: dict[bytes, set[bytes]] = {}
    for key, size in zip(keys, sizes, strict=True):
        sizes_of.setdefault(key, set()).add(size)
    again = len(keys) - len(sizes_of)
    if again:
        return sum(len(found) - 1 for found in sizes_of.values()) > again / 2
    steps = {now - before for before, now in pairwise(map(moment, keys)) if now > before}
    return len(steps) > _FEW_STEPS


def leave_unread(lines: Sequence[bytes], columns: Columns, may_lack: Sequence[str]) -> None:
    """Leave times and sizes out of a table's columns that nobody needs and that are none: dates in
    words, or a dash where nothing was sent."""
    try:
        rows = [split(line, columns.delimiter) for line in lines[1:] if line.strip()]
    except ValueError:
        return  # who reads them says what is wrong
    for what in may_lack:
        place = columns.time if what == "time" else columns.size
        texts = [row[place] for row in rows if 0 <= place < len(row)]
        if what == "time" and not _are(moment, texts):
            columns.time = -1
        if what == "size" and not _are(int, texts):
            columns.size = columns.key_size = -1


def _are(kind: Callable[[bytes], object], texts: Iterable[bytes]) -> bool:
    try:
        for text in texts:
            kind(text)
    except ValueError:
        return False
    return True


def check_unused(path: TracePath, lines: Sequence[bytes], columns: Columns) -> None:
    """Raises TraceError where a column that nobody takes seems to say what each request does, or
    belongs to the key."""
    try:
        rows = [split(line, columns.delimiter) for line in lines if line.strip()]
    except ValueError:
        return
    keys = [row[columns.key].strip() for row in rows[1:] if columns.key < len(row)]
    are_paths = 2 * sum(key.startswith(b"/") for key in keys) > len(keys)
    for place, field in enumerate(rows[0] if rows else ()):
        if place in (columns.key, columns.operation):
            continue
        column = [row[place].strip().lower() for row in rows[1:] if len(row) == len(rows[0])]
        said, name = set(column), _name(field)
        if len(said) > 1 and (_is_place(name) or (are_paths and name in _SITES)):
            raise TraceError(
                f"{path}: the same key may be in several of the column {shown(field)}: write both "
                "as one column, the key, or leave it out"
            )
        if columns.operation < 0 and (
            _are_operations(column) or (len(said) > 1 and name in _FLAGS)
        ):
            raise TraceError(
                f"{path}: the column {shown(field)} has operations, of which only reads count: "
                f"name it {OPERATION}"
            )


def _is_place(name: str) -> bool:
    stems = (name.removesuffix(one).rstrip(" _-") for one in _OF_PLACES if name.endswith(one))
    return any(stem in _PLACES for stem in stems)


def _are_operations(column: Sequence[bytes]) -> bool:
    """Whether most of them are such, and some are no reads, known or not."""
    said, known = set(column), sum(text in _NO_KEYS for text in column)
    return 2 * known > len(column) and not said & _NO_KEYS <= _RESULTS and not said <= set(READS)


def rises(texts: Sequence[bytes]) -> bool:
    """Whether they are times in order, or nearly; what stays the same is none."""
    return _in_order(texts) and len(set(texts)) > len(texts) // 2


def _in_order(texts: Sequence[bytes]) -> bool:
    """Whether they are numbers or dates of which hardly any is before the last."""
    try:
        times = [moment(text) for text in texts]
    except ValueError:
        return False
    return sum(before > now for before, now in pairwise(times)) <= len(times) // 20


def header_names(header: bytes) -> tuple[list[str], bytes]:
    """Return the names of the columns, in small letters, and what stands between them."""
    found = [(_names(header, delimiter), delimiter) for delimiter in DELIMITERS]
    for names, delimiter in found:
        if names_key(names):
            return names, delimiter
    return found[0]


def names_key(names: Sequence[str]) -> bool:
    """Whether one of the columns is the key."""
    return any(name in names for name in COLUMN_NAMES["key"])


def _names(header: bytes, delimiter: bytes) -> list[str]:
    try:
        fields = split(header, delimiter)
    except ValueError:
        return []
    return [_name(field) for field in fields]


def _name(field: bytes) -> str:
    return field.strip(b'# \r"').decode("utf-8", "replace").lower()


def _place(path: TracePath, header: bytes, names: list[str], column: str, may_lack: bool) -> int:
    for name in COLUMN_NAMES[column]:
        if name in names:
            return names.index(name)
    if may_lack:
        return -1
    raise TraceError(
        f"{path}: line 1: the header {shown(header)} names no column for the {column} "
        f"(one of {', '.join(COLUMN_NAMES[column])})"
    )
