"""The node's file, in TOML."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from sidecar.config.node import load_config
from solver_lambda.documents.reader import DocumentError
from workloads.experiment.fuzz.byte_mutator import changed_bytes
from workloads.experiment.fuzz.parser import Parser
from workloads.experiment.fuzz.seeds import NODE

_ODD_VALUES = [
    value.encode()
    for value in (
        *('""', "0", "-1", "1.5", "nan", "inf", "-inf", "1e400", "true", "[]", "{}", "[[1]]"),
        *("9" * 30, "9" * 5000, "0x10", "2026-11-22", "2026-11-22T06:40:00Z", "06:40:00"),
        *('"0"', '"1"', '"-1mb"', '"1e9mb"', f'"{"9" * 400}mb"', '"0.5b"', '"99999tb"', '"1 KB"'),
        *('"0%"', '"100%"', '"101%"', '"1e-9%"', '"75.5%"', '"0s"', '"1us"', f'"{"9" * 400}d"'),
        *('"\\u0000"', '"\\n"', '"\\uD7FF"', '"é"', '"a/../b"', f'"{"a" * 200}"', "'''x'''"),
        *('"unix://"', '"unix:///a%00b"', '"redis://[::1"', '"redis://:0"', '"redis://h:99999"'),
        *('"redis://u:p@h"', '"rediss://h?ssl_cert_reqs=none"', '"redis://h?x=1"', '"redis://é"'),
        *(
            '"redis://h:６３７９"',
            '"tcp://*:1"',
            '"tcp://h:x"',
            '"tcp://:::5"',
            '"ipc://@"',
            '"ipc:///"',
        ),
        *('"last"', '"hold"', '"cloud"', '"lambda"', '"sqs"', '"apply"', '"0.0.0.0:1"', '":::"'),
        *("1" + "_0" * 50, "[" * 2000, "{a={a={a=1}}}", '"', "'", "#", "", "1 1", "\ufeff"),
    )
]


def node_parser() -> Parser:
    folder = tempfile.TemporaryDirectory(prefix="spreds-fuzz-")
    path = Path(folder.name) / "node.toml"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        config = load_config(path)
        assert folder.name  # lives as long as this function
        minima = sum(server.minimum_bytes for server in config.servers)
        assert minima <= config.memory.budget_bytes or config.memory.budget_share is not None

    return Parser("node", [NODE.encode()], _changed, read, (DocumentError,), 0.15)


def _changed(draw: random.Random) -> bytes:
    lines = NODE.encode().splitlines()
    if draw.random() < 0.2:
        return changed_bytes(NODE.encode(), draw)
    for _ in range(draw.choice((1, 1, 2))):
        place, kind = draw.randrange(len(lines)), draw.randrange(8)
        key, sign, value = lines[place].partition(b" = ")
        if kind < 4 and sign:
            lines[place] = key + sign + draw.choice(_ODD_VALUES)
        elif kind == 4:
            del lines[place]
        elif kind == 5:
            lines.insert(draw.randrange(len(lines)), lines[place])
        elif kind == 6 and sign:
            lines[place] = changed_bytes(key, draw) + sign + value
        else:
            lines[place] = changed_bytes(lines[place], draw, lines)
        lines = lines or [b""]
    return b"\n".join(lines) + b"\n"
