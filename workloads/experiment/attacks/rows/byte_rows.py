"""Bytes of servers, documents and files that are more, or mean more, than they seem."""

from __future__ import annotations

import json
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from workloads.experiment.attacks.stage.attack import CannotPlayError, Rows, must
from workloads.experiment.attacks.stage.hostile_server import Answer, bulk, hostile_in_place_of
from workloads.experiment.attacks.stage.target import MIB, SERVER_BYTES, Target
from workloads.processes import finished

ROWS = Rows()

MOST_GROWTH_BYTES = 40 * MIB
MEBIBYTE = b"x" * MIB


def _endless(words: list[str]) -> Iterator[bytes] | None:
    """Four gigabytes, as fast as they are taken."""
    if words[0].upper() != "INFO":
        return None
    return iter([b"$4000000000\r\n", *[MEBIBYTE] * 4000])


def _slow(words: list[str]) -> Iterator[bytes] | None:
    """A byte every now and then: no single wait is long."""
    if words[0].upper() != "INFO":
        return None
    return _drops()


def _drops() -> Iterator[bytes]:
    import time

    yield b"$100000\r\n"
    for _ in range(600):
        time.sleep(0.1)
        yield b"x"


@contextmanager
def _hostile(answer: Answer) -> Iterator[Target]:
    """A sidecar with one hostile server, and one that is none."""
    with Target() as target, hostile_in_place_of(target, "pages", answer):
        yield target


@ROWS.add(
    "bytes: replies without an end",
    "one server announces four gigabytes, another sends a byte now and then: it is told as "
    "out of reach, memory stays bounded, and the other servers are looked after",
)
def _replies() -> None:
    for answer in (_endless, _slow):
        with _hostile(answer) as target:
            before_bytes = target.resident_bytes()
            target.until(
                lambda: not target.server("pages")["up"],
                "a server that never ends its reply is not told",
            )
            sessions = target.servers["sessions"].client
            sessions.config_set("maxmemory", 900 * MIB)
            target.until(
                lambda: target.sizes()["sessions"] <= 2 * SERVER_BYTES,
                "the other server is not looked after",
            )
            grown_bytes = target.resident_bytes() - before_bytes
            must(grown_bytes < MOST_GROWTH_BYTES, f"{grown_bytes / MIB:.0f} MiB more are resident")


EVIL = "allkeys-lru\x1b[2J\x1b]0;owned\x07\u202e"
# What a terminal obeys, or turns the direction of writing.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def _says_policy(words: list[str]) -> list[bytes] | None:
    if words[0].upper() == "INFO":
        lines = (f"maxmemory_policy:{EVIL}", f"run_id:{'f' * 40}", f"role:{EVIL}")
        return [bulk("\r\n".join(lines).encode())]
    if words[0].upper() == "CONFIG":
        return [f"-ERR {EVIL} and a line that is none\r\n".encode()]
    return None


@ROWS.add(
    "bytes: what a terminal obeys",
    "a server's policy, role and errors hold escape sequences: no command and no line of the "
    "log passes them on",
)
def _terminals() -> None:
    with _hostile(_says_policy) as target:
        target.until(lambda: not target.server("pages")["up"], "it is believed")
        outputs = [
            target.command(*words).stdout + target.command(*words).stderr
            for words in (
                ("status", str(target.file)),
                ("check", str(target.file), "--connect"),
                ("explain", str(target.file), "pages"),
                ("history", str(target.file)),
            )
        ]
        for text in (*outputs, target.log_text().replace("\n", "")):
            found = _OBEYED.search(text.replace("\n", ""))
            must(not found, f"a terminal would obey {found and found[0]!r} in {text[:300]!r}")


@ROWS.add(
    "bytes: errors that clients make up",
    "an ordinary client fills the errors that INFO tells with 105,000 of its own: the server "
    "is read all the same",
    quick=False,
)
def _errors_of_clients() -> None:
    """Make errors by scripts: each is a line of INFO on Redis 7.0, as many as there are."""
    with Target() as target:
        script = "return redis.error_reply(ARGV[1])"
        client = target.servers["pages"].client
        for start in range(0, 105_000, 5_000):
            pipe = client.pipeline(transaction=False)
            for number in range(start, start + 5_000):
                pipe.eval(script, 0, f"-E{number:07d}{'A' * 20} x")
            pipe.execute(raise_on_error=False)
        must(len(client.info("errorstats")) > 80_000, "this server counts other errors")
        made = target.cycle()
        target.until(partial(_has_cycle_after, target, made + 2), "no more observations")
        must(target.server("pages")["up"], "a server is not read for what its clients do")


def _lacks_settings(words: list[str]) -> list[bytes] | None:
    return [b"*0\r\n"] if words[:2] == ["CONFIG", "GET"] or words[0] == "CONFIG GET" else None


@ROWS.add(
    "bytes: settings that a server lacks", "CONFIG GET answers nothing: check says so in a sentence"
)
def _missing_settings() -> None:
    with _hostile(_lacks_settings) as target:
        told = target.command("check", str(target.file), "--connect")
        must("Traceback" not in told.stderr, told.stderr[-300:])
        must(told.returncode in (0, 1), f"exit code {told.returncode}")
        must("Traceback" not in target.log_text(), "a traceback in the log")


