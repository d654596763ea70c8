"""`spreds mrc` reads what people have, and never makes a curve of something else."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
import shlex
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli import main
from sidecar.traces import registry
from sidecar.traces.registry import format_named

MADE = Path(__file__).resolve().parents[3].parent / "shared" / "cases" / "made"
needs_made = pytest.mark.skipif(not MADE.is_dir(), reason="../shared/cases/made is not here")
KEYS = [(at * at + 3 * at) % 11 for at in range(60)]
WHAT_IS_SEEN = ("requests", "sizes", "miss_ratios")


@pytest.fixture
def ask(tmp_path, capsys):
    """What JSON says of a file of this name with these contents, or the line that refuses it."""

    def asked(name: str, contents: str | bytes, *how: str) -> Any:
        path = tmp_path / name
        path.write_bytes(contents.encode() if isinstance(contents, str) else contents)
        code = main(["mrc", str(path), "--json", "--points", "5", *how])
        captured = capsys.readouterr()
        asked.said = captured.err
        if code:
            assert (code, captured.out, captured.err.count("\n")) == (2, "", 1)
            return captured.err
        (found,) = json.loads(captured.out)
        return found

    return asked


def hash_of(key: int) -> int:
    """Return a hash of 62 bits."""
    return key * 0x9E3779B97F4A7C15 % 2**62


def lines(form: str, keys: Iterable[int] = KEYS, header: str = "") -> str:
    """A line for each request; 8 sectors or 4,096 bytes are a block."""
    rows = [
        form.format(at=at, key=key, sector=8 * key, offset=4096 * key)
        for at, key in enumerate(keys)
    ]
    return "\n".join([*([header] if header else []), *rows, ""])


@pytest.fixture
def plain(ask):
    """The curve of the same keys in the plainest format."""
    return curve(ask("plain.csv", lines("{at},{key},7")))


def curve(found: Any) -> list[Any]:
    assert not isinstance(found, str), found
    return [found[name] for name in WHAT_IS_SEEN]


FORMATS = {
    "tabs": ("a.tsv", "{at}\t{key}\t7", "time\tkey\tsize"),
    "semicolons": ("a.csv", "{at};{key};7", "time;key;size"),
    "blanks": ("a.txt", "{at} {key} 7", "time key size"),
    "wiki": (
        "a.tsv",
        "{at}\t-{key}\tjpeg\t7",
        "relative_unix\thashed_path_query\tx\tresponse_size",
    ),
    "quotes": ("a.csv", '{at},"{key}, ""x""",7', "time,key,size"),
    "quotes, no header": ("a.csv", '"{at}","{key},x","7"', ""),
    "more quotes": ("a.csv", '{at},"{key},x",7,"a,b"', '"time","key","size","of, no use"'),
    "dates": ("a.csv", "2023-10-01T00:00:{at:02}Z,{key},7", "time,key,size"),
    "twitter": ("a.csv", "{at},user:{key},3,4,1,get,0", ""),
    "lrb": ("a.tr", "{at} {key} 7 2 5", ""),
    "ibm-cos": ("a.txt", "{at}000 REST.GET.OBJECT {key} 7 0 6", ""),
    "redis-monitor": (
        "a.txt",
        '170000{at:04}.5 [0 127.0.0.1:1] "GET" "user:{key} \\"a\\" \\x00"',
        "OK",
    ),
    "keys": ("a.txt", "user:{key}", ""),
    "lirs": ("a.trc", "{key}", ""),
    "msr": ("a.csv", "1281{at:04}0000000000,host,0,Read,{offset},4096,17", ""),
    "spc": ("a.spc", "0,{sector},4096,r,{at}.5", ""),
    "alibaba": ("a.csv", "3,R,{offset},4096,15778{at:05}000000", ""),
    "tencent": ("tencent.csv", "15778{at:05},{sector},8,0,1063", ""),
    "arc": ("a.lis", "{key} 1 0 {at}", ""),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_what_people_have_is_read(ask, plain, kind):
    name, form, header = FORMATS[kind]
    text = lines(form, header=header)
    assert curve(ask(name, text)) == plain
    assert ask.said == ""
    in_bytes = ask(name, text, "--bytes")
    assert isinstance(in_bytes, str) == (kind in ("redis-monitor", "keys", "lirs"))
    timed = ask(name, text, "--ttl", "1h")
    assert isinstance(timed, str) == (kind in ("keys", "lirs", "arc")), timed


def oracle(keys: list[int], *, following: bool = True) -> bytes:
    def next_place(at: int) -> int:
        return keys.index(keys[at], at + 1) if keys[at] in keys[at + 1 :] else -1

    return b"".join(
        struct.pack("<IQIq", 50 + at // 7, key, 7, next_place(at)) for at, key in enumerate(keys)
    )


def vscsi(version: int) -> bytes:
    some = b""
    for at, key in enumerate(KEYS):
        stamp, time = version << 8, at * 10**6
        for command in (0x28, 0x2A):
            some += (
                struct.pack("<IIIHHQQ", at, 4096, 1, command, stamp, 8 * key, time)
                if version == 1
                else struct.pack("<HHIIIQQQ", command, stamp, at, 4096, 1, 8 * key, time, 9)
            )
    return some


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("a.oracleGeneral", oracle(KEYS)),
        ("a.bin", oracle(KEYS)),
        ("a.vscsi", vscsi(1)),
        ("a.vscsi", vscsi(2)),
        ("a.trace", b"".join(struct.pack(">I", key << 28 | key) for key in KEYS[:31])),
    ],
    ids=lambda value: value if len(value) < 20 else "contents",
)
def test_records_are_read_where_the_name_says_what_they_are(ask, plain, name, contents):
    found = ask(name, contents)
    if name == "a.trace":
        assert found["requests"] == 31
    else:
        assert curve(found) == plain
    assert ("not counted, since they are no reads: 60 of '0x2a'" in ask.said) == ("vscsi" in name)


