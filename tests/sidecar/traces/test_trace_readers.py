"""Every trace format is read as its description says, and bad input is refused by line."""

from __future__ import annotations

import gzip
import lzma
import struct
from pathlib import Path

import numpy as np
import pytest
from backports import zstd
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidecar.traces import file
from sidecar.traces import lines as lines_reader
from sidecar.traces.read_options import ReadOptions
from sidecar.traces.trace_reader import TraceError, identity, load_trace, read_trace

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "traces"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/traces is not here")
CACHELIB = "op_time,key,key_size,op,op_count,size\n"

Row = tuple[int, str, int]
rows = st.lists(
    st.tuples(
        st.integers(0, 2**31),
        st.one_of(
            st.integers(0, 2**64 - 1).map(str),
            st.text("abcxyz09-", min_size=1, max_size=12),
        ),
        st.integers(0, 2**32 - 1),
    ),
    min_size=1,
    max_size=40,
)


def write_csv(path: Path, requests: list[Row], header: str = "time,key,size\n") -> Path:
    path.write_text(header + "".join(f"{t},{k},{s}\n" for t, k, s in requests))
    return path


@given(requests=rows, header=st.sampled_from(["time,key,size\n", ""]), block=st.integers(24, 64))
def test_csv_gives_back_what_was_written(tmp_path_factory, requests, header, block):
    path = write_csv(tmp_path_factory.mktemp("csv") / "a.csv", requests, header)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file, "BLOCK_BYTES", block)
        if header:
            chunk = load_trace(path, texts=True)
        else:
            chunk = load_trace(path, format="csv", texts=True)
    assert chunk.times_seconds.tolist() == [t for t, _, _ in requests]
    assert chunk.texts == [k.encode() for _, k, _ in requests]
    assert chunk.keys.tolist() == [identity(k.encode()) for _, k, _ in requests]
    assert chunk.sizes_bytes.tolist() == [s for _, _, s in requests]


def test_header_may_name_columns_in_any_order(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "# obj_size, obj_id, timestamp, next_access_vtime\r\n10,7,1.5,3\r\n20,k,2.5,4\r\n"
    )
    chunk = load_trace(path)
    assert chunk.times_seconds.tolist() == [1.5, 2.5]
    assert chunk.keys.tolist() == [7, identity(b"k")]
    assert chunk.sizes_bytes.tolist() == [10, 20]


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstd.compress)],
)
def test_a_small_file_that_unpacks_to_much_comes_in_small_blocks(tmp_path, suffix, compress):
    path = tmp_path / f"a.csv{suffix}"
    size_bytes = 100 * file.BLOCK_BYTES
    path.write_bytes(compress(bytes(size_bytes)))
    assert path.stat().st_size < file.BLOCK_BYTES
    lengths = [len(block) for block in file.trace_blocks(path)]
    assert sum(lengths) == size_bytes
    assert max(lengths) <= file.BLOCK_BYTES


@pytest.mark.parametrize("packed", ["a.csv.gz", "a.csv.xz", "a.csv.zst"])
def test_compressed_is_the_same_as_plain_and_cut_off_is_refused(tmp_path, packed):
    requests = [(i, str(i * 7919 % 1000), i) for i in range(5000)]
    plain = write_csv(tmp_path / "a.csv", requests)
    compress = {
        "gz": gzip.compress,
        "xz": lzma.compress,
        "zst": lambda data: (
            zstd.compress(data[:1000]) + zstd.compress(data[1000:])  # two frames
        ),
    }[packed.rsplit(".", 1)[1]]
    data = compress(plain.read_bytes())
    (tmp_path / packed).write_bytes(data)
    assert load_trace(tmp_path / packed).keys.tolist() == load_trace(plain).keys.tolist()
    (tmp_path / packed).write_bytes(data[:-20])
    with pytest.raises(TraceError, match=packed):
        list(read_trace(tmp_path / packed))
    (tmp_path / packed).write_bytes(b"this is not compressed at all")
    with pytest.raises(TraceError, match=packed):
        list(read_trace(tmp_path / packed))


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,key,size\n1,2,3\n1,2\n", r"line 3: '1,2' .* too few columns, 2 instead of 3"),
        ("time,key,size\n1,2,3\n\n1,2,x\n", r"line 4: '1,2,x' .*'x'"),
        ("1,2,3\nnoon,2,3\n", r"line 2: .*'noon'"),
        ("1,2,3\nnan,2,3\n", r"line 2.*not finite"),
        ("1,,3\n", r"line 1.*key is empty"),
        ("1,2,-3\n", r"line 1.*size -3"),
        ("1,2,4294967296\n", r"line 1.*size 4294967296"),
        ("1,2,\xff\n", r"line 1: '1,2,"),
        ("1,2,3\n" + "9" * (1 << 20) + "99", r"line 2: longer than 1048576 bytes"),
        ("0,k,3,10,1,get,.5\n", r"line 1: '0,k,3,10,1,get,.5' has 7 columns and no header"),
        ("1,2,3\n1,a,b,3\n", r"line 2: .*too many columns, 4 instead of 3"),
        ("when,what\n1,2\n", r"line 1: the header 'when,what' .* the time"),
        ("op_time,key,op\n1,2,GET\n", r"line 1: .* no column for the size"),
        (f"{CACHELIB}1,k,1,GET,-1,5\n", r"line 2.*op_count -1 "),
        (f"{CACHELIB}1,k,1,GET,99999999,5\n", r"line 2.*op_count 99999999 "),
        (f"{CACHELIB}1,k,4294967295,GET,1,5\n", r"line 2.*key_size 4294967295"),
        (f"{CACHELIB}1,k,1\n", r"line 2.*too few columns, 3 instead of 6"),
        ("", r"no requests"),
    ],
)
def test_bad_lines_are_named(tmp_path, texts, text, message):
    """Also of the lines that Python reads, for the sake of their keys' texts."""
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match=f"bad.csv: .*{message}" if text else message):
        load_trace(path, texts=texts)