def _has_cycle_after(target: Target, cycle: int) -> bool:
    return target.cycle() > cycle


@ROWS.add(
    "bytes: documents",
    "a team's settings in UTF-16 and UTF-32, with very many tables, levels and digits: "
    "refused, and memory stays bounded",
    quick=False,
)
def _documents() -> None:
    with Target() as target:
        folder = target.folder / "documents" / "settings" / "attacked"
        folder.mkdir(parents=True, exist_ok=True)
        who = {"set_by": "a stranger", "set_at": "2026-11-22T06:40:00+00:00"}
        good = {"kind": "spreds.settings", "version": 1, **who, "weight": 2.0}
        texts = {
            "UTF-16": json.dumps(good).encode("utf-16"),
            "UTF-32": json.dumps(good).encode("utf-32"),
            "tables": b'{"kind":' + b"[{}" + b",{}" * 400_000 + b"]}",
            "tables in UTF-16": ('{"kind":[{}' + ",{}" * 2_000_000 + "]}").encode("utf-16"),
            "levels": b"[" * 1_000_000,
            "digits": b'{"weight": ' + b"9" * 100_000 + b"}",
            "no number": b'{"kind": "spreds.settings", "version": 1, "weight": NaN}',
        }
        before_bytes = target.resident_bytes()
        place = folder / "pages.json"
        for name, text in texts.items():
            place.write_bytes(text)
            made = target.cycle()
            target.until(
                partial(_has_cycle_after, target, made + 2), f"{name}: no more observations"
            )
            weight = target.server("pages")["weight"]
            must(weight in (1.0, None), f"{name}: its weight is {weight}")
        must("settings" in target.log_text(), "nobody says that settings are refused")
        place.write_text(json.dumps(good))
        target.until(lambda: target.server("pages")["weight"] == 2.0, "good settings are not taken")
        grown_bytes = target.resident_bytes() - before_bytes
        must(grown_bytes < MOST_GROWTH_BYTES, f"{grown_bytes / MIB:.0f} MiB more are resident")


# Runs a command with a bound on its memory and its processor time.
_BOUNDED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
from sidecar.cli import main
sys.exit(main(sys.argv[1:]))
"""


@ROWS.add(
    "bytes: traces",
    "a small .zst of gigabytes, and lines that stand for billions of requests: refused or "
    "computed within 1 GiB and 30 seconds",
    quick=False,
)
def _traces() -> None:
    try:
        from backports import zstd
    except ImportError as error:
        raise CannotPlayError("the Python package 'backports.zstd' is missing") from error
    with Target() as target:
        bomb = target.folder / "bomb.csv.zst"
        packer = zstd.ZstdCompressor(level=3)
        with bomb.open("wb") as file:
            # One line without an end, of more than the memory that is allowed.
            for _ in range(1200):
                file.write(packer.compress(MEBIBYTE))
            file.write(packer.flush())
        counts = target.folder / "counts.csv"
        header = "op_time,key,key_size,op,op_count,size\n"
        counts.write_text(header + "1,a,1,GET,16777215,10\n" * 1500)
        for path, codes in ((bomb, (2,)), (counts, (0, 2))):
            told = finished(
                [sys.executable, "-c", _BOUNDED, "mrc", str(path), "--json"],
                cwd=target.folder,
                env={"PYTHONPATH": str(target.root), "PATH": "/usr/bin:/bin"},
            )
            must(told.returncode in codes, f"{path.name}: {told.returncode} {told.stderr[-300:]}")
            must("Traceback" not in told.stderr, f"{path.name}: {told.stderr[-300:]}")
        assert resource.getrlimit(resource.RLIMIT_AS)[0] != 1 << 30  # ours is as it was


@ROWS.add(
    "bytes: secrets in addresses",
    "controller.url with ?code=..., or user:password@: no command, log or status shows them",
)
def _addresses() -> None:
    url = "http://127.0.0.1:9/plans"
    with Target(
        sections={
            "controller": f'kind = "auto"\nurl = "{url}?code=hunter2"\nfolder = "documents"\n'
        }
    ) as target:
        target.until(
            lambda: "127.0.0.1:9" in target.log_text(), "the log does not tell the address"
        )
        texts = [target.log_text(), json.dumps(target.status())]
        for words in (["check"], ["check", "--json"], ["check", "--connect"], ["status"]):
            told = target.command(words[0], str(target.file), *words[1:])
            texts.append(told.stdout + told.stderr)
        target.file.write_text(
            target.file.read_text().replace(url, "http://user:hunter2@127.0.0.1:9/plans")
        )
        told = target.command("check", str(target.file))
        must(told.returncode == 2, "user and password in an address are taken")
        texts.append(told.stdout + told.stderr)
        for text in texts:
            must("hunter2" not in text, f"the secret of an address is told: {text[-300:]}")