TEXT = lines("{at},{key},7", header="time,key,size")
RECORDS = [(at, 1000 + key, 7) for at, key in enumerate(KEYS * 9)]


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("a.trace", TEXT),
        ("a.trace", lines("{key}")),
        ("a.bin", TEXT),
        ("a.oracleGeneral", TEXT),
        ("a.csv", oracle(KEYS)),
        ("a.txt", oracle(KEYS)),
        ("a", oracle(KEYS)),
        ("a.trace", oracle(KEYS * 9)),
        *(
            (name, b"".join(struct.pack(form, *record) for record in RECORDS))
            for form in ("<III", "<IQI", "<QQQ", "<IQIxx", ">IIB3x", ">QQQ", "<IIQ", "<QII")
            for name in ("a.trace", "a.bin")
        ),
        ("a.bin", b"".join(struct.pack(">i", key) for key in KEYS)),
        ("a", "one\ntwo\n"),
        ("a.txt", lines("{key} 1 0 {at}")),
        ("a.dat", lines("{at} x {key}")),
    ],
    ids=lambda value: value if len(value) < 20 else "contents",
)
def test_where_name_and_contents_disagree_a_format_is_asked_for(ask, name, contents):
    found = ask(name, contents)
    assert isinstance(found, str), found
    assert "do not tell the format" in found
    assert "give --format, one of csv," in found
    if contents is TEXT:
        assert curve(ask(name, contents, "--format", "csv"))[0] == len(KEYS)


@pytest.mark.parametrize(
    ("name", "contents", "how"),
    [
        ("a.csv", TEXT.encode("utf-16"), "iconv -f UTF-16 -t UTF-8"),
        ("a.csv", b"\xfe\xff" + TEXT.encode("utf-16-be"), "iconv -f UTF-16 -t UTF-8"),
        ("a.xlsx", b"PK\x03\x04" + bytes(range(200)), "save it as CSV"),
        ("a.trace", b"PAR1" + bytes(range(200)), "it is Parquet"),
        ("a.bin", b"SQLite format 3\0" + bytes(range(200)), "write the table as CSV"),
        ("a.txt", "OK\n", "the trace has no requests"),
        ("a.log", "*2\r\n$3\r\nGET\r\n$1\r\na\r\n" * 60, "Redis' protocol, as an append-only file"),
        ("a.trace", bytes(4000), "it has nothing but zeros"),
        ("a.keys", lines("k{key}") + "\0" * 100, "has zeros among its lines"),
        ("a.trace", b"".join(struct.pack(">i", key) for key in KEYS) + bytes(2000), "ends with"),
        ("a.trace", b"REDIS0011" + bytes(range(251)), "it is a dump of Redis"),
        ("a.txt", "".join(f"{at}|k{at % 5}|7\n" for at in range(200)), "no key comes twice in 200"),
    ],
    ids=[
        "utf-16",
        "utf-16-be",
        "workbook",
        "parquet",
        "database",
        "idle monitor",
        "protocol",
        "zeros",
        "zeros behind lines",
        "zeros behind records",
        "dump",
        "new lines",
    ],
)
def test_what_is_no_trace_is_told_with_what_makes_it_one(ask, name, contents, how):
    found = ask(name, contents)
    assert isinstance(found, str), found
    assert how in found


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (
            "time,key,size\n1,a,1\n2,a,b,1\n",
            "line 3: '2,a,b,1' .* too many columns, 4 instead of 3",
        ),
        ("time,key,size,x\n1,a,1,x\n2,a,1\n", "line 3: '2,a,1' .* too few columns, 3 instead of 4"),
        ('time,key,size\n1,"a,1\n', "line 2: .*its quotes are not those of CSV"),
        ('time,key,size\n1,"a"b,1\n', "line 2: .*its quotes are not those of CSV"),
        ("3,R,4096,4096,1577808000000000\n3,X,4096,4096,1577808000000000\n", "line 2: .* columns"),
        ('1.5 [0 a:1] "GET" "a"\n1.6 [0 a:1] "GET" a\n', "line 2: .*has not the form"),
        ("1 1 0 0\n1 70000 0 1\n", "line 2: .*70000 blocks"),
    ],
)
def test_a_line_that_is_something_else_is_refused_with_its_number(ask, text, refusal):
    name = "a.lis" if text.startswith("1 1 0") else "a.csv"
    found = ask(name, text)
    assert isinstance(found, str), found
    assert re.search(refusal, found), found


@pytest.mark.parametrize("columns", ["key,op,size,op_count,key_size", "op_count,size,op,key"])
def test_a_line_counts_as_often_as_it_says(ask, columns):
    rows = [
        {"key": f"k{key}", "op": "GET", "size": 7, "op_count": 3, "key_size": 2} for key in KEYS
    ]
    text = [",".join(str(row[name]) for name in columns.split(",")) for row in rows]
    found = ask("a.csv", "\n".join([columns, *text]))
    assert curve(found) == curve(ask("b.csv", lines("1,{key},7", [k for k in KEYS for _ in "123"])))


