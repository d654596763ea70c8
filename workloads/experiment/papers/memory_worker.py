"""One cold start of the function and some warm runs, in a process of their own.

Its words are the keys of observations. It prints as JSON: when the first answer was there by the
clock that all processes share, the warm runs' seconds, and the processor seconds of both.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from solver_lambda.function.handler import handler
from solver_lambda.function.object_store import connect_to


def main(bucket: str, keys: list[str]) -> dict[str, object]:
    """Answer each; the first one is the cold start's."""
    # The store here speaks no TLS; S3 does, and to read whom to trust is part of a cold start.
    connect_to(urlsplit("https://s3.amazonaws.com"))
    ends, processor = [], []
    with contextlib.redirect_stdout(io.StringIO()):
        for key in keys:
            entry = {"bucket": {"name": bucket}, "object": {"key": key}}
            handler({"Records": [{"s3": entry}]}, None)
            ends.append(time.monotonic())
            processor.append(time.process_time())
    return {
        "first_at_seconds": ends[0],
        "first_cpu_seconds": processor[0],
        "warm_seconds": [after - before for before, after in pairwise(ends)],
        "warm_cpu_seconds": [after - before for before, after in pairwise(processor)],
        "peak_memory_bytes": _peak_memory_bytes(),
    }


def _peak_memory_bytes() -> int:
    """Return this program's peak; getrusage would also count what the process was before it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) * 1024


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2:])))