ODD_FIELDS = ["007", "1.5", ".5", "1e3", " 8 ", "8\t", "+8", "-0", "", " ", "k", "clé"]
ODD_FIELDS += [str(2**32 - 1), str(2**32), str(2**64 - 1), str(2**64), "9" * 20, "9" * 21]
ODD_FIELDS += ['"7"', '"k""x, y"', '"7', '7"', '"7"x']
ODD_FIELDS += ["0.1234567890123456", "1.2.3", "a longer key: of 31 bytes here", "16 bytes of text"]
ODD_LINES = [
    form.format(odd) for form in ("{},k,7", "1,{},7", "1,k,{}", "{},7") for odd in ODD_FIELDS
]
field = st.one_of(st.integers(0, 300).map(str), st.sampled_from(ODD_FIELDS))
line = st.one_of(
    st.tuples(
        st.sampled_from(["1", "0.5", " 2"]), field, st.sampled_from(["7", "7 ", "7\t", "0"])
    ).map(",".join),
    st.lists(field, min_size=2, max_size=7).map(",".join),
    st.tuples(
        st.decimals(0, 10**6, places=3).map(str),
        st.integers(0, 2**70).map(str),
        st.integers(0, 60).map(str),
        st.sampled_from(["GET", "get", "GET_LEASE", "SET", "gets", " GET", "getsx", "", "x" * 23]),
        st.integers(0, 9).map(str),
        st.integers(0, 2**32 - 61).map(str),
    ).map(",".join),
    st.sampled_from(["", "  "]),
)


@settings(deadline=None)
@given(
    lines=st.lists(line, max_size=12),
    header=st.sampled_from(
        ["", "time,key,size\n", "x,size,time,key\n", "time,key,size,op\n", "x,key\n", CACHELIB]
    ),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.sampled_from(["", "\n"]),
    room=st.sampled_from([1, 3, 100]),
)
@example(lines=ODD_LINES, header="time,key,size\n", end="\n", last="", room=3)
@example(lines=["0,0,0,SET,4294967295,0"], header=CACHELIB, end="\n", last="", room=3)
def test_compiled_lines_are_what_python_reads(tmp_path_factory, lines, header, end, last, room):
    path = tmp_path_factory.mktemp("twins") / "a.csv"
    # One by one too: what comes before a bad line is not asked of both.
    parts = [[line] for line in lines] + [lines]
    first = ",".join(["1", "2", "3", "GET", "1", "4"][: header.count(",") + 1 if header else 3])
    files = [header + end.join([first, *part]) + last for part in parts]

    def read(texts: bool) -> tuple[list[object], object]:
        requests: list[object] = []
        reading = ReadOptions(texts=texts, may_lack=["time", "size"])
        try:
            for chunk in read_trace(path, "csv", reading):
                columns = (chunk.times_seconds, chunk.keys, chunk.sizes_bytes)
                requests += zip(*(column.tolist() for column in columns), strict=True)
        except TraceError as error:
            return [], str(error)
        return requests, reading.operations.dropped()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_reader, "_ROOM", room)
        for contents in files:
            path.write_bytes(contents.encode())
            assert read(texts=False) == read(texts=True)