def test_what_is_dropped_is_told_by_its_spelling(ask, plain):
    """Those that many lines have, and those of one."""
    keys = [f"{at},{key},7,Read\n" for at, key in enumerate(KEYS)]
    others = [f"9,{at % 5},7,{'WRITE' if at % 3 else 'Set'}\n" for at in range(300)]
    odd = [f"9,k,7,odd {at} {'y' * (at % 30)}\n" for at in range(40)]
    text = "time,key,size,op\n" + "".join(others + odd + keys + others)
    found = ask("a.csv", text)
    assert curve(found) == plain
    assert found["dropped_requests"] == {
        "WRITE": 400,
        "Set": 200,
        **{f"odd {at} {'y' * (at % 30)}".strip(): 1 for at in range(40)},
    }
    assert "no reads: 400 of 'WRITE', 200 of 'Set', 1 of 'odd 0'" in ask.said
    assert "and 34 more spellings (--reads counts them)" in ask.said
    counted = ask("a.csv", text, "--reads", "write", "--reads=set")
    assert counted["requests"] == len(KEYS) + 600
    assert len(counted["dropped_requests"]) == 40


def test_where_no_request_is_a_read_the_operations_are_told(ask, plain):
    text = lines("{at},28,{key},7", header="time,op,key,size")
    found = ask("a.csv", text)
    assert found.endswith("is a read, it has 60 of '28': --reads 28 counts those\n")
    assert curve(ask("a.csv", text, "--reads", "28")) == plain