@pytest.mark.parametrize("texts", [False, True])
def test_with_operations_only_reads_count(tmp_path, texts):
    path = tmp_path / "a.csv"
    lines = [
        "1,a,3,get,0",
        "2,b,3,set,9",
        "",
        "3,c,3,GETS,0",
        "4,d,3,delete,0",
        "5,e,3,get_lease,0",
    ]
    path.write_text("\n".join(["time,key,size,op,ttl", *lines]))
    reading = ReadOptions(texts=texts)
    chunks = list(read_trace(path, options=reading))
    assert np.concatenate([chunk.times_seconds for chunk in chunks]).tolist() == [1, 3, 5]
    assert reading.operations.dropped() == {"delete": 1, "set": 1}


@pytest.mark.parametrize("header", ["", "time,key,size\n"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path, header):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}1,k,3\n", encoding="utf-8-sig")
    assert load_trace(path, texts=True).texts == [b"k"]


def test_bad_files_are_named(tmp_path):
    with pytest.raises(TraceError, match=r"gone\.csv: cannot be read: No such file"):
        load_trace(tmp_path / "gone.csv")
    (tmp_path / "what").write_text("a,b\n")
    with pytest.raises(TraceError, match="do not tell the format"):
        load_trace(tmp_path / "what")
    with pytest.raises(TraceError, match="'cvs' is not one of csv"):
        load_trace(tmp_path / "what", format="cvs")
    (tmp_path / "a.trace").write_bytes(bytes(5))
    with pytest.raises(TraceError, match="1 bytes of a record that has 4"):
        load_trace(tmp_path / "a.trace")


@given(requests=st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 3), min_size=1, max_size=50))
def test_binary_formats(tmp_path_factory, requests):
    folder = tmp_path_factory.mktemp("binary")
    oracle = folder / "a.oracleGeneral"
    oracle.write_bytes(b"".join(struct.pack("<IQIq", t, k << 30, s, -1) for t, k, s in requests))
    chunk = load_trace(oracle, "oracle-general", texts=True)
    assert chunk.times_seconds.tolist() == [t for t, _, _ in requests]
    assert chunk.keys.tolist() == [k << 30 for _, k, _ in requests]
    assert chunk.sizes_bytes.tolist() == [s for _, _, s in requests]
    assert chunk.texts == [b"%d" % (k << 30) for _, k, _ in requests]
    cache2k = folder / "a.trace"
    cache2k.write_bytes(b"".join(struct.pack(">I", k) for _, k, _ in requests))
    assert load_trace(cache2k, "cache2k").keys.tolist() == [k for _, k, _ in requests]


def test_limit_and_identity(tmp_path):
    path = write_csv(tmp_path / "a.csv", [(i, str(i), 1) for i in range(100)])
    assert len(load_trace(path, limit=7)) == 7
    assert identity(b"0") == 0
    assert identity(b"007") != 7  # another key than 7
    assert identity(b"1234567890123456789") == 1234567890123456789


@needs_shared
def test_the_real_traces():
    twitter = load_trace(SHARED / "twitter" / "twitter_cluster52_1m.csv.zst")
    assert len(twitter) == 1_000_000
    assert len(np.unique(twitter.keys)) == 143_542
    assert twitter.times_seconds[-1] == 509
    busy = load_trace(SHARED / "cache2k" / "orm-busy.trace.xz")
    assert len(busy) == 5_000_000
    assert len(np.unique(busy.keys)) == 76_349
    cachelib = load_trace(SHARED / "cachelib" / "kv_traces_1.csv", texts=True)
    assert cachelib.texts is not None
    assert cachelib.texts[:4] == [b"82131353f9ddc8c6"] + [b"a54f88ab02ece24d"] * 3
    assert cachelib.sizes_bytes[:2].tolist() == [87 + 48, 0]  # a miss


def test_an_xz_file_that_asks_for_much_memory_is_refused_and_streams_follow_each_other(
    tmp_path: Path,
) -> None:
    def packed(text: bytes, most_bytes: int) -> bytes:
        filters = [{"id": lzma.FILTER_LZMA2, "dict_size": most_bytes}]
        return lzma.compress(text, filters=filters)

    path = tmp_path / "trace.csv.xz"
    path.write_bytes(packed(b"1,a,1\n", 1 << 30))
    with pytest.raises(TraceError, match=r"trace.csv.xz: cannot be read: Memory usage limit"):
        b"".join(file.trace_blocks(path))
    path.write_bytes(packed(b"1,a,1\n", 1 << 20) + bytes(4) + packed(b"2,b,1\n", 1 << 20))
    assert b"".join(file.trace_blocks(path)) == b"1,a,1\n2,b,1\n"
    path.write_bytes(packed(b"1,a,1\n" * 999, 1 << 20)[:-20])
    with pytest.raises(TraceError, match="it ends within a stream"):
        b"".join(file.trace_blocks(path))