@pytest.mark.parametrize("how", [("--ttl", "30s"), ("--policy", "allkeys-lfu")])
@pytest.mark.parametrize(("unit", "ticks"), [("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_times_that_cannot_be_seconds_are_refused(ask, how, unit, ticks):
    seconds = [1_696_118_404 + 2 * at for at in range(60)]

    def text(ticks: int) -> str:
        return "".join(f"{ticks * time},{key},7\n" for time, key in zip(seconds, KEYS, strict=True))

    found = ask("a.csv", text(ticks), *how)
    assert "cannot be seconds: --time-unit says what unit" in found
    right = curve(ask("a.csv", text(1), *how))
    assert right[0] == 60
    assert curve(ask("a.csv", text(ticks), *how, "--time-unit", unit)) == right


def test_a_ttl_that_no_two_requests_are_within_is_refused(ask):
    text = "".join(f"{at * 1000},{key},7\n" for at, key in enumerate(KEYS))
    assert "no two requests that follow each other are within the TTL of 60 s" in (
        ask("a.csv", text, "--ttl", "60s")
    )
    assert curve(ask("a.csv", text, "--ttl", "60s", "--time-unit", "ms"))[0] == 60


def test_times_that_go_back_are_told(ask, tmp_path):
    times = [at - 5 * (at % 20 == 7) for at in range(60)]
    text = "".join(f"{time},{key},7\n" for time, key in zip(times, KEYS, strict=True))
    found = ask("a.csv", text, "--ttl", "30s")
    assert found["times_that_went_back"] == 3
    assert "3 times go back" in ask.said
    assert ask("a.csv", TEXT, "--ttl", "30s")["times_that_went_back"] == 0
    assert ask("a.csv", TEXT)["times_that_went_back"] is None


def test_times_that_go_back_by_more_than_the_ttl_are_refused_with_what_sorts_them(ask, tmp_path):
    header, *rows = TEXT.splitlines()
    shuffled = "\n".join([header, *rows[40:], *rows[:40], ""])
    found = ask("a.csv", shuffled, "--ttl", "9s")
    assert "40 times go back, one by 59 s, more than the TTL" in found
    command = found[found.index("(head") : found.rindex(")")]
    command = command.replace("FILE", str(tmp_path / "a.csv")).replace("SORTED", "sorted")
    subprocess.run(["bash", "-c", command], check=True, cwd=tmp_path)
    assert (tmp_path / "sorted.csv").read_text() == TEXT


def test_times_before_the_origin_are_times(ask):
    early = lines("-{at},{key},7", header="time,key,size").splitlines()
    early = [early[0], *(f"{at - 90},{key},7" for at, key in enumerate(KEYS))]
    right = curve(ask("a.csv", TEXT, "--ttl", "9s"))
    assert curve(ask("a.csv", "\n".join(early), "--ttl", "9s")) == right


@pytest.mark.parametrize("size", ["", "7.5", "much"])
def test_a_size_that_is_no_number_is_told_in_words(ask, size):
    found = ask("a.csv", lines(f"{{at}},{{key}},{size}", header="time,key,size"), "--bytes")
    assert f"the size '{size}' is not a whole number" in found


def test_objects_above_4_gib(ask, tmp_path):
    text = lines("{at},{key},6442450944", header="time,key,size")
    assert curve(ask("a.csv", text))[0] == 60
    found = ask("a.csv", text, "--bytes")
    assert "line 2: '0,0,6442450944' is not a request: the size 6442450944 is not between" in found
    command = shlex.split(found[found.index("awk") : found.index(" where")])
    done = subprocess.run(
        [*command, tmp_path / "a.csv"], check=True, capture_output=True, text=True
    )
    kib = ask("b.csv", done.stdout, "--bytes")
    assert kib["sizes"][-1] == pytest.approx(len(set(KEYS)) * 6 * 1024**2, rel=0.002)


def test_a_hit_ratio_that_no_size_reaches_is_told_with_the_most(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text(TEXT)
    assert main(["mrc", str(path), "--hit-ratio", "0.9"]) == 0
    assert "no size reaches 0.9: at most 0.900 of" not in capsys.readouterr().out
    assert main(["mrc", str(path), "--hit-ratio", "0.95"]) == 0
    most = 1 - len(set(KEYS)) / len(KEYS)
    assert f"no size reaches 0.95: at most {most:.3f} of the requests" in capsys.readouterr().out


def test_the_page_has_each_format():
    page = (Path(__file__).parents[3] / "docs" / "start" / "traces.md").read_text()
    rows = re.findall(r"^\| (`.*?) \| .* \| ?(.*?) ?\|$", page, re.MULTILINE)[1:]
    told = {
        name: set(lacks.split(", ")) - {""}
        for names, lacks in rows
        for name in re.findall("`(.*?)`", names)
    }
    assert told == {
        name: set(getattr(format_named(name), "LACKS", ())) for name in registry.FORMATS
    }


# ------------------------------------------------------------------ files of others

KNOWN = {
    "alibaba-block.csv": (386, "W"),
    "arc.lis": (4815, None),
    "big-object.csv": (200, None),
    "bom-crlf.csv": (600, None),
    "ibm-cos.txt": (101, "REST.PUT.OBJECT"),
    "iso-times.csv": (2, None),
    "lrb.tr": (300, None),
    "meta-kvcache-2022.csv": (1422, "SET"),
    "monitor.txt": (131, "SET"),
    "ms-times.csv": (600, None),
    "no-newline-op.csv": (120, "28"),
    "ns-times.csv": (600, None),
    "nul-in-key.csv": (3, None),
    "s-times.csv": (600, None),
    "tragen.txt": (300, None),
    "two-members.csv.gz": (600, None),
    "umass-spc.csv": (218, "w"),
    "unsorted-times.csv": (600, None),
    "wiki-cdn.tsv": (300, None),
}
REFUSED = {
    "negative-size.csv": "line 2: '1,a,-1' is not a request: the size -1",
    "truncated-download.csv.gz": "cannot be read",
    "truncated-line.csv": "line 601: '3593.01'",
}


@needs_made
@pytest.mark.parametrize("name", [*KNOWN, *REFUSED])
def test_no_made_case_gives_a_curve_of_something_else(capsys, name):
    code = main(["mrc", str(MADE / name), "--json"])
    captured = capsys.readouterr()
    if name in REFUSED:
        assert code == 2
        assert REFUSED[name] in captured.err
        return
    (found,) = json.loads(captured.out)
    requests, dropped = KNOWN[name]
    assert found["requests"] == requests
    assert bool(found["dropped_requests"]) == bool(dropped)
    assert dropped is None or dropped in found["dropped_requests"]


@needs_made
def test_the_known_ratios_of_the_made_cases(capsys):
    def found(name: str, *how: str) -> Any:
        code = main(["mrc", str(MADE / name), "--json", *how])
        captured = capsys.readouterr()
        return captured.err if code else json.loads(captured.out)[0]

    meta = found("meta-kvcache-2022.csv", "--points", "24")
    at = dict(zip(meta["sizes"], meta["miss_ratios"], strict=True))
    # Of the 322 lines, these are .1522 and .1056.
    assert (at[8], at[16]) == pytest.approx((49 / 1422, 34 / 1422), abs=1e-4)
    for unit in ("s", "ms", "ns"):
        timed = found(f"{unit}-times.csv", "--ttl", "60s", "--time-unit", unit)
        assert timed["miss_ratios"][-1] == pytest.approx(0.3750, abs=1e-4)
        if unit != "s":
            assert "--time-unit" in found(f"{unit}-times.csv", "--ttl", "60s")
    assert "sort" in found("unsorted-times.csv", "--ttl", "60s")
    assert {path.name for path in MADE.iterdir()} <= {*KNOWN, *REFUSED}


# ------------------------------------------------------------------ what an adversary brought


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ('"ZUNION" "2" "a{key}" "b{key}"', 2),
        ('"SINTERCARD" "2" "a{key}" "b{key}" "LIMIT" "5"', 2),
        ('"XREAD" "COUNT" "2" "STREAMS" "a{key}" "b{key}" "0" "0"', 2),
        ('"LCS" "a{key}" "b{key}" "LEN"', 2),
        ('"MEMORY" "USAGE" "a{key}"', 1),
        ('"EVALSHA_RO" "abc" "1" "a{key}" "argument"', 1),
        ('"BITOP" "AND" "a{key}" "b{key}"', 2),
        ('"MSET" "a{key}" "1" "b{key}" "2"', 2),
    ],
)
def test_of_a_command_that_counts_its_keys_do(ask, command, keys):
    text = lines("{at}.5 [0 127.0.0.1:1] " + command, header="OK")
    name = command.split('"')[1]
    asked = ask("a.txt", text, "--reads", name)
    pair = [f"{letter}{key}" for key in KEYS for letter in "ab"[:keys]]
    assert curve(asked) == curve(ask("b.csv", "key\n" + "\n".join(pair) + "\n"))


@pytest.mark.parametrize(
    "name",
    [
        "operation",
        "command",
        "cmd",
        "opcode",
        "method",
        "request_type",
        "op_type",
        "OpType",
        "verb",
        "action",
        "type",
        "rw",
        "IOType",
    ],
)
def test_a_column_of_operations_is_one_by_each_of_its_names(ask, plain, name):
    rows = [f"{at},{key},7,{'get' if at % 2 else 'set'}" for at, key in enumerate(KEYS * 2)]
    found = ask("a.csv", "\n".join([f"time,key,size,{name}", *rows, ""]))
    assert (found["requests"], found["dropped_requests"]) == (60, {"set": 60})
    assert found["columns"]["operation"] == name.lower()


def test_twitters_own_names_are_known(ask):
    text = lines(
        "{at},{key},2,5,0,get,0", header="timestamp,key,key_size,value_size,client_id,operation,ttl"
    )
    assert ask("a.csv", text, "--bytes")["sizes"][-1] == 7 * len(set(KEYS))


@pytest.mark.parametrize(
    ("name", "form", "words"),
    [
        ("a.csv", "{at},get,{key}", "its second column has operations"),
        ("a.csv", "{key},GET,111", "its second column has operations"),
        ("a.csv", "{at},HIT,{key}", "its second column has operations"),
        ("a.csv", "{key},{at},111", "its second column has times, which only rise"),
        ("a.csv", "{at},0;{key};111,5", "three columns whether ',' or ';' parts them"),
        ("a.tsv", "{at},0\t{key}\t111,0", "three columns whether ',' or '\\t' parts them"),
        ("a.csv", "16961184{at:02},{key},111,0,0", "text that could be csv or tencent"),
        ("a.csv", "16961184{at:02},{key},111,{at}.5,0", "5 columns and no header"),
        ("a.csv", "{key},R,100,100,{at}", "text that could be csv or alibaba"),
        ("a.csv", "{at},host,0,Read,100,{key},17", "text that could be csv or msr"),
        ("a.tr", "{key} {at} 4096", "its second column has times, which only rise"),
        ("a.txt", "{key} 4096 {at}", "its third column has times, which only rise"),
        ("a.csv", "{key},{at}.013,4096", "its second column has times, which only rise"),
        ("a.csv", "{key},2023-10-01T00:00:{at:02}Z,4096", "its second column has times"),
        ("a.csv", "{key},4096,{at}", "its third column has times, which only rise"),
        ("a.tr", "{sector} 8 0 {at}", "text that could be lrb or arc"),
        ("a.lis", "{sector} 8 {key}", "give --format"),
        # SSDsim's: time, device, sector, size, operation.
        ("a.txt", "{at} 0 {sector} 8 1", "fewer keys than the third has sizes"),
        # Somebody's own: time, key, size, operation, latency.
        ("a.csv", "{at},{key},512,R,25.5", "text that could be csv or spc"),
    ],
)
def test_a_table_without_a_header_is_not_taken_for_something_else(ask, name, form, words):
    found = ask(name, lines(form))
    assert isinstance(found, str), found
    assert words in found


@pytest.mark.parametrize(
    ("name", "row", "words"),
    [
        # A number, ten requests a second, the key.
        ("a.csv", lambda at, key: f"{at},{1.7e9 + at // 10:.0f},{key}", "times, which only rise"),
        ("a.tr", lambda at, key: f"{at} {1.7e9 + at // 10:.0f} {key}", "times, which only rise"),
        # A number, a time in microseconds, the key.
        ("a.csv", lambda at, key: f"{at},{1.7e15 + at * at:.0f},{key}", "times, which only rise"),
        ("a.csv", lambda at, key: f"{key},{1.7e9 + at // 10:.0f},99", "times, which only rise"),
        ("a.csv", lambda at, key: f"{at},{('HGET', 'EXPIRE')[at % 2]},{key}", "fewer keys than"),
        ("a.txt", lambda at, key: f"{at} {at % 2} {key}", "fewer keys than the third has sizes"),
        # A time, a client, the key, its size.
        ("a.tr", lambda at, key: f"{at} {at % 4} {at % 97} 500", "fewer keys than"),
        # Like Tencent's, and not called so.
        ("a.log", lambda at, key: f"{1.7e9 + at:.0f},{key},50,0,7", "text that could be tencent"),
    ],
)
def test_the_key_is_not_taken_from_another_column_without_a_header(ask, name, row, words):
    rows = [row(at, key) for at, key in enumerate(KEYS * 5)]
    found = ask(name, "\n".join([*rows, ""]))
    assert isinstance(found, str), found
    assert words in found


def test_names_that_are_given_one_after_the_other_are_keys(ask):
    """In a header's place stands what LRB's traces begin with: new keys, of their own sizes."""
    rows = [f"{at} {at % 400} {at % 400 * 7 % 90 + 1}" for at in range(800)]
    found = ask("a.tr", "\n".join([*rows, ""]))
    assert (found["requests"], found["sizes"][-1]) == (800, 400)


@pytest.mark.parametrize(
    ("time", "size"), [("11/29/2026 12:00:00", "7"), ("{at}", "-"), ("{at}", ""), ("{at}", "7.5")]
)
def test_what_nobody_needs_may_be_anything(ask, plain, time, size):
    text = lines(f"{time},{{key}},{size}", header="time,key,size")
    assert curve(ask("a.csv", text)) == plain
    assert "is not a request" in ask("a.csv", text, "--bytes" if size != "7" else "--ttl=9s")


def test_reads_without_a_size_are_told_where_sizes_count(ask):
    """As misses are in Meta's traces."""
    text = lines("{at},{key},0", [1, 2, 3]) + lines("{at},{key},9", [1, 2, 3])
    assert ask("a.csv", text, "--bytes")["requests"] == 6
    told = "of the reads at its beginning, 50.0% have the size 0, as misses have in some logs"
    assert told in ask.said
    assert ask("a.csv", text, "--bytes")["reads_of_size_0_ratio"] == 0.5
    ask("a.csv", text)
    assert ask.said == ""


@pytest.mark.parametrize(
    "place", ["bucket", "Volume", "db", "keyspace", "bucket_name", "volume id", "dbindex", "offset"]
)
def test_one_key_in_several_places_is_not_one_object(ask, place):
    text = lines("{at},{key},7,b{sector}", header=f"time,key,size,{place}")
    assert "the same key may be in several of the column" in ask("a.csv", text)
    same = lines("{at},{key},7,b", header=f"time,key,size,{place}")
    assert ask("a.csv", same)["requests"] == len(KEYS)


def test_one_path_of_several_hosts_is_not_one_object(ask):
    text = lines("{at},h{sector},/{key},7", header="time,host,url,size")
    assert "the same key may be in several of the column 'host'" in ask("a.csv", text)
    # Of other keys the host may be who asks.
    text = lines("{at},h{sector},{key},7", header="time,host,key,size")
    assert ask("a.csv", text)["requests"] == len(KEYS)


def test_keys_after_their_sizes_are_told_by_what_goes_with_what(ask):
    """Many keys have the same size, and each has one."""
    rows = [f"{at},{at * 7 % 60 % 43},{at * 7 % 60}" for at in range(200)]
    said = ask("a.csv", "\n".join([*rows, ""]))
    assert "third column has keys, each of which has one size in the second" in said
    turned = [f"{at},{at * 7 % 60},{at * 7 % 60 % 43}" for at in range(200)]
    assert ask("a.csv", "\n".join([*turned, ""]))["sizes"][-1] == 60


def test_of_several_traces_the_good_ones_are_printed_all_the_same(tmp_path, capsys):
    good, broken, gone = (tmp_path / name for name in ("good.csv", "broken.csv", "gone.csv"))
    good.write_text(lines("{at},{key},7"))
    broken.write_text(lines("{at},{key},x", header="time,key,size"))
    assert main(["mrc", "--bytes", "--json", *map(str, (broken, good, gone))]) == 2
    captured = capsys.readouterr()
    assert [found["trace"] for found in json.loads(captured.out)] == [str(good)]
    first, second = captured.err.splitlines()
    assert str(broken) in first
    assert str(gone) in second


def test_relative_times_that_are_far_apart_need_a_unit(ask):
    text = "\n".join([f"{at * 205},{at % 50},7" for at in range(300)]) + "\n"
    said = ask("a.csv", text, "--ttl", "300s")
    assert "would be 205 s apart, and its times may be milliseconds: --time-unit" in said
    for unit in ("s", "ms"):
        assert ask("a.csv", text, "--ttl", "300s", "--time-unit", unit)["requests"] == 300
    since_1970 = "\n".join([f"{1.7e9 + at * 205},{at % 50},7" for at in range(300)]) + "\n"
    assert ask("a.csv", since_1970, "--ttl", "300s")["requests"] == 300


def test_who_has_another_log_is_told_how_to_write_it(ask):
    text = "\n".join(["/a GET 200", "/b GET 200", ""])
    assert "or write it as CSV with the header time,key,size,op" in ask("a.log", text)
    said = ask("a.csv", "\n".join(["id,time,path", *[f"{at},{at},/a" for at in range(200)], ""]))
    assert "is the column 'id' the key? If not, name another column 'key'" in said


@pytest.mark.parametrize(
    ("name", "hit", "miss"), [("cache_status", "HIT", "MISS"), ("event", "get_hit", "get_miss")]
)
def test_what_became_of_a_read_says_that_it_is_one(ask, plain, name, hit, miss):
    rows = [f"{at},{key},7,{hit if at % 3 else miss}" for at, key in enumerate(KEYS)]
    assert curve(ask("a.csv", "\n".join([f"time,key,size,{name}", *rows, ""]))) == plain


@pytest.mark.parametrize("name", ["request_method", "redis_command", "verb_used"])
def test_operations_that_begin_late_do_not_count_as_reads(ask, plain, name):
    rows = [f"{at},{key},7,GET" for at, key in enumerate(KEYS)]
    rows += [f"{at + 60},{at},7,HSET" for at in range(60)]
    found = ask("a.csv", "\n".join([f"time,key,size,{name}", *rows, ""]))
    assert (curve(found), found["dropped_requests"]) == (plain, {"HSET": 60})


def test_a_stream_of_bzip2_that_is_damaged_is_not_the_end_of_the_file(ask, plain):
    """As of logs that were packed a day at a time."""
    first, second = (bz2.compress(text.encode()) for text in _halves(lines("{at},{key},7")))
    assert curve(ask("a.csv.bz2", first + second)) == plain
    broken = bytearray(second)
    broken[2] ^= 8
    assert "a.csv.bz2: cannot be read" in ask("a.csv.bz2", first + bytes(broken))
    assert "cannot be read: it ends within a stream" in ask("a.csv.bz2", first + second[:-9])


def _halves(text: str) -> tuple[str, str]:
    middle = text.index("\n", len(text) // 2) + 1
    return text[:middle], text[middle:]


@pytest.mark.parametrize("kind", ["msr", "alibaba", "tencent", "spc"])
def test_a_header_above_a_trace_of_blocks_is_no_request(ask, plain, kind):
    name, form, _ = FORMATS[kind]
    assert curve(ask(name, lines(form, header="Columns,of,this,kind"))) == plain


def test_two_columns_of_one_name_are_refused(ask):
    assert "names two columns 'key'" in ask(
        "a.csv", lines("{at},{key},{key},7", header="time,Key,key,size")
    )


COMPRESS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("how", [(), ("--format", "keys"), ("--format", "cache2k")])
def test_what_is_still_compressed_is_no_trace(ask, plain, kind, how):
    text = lines("{at},{key},7").encode()
    packed = COMPRESS[kind](text)
    packed += b"\0" * (-len(packed) % 4)
    assert f"it is compressed: call it .{kind}" in ask("a.trace", packed, *how)
    assert "it is compressed" in ask("a.csv.gz", gzip.compress(packed), *how)
    if not how:
        assert curve(ask(f"a.csv.{kind}", COMPRESS[kind](text))) == plain


@pytest.mark.parametrize(
    "contents",
    [
        b"\x7fELF" + bytes(range(200)),
        b"\xd4\xc3\xb2\xa1" + bytes(range(200)),
        b"RIFF" + bytes(range(200)),
        b"\0" * 257 + b"ustar" + bytes(250),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-32"),
        struct.pack("<60q", *(hash_of(key) for key in KEYS)) * 3,
        struct.pack("<60d", *(1.5 * key for key in KEYS)) * 3,
        struct.pack("<120H", *(at * at % 97 for at in range(120))) * 3,
    ],
    ids=["program", "packets", "sound", "tar", "utf-16", "utf-32", "hashes", "doubles", "halves"],
)
def test_what_is_something_else_is_no_cache2k_trace(ask, contents):
    found = ask("a.trace", contents + b"\0" * (-len(contents) % 4))
    assert isinstance(found, str), found


@pytest.mark.parametrize("form", ["<IQIqIQIq", "<QIIq"])
def test_records_of_another_length_are_no_oracle_general_trace(ask, form):
    records = [
        (at, key, 7, -1, 9, at, key, 3)[: 8 if len(form) > 6 else 4] for at, key in enumerate(KEYS)
    ]
    if form == "<QIIq":
        records = [(hash_of(key) % 2**64, at, 7, -1) for at, key in enumerate(KEYS)]
    found = ask("a.bin", b"".join(struct.pack(form, *record) for record in records))
    assert isinstance(found, str), found


def test_a_command_of_vscsi_that_is_too_large_is_refused_in_a_line(ask):
    record = struct.pack("<HHIIIQQQ", 0x28, 2 << 8, 1, 300 << 20, 1, 8, 10**6, 9)
    assert "a command at sector 8: it touches 76800 blocks" in ask("a.vscsi", record * 3)


def test_relative_milliseconds_are_not_taken_for_seconds(ask):
    """A few are near each other, as two requests of one page are."""
    times = [5_000 * at + (at % 20 == 3) * -4_990 for at in range(60)]
    text = "".join(f"{time},{key},7\n" for time, key in zip(sorted(times), KEYS, strict=True))
    for ttl in ("60s", "3600s"):
        assert "--time-unit says what unit the times are in (s, ms, us or ns), also s" in (
            ask("a.csv", text, "--ttl", ttl)
        )
    assert ask("a.csv", text, "--ttl", "60s", "--time-unit", "s")["times_span_seconds"] == 295_000
    assert ask("a.csv", text, "--ttl", "60s", "--time-unit", "ms")["times_span_seconds"] == 295


def test_where_the_unit_is_known_another_is_refused(ask):
    name, form, _ = FORMATS["msr"]
    assert "leave --time-unit out" in ask(name, lines(form), "--ttl", "1h", "--time-unit", "ms")


@pytest.mark.parametrize("first", ["key", "id", "object"])
def test_a_monitor_whose_first_line_has_the_word_of_a_header(ask, first):
    text = f'0.5 [0 a:1] "GET" "{first}"\n' + lines('{at}.5 [0 a:1] "GET" "{key}"')
    assert ask("a.txt", text)["requests"] == 61


@pytest.mark.parametrize("number", ["1_111", "0x10"])
def test_numbers_are_not_those_of_python(ask, number):
    assert "is not a whole number" in ask("a.csv", f"time,key,size\n1,a,{number}\n", "--bytes")


def test_times_that_step_back_a_little_are_times_all_the_same(ask):
    stamps = [at - 3 * (at == 20) for at in range(60)]
    rows = [f"{key},{at},7" for key, at in zip(KEYS, stamps, strict=True)]
    assert "its second column has times" in ask("a.csv", "\n".join([*rows, ""]))


@pytest.mark.parametrize("name", ["kind", "what"])
def test_a_column_with_operations_under_another_name_is_told(ask, name):
    text = lines("{at},{key},7,", header=f"time,key,size,{name}")
    rows = text.splitlines()
    rows[1:] = [row + ("GET" if at % 2 else "SET") for at, row in enumerate(rows[1:])]
    said = ask("a.csv", "\n".join([*rows, ""]))
    assert f"the column '{name}' has operations, of which only reads count: name it op" in said


def test_operations_of_which_some_are_not_known_are_told_as_well(ask):
    """Redis has hundreds of commands, and any of them may stand beside GET."""
    rows = [f"{key},{'GET' if at % 3 else 'EXPIREAT'}" for at, key in enumerate(KEYS)]
    assert "has operations, of which only reads" in ask("a.csv", "\n".join(["key,request", *rows]))
    results = [f"{key},{'HIT' if at % 3 else 'STALE'}" for at, key in enumerate(KEYS)]
    assert ask("a.csv", "\n".join(["key,cache_status", *results]))["requests"] == len(KEYS)


@pytest.mark.parametrize(
    ("names", "key"), [("id,lbn", "lbn"), ("object,url", "url"), ("id,cachekey", "cachekey")]
)
def test_of_several_keys_the_one_that_means_nothing_else_counts(ask, names, key):
    rows = [f"{at % 2},{key}" for at, key in enumerate(KEYS)]
    found = ask("a.csv", "\n".join([names, *rows]))
    assert (found["columns"]["key"], found["live_objects"]) == (key, len({*KEYS}))


def test_a_time_beside_a_timestamp_is_how_long_it_took(ask):
    rows = [f"0.00{at % 9},{1.7e9 + at},{at % 20}" for at in range(200)]
    text = "\n".join(["time,timestamp,key", *rows])
    found = ask("a.csv", text, "--ttl", "30s")
    assert found["columns"]["time"] == "timestamp"
    assert found["times_span_seconds"] == 199


def test_misses_of_which_the_key_alone_has_a_size_have_none(ask):
    """Half of the reads missed, and told the length of their keys: no object has 10 bytes."""
    form = "{at},{key},10,{sector},0,get,0"
    text = "".join(
        form.format(at=at, key=at % 100, sector=1000 * (at // 100 % 2)) + "\n" for at in range(2000)
    )
    found = ask("cluster.csv", text, "--bytes")
    assert found["sizes"][-1] == pytest.approx(101_000, rel=0.01)
    assert "have the size 0" in ask.said


def test_many_requests_in_a_few_whole_seconds_need_a_unit(ask):
    """Two of a millisecond each, or of a second each?"""
    text = "\n".join(["time,key", *(f"{at // 2},{at % 500}" for at in range(2000))])
    said = ask("a.csv", text, "--ttl", "5s")
    assert "would be 0.5 s apart, and its times may be milliseconds: --time-unit" in said
    assert ask("a.csv", text, "--ttl", "5s", "--time-unit", "ms")["times_span_seconds"] < 1
    crowded = "\n".join(["time,key", *(f"{at // 20},{at % 500}" for at in range(2000))])
    assert ask("a.csv", crowded, "--ttl", "5s")["requests"] == 2000


def test_a_column_that_nobody_takes_is_told(ask, capsys, tmp_path):
    rows = [f"{key},{at % 4},a{at % 3}" for at, key in enumerate(KEYS)]
    found = ask("a.csv", "\n".join(["key,size,app", *rows]))
    assert (found["columns"], found["unused_columns"]) == ({"key": "key"}, ["app"])
    main(["mrc", str(tmp_path / "a.csv")])
    assert "of its columns, key is 'key'; not used: 'app'" in capsys.readouterr().out


@pytest.mark.parametrize("pure", [False, True])
def test_lines_that_do_not_count_are_told_as_the_requests_they_stand_for(ask, pure):
    rows = [f"{key},{'get' if at % 3 else 'set'},{7 + at % 2}" for at, key in enumerate(KEYS)]
    if pure:
        rows[0] = f'"{KEYS[0]}",set,7'  # quotes are for Python
    found = ask("a.csv", "\n".join(["key,op,op_count", *rows, ""]))
    stands = [7 + at % 2 for at in range(len(KEYS))]
    assert found["dropped_requests"] == {"set": sum(stands[::3])}
    assert found["requests"] == sum(stands) - sum(stands[::3])


@pytest.mark.parametrize("column", ["is_write,0,1", "write,false,true", "what,lookup,insert"])
def test_what_says_which_requests_write_is_told(ask, column):
    name, *values = column.split(",")
    rows = [f"{key},{values[at % 3 == 0]}" for at, key in enumerate(KEYS)]
    assert "of which only reads count: name it op" in ask(
        "a.csv", "\n".join([f"key,{name}", *rows])
    )


def test_deletes_that_do_nothing_are_told(ask):
    rows = [f"{key},{'GET' if at % 3 else 'DEL'}" for at, key in enumerate(KEYS)]
    ask("a.csv", "\n".join(["key,op", *rows]))
    assert "(--reads counts them); what they delete is read on as if it were there" in ask.said


def test_keys_that_never_come_twice_are_read_where_somebody_says_so(ask):
    text = "".join(f"key{at}\n" for at in range(200))
    assert ask("a.txt", text, "--format", "keys")["requests"] == 200


def test_a_command_that_failed_has_read_nothing(ask):
    text = '1.5 [0 a:1] "GET" "a"\n1.6 [0 a:1] "zunion" "no" "z"\n1.7 [0 a:1] "GET" "a"\n'
    assert ask("a.txt", text)["requests"] == 2
    assert "zunion (fails)" in ask.said


def test_two_versions_of_records_in_a_file_are_told(ask):
    record_1 = struct.pack("<4xI4xHHQQ", 4096, 0x28, 1 << 8, 8, 5)
    record_2 = struct.pack("<HH4xI4xQQ8x", 0x28, 2 << 8, 4096, 8, 5)
    said = ask("a.vscsi", record_1 * 30 + record_2 * 30)
    assert "among those of version 1: split the file where they begin" in said


def test_what_would_be_played_for_hours_is_told(ask):
    text = "time,key,size,op_count\n" + "".join(f"{at},k,7,16777215\n" for at in range(100))
    assert ask("a.csv", text)["requests"] == 100 * 16777215
    said = ask("a.csv", text, "--policy", "allkeys-lfu")
    assert "with --policy allkeys-lfu each is played" in said


def test_many_requests_of_one_second_have_times_all_the_same(ask):
    """Keys in order, as of a scan, are no times beside these."""
    text = "".join(f"10,{key},4096\n" for key in [*range(60), *range(60)])
    assert ask("a.csv", text)["requests"] == 120
